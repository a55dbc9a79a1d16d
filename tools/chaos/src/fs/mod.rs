//! A file system that loses what was not synced.
//!
//! *Model.* Every file has two images: what a reader sees, and what is durable. A write changes the first and joins the
//! file's list of unsynced changes; fsync and fdatasync of the file make that list durable. A directory has the same two
//! forms of its entries: a creation, a rename or a removal is durable once its *directory* was synced, and syncing a
//! file does not make its name durable. At a power cut each unsynced change is kept, dropped or, for a write, torn at
//! 512 bytes, and what is left is the only truth ([`Loss`]). Modes, owners and times are never lost.
//!
//! *After a failed fsync* the changes it was to make durable are never made durable, though readers go on seeing them:
//! that is what systems do which mark pages clean after an error.
//!
//! *Limits.* Regular files and directories; no links, no devices, no extended attributes; a rename across directories
//! is refused with EXDEV. Files are opened for direct I/O, so nothing is cached above this file system.

mod adapter;
mod change;
mod control;
mod copy;
mod cut;
mod faults;
mod image;
mod mount;
mod nodes;
mod state;
mod tree;

#[cfg(test)]
mod tests;

pub use control::Disk;
pub use cut::Loss;
pub use faults::{Cut, Eio, Faults, Hits, Moment, Synced};
pub use mount::{Mounted, Refusal, available};
