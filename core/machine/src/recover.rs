//! Records, and how a machine comes back from them.

use core::fmt;

use synod_wire::Wire;

use crate::{Machine, QueueSpec};

/// A promise as the journal keeps it.
pub trait Record: Wire {
    /// The version byte in front of every record.
    const VERSION: u8 = 1;

    /// Where it is kept.
    fn keep(&self) -> Keep {
        Keep::Log
    }
}

/// Where a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In the lane's log.
    Log,
    /// In the log and, as the newest safety record, in the lane's alternating slots. At most 4,000 bytes.
    LogAndSlot,
}

/// What the journal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Made by `synod init` and never opened.
    Fresh,
    /// Everything that was promised is here.
    Clean,
    /// Promises may be missing: the machine must not promise anything until its protocol readmits it.
    Damaged,
}

/// The log of one lane, oldest record first, starting with the newest snapshot.
pub struct Log<'a, R> {
    /// What the journal found.
    pub condition: Condition,
    /// The records that could be read.
    pub records: &'a mut dyn Iterator<Item = R>,
}

/// A log from which a machine cannot be rebuilt, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecoverable(pub String);

impl fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot recover: {}", self.0)
    }
}

impl core::error::Error for Unrecoverable {}

/// A machine that can be hosted: built from its configuration and its log.
pub trait Recover: Machine {
    /// Validated configuration.
    type Config;

    /// The outgoing queues, in the order of [`crate::Queue`] indices.
    fn queues(config: &Self::Config) -> Vec<QueueSpec>;

    /// Rebuilds the machine; emits nothing. No event comes before the whole log was replayed.
    ///
    /// # Errors
    /// [`Unrecoverable`] when the log contradicts itself or the configuration.
    fn recover(config: Self::Config, log: Log<'_, Self::Record>) -> Result<Self, Unrecoverable>;

    /// Puts records equivalent to the whole log: `recover(config, snapshot(m))` keeps every promise of `m`.
    fn snapshot(&self, put: &mut dyn FnMut(Self::Record));
}
