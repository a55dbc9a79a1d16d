//! The client (hotstuff 4.15): one session, commands in frames, answers believed only from power W.
//!
//! *Protocol.* Upon commands it opens its session at all nodes, puts the commands of one turn into frames, signs each
//! by a job, and sends it to one node; when no answer is accepted within 2 x p99 (at least 200 ms) it sends the same
//! bytes to all, then again and again, waiting half as long again each time. A deadline makes the outcome unknown, never
//! a failure. A node whose connection comes up is sent again what it may have lost; when one ends, what that node alone
//! was sent goes to all at once. A node whose result differs from the accepted one is blamed and asked last.
//!
//! *Order.* Frames in flight together are executed in any order, so the commands of one submission share a frame; those
//! beyond one frame follow when nothing is in flight.
//!
//! *Reads.* A quorum read is accepted when power Q gives equal values from states at or above the client's floor,
//! the highest position whose result it accepted; after two rounds without it is ordered.
//!
//! *Bounds.* [`ClientConfig::bytes_max`]. It keeps nothing: a restarted client opens another session.

mod config;
mod frames;
mod job;
mod latency;
mod open;
mod reads;
mod replies;

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{
    Bounded, Event, Link, Log, Machine, Never, QueueSpec, Recover, Time, Turn, Unrecoverable,
};
use synod_quorum::{NodeId, NodeSet};
use synod_tail::TailMap;
use synod_wire::Bytes;

pub use config::{
    ClientConfig, ClientInput, ClientOutput, Command, Doubt, Outcome, Rejection, RequestId, SendMode,
};
pub use job::{ClientDone, ClientJob};

use crate::executor::ServiceFault;
use crate::message::ClientMessage;
use frames::Flight;
use latency::Latency;
use open::Opened;
use reads::Read;

/// Decided frames whose digest is remembered, to name nodes that contradict late.
const DECIDED_MAX: usize = 256;

/// Names of the client's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientTimer {
    /// The turn in which commands were submitted is over.
    Flush,
    /// The opening is not answered.
    Open,
    /// The oldest waiting command is due.
    Queue,
    /// The frame of this first sequence is not answered.
    Retry(u64),
    /// The commands of this frame are due.
    Deadline(u64),
    /// The round of this read is over.
    Read(u64),
    /// This read is due.
    ReadDeadline(u64),
}

/// A command that waits for the session or the window.
#[derive(Clone, Debug)]
struct Waiting {
    tag: u64,
    body: Bytes,
    due: Time,
    /// Whether it was submitted together with the one before it, and is executed behind that one.
    behind: bool,
}

/// One session of one user.
pub struct Client {
    config: ClientConfig,
    opened: Opened,
    queue: VecDeque<Waiting>,
    queue_bytes: u64,
    /// Frames in flight by first sequence, and their bytes.
    flights: BTreeMap<u64, Flight>,
    flight_bytes: u64,
    next: u64,
    /// What the session's base is at least, by the results accepted.
    base: u64,
    decided: TailMap<u64, Hash>,
    reads: BTreeMap<u64, Read>,
    next_read: u64,
    /// The highest position whose result was accepted.
    floor: Position,
    latency: Latency,
    leader: Option<NodeId>,
    /// Nodes that contradicted an accepted result: asked last.
    deviants: NodeSet,
    /// Nodes that owed a body and did not send it, since the last time all did.
    missed: NodeSet,
    /// Attachments so far, and when each node was last told.
    attachments: u64,
    attached: BTreeMap<NodeId, Time>,
    /// Since when a node said nothing while results of others were accepted.
    quiet: BTreeMap<NodeId, Time>,
    /// When each node's connection last came up.
    greeted: BTreeMap<NodeId, Time>,
    closed: bool,
}

