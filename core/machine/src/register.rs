//! The vocabulary of disaggregated memory: single-writer regions that any runtime can serve, as frames to a memory
//! node or in place on mapped memory (uBFT).

use synod_wire::{Blob, wire};

/// Largest read or write of a register, in bytes.
pub const REGISTER_MAX: usize = 64 << 10;

wire! {
    /// A read or write of a region.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum RegisterOp {
        /// Overwrites bytes of a region the sender owns.
        0 = Write {
            /// Chosen by the sender, returned in the answer.
            tag: u64,
            /// The region.
            region: u32,
            /// First byte.
            offset: u32,
            /// What to write.
            bytes: Blob<REGISTER_MAX>,
        },
        /// Reads bytes of any region.
        1 = Read {
            /// Chosen by the sender, returned in the answer.
            tag: u64,
            /// The region.
            region: u32,
            /// First byte.
            offset: u32,
            /// How many bytes, at most [`REGISTER_MAX`].
            length: u32,
        },
    }

    /// A memory node's answer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum RegisterReply {
        /// The write is complete.
        0 = Written {
            /// The tag of the operation.
            tag: u64,
            /// The memory node's boot number: a node restarted empty has a new one.
            boot: u64,
        },
        /// What was read.
        1 = Value {
            /// The tag of the operation.
            tag: u64,
            /// The memory node's boot number.
            boot: u64,
            /// The bytes; 8-byte words are never torn.
            bytes: Blob<REGISTER_MAX>,
        },
        /// Refused: no such region, outside it, or not the owner.
        2 = Refused {
            /// The tag of the operation.
            tag: u64,
        },
    }
}
