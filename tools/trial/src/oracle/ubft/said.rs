//! What members say, in words of the oracle.

use synod_crypto::Hash;

/// Replicas of which one is correct: f + 1 of 2f + 1.
#[must_use]
pub const fn one_correct(replicas: u32) -> usize {
    (replicas / 2 + 1) as usize
}

/// What a share is about: the place, of which there is one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The proposal of a slot in a view.
    Proposal {
        /// The epoch.
        epoch: u32,
        /// The view.
        view: u64,
        /// The slot.
        slot: u64,
    },
    /// The state behind all slots below one.
    Checkpoint {
        /// The epoch.
        epoch: u32,
        /// The slot.
        low: u64,
    },
    /// A stream behind one of its messages.
    Summary {
        /// The epoch.
        epoch: u32,
        /// Whose stream.
        about: u32,
        /// The message.
        k: u64,
    },
    /// Where a replica stood when it left for a view.
    Left {
        /// The epoch.
        epoch: u32,
        /// The view.
        view: u64,
        /// The replica.
        about: u32,
    },
    /// The whole state behind all slots below one.
    Snapshot {
        /// The slot.
        low: u64,
    },
}

/// What a member hears that bears on its promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message of its broadcaster's that proposes something: epoch, broadcaster, number, digest; view and slot.
    Proposed(u32, u32, u64, Hash, (u64, u64)),
    /// Another receiver locked a message: epoch, broadcaster, number, digest.
    Locked(u32, u32, u64, Hash),
}

/// What a member says that an oracle understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// It signs something, for others to count.
    Share(About, Hash),
    /// It shows that others signed something.
    Certificate(About, Hash, Vec<u32>),
    /// It promises to certify a proposal, named by eight bytes.
    WillCertify(u32, u64, u64, u64),
    /// It promises to commit to a proposal, named by eight bytes.
    WillCommit(u32, u64, u64, u64),
    /// A message of its own stream: epoch, number, and what it says.
    Streamed(u32, u64, Streamed),
    /// It locked a message of a broadcaster: epoch, broadcaster, number, digest.
    Locked(u32, u32, u64, Hash),
    /// It promises to certify what is proposed in a message that it locked: epoch, broadcaster, number, digest.
    Promised(u32, u32, u64, Hash),
    /// It signs a message of its own: epoch, number, digest.
    Signed(u32, u64, Hash),
    /// It writes a register of this epoch.
    Registered(u32),
}

impl Spoken {
    /// The epoch of what only those may say whom it lists.
    #[must_use]
    pub const fn promised_in(&self) -> Option<u32> {
        match self {
            Self::Share(about, _) => about.epoch(),
            Self::Certificate(..) => None,
            Self::WillCertify(epoch, ..)
            | Self::WillCommit(epoch, ..)
            | Self::Streamed(epoch, ..)
            | Self::Locked(epoch, ..)
            | Self::Promised(epoch, ..)
            | Self::Signed(epoch, ..)
            | Self::Registered(epoch) => Some(*epoch),
        }
    }
}

impl About {
    /// The epoch it is of.
    #[must_use]
    pub const fn epoch(&self) -> Option<u32> {
        match self {
            Self::Proposal { epoch, .. }
            | Self::Checkpoint { epoch, .. }
            | Self::Summary { epoch, .. }
            | Self::Left { epoch, .. } => Some(*epoch),
            Self::Snapshot { .. } => None,
        }
    }
}

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// A proposal: view, slot, digest of the batch.
    Prepare(u64, u64, Hash),
    /// A certificate of a proposal: view and slot.
    Commit(u64, u64),
    /// A certificate of a checkpoint: its slot, and where the epoch ends.
    Checkpoint(u64, Option<u64>),
    /// The view that is entered.
    SealView(u64),
    /// What must be proposed in a view.
    NewView(u64),
    /// Something longer than a message may be.
    Ref,
}
