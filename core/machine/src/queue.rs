//! Messages and the bounded queues that carry them.

use synod_wire::{Limits, Wire};

use crate::register::{RegisterOp, RegisterReply};

/// The index of an outgoing queue of a machine. Queues are independent; within one, order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue(pub u8);

impl Queue {
    /// Votes, complaints, acknowledgements.
    pub const CONTROL: Self = Self(0);
    /// Proposals and other messages with a payload on the latency path.
    pub const PROPOSAL: Self = Self(1);
    /// State transfer and other traffic that may be dropped.
    pub const BULK: Self = Self(2);

    /// The same queue of a parent that has `own` queues before its child's.
    #[must_use]
    pub const fn under(self, own: u8) -> Self {
        Self(self.0 + own)
    }
}

/// What happens to a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The oldest message gives way: tail broadcast.
    EvictOldest,
    /// The newest message is dropped: bulk.
    DropNewest,
    /// The link closes, which loses a suffix.
    Reset,
}

/// The bounds of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Most messages waiting for one peer.
    pub depth: u32,
    /// Largest frame body, in bytes.
    pub frame_max: u32,
    /// What happens beyond `depth`.
    pub full: Full,
}

impl QueueSpec {
    /// Control: 4,096 frames of 64 KiB; a full queue resets the link.
    pub const CONTROL: Self = Self { depth: 4_096, frame_max: 64 << 10, full: Full::Reset };
    /// Proposal: 256 frames of 4 MiB; a full queue resets the link.
    pub const PROPOSAL: Self = Self { depth: 256, frame_max: 4 << 20, full: Full::Reset };
    /// Bulk: 64 frames of 16 MiB; the newest is dropped.
    pub const BULK: Self = Self { depth: 64, frame_max: 16 << 20, full: Full::DropNewest };

    /// The standard three queues, in the order of [`Queue`]'s constants.
    #[must_use]
    pub fn standard() -> Vec<Self> {
        vec![Self::CONTROL, Self::PROPOSAL, Self::BULK]
    }

    /// The limits a frame of this queue is decoded under.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        Limits { frame_max: self.frame_max }
    }
}

/// What peers say to one another.
pub trait Message: Wire {
    /// The version byte in front of every frame body.
    const VERSION: u8 = 1;

    /// The outgoing queue that carries it.
    fn queue(&self) -> Queue;

    /// A read or write of disaggregated memory, if this message is one.
    fn register(&self) -> Option<&RegisterOp> {
        None
    }

    /// The message that carries a memory node's answer, if this vocabulary has one.
    fn registered(_: RegisterReply) -> Option<Self> {
        None
    }
}
