//! Connectors: where a machine's outputs go.

use core::any::Any;

/// Inputs that follow from one output, for machines of this or another reactor of the node.
pub struct Deliveries<'a> {
    pub(crate) inputs: &'a mut Vec<(u8, Box<dyn Any + Send>)>,
}

impl Deliveries<'_> {
    /// Gives `input` to `machine`; it must be of that machine's input type. It waits until the machine has room,
    /// and beyond 1,024 that wait the machine that sent it pauses.
    pub fn input<I: Any + Send>(&mut self, machine: u8, input: I) {
        self.inputs.push((machine, Box::new(input)));
    }
}

/// A total function from an output to inputs, without state of its own; or to the outside, through a channel it
/// holds. It runs on the machine's reactor and must return at once.
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
