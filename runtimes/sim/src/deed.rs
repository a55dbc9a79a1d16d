//! What one call of a hosted machine asked for, and what the call was about.
//!
//! The simulator records the calls a machine makes on its [`Platform`] as [`Deed`]s, lets a strategy edit them,
//! cuts them at a crash boundary, shows them to the checkers and carries out what is left, in that order. A crash in
//! the middle of a turn is therefore exact: what lies behind the boundary never happened.

use core::any::Any;
use core::fmt::{self, Debug};

use synod_crypto::Hash;
use synod_machine::host::{ErasedJob, Frame, Lsn, Platform};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Condition, Cost, Fault, Keep, Link, Note, Queue, Rule, Time, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::audit::Audit;
use crate::storage::Storage;

/// One effect that reached the platform. Sends and outputs appear when the durability gate released them.
#[non_exhaustive]
pub enum Deed {
    /// A frame body leaves for one node or a set.
    Send {
        /// Whom it is for, in the sender's own naming.
        to: To,
        /// The queue that carries it.
        queue: Queue,
        /// The version byte and the message.
        body: Bytes,
    },
    /// An operation leaves for a memory node; a violation in a world that has none.
    Register {
        /// The memory node.
        to: NodeId,
        /// The queue that carries it.
        queue: Queue,
        /// The operation.
        op: RegisterOp,
    },
    /// A record was appended.
    Append {
        /// Its place in the lane.
        lsn: Lsn,
        /// Where it is kept.
        keep: Keep,
        /// The version byte and the record.
        record: Bytes,
    },
    /// A blob was appended.
    Store {
        /// Its place in the lane.
        lsn: Lsn,
        /// Its hash.
        name: Hash,
        /// Its content.
        bytes: Bytes,
    },
    /// A blob was released.
    Erase {
        /// The place of the release in the lane.
        lsn: Lsn,
        /// The blob's hash.
        name: Hash,
    },
    /// A blob was asked for.
    Load(Hash),
    /// The lane may be compacted.
    Compact,
    /// A job was queued.
    Submit {
        /// Whose data it checks.
        peer: Option<NodeId>,
        /// What it costs.
        cost: Cost,
        /// The job; `None` once it was taken.
        job: Option<Box<dyn Any + Send>>,
    },
    /// The local user was told; the unit value once it was handed on.
    Output(Box<dyn Any + Send>),
    /// A peer broke a rule.
    Blame {
        /// Who, in the blamer's own naming.
        peer: NodeId,
        /// Which rule, with evidence.
        fault: Fault,
    },
    /// A rule was applied.
    Applied(Rule),
    /// Something an operator may want to see.
    Note(Note),
    /// A timer was armed, or disarmed when `at` is `None`.
    Timer {
        /// The timer's debug text.
        name: Box<str>,
        /// When it is due, on the node's own clock.
        at: Option<Time>,
    },
}

impl Deed {
    /// Places where a crash can fall behind this deed's start: one per recipient of a send, one for a deed with
    /// consequences outside the machine, none for the rest.
    pub(crate) fn units(&self) -> u64 {
        match self {
            Self::Send { to: To::Set(set), .. } => u64::from(set.count()),
            Self::Applied(_) | Self::Note(_) | Self::Timer { .. } | Self::Blame { .. } => 0,
            _ => 1,
        }
    }

