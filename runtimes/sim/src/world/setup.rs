//! What a world is built from.

use core::any::Any;

use synod_machine::host::{Hosted, LaneLog};
use synod_machine::{Queue, Span, Unrecoverable};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::checker::Checker;
use crate::faulty::Strategy;
use crate::journal::RecordJournal;
use crate::network::{Latency, Mode};
use crate::prices::Prices;
use crate::scenario::Incident;
use crate::storage::Storage;
use crate::toy::Crypto;
use crate::trace::{Plain, Words};

/// One node of the world and the machines it hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its id; unique in the world, except that a pair of twins shares one.
    pub id: NodeId,
    /// 0, or 1 for the second of two twins. Without [`Setup::twins`] for its id it waits for `node.clone`.
    pub twin: u8,
    /// The numbers of its machines, in the order in which they recover: users before providers. Each has its own
    /// lane of the node's journal.
    pub machines: Vec<u8>,
    /// Where it stands; see [`Latency::regions`].
    pub region: u32,
}

impl Seat {
    /// A node with these machines, in the region of its id.
    #[must_use]
    pub fn new(id: NodeId, machines: &[u8]) -> Self {
        Self { id, twin: 0, machines: machines.to_vec(), region: id.0 }
    }
}

/// Builds a machine from its lane: (node, machine, log, incarnation).
///
/// A refusal keeps the node down. It is a violation unless the node's disk was tampered with.
pub type Factory = dyn Fn(NodeId, u8, LaneLog, u32) -> Result<Box<dyn Hosted>, Unrecoverable>;

/// The kind of message a frame holds: (the receiving machine's number, the body). For counting; `None` when it has none.
pub type Kinds = dyn Fn(u8, &Bytes) -> Option<&'static str>;

/// A frame on its way from one instance of a node to another; each is named by its id and its twin number.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Who sent it.
    pub from: (NodeId, u8),
    /// Whom it is for.
    pub to: (NodeId, u8),
    /// The sender's machine.
    pub machine: u8,
    /// What it says.
    pub body: &'a Bytes,
}

/// Decides frame by frame what the network carries. It is asked once per frame and recipient, in the order in which
/// they leave, and no more once the core is healed.
pub trait Script {
    /// Whether the frame gets through; else it is lost.
    fn passes(&mut self, passage: &Passage<'_>) -> bool;
}

/// Where an output goes.
pub enum Routed {
    /// An input of another machine of the same node, by its number.
    Machine(u8, Box<dyn Any + Send>),
    /// To the harness.
    Harness(Box<dyn Any + Send>),
}

/// Routes the outputs of machines: (node, machine, output).
pub type Connector = dyn Fn(NodeId, u8, Box<dyn Any + Send>) -> Vec<Routed>;

/// How two nodes are linked; asked once per unordered pair.
pub type Links = dyn Fn(NodeId, NodeId) -> Option<Mode>;

/// The number of the machine at the receiver: (sender, sender's machine, its queue, receiver). A queue may lead to another
/// machine than the sender's own kind: docs/adr/0015-queues-lead-to-roles.md.
pub type Route = dyn Fn(NodeId, u8, Queue, NodeId) -> u8;

/// Who uses registers, and who holds them. An operation leaves as a frame for the machine of the memory node, and the answer
/// comes back to the machine that uses registers: delays, losses and crashes are those of every link and node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The number of the machine that uses registers.
    pub user: u8,
    /// The number of the machine that memory nodes host.
    pub machine: u8,
}

/// Makes the disk of a node with this many lanes.
pub type Disks = dyn Fn(NodeId, usize) -> Box<dyn Storage>;

/// The strategy of a Byzantine incident; `None` when there is none for it.
pub type Strategies = dyn Fn(&Incident) -> Option<Box<dyn Strategy>>;

/// Ids as nodes use them, where they differ from the world's: linked clusters, each with members 0, 1, 2, ...
pub trait Names {
    /// The node that `viewer` calls `local`, by its id in the world; `None` when it knows none by that name.
    fn global(&self, viewer: NodeId, local: NodeId) -> Option<NodeId>;
    /// What `viewer` calls the node `global`.
    fn local(&self, viewer: NodeId, global: NodeId) -> NodeId;
}

/// Which recipients a twin speaks with, by rounds of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Twins {
    /// The id both twins have.
    pub id: NodeId,
    /// Length of a round.
    pub round: Span,
    /// Per round, whom the first and the second twin reach and hear. The sets may overlap.
    pub masks: Vec<[Vec<NodeId>; 2]>,
    /// Whether the first round follows the last; else the last one stays for ever.
    pub again: bool,
    /// Whether the first twin speaks with first twins of other such pairs alone and the second with second ones, whatever
    /// the masks say: then the pairs can keep two halves of a cluster apart and serve both.
    pub matched: bool,
}

impl Twins {
    /// Whether twin number `twin` and `peer` are joined at `now` nanoseconds.
    #[must_use]
    pub fn joined(&self, twin: u8, peer: NodeId, now: u64) -> bool {
        let round = usize::try_from(now / self.round.0.max(1)).unwrap_or(usize::MAX);
        let rounds = self.masks.len().max(1);
        let round = if self.again { round % rounds } else { round.min(rounds - 1) };
        let mask = self.masks.get(round);
        mask.is_some_and(|masks| masks[usize::from(twin.min(1))].contains(&peer))
    }
}

