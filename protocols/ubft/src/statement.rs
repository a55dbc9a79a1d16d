//! What replicas sign (specification, section 3.4): each statement names its signer, in its own domain.

use synod_crypto::Hash;
use synod_wire::wire;

use crate::batch::{Slot, View};
use crate::certificate::Checkpoint;

wire! {
    /// A sentence a replica signs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Statement {
        /// Message `k` of this broadcaster has this digest, and no other (Alg. 1, line 4).
        1 = Broadcast {
            /// The broadcaster.
            signer: u8,
            /// The number of the message, from 1.
            k: u64,
            /// Of its body.
            digest: Hash,
        },
        /// The proposal of a slot in a view is this batch (Alg. 2, line 22).
        2 = Certify {
            /// Who says so.
            signer: u8,
            /// The view.
            view: View,
            /// The slot.
            slot: Slot,
            /// Of the batch.
            digest: Hash,
        },
        /// This is the state behind all slots below (Alg. 2, line 47).
        3 = Checkpoint {
            /// Who says so.
            signer: u8,
            /// The state.
            checkpoint: Checkpoint,
        },
        /// Message `k` of a broadcaster leaves its stream in this state (Alg. 4, line 2).
        4 = Summary {
            /// Who says so.
            signer: u8,
            /// The broadcaster.
            about: u8,
            /// The message.
            k: u64,
            /// Of the state.
            state: Hash,
        },
        /// A replica that left for a view stood here (Alg. 3, line 11).
        5 = Left {
            /// Who says so.
            signer: u8,
            /// The view that was gone to.
            view: View,
            /// The replica that left.
            about: u8,
            /// The first slot that its checkpoint does not have.
            low: Slot,
            /// Of its checkpoint.
            checkpoint: Hash,
            /// Of what it is committed to.
            commits: Hash,
        },
    }
}

impl Statement {
    /// Who signs it.
    #[must_use]
    pub const fn signer(&self) -> u8 {
        match self {
            Self::Broadcast { signer, .. }
            | Self::Certify { signer, .. }
            | Self::Checkpoint { signer, .. }
            | Self::Summary { signer, .. }
            | Self::Left { signer, .. } => *signer,
        }
    }
}

impl synod_crypto::Statement for Statement {
    const PROTOCOL: u8 = 2;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        match self {
            Self::Broadcast { .. } => 1,
            Self::Certify { .. } => 2,
            Self::Checkpoint { .. } => 3,
            Self::Summary { .. } => 4,
            Self::Left { .. } => 5,
        }
    }
}
