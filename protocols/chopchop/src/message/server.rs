//! Messages between brokers and servers, and among servers.

use synod_crypto::Hash;
use synod_machine::Queue;
use synod_wire::{Bytes, Draw, Drawn, Malformed, Reader, Why, Wire, Writer, wire};

use super::{CARDS_MAX, COUNT_MAX, PAIRS_MAX, TransferMessage};
use crate::dedup::{Exceptions, Reason};
use crate::directory::Member;
use crate::fixed::{Fixed, fixed};
use crate::item::Item;
use crate::statement::{BlsSignatureBytes, Delivered, Height, Kind, State};

/// Bytes of a member in CARDS.
const MEMBER: usize = 80;
/// Above these many bytes a verdict travels as bulk.
const CONTROL_MAX: usize = 64 << 10;

/// The entries that were not delivered: by pairs up to [`PAIRS_MAX`], above them the vector. Which one follows from the
/// statement's count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExceptionList {
    /// Index and reason of each.
    Pairs(Vec<(u32, Reason)>),
    /// Two bits per entry.
    Vector(Bytes),
}

impl From<&Exceptions> for ExceptionList {
    fn from(exceptions: &Exceptions) -> Self {
        if exceptions.exc_count() <= PAIRS_MAX {
            Self::Pairs(exceptions.list().to_vec())
        } else {
            Self::Vector(exceptions.vector())
        }
    }
}

impl ExceptionList {
    /// The exceptions of a batch of `count` entries; `None` when the list is none of such a batch.
    #[must_use]
    pub fn exceptions(&self, count: u32) -> Option<Exceptions> {
        match self {
            Self::Pairs(pairs) => Exceptions::checked(count, pairs.clone()),
            Self::Vector(vector) => Exceptions::from_vector(count, vector),
        }
    }
}

/// What one server says of a delivered batch. Sign-ups list no exceptions: brokers have the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it signs.
    pub statement: Delivered,
    /// What was not delivered.
    pub exceptions: ExceptionList,
    /// Its signature.
    pub signature: BlsSignatureBytes,
}

impl Verdict {
    /// Pairs of a list, 0 for sign-ups.
    const fn pairs(statement: &Delivered) -> u32 {
        match statement.kind {
            Kind::Messages => statement.exc_count,
            Kind::SignUp => 0,
        }
    }
}

impl Wire for Verdict {
    fn write(&self, out: &mut Writer) {
        self.statement.put(out);
        match &self.exceptions {
            ExceptionList::Pairs(pairs) => pairs.iter().for_each(|(index, reason)| {
                index.put(out);
                reason.put(out);
            }),
            ExceptionList::Vector(vector) => out.bytes(vector),
        }
        self.signature.put(out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let statement = Delivered::take(input)?;
        let refusal = input.refuse(Why::TooLong);
        let pairs = Self::pairs(&statement);
        let exceptions = if pairs <= PAIRS_MAX {
            if input.remaining() != pairs as usize * 5 + 96 {
                return Err(refusal);
            }
            let pair = |input: &mut Reader| Ok((Fixed::take(input)?, Fixed::take(input)?));
            ExceptionList::Pairs((0..pairs).map(|_| pair(input)).collect::<Result<_, _>>()?)
        } else {
            let length = input.remaining().checked_sub(96).ok_or(refusal)?;
            if length > COUNT_MAX.div_ceil(4) as usize {
                return Err(refusal);
            }
            ExceptionList::Vector(input.take(length)?)
        };
        Ok(Self { statement, exceptions, signature: Fixed::take(input)? })
    }

    fn size_hint(&self) -> usize {
        let list = match &self.exceptions {
            ExceptionList::Pairs(pairs) => 5 * pairs.len(),
            ExceptionList::Vector(vector) => vector.len(),
        };
        205 + list
    }
}

impl Draw for Verdict {
    fn draw(from: &mut Drawn) -> Self {
        let mut statement = Delivered::draw(from);
        let exceptions = if from.below(16) == 0 {
            statement.kind = Kind::Messages;
            statement.exc_count = statement.exc_count.max(PAIRS_MAX + 1);
            ExceptionList::Vector((0..257 + from.below(64)).map(|_| u8::draw(from)).collect())
        } else {
            statement.exc_count = u32::try_from(from.below(9)).unwrap_or(0);
            let pair = |_| (Draw::draw(from), Draw::draw(from));
            ExceptionList::Pairs((0..Self::pairs(&statement)).map(pair).collect())
        };
        Self { statement, exceptions, signature: Draw::draw(from) }
    }
}

/// Members of the directory from one id on, and what the sender's whole directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cards {
    /// Id of the first.
    pub from: u32,
    /// The members.
    pub members: Vec<Member>,
    /// Length of the directory.
    pub length: u32,
    /// Root over its chunks.
    pub root: Hash,
}

