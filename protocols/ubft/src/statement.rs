//! What replicas sign (specification, section 3.4): each statement names its signer, in its own domain.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
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
        /// The state behind all slots below has this root (4.12).
        6 = Snapshot {
            /// Who says so.
            signer: u8,
            /// The first slot that it does not have.
            low: Slot,
            /// Of the state.
            root: Hash,
        },
        /// The signer lives anew, and asks to be listed (4.15). Good in every epoch, so its scope is that of the first.
        7 = Rejoin {
            /// Who.
            signer: u8,
            /// Its life.
            incarnation: u64,
        },
        /// A memory node came back empty: the signer saw its boot number. Its scope is that of the first epoch.
        8 = Readmit {
            /// Who says so.
            signer: u8,
            /// Its place among memory nodes.
            memory: u8,
            /// The boot number.
            boot: u64,
        },
        /// The state of the signer's user has this root at a position of the order. Its scope is that of the first epoch.
        9 = Applied {
            /// Who says so.
            signer: u8,
            /// The position.
            position: Position,
            /// Of the user's state.
            root: Hash,
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
            | Self::Left { signer, .. }
            | Self::Snapshot { signer, .. }
            | Self::Rejoin { signer, .. }
            | Self::Readmit { signer, .. }
            | Self::Applied { signer, .. } => *signer,
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
            Self::Snapshot { .. } => 6,
            Self::Rejoin { .. } => 7,
            Self::Readmit { .. } => 8,
            Self::Applied { .. } => 9,
        }
    }
}
