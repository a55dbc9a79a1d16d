//! Members that forgot: nine ways to lose promises, and what must come of each.
//!
//! *What it gives.* [`cells`] runs the scenarios M1 to M9 that need no sockets, in the simulator or on the machines and
//! the journal themselves. In each cell no member signs two statements of one conflict key, unless it is the one faulty
//! member whose peers hide the evidence; the member halts, refuses to start or listens, and says so; the rest goes on;
//! and once repaired the member promises again by its rejoin rule.
//!
//! *Bounds.* One world per pack and case at a time.

mod disks;
mod lives;
mod report;

pub use report::{CASES, Cell, PROTOCOLS, cells};

#[cfg(test)]
mod tests;
