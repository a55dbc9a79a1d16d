//! What the host sees of a running node: faults, rules, notes, links and failed handshakes.

use synod_machine::{Fault, Link, Note, Rule};
use synod_quorum::NodeId;

use crate::Failure;

/// Hears what happens, on the reactor's thread: calls must return at once and never call back into the node.
/// Every method does nothing by default.
pub trait Observer: Send + Sync {
    /// A machine, or the runtime itself, blames a peer.
    fn blame(&self, _machine: u8, _peer: NodeId, _fault: &Fault) {}
    /// A machine applied a rule.
    fn applied(&self, _machine: u8, _rule: Rule) {}
    /// A machine published a note.
    fn note(&self, _machine: u8, _note: &Note) {}
    /// A link came up or went down.
    fn link(&self, _peer: NodeId, _link: Link) {}
    /// A handshake or dial failed.
    fn failed(&self, _failure: &Failure) {}
}

/// Hears nothing.
pub struct Silent;

impl Observer for Silent {}
