//! Proofs of broadcasts that go from hand to hand.

use synod_crypto::{Evidence, Hash};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Wire;

use crate::items::{Context, Lot};

/// A proof that a slot has a payload, as [`crate::broadcast::Broadcast::Delivered`] and
/// [`crate::broadcast::ReliableBroadcast::proofs`] encode it. Its signers endorse all items of the payload but those that they
/// except, and an item is proven that a quorum endorses.
pub trait Transferable: Evidence + Wire {
    /// Where it is good, beside cluster and epoch.
    fn context(&self) -> Context;

    /// Which slot.
    fn lot(&self) -> Lot;

    /// What stands for the payload.
    fn digest(&self) -> Hash;

    /// Who signed.
    fn signers(&self) -> NodeSet;

    /// The first signer who excepts an item.
    fn excepting(&self, item: u32) -> Option<NodeId>;

    /// The same of this item alone: by as many signers as a quorum takes, those who endorse it with the shortest lists; `None`
    /// where fewer do.
    fn of_item(&self, item: u32, quorum: u32) -> Option<Self>
    where
        Self: Sized;
}