    pub(crate) fn audit(&self, audit: &mut Audit) {
        match self {
            Self::Send { to, queue, body } => {
                audit.word(1 << 8 | u64::from(queue.0));
                audit_to(audit, *to);
                audit.bytes(body);
            }
            Self::Register { to, queue, op } => {
                audit.word(2 << 8 | u64::from(queue.0));
                audit_to(audit, To::Node(*to));
                audit.bytes(&synod_wire::Wire::encode(op));
            }
            Self::Append { lsn, record, .. } => {
                audit.word(3 << 8);
                audit.word(*lsn);
                audit.bytes(record);
            }
            Self::Store { lsn, name, .. } | Self::Erase { lsn, name } => {
                audit.word(4 << 8);
                audit.word(*lsn);
                audit.word(name.short());
            }
            Self::Load(name) => audit.word(5 << 56 ^ name.short()),
            Self::Compact => audit.word(6 << 8),
            Self::Submit { .. } => audit.word(7 << 8),
            Self::Output(_) => audit.word(8 << 8),
            Self::Blame { peer, fault } => {
                audit.word(9 << 32 | u64::from(peer.0));
                audit.bytes(fault.name.as_bytes());
            }
            Self::Applied(rule) => audit.bytes(rule.name.as_bytes()),
            Self::Note(note) => {
                audit.bytes(note.name.as_bytes());
                note.values.iter().for_each(|value| audit.word(*value));
            }
            Self::Timer { name, at } => {
                audit.bytes(name.as_bytes());
                audit.word(at.map_or(u64::MAX, |at| at.0));
            }
        }
    }
}

fn audit_to(audit: &mut Audit, to: To) {
    match to {
        To::Node(id) => audit.word(u64::from(id.0)),
        To::Set(set) => set.iter().for_each(|id| audit.word(1 << 32 | u64::from(id.0))),
    }
}

impl Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to: To::Node(id), queue, body } => {
                write!(f, "send {} q{} {}B", id.0, queue.0, body.len())
            }
            Self::Send { to: To::Set(set), queue, body } => {
                write!(f, "send {set:?} q{} {}B", queue.0, body.len())
            }
            Self::Register { to, op, .. } => write!(f, "register {} {op:?}", to.0),
            Self::Append { lsn, record, .. } => write!(f, "append #{lsn} {}B", record.len()),
            Self::Store { lsn, name, bytes } => write!(f, "store #{lsn} {name:?} {}B", bytes.len()),
            Self::Erase { name, .. } => write!(f, "erase {name:?}"),
            Self::Load(name) => write!(f, "load {name:?}"),
            Self::Compact => f.write_str("compact"),
            Self::Submit { .. } => f.write_str("compute"),
            Self::Output(_) => f.write_str("output"),
            Self::Blame { peer, fault } => write!(f, "blame {} {}", peer.0, fault.name),
            Self::Applied(rule) => write!(f, "rule {}", rule.name),
            Self::Note(note) => write!(f, "note {} {:?}", note.name, note.values),
            Self::Timer { name, at: Some(at) } => write!(f, "arm {name} {at}"),
            Self::Timer { name, at: None } => write!(f, "disarm {name}"),
        }
    }
}

/// What happened to a machine, as checkers and traces see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Seen {
    /// The machine was rebuilt from these records; `Start` follows.
    Opened {
        /// What the journal found.
        condition: Condition,
        /// The records it was given, oldest first.
        records: Vec<Bytes>,
    },
    /// The first event.
    Start,
    /// The local user asked; the value was consumed by the machine.
    Input,
    /// A peer spoke.
    Frame(Frame),
    /// A memory node answered.
    Registered {
        /// The memory node.
        from: NodeId,
        /// What it said.
        reply: RegisterReply,
    },
    /// These timers were due, in (time, name) order. One that an earlier firing disarms does not fire.
    Timers(Vec<Box<str>>),
    /// A job was answered.
    Done,
    /// A blob was read.
    Loaded {
        /// Its name.
        name: Hash,
        /// Whether it was there and undamaged.
        found: bool,
    },
    /// A connection changed.
    Link {
        /// The peer at the other end.
        peer: NodeId,
        /// What became of it.
        link: Link,
    },
    /// The lane is durable up to here; what waited for it leaves now.
    Durable(Lsn),
    /// A strategy sends what it held back or made up; no machine took part.
    Strategy,
}

