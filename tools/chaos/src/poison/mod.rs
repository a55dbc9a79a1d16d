//! Bad input by the thousand, the same to every node: as a faulty member, as a guest, and at the gateways.
//!
//! *What.* [`Input`] is what one index gives: a frame or a request, drawn by the structured generators of the fuzz
//! targets. [`pour`] gives all inputs of a [`Dose`] to one node and counts what it took.
//!
//! *Why.* testing.md, N14. Decoders are fuzzed one by one in their crate; here the bytes meet sockets, threads and a
//! load, and what one node survives must not fell the next.
//!
//! *A member's frames.* A connection ends at its third frame that does not decode, and the member's key is locked out
//! for 1 s, then 2 s, up to 60 s. So nine tenths of its frames decode: they are well-formed messages with drawn views,
//! digests and signatures. Guests draw a new key per connection and send whatever they like.
//!
//! *Bounds.* One connection at a time per way into a node; an answer is read for at most 1 s.

mod input;
mod pour;

pub use input::{Input, Way};
pub(crate) use pour::learned;
pub use pour::{Dose, Tally, Victim, pour};
