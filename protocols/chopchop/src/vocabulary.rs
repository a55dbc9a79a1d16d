//! The one vocabulary of clients, brokers, stores and servers, and the one numbering of their queues.
//!
//! A queue belongs to the role it leads to, so the plan of a node routes by queue, and which role a message is for follows
//! from its type. A message that reaches another role is blamed by [`crate::fault::Fault::WrongRole`].
//!
//! *Bounds.* Every queue is bounded by its [`QueueSpec`]; frames of a queue are decoded under its limit.

use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Full, Message as Spoken, Never, Queue, QueueSpec};
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::message::{ClientMessage, ServerMessage, StoreMessage};

/// A machine of this protocol, as queues name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Orders and deduplicates.
    Server,
    /// Holds, witnesses and retrieves bodies.
    Store,
    /// Distils.
    Broker,
    /// Broadcasts.
    Client,
}

/// To a server: items, questions, marks.
pub const SERVER: Queue = Queue(0);
/// To a server: parts of states.
pub const SERVER_BULK: Queue = Queue(1);
/// To a store: questions and pulls.
pub const STORE: Queue = Queue(2);
/// To a store: batches and pieces.
pub const STORE_BULK: Queue = Queue(3);
/// To a broker: what stores and servers answer.
pub const BROKER: Queue = Queue(4);
/// To a broker: cards and long verdicts.
pub const BROKER_BULK: Queue = Queue(5);
/// To a broker, from clients.
pub const BROKER_CLIENTS: Queue = Queue(6);
/// To a client.
pub const CLIENT: Queue = Queue(7);
/// Queues before those of the ordering layer.
pub const OWN_QUEUES: u8 = 8;

/// Largest frame between clients and brokers: the longest message of a variable class with its certificate.
const CLIENT_FRAME: u32 = 72 << 10;

/// The queues of this protocol, in order, then those of the ordering layer.
#[must_use]
pub fn queues(ordering: impl IntoIterator<Item = QueueSpec>) -> Vec<QueueSpec> {
    let clients = |full| QueueSpec { depth: 4_096, frame_max: CLIENT_FRAME, full };
    let mut all = Vec::with_capacity(usize::from(OWN_QUEUES) + 3);
    for _ in [Role::Server, Role::Store, Role::Broker] {
        all.extend([QueueSpec::CONTROL, QueueSpec::BULK]);
    }
    all.extend([clients(Full::DropNewest), clients(Full::EvictOldest)]);
    all.extend(ordering);
    all
}

/// What the roles say to each other; `A` is the ordering layer's own vocabulary. Clients and brokers leave it empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<A = Never> {
    /// Between clients and brokers.
    Client(ClientMessage),
    /// To and from stores.
    Store(StoreMessage),
    /// To and from servers.
    Server(ServerMessage),
    /// Of the ordering layer.
    Ordering(A),
}

impl<A> From<ClientMessage> for Message<A> {
    fn from(message: ClientMessage) -> Self {
        Self::Client(message)
    }
}

impl<A> From<StoreMessage> for Message<A> {
    fn from(message: StoreMessage) -> Self {
        Self::Store(message)
    }
}

impl<A> From<ServerMessage> for Message<A> {
    fn from(message: ServerMessage) -> Self {
        Self::Server(message)
    }
}

const fn client_queue(message: &ClientMessage) -> Queue {
    match message {
        ClientMessage::Submit(_)
        | ClientMessage::MultiSig { .. }
        | ClientMessage::Ack { .. }
        | ClientMessage::Query { .. }
        | ClientMessage::SignUp(_)
        | ClientMessage::Claim { .. } => BROKER_CLIENTS,
        ClientMessage::Inclusion(_)
        | ClientMessage::Delivery(_)
        | ClientMessage::Nack { .. }
        | ClientMessage::State(_)
        | ClientMessage::Signed(_)
        | ClientMessage::Challenge { .. } => CLIENT,
    }
}

const fn store_queue(message: &StoreMessage) -> Queue {
    match message {
        StoreMessage::Batch(_) | StoreMessage::Piece(_) => STORE_BULK,
        StoreMessage::Ask(_) | StoreMessage::HeldAsk | StoreMessage::Pull(_) | StoreMessage::Gone { .. } => {
            STORE
        }
        // 1,024 held batches are 49 KiB, so every answer fits a frame of control.
        StoreMessage::Shard(_)
        | StoreMessage::Refuse(_)
        | StoreMessage::Credit(_)
        | StoreMessage::Held(_) => BROKER,
    }
}

fn server_queue(message: &ServerMessage) -> Queue {
    match message {
        ServerMessage::Order(_)
        | ServerMessage::Certify(_)
        | ServerMessage::HeightAsk(_)
        | ServerMessage::StateAsk(_)
        | ServerMessage::DirPull { .. }
        | ServerMessage::Mark(_) => SERVER,
        ServerMessage::Transfer(part) => match part.is_bulk() {
            true => SERVER_BULK,
            false => SERVER,
        },
        // The formats say which answers are long.
        ServerMessage::Delivered(_)
        | ServerMessage::Height(_)
        | ServerMessage::State(_)
        | ServerMessage::Cards(_) => match message.queue() {
            Queue::BULK => BROKER_BULK,
            _ => BROKER,
        },
    }
}

