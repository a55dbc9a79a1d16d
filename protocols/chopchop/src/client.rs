//! The client: signs, broadcasts one message at a time, and holds proof of what was delivered (4.1, 4.2).
//!
//! *Promises.* Its record is durable before SUBMIT leaves, and again before each MULTISIG. Once a signature has left, the
//! message is never replaced or dropped, only retried, also across restarts.
//!
//! *Trust.* Brokers are believed nothing: an inclusion binds the own message, a number is signed only below a height that
//! f + 1 servers signed, and a delivery counts with their certificate alone.
//!
//! *Bounds.* One message in flight, 8 roots of each broker, one check of each kind per broker at a time, `queue_max`
//! payloads behind it.

mod config;
mod confirm;
mod enrol;
mod flight;
mod job;
mod record;
mod resync;
mod sign;
mod submit;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::{BTreeSet, VecDeque};

use synod_machine::{
    Bounded, Condition, Event, Link, Log, Machine, Never, QueueSpec, Recover, Span, Turn, Unrecoverable,
};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use self::enrol::Enrolment;
use self::flight::{Flight, ROOTS_MAX};
use self::resync::Sync;
use crate::certificate::Legitimacy;
use crate::message::ClientMessage;
use crate::receipt::Receipt;
use crate::vocabulary::{self, Message};

pub use config::{BROKERS_MAX, Config, Parameters};
pub use job::{Done, Job, Task};
pub use record::{BURST_MAX, ClientRecord, Flying, Next};

/// What the user of a client asks.
#[derive(Clone, Debug)]
pub enum Input {
    /// Broadcast this payload; `token` names it in outputs, and is the user's to choose.
    Broadcast {
        /// The name.
        token: u64,
        /// The payload.
        payload: Bytes,
    },
    /// Ask f + 1 servers where this client stands.
    Resync,
    /// Enter the directory.
    SignUp,
}

/// Why a payload is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many wait: ask again later.
    Busy,
    /// The payload does not have the size of the class: SYN-3203.
    Class,
    /// The client has no id yet: SYN-3201.
    NotInDirectory,
    /// The client has an id already.
    Enrolled,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "too many payloads wait",
            Self::Class => "the payload does not have the size of the class",
            Self::NotInDirectory => "the client has no id yet",
            Self::Enrolled => "the client has an id already",
        })
    }
}

/// What the user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// These payloads were delivered, as one message. Told again after a crash in between.
    Delivered {
        /// Their names.
        tokens: Vec<u64>,
        /// Proof for others; none when the servers said that the message was delivered before.
        receipt: Option<Box<Receipt>>,
    },
    /// This payload is not taken.
    Refused {
        /// Its name; 0 for requests without one.
        token: u64,
        /// Why.
        why: Refusal,
    },
    /// The client is in the directory.
    SignedUp {
        /// Its id.
        id: u32,
    },
    /// The card has no id, for another client has one of its keys: SYN-3202.
    CardRefused,
    /// f + 1 servers said where the client stands.
    Resynced {
        /// The lowest number that is free.
        next_k: u64,
    },
}

/// The name of a timer; the number keeps a stale firing harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The broker did not show an inclusion.
    Retransmit(u64),
    /// Nothing was delivered.
    Submit(u64),
    /// No state came.
    Resync(u64),
    /// No id came.
    Enrol(u64),
}

/// A payload that waits.
#[derive(Clone, Debug)]
struct Queued {
    token: u64,
    payload: Bytes,
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    id: Option<u32>,
    next_k: u64,
    parity: bool,
    flight: Option<Flight>,
    best: Option<Legitimacy>,
    queue: VecDeque<Queued>,
    queued: u64,
    sync: Option<Sync>,
    /// Questions so far; the newest names its timer. Those of the message in flight have names of their own.
    asked: u64,
    /// The journal is not of this key, or promises may be missing.
    lost: bool,
    enrolment: Option<Enrolment>,
    /// Brokers whose delivery, state or id is being checked.
    checking: BTreeSet<NodeId>,
    /// Which broker's turn it is, and how many rounds over all are done.
    turn_of: usize,
    rounds: u32,
    /// The name of the timers that are armed.
    serial: u64,
    /// Retransmissions since the last step forward.
    attempts: u32,
    /// Smoothed time from a submission to its root.
    trip: Option<Span>,
    /// Records since the lane was compacted.
    records: u32,
    /// First half of the root of the last delivery, whose repetition is acknowledged again.
    last: Option<[u8; 16]>,
}

