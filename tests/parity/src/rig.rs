//! What a runtime must offer to be tested, and what it is given.

use core::any::Any;
use core::fmt::Debug;
use std::sync::Arc;

use synod_machine::host::{Hosted, LaneLog};
use synod_net::Deliveries;
use synod_quorum::NodeId;

use crate::{JobGate, Log};

/// One node and the machines it hosts.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its id: members are numbered by their place from 0, guests from 128.
    pub id: NodeId,
    /// Its machines, in the order in which they recover; a guest has one.
    pub machines: Vec<u8>,
}

/// What a machine is built from.
pub struct Opening {
    /// The node.
    pub own: NodeId,
    /// The machine's number.
    pub machine: u8,
    /// Its lane.
    pub log: LaneLog,
    /// The run's seed.
    pub seed: u64,
    /// What the node's jobs wait in front of.
    pub gate: Arc<JobGate>,
}

/// Builds a machine; it must recover.
pub type Open = dyn Fn(Opening) -> Box<dyn Hosted> + Send + Sync;

/// Routes an output of a machine: (node, machine, output).
pub type Route<T> = dyn Fn(NodeId, u8, Box<dyn Any + Send>) -> Went<T> + Send + Sync;

/// Where an output goes.
pub enum Went<T> {
    /// Into the node's log.
    Told(T),
    /// To another machine of the node.
    Passed(Passed),
    /// Both.
    Both(T, Passed),
    /// Nowhere.
    Dropped,
}

/// An input on its way to another machine of the same node.
pub struct Passed {
    pub(crate) machine: u8,
    pub(crate) input: Box<dyn Any + Send>,
    deliver: fn(u8, Box<dyn Any + Send>, &mut Deliveries<'_>),
    deliver_shm: fn(u8, Box<dyn Any + Send>, &mut synod_shm::Deliveries<'_>),
}

impl Passed {
    /// `input` for `machine`.
    pub fn new<I: Any + Send>(machine: u8, input: I) -> Self {
        let deliver = |machine: u8, input: Box<dyn Any + Send>, deliveries: &mut Deliveries<'_>| {
            if let Ok(input) = input.downcast::<I>() {
                deliveries.input(machine, *input);
            }
        };
        let deliver_shm = |machine: u8, input: Box<dyn Any + Send>, to: &mut synod_shm::Deliveries<'_>| {
            if let Ok(input) = input.downcast::<I>() {
                to.input(machine, *input);
            }
        };
        Self { machine, input: Box::new(input), deliver, deliver_shm }
    }

    pub(crate) fn deliver(self, deliveries: &mut Deliveries<'_>) {
        (self.deliver)(self.machine, self.input, deliveries);
    }

    pub(crate) fn deliver_shm(self, deliveries: &mut synod_shm::Deliveries<'_>) {
        (self.deliver_shm)(self.machine, self.input, deliveries);
    }
}

/// What a rig runs.
#[derive(Clone)]
pub struct Plan<T> {
    /// The nodes; members first.
    pub seats: Vec<Seat>,
    /// The seed of the machines' random streams and of their keys.
    pub seed: u64,
    /// Threads for jobs of each node.
    pub pool: u32,
    /// Builds machines.
    pub open: Arc<Open>,
    /// Routes outputs.
    pub route: Arc<Route<T>>,
}

impl<T> Plan<T> {
    /// Nodes that are members.
    #[must_use]
    pub fn members(&self) -> usize {
        self.seats.iter().filter(|seat| seat.id.is_member()).count()
    }

    /// The machines that guests speak to: those of their own numbers.
    pub(crate) fn for_guests(&self) -> Vec<u8> {
        let guests = self.seats.iter().filter(|seat| !seat.id.is_member());
        guests.flat_map(|seat| seat.machines.iter().copied()).collect()
    }

    /// Links a node has when everybody is up: members with all, guests with members.
    pub(crate) fn links(&self, place: usize) -> usize {
        let member = self.seats.get(place).is_some_and(|seat| seat.id.is_member());
        if member { self.seats.len() - 1 } else { self.members() }
    }
}

/// How a node's disk behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// As it should.
    Works,
    /// No sync ends until it works again.
    Holds,
    /// The next write fails.
    FailsWrite,
    /// The next sync fails.
    FailsSync,
}

/// A runtime under test. Nodes are named by their place in the plan.
pub trait Rig<T: Clone + Debug + Send + 'static>: Sized {
    /// Starts every node and waits until all are linked.
    fn start(plan: Plan<T>) -> Self;
    /// Gives a machine an input.
    fn input<I: Any + Send>(&mut self, place: usize, machine: u8, input: I);
    /// Advances until `done` holds of the logs, or fails.
    fn until(&mut self, what: &str, done: impl Fn(&[Log<T>]) -> bool);
    /// What was seen of a node so far.
    fn log(&self, place: usize) -> Log<T>;
    /// Syncs of a member's disk so far.
    fn syncs(&self, place: usize) -> u64;
    /// Breaks the link between two members; it comes up again by itself.
    fn break_link(&mut self, a: usize, b: usize);
    /// Ends a member's process at once: what was not durable is lost, what it would still have said is not heard.
    fn crash(&mut self, place: usize);
    /// Starts a member that crashed or ended, on a disk that works.
    fn restart(&mut self, place: usize);
    /// Changes a member's disk.
    fn disk(&mut self, place: usize, disk: Disk);
    /// Holds the answers of jobs that are given from now on for about a second, or until the node crashes.
    fn hold_jobs(&mut self, place: usize);
    /// Says that this member is going to break the rules.
    fn corrupt(&mut self, place: usize);
    /// Ends all nodes; fails if one of them panicked.
    fn stop(self);
}
