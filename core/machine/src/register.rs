//! The vocabulary of disaggregated memory: single-writer registers that any runtime can serve, as frames to a memory node or in
//! place on mapped memory (uBFT, section 6.1).
//!
//! A *region* belongs to one member in one epoch and has a fixed number of registers. Everybody reads it, its owner alone writes.
//! A register holds one value with a stamp; stamps of a register rise. The memory knows no protocol: values are bytes to it.

use synod_quorum::Epoch;
use synod_wire::wire;

/// Bytes of a register's value.
pub const REGISTER_BYTES: usize = 96;

wire! {
    /// The registers of one member in one epoch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Region {
        /// The epoch, of which a memory node serves two.
        pub epoch: Epoch,
        /// The member that may write.
        pub owner: u8,
    }

    /// A register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Place {
        /// Its region.
        pub region: Region,
        /// Which register of the region, from 0.
        pub index: u32,
    }

    /// What a register holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Held {
        /// The stamp: a write has a larger one than the write before it.
        pub stamp: u64,
        /// The value.
        pub value: [u8; 96],
    }

    /// A read or write of a register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RegisterOp {
        /// Writes a register of the sender's own region.
        0 = Write {
            /// Chosen by the sender, returned in the answer.
            tag: u64,
            /// The register.
            place: Place,
            /// What to write.
            held: Held,
        },
        /// Reads any register.
        1 = Read {
            /// Chosen by the sender, returned in the answer.
            tag: u64,
            /// The register.
            place: Place,
        },
    }

    /// What a memory node says of an operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Said {
        /// The write is complete, or was before.
        0 = Written,
        /// What was read; nothing where nothing was ever written.
        1 = Value(Option<Held>),
        /// Read in place, the register proves that its owner broke the rules of writing: nothing was read.
        2 = Abused,
        /// The epoch is over: registers of it are gone, and hold neither nothing nor anything.
        3 = Retired {
            /// The oldest epoch that is served.
            oldest: Epoch,
        },
        /// No such register, not the sender's, or a stamp that is not larger.
        4 = Refused,
    }

    /// A memory node's answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RegisterReply {
        /// The tag of the operation.
        pub tag: u64,
        /// Its register.
        pub place: Place,
        /// The memory node's boot number: a node that restarted empty has a larger one.
        pub boot: u64,
        /// The answer.
        pub said: Said,
    }
}

impl RegisterOp {
    /// The tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        match self {
            Self::Write { tag, .. } | Self::Read { tag, .. } => *tag,
        }
    }

    /// The register.
    #[must_use]
    pub const fn place(&self) -> Place {
        match self {
            Self::Write { place, .. } | Self::Read { place, .. } => *place,
        }
    }
}
