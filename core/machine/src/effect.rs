//! What a machine can say should happen, and where it says it.

use core::fmt;

use synod_crypto::Hash;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use crate::{Fault, Machine, Note, Rule, Span};

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One node, member or guest.
    Node(NodeId),
    /// Own members; a set that contains the sender loops back as a later event.
    Set(NodeSet),
}

impl From<NodeId> for To {
    fn from(id: NodeId) -> Self {
        Self::Node(id)
    }
}

impl From<NodeSet> for To {
    fn from(set: NodeSet) -> Self {
        Self::Set(set)
    }
}

/// One effect, as tests compare them.
pub enum Effect<M: Machine> {
    /// Best effort to one node or a set.
    Send {
        /// Whom it is for.
        to: To,
        /// What is said.
        message: M::Message,
    },
    /// Fires once at or after now + `after`.
    Arm {
        /// The timer's name.
        timer: M::Timer,
        /// How long from now.
        after: Span,
    },
    /// Never fires, unless armed again.
    Disarm(M::Timer),
    /// Appends a promise to the machine's lane.
    Persist(M::Record),
    /// Much of the lane is obsolete.
    Compact,
    /// Adds a content-addressed blob to the lane.
    Store {
        /// The blob's hash.
        name: Hash,
        /// Its content.
        bytes: Bytes,
    },
    /// Asks for a blob.
    Load(Hash),
    /// Releases a blob.
    Erase(Hash),
    /// Starts a job.
    Compute(M::Job),
    /// Tells the local user.
    Output(M::Output),
    /// A peer broke a rule.
    Blame {
        /// Who.
        peer: NodeId,
        /// Which rule, with evidence.
        fault: Fault,
    },
    /// A rule of the protocol was applied.
    Applied(Rule),
    /// Something an operator may want to see.
    Note(Note),
}

impl<M: Machine> fmt::Debug for Effect<M>
where
    M::Message: fmt::Debug,
    M::Record: fmt::Debug,
    M::Job: fmt::Debug,
    M::Output: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, message } => write!(f, "send {to:?} {message:?}"),
            Self::Arm { timer, after } => write!(f, "arm {timer:?} after {after}"),
            Self::Disarm(timer) => write!(f, "disarm {timer:?}"),
            Self::Persist(record) => write!(f, "persist {record:?}"),
            Self::Compact => f.write_str("compact"),
            Self::Store { name, bytes } => write!(f, "store {name:?} of {} bytes", bytes.len()),
            Self::Load(name) => write!(f, "load {name:?}"),
            Self::Erase(name) => write!(f, "erase {name:?}"),
            Self::Compute(job) => write!(f, "compute {job:?}"),
            Self::Output(output) => write!(f, "output {output:?}"),
            Self::Blame { peer, fault } => write!(f, "blame {peer} for {}", fault.name),
            Self::Applied(rule) => write!(f, "applied {}", rule.name),
            Self::Note(note) => write!(f, "note {} {:?}", note.name, note.values),
        }
    }
}

impl<M: Machine> PartialEq for Effect<M>
where
    M::Message: PartialEq,
    M::Record: PartialEq,
    M::Job: PartialEq,
    M::Output: PartialEq,
{
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Send { to, message }, Self::Send { to: t, message: m }) => to == t && message == m,
            (Self::Arm { timer, after }, Self::Arm { timer: t, after: a }) => timer == t && after == a,
            (Self::Disarm(a), Self::Disarm(b)) => a == b,
            (Self::Persist(a), Self::Persist(b)) => a == b,
            (Self::Compact, Self::Compact) => true,
            (Self::Store { name, bytes }, Self::Store { name: n, bytes: b }) => name == n && bytes == b,
            (Self::Load(a), Self::Load(b)) | (Self::Erase(a), Self::Erase(b)) => a == b,
            (Self::Compute(a), Self::Compute(b)) => a == b,
            (Self::Output(a), Self::Output(b)) => a == b,
            (Self::Blame { peer, fault }, Self::Blame { peer: p, fault: f }) => peer == p && fault == f,
            (Self::Applied(a), Self::Applied(b)) => a == b,
            (Self::Note(a), Self::Note(b)) => a == b,
            _ => false,
        }
    }
}

/// Where effects go, one method per verb, in program order.
pub trait Sink<M: Machine> {
    /// See [`crate::Turn::send`].
    fn send(&mut self, to: To, message: M::Message);
    /// See [`crate::Turn::arm`].
    fn arm(&mut self, timer: M::Timer, after: Span);
    /// See [`crate::Turn::disarm`].
    fn disarm(&mut self, timer: M::Timer);
    /// See [`crate::Turn::persist`].
    fn persist(&mut self, record: M::Record);
    /// See [`crate::Turn::compact`].
    fn compact(&mut self);
    /// See [`crate::Turn::store`].
    fn store(&mut self, name: Hash, bytes: Bytes);
    /// See [`crate::Turn::load`].
    fn load(&mut self, name: Hash);
    /// See [`crate::Turn::erase`].
    fn erase(&mut self, name: Hash);
    /// See [`crate::Turn::compute`].
    fn compute(&mut self, job: M::Job);
    /// See [`crate::Turn::output`].
    fn output(&mut self, output: M::Output);
    /// See [`crate::Turn::blame`].
    fn blame(&mut self, peer: NodeId, fault: Fault);
    /// See [`crate::Turn::applied`].
    fn applied(&mut self, rule: Rule);
    /// See [`crate::Turn::note`].
    fn note(&mut self, note: Note);
}

impl<M: Machine> Sink<M> for Vec<Effect<M>> {
    fn send(&mut self, to: To, message: M::Message) {
        self.push(Effect::Send { to, message });
    }
    fn arm(&mut self, timer: M::Timer, after: Span) {
        self.push(Effect::Arm { timer, after });
    }
    fn disarm(&mut self, timer: M::Timer) {
        self.push(Effect::Disarm(timer));
    }
    fn persist(&mut self, record: M::Record) {
        self.push(Effect::Persist(record));
    }
    fn compact(&mut self) {
        self.push(Effect::Compact);
    }
    fn store(&mut self, name: Hash, bytes: Bytes) {
        self.push(Effect::Store { name, bytes });
    }
    fn load(&mut self, name: Hash) {
        self.push(Effect::Load(name));
    }
    fn erase(&mut self, name: Hash) {
        self.push(Effect::Erase(name));
    }
    fn compute(&mut self, job: M::Job) {
        self.push(Effect::Compute(job));
    }
    fn output(&mut self, output: M::Output) {
        self.push(Effect::Output(output));
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.push(Effect::Blame { peer, fault });
    }
    fn applied(&mut self, rule: Rule) {
        self.push(Effect::Applied(rule));
    }
    fn note(&mut self, note: Note) {
        self.push(Effect::Note(note));
    }
}
