//! A node's machines at a poller: what they say goes straight into rings, what they hear comes straight out of them.
//!
//! *A tick.* Mail, links, at most [`DRAIN_MAX`] frames of each queue of each peer in the order of the plan, registers
//! in place, jobs, due timers, inputs; then what waits for room in pipes, the journal, and the bells of peers that
//! sleep. One event at a time.
//!
//! *Bounds.* A frame is copied once on each side; bodies up to 1 KiB share blocks. Everything else is bounded by the
//! links, the lanes and the hosts.

mod builder;
mod desk;
mod lines;
mod memory;
mod tick;

pub use builder::{Builder, Hosting};
pub use memory::Memory;
pub use tick::{DRAIN_MAX, Station};

pub(crate) use builder::Plan;
