//! One thread, its sockets and its machines.
//!
//! *What it gives.* Each wake-up is one turn: mail from other threads, durability, answers, timers, inputs, frames of
//! peers, then frames of guests, then jobs; at the end everything a peer is to get leaves in one vectored write.
//! Clocks are sampled once per turn. The reactor numbered 0 owns the sockets; further ones host machines whose work
//! must not delay timers (executors), and reach the wire through reactor 0.
//!
//! *Bounds.* A turn handles at most 1,024 frames of peers, 256 of guests and 1,024 of datagram links, 32 of one peer before the next; a
//! connection is not read while its frames wait. A machine that is not ready keeps its frames in their per-peer
//! queues, and nobody else's.

mod conn;
mod datagrams;
mod net;
mod run;
mod slot;
mod turn;
mod waker;

pub(crate) use conn::Wrong;
pub(crate) use net::{Guests, Lines, Net, NetParts};
pub(crate) use run::{Reactor, ReactorParts};
pub(crate) use slot::{Slot, SlotParts, Wires};
pub(crate) use waker::{ConnWaker, ReadyList};