/// Numbers of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Determines every draw.
    pub seed: u64,
    /// `system:seed:options@commit`; printed with every failure.
    pub token: String,
    /// Toy or real signatures.
    pub crypto: Crypto,
    /// Distances between regions.
    pub latency: Latency,
    /// Mean of the exponential jitter of each frame.
    pub jitter: Span,
    /// Bytes per second a node can send; 0 is unlimited.
    pub egress: u64,
    /// What work costs.
    pub prices: Prices,
    /// Workers for jobs per node; 0 runs them between events.
    pub pool: u32,
    /// The shortest sync of a journal.
    pub sync_floor: Span,
    /// Mean of the exponential part of a sync.
    pub sync_mean: Span,
    /// Nodes start within this time.
    pub start_within: Span,
    /// Most events of a run; more is a violation called `runaway`.
    pub events_max: u64,
    /// Whether every event is kept in words; the last 200 always are.
    pub trace: bool,
    /// The only frames that are heard, by their names in a [`Step`](crate::Step); all are when `None`. The others are
    /// carried as ever and lost at the receiver's door.
    pub heard: Option<Vec<u32>>,
    /// Stops behind this event with a violation called `until`.
    pub until: Option<u64>,
    /// Faults by which an honest node may be blamed: their proof presumes that at most f members are faulty, and in this run
    /// more are.
    pub excused: &'static [&'static str],
    /// Draws everything anew behind this event: see [`Redraw`].
    pub redraw: Option<Redraw>,
}

/// Another future for the same past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redraw {
    /// The last event of the past.
    pub after: u64,
    /// Determines the future: ties, delays, disks, strategies, and when and whom the faults hit that have not begun.
    /// Every frame is heard. What machines draw for themselves stays.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            token: String::new(),
            crypto: Crypto::Toy,
            latency: Latency::Lan,
            jitter: Span::micros(20),
            egress: 0,
            prices: Prices::default(),
            pool: 1,
            sync_floor: Span::micros(1_500),
            sync_mean: Span::micros(700),
            start_within: Span::millis(2),
            events_max: 10_000_000,
            trace: false,
            heard: None,
            until: None,
            excused: &[],
            redraw: None,
        }
    }
}

/// Everything a world is built from. Start from [`Setup::new`] and replace what differs.
pub struct Setup {
    /// The nodes.
    pub seats: Vec<Seat>,
    /// Builds machines.
    pub factory: Box<Factory>,
    /// Builds machines of the other release, which `node.version` starts; `None` is the same program.
    pub other: Option<Box<Factory>>,
    /// What the network carries.
    pub script: Option<Box<dyn Script>>,
    /// Names what machines say, for traces.
    pub words: Box<dyn Words>,
    /// Names kinds of messages.
    pub kinds: Box<Kinds>,
    /// Routes outputs.
    pub connector: Box<Connector>,
    /// Joins nodes.
    pub links: Box<Links>,
    /// Finds the receiving machine.
    pub route: Box<Route>,
    /// Who uses registers; without it an operation on one is a violation.
    pub memory: Option<Memory>,
    /// Ids as nodes use them.
    pub names: Option<Box<dyn Names>>,
    /// Makes disks.
    pub disks: Box<Disks>,
    /// What must hold.
    pub checkers: Vec<Box<dyn Checker>>,
    /// The masks of twins, one per pair.
    pub twins: Vec<Twins>,
    /// The strategies of Byzantine incidents; those that need no protocol by default.
    pub strategies: Box<Strategies>,
    /// Numbers of the run.
    pub options: Options,
}

impl Setup {
    /// Nodes joined by connections (guests, ids from 128 on, only with members), machines that speak with their
    /// own number at the peer, outputs to the harness, journals in memory, no further checkers.
    #[must_use]
    pub fn new(
        seats: Vec<Seat>,
        factory: impl Fn(NodeId, u8, LaneLog, u32) -> Result<Box<dyn Hosted>, Unrecoverable> + 'static,
    ) -> Self {
        Self {
            seats,
            factory: Box::new(factory),
            other: None,
            script: None,
            words: Box::new(Plain),
            kinds: Box::new(|_, _| None),
            connector: Box::new(|_, _, output| vec![Routed::Harness(output)]),
            links: Box::new(|a, b| (a.is_member() || b.is_member()).then_some(Mode::Connection)),
            route: Box::new(|_, machine, _, _| machine),
            memory: None,
            names: None,
            disks: Box::new(|_, lanes| Box::new(RecordJournal::new(lanes))),
            checkers: Vec::new(),
            twins: Vec::new(),
            strategies: Box::new(crate::faulty::generic),
            options: Options::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_reach_whom_their_mask_names_and_keep_the_last_mask_or_begin_again() {
        let (a, b) = (NodeId(0), NodeId(1));
        let mut twins = Twins {
            id: NodeId(3),
            round: Span(100),
            masks: vec![[vec![a], vec![b]], [vec![a, b], vec![]]],
            again: false,
            matched: false,
        };
        assert!(twins.joined(0, a, 0) && !twins.joined(0, b, 99) && twins.joined(1, b, 0));
        assert!(twins.joined(0, b, 100) && !twins.joined(1, b, 100));
        assert!(twins.joined(0, b, 1_000_000), "the last round stays");
        twins.again = true;
        assert!(
            !twins.joined(0, b, 1_000_000) && twins.joined(0, b, 1_000_100),
            "the first follows the last"
        );
    }
}
