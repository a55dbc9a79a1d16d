//! What the world can do to a journal.
//!
//! Every variant names its SYN code. Errors of a write or a sync are final: the journal that met one
//! answers every later call with the same error and the process above it stops, because nobody knows
//! which of the written pages reached the disk.

use std::io;
use std::sync::Arc;

/// A failure of the disk under a journal, or a data directory that is not ours to use.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process, or another journal of this one, uses the data directory.
    #[error("SYN-1112 data_dir_locked: process {pid} uses this data directory")]
    Locked {
        /// The process that holds the lock; 0 when it left no readable number.
        pid: u32,
    },
    /// The directory belongs to another cluster, another member or another set of machines.
    #[error("SYN-1108 foreign_data_dir: segment {segment} was written for another {what}")]
    Foreign {
        /// The segment that shows it.
        segment: u64,
        /// The field of the header that differs.
        what: &'static str,
    },
    /// `create` found a journal.
    #[error("SYN-1109 already_initialised: the data directory holds a journal")]
    AlreadyInitialised,
    /// A newer release wrote this journal; there is no downgrade.
    #[error("SYN-1110 format_newer: segment {segment} at byte {offset} holds {what}")]
    Newer {
        /// The segment that holds it.
        segment: u64,
        /// Where in the segment, in bytes.
        offset: u64,
        /// What this release does not know.
        what: &'static str,
    },
    /// The journal cannot be opened, or a blob that must be kept cannot be read back.
    #[error("SYN-5001 journal_corrupt: segment {segment} at byte {offset}: {why}")]
    Corrupt {
        /// The segment; 0 when there is none at all.
        segment: u64,
        /// Where in the segment, in bytes.
        offset: u64,
        /// What was found there.
        why: &'static str,
    },
    /// The disk refused a read or a listing.
    #[error("SYN-5001 journal_corrupt: reading {file}: {source}")]
    Read {
        /// The file, or `.` for the directory.
        file: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The disk refused a write or a sync, or took only a part of it. The node stops.
    #[error("SYN-5004 journal_write_failed: {step} of {file}: {source}")]
    Write {
        /// The step that failed.
        step: &'static str,
        /// The file, or `.` for the directory.
        file: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The journal thread has ended; nothing more is taken.
    #[error("SYN-5004 journal_write_failed: the journal is closed")]
    Closed,
}

impl Error {
    /// The SYN code of this failure.
    pub fn code(&self) -> u16 {
        match self {
            Error::Foreign { .. } => 1108,
            Error::AlreadyInitialised => 1109,
            Error::Newer { .. } => 1110,
            Error::Locked { .. } => 1112,
            Error::Corrupt { .. } | Error::Read { .. } => 5001,
            Error::Write { .. } | Error::Closed => 5004,
        }
    }

    pub(crate) fn read(file: &str, source: io::Error) -> Self {
        Error::Read { file: file.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn write(step: &'static str, file: &str, source: io::Error) -> Self {
        Error::Write { step, file: file.to_owned(), source: Arc::new(source) }
    }
}
