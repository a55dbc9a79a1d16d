//! Deduplication: which entries of a batch are delivered (paper 4.2, the rule against replays; 5.1, in parallel).
//!
//! Per client the table holds the lowest free sequence number and a tag of the last delivered message, 16 bytes. With
//! k' the number under which an entry comes:
//!
//! 1. no valid signature: VOID, state untouched;
//! 2. something was delivered and the tags are equal: SAME, `next_k = max(next_k, k' + 1)`;
//! 3. `k' < next_k`: STALE, state untouched;
//! 4. else it is delivered, `next_k = k' + 1`, the tag is stored.
//!
//! The delivered set is the paper's (k above the last one, and another message) with message and parity as the message.
//! SAME stands before STALE, so that a retry ordered under a lower number is still told "delivered".
//!
//! *Lanes.* The table is cut into lanes of contiguous ids, which are owned values: a lane moves into a job and returns.
//! Ids of a batch rise, so each lane sees one run of entries, and the runs joined in lane order are the batch. The
//! number of lanes never changes a result.
//!
//! *Bounds.* 16 bytes per client, in chunks of 64 KiB that are shared with checkpoints until written.

mod exceptions;
mod lane;
#[cfg(test)]
mod oracle;
mod table;
#[cfg(test)]
mod tests;

use core::fmt;

use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Writer};

use crate::fixed::Fixed;

pub use exceptions::{EXC_LEAF_BYTES, Exceptions, exceptions_leaves};
pub use lane::{Lane, Run, Runs};
pub use table::{CHUNK_SLOTS, Chunk, Cut, Slot, Table, tag};

/// Why an entry was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is the last delivered message again.
    Same,
    /// Its number is taken.
    Stale,
    /// It has no valid signature.
    Void,
}

impl Reason {
    /// The two bits in the exceptions vector; 0 stands for delivered.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Same => 1,
            Self::Stale => 2,
            Self::Void => 3,
        }
    }

    /// The reason of these two bits; `None` for delivered and for more than two bits.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Same),
            2 => Some(Self::Stale),
            3 => Some(Self::Void),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Stale => "stale",
            Self::Void => "void",
        })
    }
}

impl Fixed for Reason {
    fn put(&self, out: &mut Writer) {
        out.byte(self.code());
    }
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        let code = u8::take(input)?;
        Self::of(code).ok_or(Malformed { why: Why::UnknownTag(code), ..refusal })
    }
}

impl Draw for Reason {
    fn draw(from: &mut Drawn) -> Self {
        match from.below(3) {
            0 => Self::Same,
            1 => Self::Stale,
            _ => Self::Void,
        }
    }
}