impl Wire for Cards {
    fn write(&self, out: &mut Writer) {
        self.from.put(out);
        self.members.iter().for_each(|member| Fixed::put(member, out));
        self.length.put(out);
        self.root.put(out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let from = Fixed::take(input)?;
        let refusal = input.refuse(Why::TooLong);
        let bytes = input.remaining().checked_sub(36).ok_or(refusal)?;
        let count = bytes / MEMBER;
        if !bytes.is_multiple_of(MEMBER) || count > CARDS_MAX {
            return Err(refusal);
        }
        let members = (0..count).map(|_| Fixed::take(input)).collect::<Result<_, _>>()?;
        Ok(Self { from, members, length: Fixed::take(input)?, root: Fixed::take(input)? })
    }

    fn size_hint(&self) -> usize {
        40 + MEMBER * self.members.len()
    }
}

impl Draw for Cards {
    fn draw(from: &mut Drawn) -> Self {
        let first = Draw::draw(from);
        let members = (0..from.below(4)).map(|_| Draw::draw(from)).collect();
        Self { from: first, members, length: Draw::draw(from), root: Draw::draw(from) }
    }
}

fixed! {
    /// One server's signature over a height.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SignedHeight {
        /// What it signs.
        pub statement: Height,
        /// Its signature.
        pub signature: BlsSignatureBytes,
    }

    /// One server's signature over where a client stands.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SignedState {
        /// What it signs.
        pub statement: State,
        /// Its signature.
        pub signature: BlsSignatureBytes,
    }

    /// Asks where a client stands.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StateAsk {
        /// Of the client's query.
        pub nonce: u64,
        /// The client.
        pub id: u32,
    }
}

wire! {
    /// What servers say and are told, beside the ordering layer's own messages.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum ServerMessage {
        /// B->Server: order this.
        1 = Order(Item),
        /// Server->B: it was delivered.
        2 = Delivered(Verdict),
        /// B->Server: say again that this was delivered.
        3 = Certify(Hash),
        /// B->Server: sign this height.
        4 = HeightAsk(Height),
        /// Server->B: signed.
        5 = Height(SignedHeight),
        /// B->Server: where does this client stand?
        6 = StateAsk(StateAsk),
        /// Server->B: here.
        7 = State(SignedState),
        /// B->Server: the directory from this id on.
        8 = DirPull {
            /// The first id.
            from: u32,
        },
        /// Server->B: here.
        9 = Cards(Cards),
        /// Server->Server: batches at the last own durable checkpoint.
        10 = Mark(Height),
        /// Server->Server: parts of a state.
        11 = Transfer(TransferMessage),
    }
}

impl ServerMessage {
    /// The outgoing queue: cards and long verdicts are bulk.
    #[must_use]
    pub fn queue(&self) -> Queue {
        match self {
            Self::Cards(_) => Queue::BULK,
            Self::Transfer(part) if part.is_bulk() => Queue::BULK,
            Self::Delivered(verdict) if verdict.size_hint() > CONTROL_MAX => Queue::BULK,
            Self::Order(_)
            | Self::Delivered(_)
            | Self::Certify(_)
            | Self::HeightAsk(_)
            | Self::Height(_)
            | Self::StateAsk(_)
            | Self::State(_)
            | Self::DirPull { .. }
            | Self::Mark(_)
            | Self::Transfer(_) => Queue::CONTROL,
        }
    }
}
