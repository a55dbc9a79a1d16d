//! Registers over 2f_m + 1 memory nodes: one that is written at f_m + 1 of them is read at any f_m + 1 (paper, section 6.1).
//!
//! *What it gives.* Regularity: a read gives the value of the last completed write, or of one that is under way. A value that only
//! some nodes have is given as well, and where nodes give different values for one stamp, which a correct owner never wrote, all of
//! them are. *Model.* Nodes fail by stopping; one whose boot number is another has forgotten, and counts as stopped.
//!
//! *Bounds.* One write per register and one read per other owner and register; [`OUTSTANDING_MAX`] operations on their way to each
//! node, the others wait in the order in which they were asked. What a node does not answer is said to it again after T_fast, and then
//! after waits that double.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_machine::register::{Held, Place, RegisterOp, RegisterReply, Said};
use synod_machine::{Event, Machine, Message, Never, Queue, Span, Time, Turn, planted};
use synod_quorum::{Epoch, NodeId};
use synod_wire::wire;

use crate::config::{Config, WAIT_TIMES_MAX};
use crate::fault::Fault;
use crate::trace::Rule;

/// Operations on their way to a memory node.
pub const OUTSTANDING_MAX: usize = 24;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Writes one of the own registers; an older write of it that is under way is given up.
    Write {
        /// Which.
        index: u32,
        /// What.
        held: Held,
    },
    /// Reads a register of somebody else; an older read of it is given up.
    Read(Place),
    /// Nobody waits for this register any more.
    Forget(Place),
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The write is complete: whoever begins to read from now on sees it, or what is newer.
    Written {
        /// Which register.
        index: u32,
        /// Its stamp.
        stamp: u64,
    },
    /// What a register holds: nothing, or what has the largest stamp, in as many forms as there are.
    Values {
        /// The register.
        place: Place,
        /// With equal stamps and different values.
        held: Vec<Held>,
    },
    /// The epoch is over, so a correct replica has its end certified.
    Retired {
        /// The oldest epoch that is served.
        oldest: Epoch,
    },
    /// A memory node came back empty: it counts as stopped until an epoch lists its boot.
    Reborn {
        /// Its place among memory nodes.
        memory: u8,
        /// Its boot number.
        boot: u64,
    },
}

wire! {
    /// Between a replica and memory nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MemoryWords {
        /// To a node.
        0 = Op(RegisterOp),
        /// From it.
        1 = Reply(RegisterReply),
    }
}

impl Message for MemoryWords {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }

    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Op(op) => Some(op),
            Self::Reply(_) => None,
        }
    }

    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Reply(reply))
    }
}

/// Operations that no quorum has answered are said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repeat;

/// An operation that is under way.
#[derive(Clone, Debug)]
struct Pending {
    op: RegisterOp,
    /// Memory nodes that answered it, a bit each.
    answered: u32,
    /// The largest stamp that was read, and its values.
    held: Vec<Held>,
}

/// When it was said to a node, and how long an answer may take: longer each time.
#[derive(Clone, Copy, Debug)]
struct Sent {
    since: Time,
    wait: Span,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Registers {
    config: Arc<Config>,
    quorum: u32,
    last: u64,
    /// By tag, so oldest first.
    pending: BTreeMap<u64, Pending>,
    /// The operation of each place: reads by their place, writes by that of the own region.
    places: BTreeMap<Place, u64>,
    /// On their way to each node.
    sent: Vec<BTreeMap<u64, Sent>>,
    is_armed: bool,
}

impl Registers {
    /// Over the memory nodes of a configuration.
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        let sent = vec![BTreeMap::new(); config.memory.len()];
        let quorum = config.memory_quorum();
        let (pending, places) = (BTreeMap::new(), BTreeMap::new());
        Self { config, quorum, last: 0, pending, places, sent, is_armed: false }
    }