type Step<'a> = Turn<'a, Client>;

/// Records after which most of the lane is obsolete.
const COMPACT_EVERY: u32 = 256;

impl Client {
    /// The client's id, once it has one.
    #[must_use]
    pub const fn id(&self) -> Option<u32> {
        self.id
    }

    /// The lowest number that was never signed.
    #[must_use]
    pub const fn next_k(&self) -> u64 {
        self.next_k
    }

    /// The highest height that was proven (n^); genesis counts as the first delivered batch.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.best.as_ref().map_or(1, Legitimacy::height).max(1)
    }

    /// Payloads that wait, and whether one is in flight.
    #[must_use]
    pub fn waiting(&self) -> (usize, bool) {
        (self.queue.len(), self.flight.is_some())
    }

    fn broker(&self) -> NodeId {
        self.config.brokers[self.turn_of]
    }

    fn knows(&self, broker: NodeId) -> bool {
        self.config.brokers.contains(&broker)
    }

    /// Turns to the next broker; after a full round its patience doubles.
    const fn next_broker(&mut self) {
        self.turn_of += 1;
        if self.turn_of >= self.config.brokers.len() {
            self.turn_of = 0;
            self.rounds = self.rounds.saturating_add(1);
        }
        self.attempts = 0;
    }

    fn persist(&mut self, turn: &mut Step<'_>) {
        turn.persist(ClientRecord::Next(self.next()));
        self.records += 1;
        if self.records >= COMPACT_EVERY {
            self.records = 0;
            turn.compact();
        }
    }

    fn next(&self) -> Next {
        Next {
            id: self.id,
            next_k: self.next_k,
            parity: self.parity,
            flight: self.flight.as_ref().map(Flight::flying),
            certificate: self.best.clone(),
        }
    }

    fn compute(&self, turn: &mut Step<'_>, task: Task) {
        turn.compute(Job { cluster: self.config.cluster.clone(), task });
    }

    fn say(to: NodeId, message: ClientMessage, turn: &mut Step<'_>) {
        turn.send(to, Message::Client(message));
    }

    fn on_start(&mut self, turn: &mut Step<'_>) {
        if self.lost && self.id.is_some() {
            self.ask_everyone(turn);
        } else if self.flight.is_some() {
            self.sign_submission(turn);
        }
    }

    fn on_input(&mut self, input: Input, turn: &mut Step<'_>) {
        match input {
            Input::Broadcast { token, payload } => self.broadcast(token, payload, turn),
            Input::Resync if self.id.is_none() => {
                turn.output(Output::Refused { token: 0, why: Refusal::NotInDirectory });
            }
            Input::Resync => self.ask_one(turn),
            Input::SignUp => self.sign_up(turn),
        }
    }

    fn on_message(&mut self, from: NodeId, message: ClientMessage, turn: &mut Step<'_>) {
        if !self.knows(from) {
            return;
        }
        match message {
            ClientMessage::Inclusion(inclusion) => self.on_inclusion(from, inclusion, turn),
            ClientMessage::Delivery(delivery) => self.on_delivery(from, delivery, turn),
            ClientMessage::Nack { why, retry_ms } => self.on_nack(from, why, retry_ms, turn),
            ClientMessage::State(answer) => self.on_state(from, answer, turn),
            ClientMessage::Signed(signed) => self.on_signed(from, signed, turn),
            // Only lazy brokers challenge; no link of an eager one needs a claim.
            ClientMessage::Challenge { .. } => {}
            ClientMessage::Submit(_)
            | ClientMessage::MultiSig { .. }
            | ClientMessage::Ack { .. }
            | ClientMessage::Query { .. }
            | ClientMessage::SignUp(_)
            | ClientMessage::Claim { .. } => turn.blame(from, crate::fault::Fault::WrongRole),
        }
    }

    fn on_done(&mut self, done: Done, turn: &mut Step<'_>) {
        match done {
            Done::Submitted(submission, t) => self.submitted(&submission, t, turn),
            Done::Rooted(broker, commit, share) => self.rooted(broker, commit, share, turn),
            Done::Height(broker, commit, proven) => self.height_checked(broker, commit, proven, turn),
            Done::Delivery(broker, delivery, proven) => self.delivery_checked(broker, delivery, proven, turn),
            Done::State(broker, answer, proven) => self.state_checked(broker, answer, proven, turn),
            Done::Card(card) => self.card_made(card, turn),
            Done::SignUp(broker, signed, proven) => self.id_checked(broker, signed, proven, turn),
        }
    }

    fn on_timer(&mut self, timer: Timer, turn: &mut Step<'_>) {
        match timer {
            Timer::Retransmit(serial) if serial == self.serial => self.retransmit(turn),
            Timer::Submit(serial) if serial == self.serial => self.other_broker(turn),
            Timer::Resync(serial) => self.resync_silent(serial, turn),
            Timer::Enrol(serial) => self.enrol_silent(serial, turn),
            Timer::Retransmit(_) | Timer::Submit(_) => {}
        }
    }
}

