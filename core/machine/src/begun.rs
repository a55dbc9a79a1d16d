//! How a view began that is not the first: what of older views is good in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_quorum::{Epoch, NodeSet};

use crate::items::{Context, Lot, View};

/// What a member of a view goes on from. The first view begins with nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Views before it whose certificates may be shown.
    pub older: Vec<Arc<View>>,
    /// All who ever were members: their lanes stay, and those who left fill no new slots.
    pub sources: NodeSet,
    /// By source: slots up to this one were certified in older views, and their certificates stand.
    pub tips: BTreeMap<u8, u64>,
    /// Slots that were open: the one payload that may be endorsed, or none before a certificate of an older view decides.
    pub slots: BTreeMap<Lot, Option<Hash>>,
}

impl Begun {
    /// The older view of a certificate.
    #[must_use]
    pub fn view(&self, context: Context, epoch: Epoch) -> Option<&Arc<View>> {
        self.older.iter().find(|view| (view.context, view.roster.epoch()) == (context, epoch))
    }

    /// Slots of a source up to this one were certified in older views.
    #[must_use]
    pub fn tip(&self, source: u8) -> u64 {
        self.tips.get(&source).copied().unwrap_or_default()
    }

    /// Whether a payload may be endorsed in a slot, as far as older views tell. Up to a tip nothing may but what this member endorsed
    /// before.
    #[must_use]
    pub fn allows(&self, lot: Lot, digest: &Hash) -> bool {
        match self.slots.get(&lot) {
            Some(only) => only.as_ref() == Some(digest),
            None => lot.sequence > self.tip(lot.source),
        }
    }
}
