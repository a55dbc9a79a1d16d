//! Crash-point enumeration: a crash at every boundary between two effects, with every outcome of the disk.
//!
//! *What it gives.* [`enumerate`] plays one fixed conversation per system. For each member, each boundary between two
//! effects (a send to k members has k + 1) and each storage outcome it crashes the member there, rebuilds it from what
//! the disk kept, and lets the tempter offer it contradictions of everything it may have promised. The signature oracle
//! fails on two statements of one conflict key, on either side of the crash; the promise checker (X3) demands that what
//! was sent was written before and that what was acknowledged is still there. For the journal alone a start must find
//! a prefix of what was written. Of Chop Chop servers and clients crash: `chop`. Of Astro
//! each member does: `pay`.
//!
//! *Tokens.* Each outcome is named `crash:SYSTEM:MEMBER:BOUNDARY:OUTCOME:DISK@COMMIT`; [`again`] repeats it.
//!
//! *Bounds.* One conversation per system in memory, one member at a time per job.

mod chop;
pub(crate) mod control;
mod enumerate;
mod journal;
mod judge;
mod lone;
mod outcomes;
mod pay;
mod point;
mod report;
mod rig;
mod tape;
mod taped;
mod tempter;

pub use enumerate::{SYSTEMS, again, enumerate};
pub use point::{BadPoint, Point};
pub use report::{CrashReport, Failure, Order, SystemReport};

#[cfg(test)]
mod tests;
