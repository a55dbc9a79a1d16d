//! What replicas say by Consistent Tail Broadcast (specification, section 3.4).

use synod_crypto::Hash;
use synod_wire::{List, wire};

use crate::batch::{Batch, Slot, View};
use crate::certificate::{Certificate, Certified, Checkpoint, Left, REPLICAS_MAX};

/// A certificate of a proposal.
pub type CertifiedBy = Certificate<Certified>;
/// A certificate of a checkpoint.
pub type CheckpointBy = Certificate<Checkpoint>;
/// A certificate of where a replica stood.
pub type LeftBy = Certificate<Left>;

wire! {
    /// One message of a replica's stream.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Body {
        /// The leader proposes (Alg. 2, line 17).
        0 = Prepare {
            /// In this view.
            view: View,
            /// For this slot.
            slot: Slot,
            /// This batch.
            batch: Batch,
        },
        /// The proposal is certified (Alg. 2, line 36).
        1 = Commit(CertifiedBy),
        /// The state up to a slot is certified (Alg. 2, line 61).
        2 = Checkpoint(CheckpointBy),
        /// The sender is in this view from now on (Alg. 3, line 6).
        3 = SealView(View),
        /// The leader shows what it must propose (Alg. 3, line 16).
        4 = NewView {
            /// In this view.
            view: View,
            /// Where f + 1 replicas stood.
            left: List<LeftBy, REPLICAS_MAX>,
        },
        /// One of the above that is longer than a message may be, by its digest and length (D3).
        5 = Ref {
            /// Of the encoding.
            digest: Hash,
            /// Its bytes.
            length: u32,
        },
    }
}