impl Seen {
    pub(crate) fn audit(&self, audit: &mut Audit) {
        match self {
            Self::Opened { records, .. } => {
                audit.word(101);
                records.iter().for_each(|record| audit.bytes(record));
            }
            Self::Start => audit.word(102),
            Self::Input => audit.word(103),
            Self::Frame(frame) => {
                audit.word(104 << 32 | u64::from(frame.from.0));
                audit.word(u64::from(frame.queue.0));
                audit.bytes(&frame.body);
            }
            Self::Registered { from, reply } => {
                audit.word(110 << 32 | u64::from(from.0));
                audit.bytes(&synod_wire::Wire::encode(reply));
            }
            Self::Timers(names) => names.iter().for_each(|name| audit.bytes(name.as_bytes())),
            Self::Done => audit.word(105),
            Self::Loaded { name, found } => audit.word(name.short() ^ u64::from(*found)),
            Self::Link { peer, link } => {
                audit.word(106 << 32 | u64::from(peer.0));
                audit.word(u64::from(*link == Link::Up));
            }
            Self::Durable(lsn) => audit.word(108 << 32 ^ *lsn),
            Self::Strategy => audit.word(109),
        }
    }
}

/// The platform of one call: writes down what a hosted machine asks for, and carries nothing out.
///
/// Places in the lane are reserved at once, so that the machine learns them; whoever made it writes the records, blobs
/// and releases that stand in `deeds` afterwards, in that order. A call adds as many deeds as the machine's turn has
/// effects.
pub struct Capture<'a> {
    /// What was asked for, added at the end, oldest first.
    pub deeds: &'a mut Vec<Deed>,
    /// Where places are reserved.
    pub storage: &'a mut dyn Storage,
    /// The machine's lane there.
    pub lane: u8,
}

impl Platform for Capture<'_> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.deeds.push(Deed::Send { to, queue, body });
    }
    fn register(&mut self, to: NodeId, queue: Queue, op: &RegisterOp) {
        self.deeds.push(Deed::Register { to, queue, op: *op });
    }
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        let lsn = self.storage.reserve(self.lane);
        self.deeds.push(Deed::Append { lsn, keep, record });
        lsn
    }
    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        let lsn = self.storage.reserve(self.lane);
        self.deeds.push(Deed::Store { lsn, name, bytes });
        lsn
    }
    fn erase(&mut self, name: Hash) {
        let lsn = self.storage.reserve(self.lane);
        self.deeds.push(Deed::Erase { lsn, name });
    }
    fn load(&mut self, name: Hash) {
        self.deeds.push(Deed::Load(name));
    }
    fn compact(&mut self) {
        self.deeds.push(Deed::Compact);
    }
    fn submit(&mut self, job: ErasedJob) {
        self.deeds.push(Deed::Submit { peer: job.peer, cost: job.cost, job: Some(job.job) });
    }
    fn output(&mut self, output: Box<dyn Any + Send>) {
        self.deeds.push(Deed::Output(output));
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.deeds.push(Deed::Blame { peer, fault });
    }
    fn applied(&mut self, rule: Rule) {
        self.deeds.push(Deed::Applied(rule));
    }
    fn note(&mut self, note: Note) {
        self.deeds.push(Deed::Note(note));
    }
    fn timer(&mut self, name: &dyn Debug, at: Option<Time>) {
        self.deeds.push(Deed::Timer { name: format!("{name:?}").into_boxed_str(), at });
    }
}

#[cfg(test)]
mod tests {
    use synod_quorum::NodeSet;

    use super::*;

    #[test]
    fn a_send_to_k_recipients_has_k_units() {
        let send = |to| Deed::Send { to, queue: Queue::CONTROL, body: Bytes::new() };
        assert_eq!(send(To::Set(NodeSet::first(3))).units(), 3);
        assert_eq!(send(To::Node(NodeId(200))).units(), 1);
        assert_eq!(Deed::Applied(Rule { protocol: "p", name: "r" }).units(), 0);
        assert_eq!(Deed::Output(Box::new(())).units(), 1);
    }
}
