//! What a disk can be told to do wrong, and what it did.

use std::time::{Duration, Instant};

/// What fails with EIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eio {
    /// Writes, which change nothing then.
    Write,
    /// Syncs of files; what they were to make durable never becomes durable.
    Sync,
}

/// Faults in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// No write, creation or growth succeeds: ENOSPC, also for bytes that have room already, as on a file system that
    /// copies on write.
    pub full: bool,
    /// Writes or syncs fail.
    pub eio: Option<Eio>,
    /// A write takes half of its bytes.
    pub short: bool,
    /// Every write and every sync takes this much longer.
    pub slow: Duration,
}

/// How often faults were met since the disk was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Operations refused with ENOSPC.
    pub full: u64,
    /// Writes refused with EIO.
    pub eio_write: u64,
    /// Syncs refused with EIO.
    pub eio_sync: u64,
    /// Writes cut short.
    pub short: u64,
    /// Operations slowed down.
    pub slow: u64,
}

/// Which side of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It has changed nothing.
    Before,
    /// It has done its work and nobody was told.
    After,
}

/// When the power is to fail: at the operation behind `skip` others that change or sync something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Operations before that one.
    pub skip: u64,
    /// Before or after it.
    pub moment: Moment,
}

/// A sync of a file that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// When it was done.
    pub at: Instant,
    /// The name the file was given last.
    pub file: String,
    /// What became durable by it: offset and length of each write, in order.
    pub ranges: Vec<(u64, u64)>,
}