impl Machine for Client {
    type Input = Input;
    type Message = Message<Never>;
    type Timer = Timer;
    type Record = ClientRecord;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message: Message::Client(message) } => {
                self.on_message(from, message, turn)
            }
            Event::Message { from, .. } => turn.blame(from, crate::fault::Fault::WrongRole),
            Event::Timer(timer) => self.on_timer(timer, turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Link { peer, link: Link::Up } => self.linked(peer, turn),
            Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn room(&self) -> u32 {
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        self.config.parameters.queue_max.saturating_sub(waiting)
    }

    fn invariants(&self) {
        let Some(flight) = &self.flight else { return };
        assert!(flight.k0 < self.next_k, "the number in flight is used up");
        for shown in flight.roots() {
            let signs = matches!(shown.stage, flight::Stage::Signing | flight::Stage::Signed(_));
            assert!(!signs || shown.k < self.next_k, "a signed number is used up");
            assert!(!signs || flight.k0 <= shown.k, "no number below the own is signed");
        }
    }
}

impl Bounded for Client {
    fn bytes(&self) -> u64 {
        let roots = self.flight.iter().flat_map(Flight::roots).count() as u64;
        let flight = self.flight.as_ref().map_or(0, |flight| flight.message.len() as u64);
        8 * 1_024 + roots * ROOT_BYTES + flight + self.queued
    }

    fn bytes_max(&self) -> u64 {
        let roots = (self.config.brokers.len() * ROOTS_MAX) as u64 * ROOT_BYTES;
        let payload = self.config.payload_max();
        64 * 1_024 + roots + 2 * payload + u64::from(self.config.parameters.queue_max) * (payload + 48)
    }
}

/// A root, its proof of up to 20 digests, and a share.
const ROOT_BYTES: u64 = 1_536;

impl Recover for Client {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        vocabulary::queues([])
    }

    fn recover(config: Config, log: Log<'_, ClientRecord>) -> Result<Self, Unrecoverable> {
        let newest = log.records.last().map(|ClientRecord::Next(next)| next);
        let lost = log.condition == Condition::Damaged || newest.is_none();
        let mut client = Self {
            id: config.id,
            config,
            next_k: 0,
            parity: false,
            flight: None,
            best: None,
            queue: VecDeque::new(),
            queued: 0,
            sync: None,
            asked: 0,
            lost,
            enrolment: None,
            checking: BTreeSet::new(),
            turn_of: 0,
            rounds: 0,
            serial: 0,
            attempts: 0,
            trip: None,
            records: 0,
            last: None,
        };
        let Some(next) = newest else { return Ok(client) };
        match (client.id, next.id) {
            (Some(told), Some(kept)) if told != kept => {
                return Err(Unrecoverable(format!("the journal is of client {kept}, not of {told}")));
            }
            (told, kept) => client.id = told.or(kept),
        }
        if next.flight.as_ref().is_some_and(|flying| flying.k0 >= next.next_k) {
            return Err(Unrecoverable("the number in flight is not used up".to_owned()));
        }
        (client.next_k, client.parity, client.best) = (next.next_k, next.parity, next.certificate);
        client.flight = next.flight.map(|flying| Flight::new(flying, synod_machine::Time::ZERO));
        Ok(client)
    }

    fn snapshot(&self, put: &mut dyn FnMut(ClientRecord)) {
        put(ClientRecord::Next(self.next()));
    }
}
