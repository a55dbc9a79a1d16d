//! The user of a world: gets outputs, gives inputs.

use core::any::Any;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

/// An output that a connector gave to the harness.
pub struct Told {
    /// When, in virtual time.
    pub time: Time,
    /// Which node said it.
    pub node: NodeId,
    /// Which of its machines.
    pub machine: u8,
    /// What it said.
    pub output: Box<dyn Any + Send>,
}

/// An input that was not taken.
pub struct Refused {
    /// When, in virtual time.
    pub time: Time,
    /// Which node refused it, or was down.
    pub node: NodeId,
    /// Which of its machines.
    pub machine: u8,
    /// The input.
    pub input: Box<dyn Any + Send>,
}

/// Where a harness leaves its wishes; they are carried out when its call returns.
pub struct Desk {
    pub(crate) now: Time,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) stopped: bool,
}

pub(crate) enum Wish {
    Input { after: Span, node: NodeId, machine: u8, value: Box<dyn Any + Send> },
    Wake { after: Span, token: u64 },
}

impl Desk {
    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Gives a machine an input after a while; it is refused when the machine has no room or the node is down.
    pub fn input(&mut self, node: NodeId, machine: u8, after: Span, value: impl Any + Send) {
        self.wishes.push(Wish::Input { after, node, machine, value: Box::new(value) });
    }

    /// Calls [`Harness::wake`] after a while.
    pub fn wake(&mut self, after: Span, token: u64) {
        self.wishes.push(Wish::Wake { after, token });
    }

    /// Ends the present [`World::run`](crate::World::run).
    pub const fn stop(&mut self) {
        self.stopped = true;
    }
}

/// The workload and the observer of a run.
pub trait Harness {
    /// A machine told its user something.
    fn told(&mut self, told: Told, desk: &mut Desk);
    /// An input was not taken.
    fn refused(&mut self, _refused: Refused, _desk: &mut Desk) {}
    /// A wish of [`Desk::wake`] is due.
    fn wake(&mut self, _token: u64, _desk: &mut Desk) {}
    /// A node started, for the `incarnation`-th time.
    fn started(&mut self, _node: NodeId, _incarnation: u32, _desk: &mut Desk) {}
}

/// Keeps every output.
impl Harness for Vec<Told> {
    fn told(&mut self, told: Told, _: &mut Desk) {
        self.push(told);
    }
}

/// Ignores every output.
impl Harness for () {
    fn told(&mut self, _: Told, _: &mut Desk) {}
}

/// What waits to be given to the harness.
pub(crate) enum Report {
    Told(Told),
    Refused(Refused),
    Wake(u64),
    Started(NodeId, u32),
}
