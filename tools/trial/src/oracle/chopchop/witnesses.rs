//! What a witness vouches for: C-S6, C-S7, and C-S2 before anything is ordered.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::{BatchSeen, EntrySeen, Facts, How, tree};
use crate::oracle::{Verdict, breach};

/// Batches that honest stores were shown.
#[derive(Clone, Debug, Default)]
pub struct Witnesses {
    shown: BTreeMap<Hash, BatchSeen>,
    judged: BTreeSet<Hash>,
    cards: BTreeSet<Hash>,
}

impl Witnesses {
    /// A batch reached a store.
    pub fn show(&mut self, digest: Hash, read: impl FnOnce() -> Option<BatchSeen>) {
        if !self.shown.contains_key(&digest)
            && let Some(batch) = read()
        {
            self.shown.insert(digest, batch);
        }
    }

    /// A batch of cards reached a store.
    pub fn show_cards(&mut self, digest: Hash) {
        self.cards.insert(digest);
    }

    /// A batch that was shown.
    #[must_use]
    pub fn get(&self, digest: &Hash) -> Option<&BatchSeen> {
        self.shown.get(digest)
    }

    /// An honest store witnesses a batch.
    ///
    /// # Errors
    /// What it vouches for does not hold.
    pub fn witness(&mut self, cluster: &Hash, facts: &Facts, digest: &Hash) -> Verdict {
        if self.cards.contains(digest) {
            return Ok(());
        }
        let Some(batch) = self.shown.get(digest) else {
            return breach("C-S6", format!("{digest:?} is witnessed by a store that never saw it"));
        };
        if !self.judged.insert(*digest) {
            return Ok(());
        }
        sound(cluster, facts, batch)
    }
}

/// Whether a batch is what honest clients signed.
pub(super) fn sound(cluster: &Hash, facts: &Facts, batch: &BatchSeen) -> Verdict {
    let digest = batch.digest;
    let rises = batch.entries.windows(2).all(|pair| matches!(pair, [a, b] if a.id < b.id));
    if !rises {
        return breach("C-S7", format!("ids of {digest:?} do not rise"));
    }
    if tree::root(cluster, batch.size, &batch.entries) != batch.root {
        return breach("C-S7", format!("the root of {digest:?} is not that of its entries"));
    }
    let Some(entry) = batch.entries.iter().find(|entry| !vouched(facts, batch, entry)) else { return Ok(()) };
    let EntrySeen { id, k, how, .. } = entry;
    breach("C-S2", format!("client {id} did not sign its entry of {digest:?} under {k}: {how:?}"))
}

fn vouched(facts: &Facts, batch: &BatchSeen, entry: &EntrySeen) -> bool {
    let Some(node) = facts.client(entry.id) else { return true };
    match entry.how {
        How::Void => true,
        How::Alone => facts.submitted(node, entry.k, &entry.message, entry.parity),
        How::Together => batch.commit.0.first_chunk().is_some_and(|half| facts.signed(node, half)),
    }
}