impl<A: Spoken> Message<A> {
    /// The role that takes it.
    #[must_use]
    pub fn to(&self) -> Role {
        match self.queue() {
            SERVER | SERVER_BULK => Role::Server,
            STORE | STORE_BULK => Role::Store,
            BROKER | BROKER_BULK | BROKER_CLIENTS => Role::Broker,
            CLIENT => Role::Client,
            _ => Role::Server,
        }
    }
}

impl<A: Spoken> Spoken for Message<A> {
    fn queue(&self) -> Queue {
        match self {
            Self::Client(message) => client_queue(message),
            Self::Store(message) => store_queue(message),
            Self::Server(message) => server_queue(message),
            Self::Ordering(message) => message.queue().under(OWN_QUEUES),
        }
    }

    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Ordering(message) => message.register(),
            Self::Client(_) | Self::Store(_) | Self::Server(_) => None,
        }
    }

    fn registered(reply: RegisterReply) -> Option<Self> {
        A::registered(reply).map(Self::Ordering)
    }
}

impl<A: Wire> Wire for Message<A> {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Client(message) => {
                out.byte(0);
                message.write(out);
            }
            Self::Store(message) => {
                out.byte(1);
                message.write(out);
            }
            Self::Server(message) => {
                out.byte(2);
                message.write(out);
            }
            Self::Ordering(message) => {
                out.byte(3);
                message.write(out);
            }
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::UnknownTag(0));
        match <u8 as Wire>::read(input)? {
            0 => ClientMessage::read(input).map(Self::Client),
            1 => StoreMessage::read(input).map(Self::Store),
            2 => ServerMessage::read(input).map(Self::Server),
            3 => A::read(input).map(Self::Ordering),
            tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        }
    }

    fn size_hint(&self) -> usize {
        1 + match self {
            Self::Client(message) => message.size_hint(),
            Self::Store(message) => message.size_hint(),
            Self::Server(message) => message.size_hint(),
            Self::Ordering(message) => message.size_hint(),
        }
    }
}

impl<A: Draw> Draw for Message<A> {
    fn draw(from: &mut Drawn) -> Self {
        match from.below(4) {
            0 => Self::Client(Draw::draw(from)),
            1 => Self::Store(Draw::draw(from)),
            2 => Self::Server(Draw::draw(from)),
            _ => Self::Ordering(Draw::draw(from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CLIENT, Message, OWN_QUEUES, Role, SERVER, STORE_BULK, queues};
    use crate::message::{ClientMessage, ServerMessage, StoreMessage};
    use synod_machine::{Message as Spoken, Never, QueueSpec};
    use synod_wire::{Draw, Drawn, Limits, Wire};

    type Plain = Message<Never>;

    fn drawn(seed: u64) -> [Plain; 3] {
        let mut from = Drawn::new(seed);
        [
            Plain::Client(ClientMessage::draw(&mut from)),
            Plain::Store(StoreMessage::draw(&mut from)),
            Plain::Server(ServerMessage::draw(&mut from)),
        ]
    }

    #[test]
    fn every_message_comes_back_from_its_tag_and_fits_a_queue_of_its_role() {
        let specs = queues(QueueSpec::standard());
        assert_eq!(specs.len(), usize::from(OWN_QUEUES) + 3);
        for seed in 0..400 {
            for message in drawn(seed) {
                let bytes = message.encode();
                let spec = &specs[usize::from(message.queue().0)];
                assert!(bytes.len() <= spec.frame_max as usize, "{message:?}");
                assert!(message.queue().0 < OWN_QUEUES);
                assert_eq!(Plain::decode(bytes, &Limits::default()), Ok(message));
            }
        }
        assert!(Plain::decode(vec![3, 0].into(), &Limits::default()).is_err(), "nobody orders here");
        assert!(Plain::decode(vec![4].into(), &Limits::default()).is_err());
    }

    #[test]
    fn a_type_of_message_leads_to_one_role() {
        let mark = Plain::Server(ServerMessage::DirPull { from: 0 });
        assert_eq!((mark.queue(), mark.to()), (SERVER, Role::Server));
        let ack = Plain::Client(ClientMessage::Ack { height: 1 });
        assert_eq!(ack.to(), Role::Broker);
        let nack = Plain::Client(ClientMessage::Nack { why: crate::message::Nack::Busy, retry_ms: 1 });
        assert_eq!((nack.queue(), nack.to()), (CLIENT, Role::Client));
        assert_eq!(Plain::Store(StoreMessage::HeldAsk).to(), Role::Store);
        assert_ne!(Plain::Store(StoreMessage::HeldAsk).queue(), STORE_BULK);
    }
}
