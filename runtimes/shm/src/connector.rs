//! Where a machine's outputs go, and who hears of what a station does.

use core::any::Any;

use synod_machine::{Cost, Fault, Link, Note, Rule};
use synod_quorum::NodeId;

/// Inputs that follow from one output, for machines of the same station.
pub struct Deliveries<'a> {
    pub(crate) inputs: &'a mut Vec<(u8, Box<dyn Any + Send>)>,
}

impl Deliveries<'_> {
    /// Gives `input` to `machine`; it must be of that machine's input type. It waits until the machine has room.
    pub fn input<I: Any + Send>(&mut self, machine: u8, input: I) {
        self.inputs.push((machine, Box::new(input)));
    }
}

/// A total function from an output to inputs, without state of its own; or to the outside, through a channel it holds.
/// It runs on the poller and must return at once.
pub trait Connector: Send + Sync {
    /// Takes one output of `machine`.
    fn connect(&self, machine: u8, output: Box<dyn Any + Send>, deliveries: &mut Deliveries<'_>);
}

impl<F> Connector for F
where
    F: Fn(u8, Box<dyn Any + Send>, &mut Deliveries<'_>) + Send + Sync,
{
    fn connect(&self, machine: u8, output: Box<dyn Any + Send>, deliveries: &mut Deliveries<'_>) {
        self(machine, output, deliveries);
    }
}

/// Hears what happens, on the poller's thread: calls must return at once and never call back into the station. Every
/// method does nothing by default.
pub trait Observer: Send + Sync {
    /// A machine, or the runtime itself, blames a peer.
    fn blame(&self, _machine: u8, _peer: NodeId, _fault: &Fault) {}
    /// A machine applied a rule.
    fn applied(&self, _machine: u8, _rule: Rule) {}
    /// A machine published a note.
    fn note(&self, _machine: u8, _note: &Note) {}
    /// A machine sent a message to so many peers whose links are up.
    fn sent(&self, _machine: u8, _peers: u32) {}
    /// A machine asked for a job of this cost.
    fn asked(&self, _machine: u8, _cost: &Cost) {}
    /// A link came up or went down.
    fn link(&self, _peer: NodeId, _link: Link) {}
    /// A caller was not let in, or a peer's memory was refused.
    fn refused(&self, _why: &crate::Error) {}
}

/// Hears nothing.
pub struct Silent;

impl Observer for Silent {}