    /// Operations under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Bytes of operations under way.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let each = size_of::<(u64, Pending)>()
            + size_of::<(Place, u64)>()
            + self.sent.len() * (size_of::<(u64, Sent)>() + size_of::<Held>());
        (self.pending.len() * each) as u64
    }

    fn own(&self, index: u32) -> Place {
        let owner = self.config.me.member().unwrap_or(u8::MAX);
        Place { region: synod_machine::register::Region { epoch: self.config.epoch, owner }, index }
    }

    fn begin(&mut self, place: Place, op: impl FnOnce(u64) -> RegisterOp, turn: &mut Turn<'_, Self>) {
        self.drop_at(place);
        self.last = self.last.saturating_add(1);
        self.places.insert(place, self.last);
        self.pending.insert(self.last, Pending { op: op(self.last), answered: 0, held: Vec::new() });
        self.fill(turn);
    }

    fn drop_at(&mut self, place: Place) {
        if let Some(tag) = self.places.remove(&place) {
            self.pending.remove(&tag);
            for sent in &mut self.sent {
                sent.remove(&tag);
            }
        }
    }

    /// Sends what waits, as far as nodes have room.
    fn fill(&mut self, turn: &mut Turn<'_, Self>) {
        let first = Sent { since: turn.now(), wait: self.config.parameters.fast };
        for (at, (sent, memory)) in self.sent.iter_mut().zip(&self.config.memory).enumerate() {
            for (tag, pending) in &self.pending {
                if sent.len() >= OUTSTANDING_MAX {
                    break;
                }
                if pending.answered & (1 << at) == 0 && !sent.contains_key(tag) {
                    sent.insert(*tag, first);
                    turn.send(memory.node, MemoryWords::Op(pending.op));
                }
            }
        }
        if !self.is_armed && !self.pending.is_empty() {
            self.is_armed = true;
            turn.arm(Repeat, self.config.parameters.fast);
        }
    }

    fn on_repeat(&mut self, turn: &mut Turn<'_, Self>) {
        self.is_armed = false;
        let (now, most) = (turn.now(), self.config.parameters.fast.times(WAIT_TIMES_MAX));
        for (sent, memory) in self.sent.iter_mut().zip(&self.config.memory) {
            for (tag, sent) in sent.iter_mut().filter(|(_, sent)| now.since(sent.since) >= sent.wait) {
                *sent = Sent { since: now, wait: sent.wait.times(2).min(most) };
                if let Some(pending) = self.pending.get(tag) {
                    turn.send(memory.node, MemoryWords::Op(pending.op));
                }
            }
        }
        self.fill(turn);
    }

    fn on_reply(&mut self, from: NodeId, reply: RegisterReply, turn: &mut Turn<'_, Self>) {
        // One that came back empty would forget what it has said (section 4.4).
        let is_believed = |memory: &crate::config::Memory| {
            memory.node == from && (memory.boot == reply.boot || planted!(V10))
        };
        let Some(at) = self.config.memory.iter().position(is_believed) else {
            let is_reborn = |memory: &crate::config::Memory| memory.node == from && memory.boot < reply.boot;
            let at = self.config.memory.iter().position(is_reborn);
            if let Some(memory) = at.and_then(|at| u8::try_from(at).ok()) {
                turn.output(Output::Reborn { memory, boot: reply.boot });
            }
            return;
        };
        let Some(pending) =
            self.pending.get_mut(&reply.tag).filter(|pending| pending.op.place() == reply.place)
        else {
            return;
        };
        match (reply.said, &pending.op) {
            (Said::Written, RegisterOp::Write { .. }) => {}
            (Said::Value(held), RegisterOp::Read { .. }) => keep(&mut pending.held, held),
            (Said::Abused, RegisterOp::Read { place, .. }) => {
                turn.blame(NodeId(u32::from(place.region.owner)), Fault::RegisterAbuse);
            }
            (Said::Retired { oldest }, _) if oldest > self.config.epoch => {
                turn.applied(Rule::Retired);
                turn.output(Output::Retired { oldest });
                return;
            }
            // The node has what is newer, or is not the one that was meant: it counts as stopped.
            _ => return,
        }
        pending.answered |= 1 << at;
        if let Some(sent) = self.sent.get_mut(at) {
            sent.remove(&reply.tag);
        }
        if pending.answered.count_ones() >= self.quorum {
            turn.applied(Rule::RegisterQuorum);
            let (op, held) = (pending.op, std::mem::take(&mut pending.held));
            self.drop_at(reply.place);
            turn.output(match op {
                RegisterOp::Write { place, held, .. } => {
                    Output::Written { index: place.index, stamp: held.stamp }
                }
                RegisterOp::Read { place, .. } => Output::Values { place, held },
            });
        }
        self.fill(turn);
    }
}

/// Keeps what has the largest stamp.
fn keep(held: &mut Vec<Held>, more: Option<Held>) {
    let Some(more) = more else { return };
    let newest = held.first().map_or(0, |first| first.stamp);
    if more.stamp > newest {
        held.clear();
    }
    if more.stamp >= newest && !held.contains(&more) {
        held.push(more);
    }
}

impl Machine for Registers {
    type Input = Input;
    type Message = MemoryWords;
    type Timer = Repeat;
    type Record = Never;
    type Job = Never;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Input::Write { index, held }) => {
                let place = self.own(index);
                self.begin(place, |tag| RegisterOp::Write { tag, place, held }, turn);
            }
            Event::Input(Input::Read(place)) => {
                self.begin(place, |tag| RegisterOp::Read { tag, place }, turn)
            }
            Event::Input(Input::Forget(place)) => {
                self.drop_at(place);
                self.fill(turn);
            }
            Event::Message { from, message: MemoryWords::Reply(reply) } => self.on_reply(from, reply, turn),
            Event::Timer(Repeat) => self.on_repeat(turn),
            Event::Done(never) => match never {},
            Event::Message { .. } | Event::Start | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        assert_eq!(self.pending.len(), self.places.len(), "an operation has its place");
        for sent in &self.sent {
            assert!(sent.len() <= OUTSTANDING_MAX, "no more are on their way");
            assert!(sent.keys().all(|tag| self.pending.contains_key(tag)), "what is on its way is under way");
        }
    }
}
