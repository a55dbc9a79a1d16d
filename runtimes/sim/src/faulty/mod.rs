//! Byzantine nodes: strategies that edit what an honest machine does, before it leaves the node.
//!
//! A [`Strategy`] works on frames and needs no protocol; [`generic`] makes the ones that know none. A crate that
//! knows a protocol gives [`Levers`] to mutate and sign its messages again, or whole strategies.

mod asking;
mod generic;
mod levers;
mod strategy;
mod touched;

pub use asking::{Again, Burst};
pub use generic::{Delay, Flood, Mutate, Replay, Silent, WorstCrash, generic};
pub use levers::{Lever, LeverKind, Levers, Mutator, Opened, Pull};
pub use strategy::{Act, BOARD_MAX, Board, Kept, Strategy};
pub(crate) use touched::{sent, touched};
