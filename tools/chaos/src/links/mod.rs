//! The links between members, as proxies that can be hurt.
//!
//! *What.* [`Links`] listens once per member; the others dial it there, and it dials the member. Who dialled is asked of
//! the system ([`owner`]), so every connection belongs to two directed links, whose [`Manner`] its two directions obey:
//! pass, hold everything, be late, or let one byte a second through. Connections can be reset, left half-open, and have
//! a byte changed. [`Shape`] draws which links a split cuts.
//!
//! *Why.* What TCP itself does to a cluster (backlogs, half-open connections, broken streams) happens below TLS, where a
//! fault inside a node cannot make it happen.
//!
//! *Bounds.* A direction keeps at most 64 chunks of 16 KiB; then it reads no more. One thread carries all of it.

mod carry;
mod owner;
mod proxies;
mod shape;

pub use owner::owner;
pub use proxies::{Counts, Links, Manner, Who};
pub use shape::Shape;

#[cfg(test)]
mod tests;
