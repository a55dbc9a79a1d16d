//! Power cuts: nodes whose disks forget what was not synced.
//!
//! Four real node processes keep their data on file systems in memory that this process serves. At a drawn operation of
//! a drawn disk the power of one node, or of all, fails: the processes are killed, what was not synced is kept, dropped
//! or torn as drawn, and they start again on what is left. Clients log what was acknowledged; at the end every
//! acknowledged write must be there exactly once at every member, and nobody may have signed twice.
//!
//! *Order windows.* Syncs of two members are held back. Three of four votes make a certificate, so from then on nothing
//! that is submitted can be acknowledged unless one of the two sent a promise that was not durable.

mod disks;
mod order;
mod report;
mod run;
mod sweep;

pub(crate) use disks::{Disks, Furnished, check};
pub(crate) use run::{Plan, run};
pub(crate) use sweep::sweep;