impl Client {
    /// The session's id, once it is open.
    #[must_use]
    pub const fn session(&self) -> Option<u64> {
        match self.opened {
            Opened::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Nodes that contradicted an accepted result.
    #[must_use]
    pub const fn deviants(&self) -> NodeSet {
        self.deviants
    }

    /// Commands waiting or in flight.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.flights.values().map(|flight| flight.tags.len()).sum::<usize>()
    }

    /// Nodes to ask: those that never lied, or all when nobody else is left.
    fn good_nodes(&self) -> NodeSet {
        let all = self.config.trust.nodes();
        let good = all.minus(self.deviants);
        if good.is_empty() { all } else { good }
    }

    /// The node to send to and to name for full results: the leader if known, else the nearest; one that owed a body
    /// comes after the others.
    fn preferred(&mut self) -> NodeId {
        let good = self.good_nodes();
        if good.minus(self.missed).is_empty() {
            self.missed = NodeSet::EMPTY;
        }
        let able = good.minus(self.missed);
        let known = [self.leader, Some(self.config.nearest)].into_iter().flatten();
        let mut known = known.filter(|node| able.contains(*node));
        known.next().or_else(|| able.iter().next()).unwrap_or(self.config.nearest)
    }

    fn on_input(&mut self, input: ClientInput, turn: &mut Turn<'_, Self>) {
        match input {
            ClientInput::Submit { commands, deadline } => self.on_submit(commands, deadline, turn),
            ClientInput::Query { tag, question, mode, fallback, deadline } => {
                let read = Read::new(tag, question, mode, fallback, turn.now() + deadline);
                self.on_query(read, deadline, turn);
            }
            ClientInput::Close => self.on_close(turn),
        }
    }

    fn on_message(&mut self, from: NodeId, message: ClientMessage, turn: &mut Turn<'_, Self>) {
        if !self.config.trust.nodes().contains(from) {
            return turn.blame(from, ServiceFault::OutOfRole);
        }
        match message {
            ClientMessage::Replies(batch) => self.on_replies(from, batch, turn),
            ClientMessage::Answer(answer) => self.on_answer(from, answer, turn),
            _ => turn.blame(from, ServiceFault::OutOfRole),
        }
    }

    fn on_done(&mut self, done: ClientDone, turn: &mut Turn<'_, Self>) {
        match done {
            ClientDone::Signed { session: 0, first, payload } => self.on_opening_signed(first, payload, turn),
            ClientDone::Signed { session, first, payload } => {
                self.on_frame_signed(session, first, payload, turn)
            }
            ClientDone::Attach(attach) => {
                let to = NodeId::from(attach.member);
                if self.session() == Some(attach.session) {
                    turn.send(to, ClientMessage::Attach(attach));
                }
            }
        }
    }

    fn on_timer(&mut self, timer: ClientTimer, turn: &mut Turn<'_, Self>) {
        match timer {
            ClientTimer::Flush => self.on_flush(turn),
            ClientTimer::Open => self.on_open_late(turn),
            ClientTimer::Queue => self.on_queue_due(turn),
            ClientTimer::Retry(first) => self.on_late(first, turn),
            ClientTimer::Deadline(first) => self.give_up(first, Doubt::Deadline, turn),
            ClientTimer::Read(id) => self.on_read_late(id, turn),
            ClientTimer::ReadDeadline(id) => self.on_read_due(id, turn),
        }
    }
}

impl Machine for Client {
    type Input = ClientInput;
    type Message = ClientMessage;
    type Timer = ClientTimer;
    type Record = Never;
    type Job = ClientJob;
    type Output = ClientOutput;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(timer) => self.on_timer(timer, turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Link { peer, link: Link::Up } => self.on_link_up(peer, turn),
            Event::Link { peer, link: Link::Down } => self.on_link_down(peer, turn),
            Event::Start | Event::Loaded { .. } => {}
        }
    }

    fn invariants(&self) {
        let waiting: u64 = self.queue.iter().map(|waiting| waiting.body.len() as u64).sum();
        assert_eq!(waiting, self.queue_bytes, "the queue's bytes are those of its commands");
        assert!(self.queue.len() as u64 <= u64::from(self.config.queue), "the queue is bounded");
        let lowest = self.flights.keys().next().copied().unwrap_or(self.next);
        assert!(self.next - lowest <= u64::from(self.config.window), "what is in flight fits the window");
    }
}

impl Bounded for Client {
    fn bytes(&self) -> u64 {
        let commands = self.outstanding() as u64 * 256;
        let reads: u64 = self.reads.values().map(Read::bytes).sum();
        self.queue_bytes + self.flight_bytes + commands + reads + self.bodies_held()
    }

    fn bytes_max(&self) -> u64 {
        self.config.bytes_max()
    }
}

impl Recover for Client {
    type Config = ClientConfig;

    fn queues(_: &ClientConfig) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: ClientConfig, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        config.check();
        Ok(Self {
            opened: Opened::Not(config.nonce),
            queue: VecDeque::new(),
            queue_bytes: 0,
            flights: BTreeMap::new(),
            flight_bytes: 0,
            next: config.first,
            base: config.first,
            decided: TailMap::evicting(DECIDED_MAX),
            reads: BTreeMap::new(),
            next_read: 1,
            floor: Position(0),
            latency: Latency::new(),
            leader: None,
            deviants: NodeSet::EMPTY,
            missed: NodeSet::EMPTY,
            attachments: 0,
            attached: BTreeMap::new(),
            quiet: BTreeMap::new(),
            greeted: BTreeMap::new(),
            closed: false,
            config,
        })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
