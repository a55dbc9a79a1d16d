//! What lanes submit to the journal thread. Bounds are the queue's, in [`crate::thread`].

use bytes::Bytes;

use crate::compact::Snapshot;
use crate::config::{self, Keep};

/// One write of a list that a lane submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A record.
    Append(Keep, Bytes),
    /// A blob, named by the BLAKE3 of its bytes.
    Store([u8; 32], Bytes),
    /// The release of a blob.
    Erase([u8; 32]),
}

/// What a lane asks of the journal thread.
#[derive(Debug)]
pub(crate) enum Request {
    Append { lane: u8, keep: Keep, body: Bytes },
    Store { lane: u8, name: [u8; 32], bytes: Bytes },
    Erase { lane: u8, name: [u8; 32] },
    Load { lane: u8, name: [u8; 32] },
    Snapshot { lane: u8, records: Snapshot },
    Readmit { lane: u8 },
}

impl Request {
    /// A write of `lane`.
    pub(crate) fn write(lane: u8, write: Write) -> Self {
        match write {
            Write::Append(keep, body) => Self::Append { lane, keep, body },
            Write::Store(name, bytes) => Self::Store { lane, name, bytes },
            Write::Erase(name) => Self::Erase { lane, name },
        }
    }

    /// Bytes it holds.
    pub(crate) fn bytes(&self) -> u64 {
        config::bytes(match self {
            Request::Append { body, .. } => body.len(),
            Request::Store { bytes, .. } => bytes.len(),
            Request::Snapshot { records, .. } => records.iter().map(|(_, body)| body.len()).sum(),
            Request::Erase { .. } | Request::Load { .. } | Request::Readmit { .. } => 0,
        })
    }
}
