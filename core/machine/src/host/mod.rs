//! The erased boundary between machines and runtimes, and the durability gate.
//!
//! Runtimes drive `Box<dyn Hosted>` against a [`Platform`]; frames, records and register values are bytes
//! everywhere, inputs and outputs are typed values inside a process. [`Host`] turns one machine into one `Hosted`:
//! it encodes once per broadcast, decodes under limits, owns the timer table, loops back own messages as later
//! events, and holds sends and outputs until what was issued before them is durable.

mod boundary;
mod gate;
mod machine;
mod placed;
mod sink;
mod timers;

pub use boundary::{
    At, ErasedDone, ErasedJob, Frame, Hosted, Lsn, Platform, QUOTA_EXCEEDED, Runner, UNDECODABLE,
};
pub use gate::{HELD_BYTES_MAX, HELD_MAX};
pub use machine::{Host, HostConfig, LaneLog};
pub use placed::{Place, Placed};
