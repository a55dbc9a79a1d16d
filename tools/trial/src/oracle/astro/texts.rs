//! Every entry and every batch that anybody showed, by digest.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_ledger::{Entry, EntryId, Opening};

use super::Slot;
use super::reckoning::legs;

/// A payment that an entry says it spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backed {
    /// Its place.
    pub id: EntryId,
    /// Its digest.
    pub digest: Hash,
}

/// A batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSeen {
    /// Its lane and number.
    pub slot: Slot,
    /// Places and digests of its entries.
    pub lines: Vec<(EntryId, Hash)>,
    /// Accounts that it opens.
    pub openings: Vec<Opening>,
    /// What its entries spend, by index.
    pub backed: BTreeMap<u32, Vec<Backed>>,
}

/// What is known by its digest.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    entries: BTreeMap<Hash, Entry>,
    batches: BTreeMap<Hash, BatchSeen>,
    /// Batches that hold an entry, with its index in each.
    carriers: BTreeMap<Hash, Vec<(Hash, u32)>>,
    /// Lanes whose own member sent a batch with an entry.
    lanes: BTreeMap<Hash, Vec<u8>>,
    /// What entries spend.
    backed: BTreeMap<Hash, Vec<Backed>>,
}

impl Texts {
    /// Somebody showed an entry.
    pub fn entry(&mut self, digest: Hash, entry: &Entry) {
        self.entries.entry(digest).or_insert_with(|| entry.clone());
    }

    /// Whether a batch was shown before.
    #[must_use]
    pub fn has(&self, digest: &Hash) -> bool {
        self.batches.contains_key(digest)
    }

    /// Somebody showed a batch.
    pub fn show(&mut self, digest: Hash, batch: BatchSeen) {
        if self.batches.contains_key(&digest) {
            return;
        }
        for (at, (_, line)) in (0_u32..).zip(&batch.lines) {
            self.carriers.entry(*line).or_default().push((digest, at));
            if let Some(with) = batch.backed.get(&at) {
                self.backed.insert(*line, with.clone());
            }
        }
        self.batches.insert(digest, batch);
    }

    /// The member of a batch's lane broadcasts it.
    pub fn broadcast(&mut self, digest: &Hash) {
        let Some(batch) = self.batches.get(digest) else { return };
        for (_, line) in &batch.lines {
            let lanes = self.lanes.entry(*line).or_default();
            if !lanes.contains(&batch.slot.0) {
                lanes.push(batch.slot.0);
            }
        }
    }

    /// Whether a lane's own member broadcast an entry.
    #[must_use]
    pub fn carries(&self, lane: u8, line: &Hash) -> bool {
        self.lanes.get(line).is_some_and(|lanes| lanes.contains(&lane))
    }

    /// An entry.
    #[must_use]
    pub fn get(&self, digest: &Hash) -> Option<&Entry> {
        self.entries.get(digest)
    }

    /// The payments that an entry spends, as its digest covers them.
    #[must_use]
    pub fn backed(&self, line: &Hash) -> &[Backed] {
        self.backed.get(line).map_or(&[], Vec::as_slice)
    }

    /// The payments of a batch to accounts of a registrar, in its order.
    #[must_use]
    pub fn paying(&self, batch: &BatchSeen, registrar: u32) -> Vec<(EntryId, Hash)> {
        let pays = |line: &&(EntryId, Hash)| {
            let entry = self.entries.get(&line.1);
            entry.is_some_and(|entry| legs(&entry.kind).iter().any(|leg| leg.to.registrar == registrar))
        };
        batch.lines.iter().filter(pays).copied().collect()
    }

    /// A batch.
    #[must_use]
    pub fn batch(&self, digest: &Hash) -> Option<&BatchSeen> {
        self.batches.get(digest)
    }

    /// All batches, with their digests.
    pub fn batches(&self) -> impl Iterator<Item = (&Hash, &BatchSeen)> {
        self.batches.iter()
    }

    /// Batches that hold an entry, with its index in each.
    #[must_use]
    pub fn carriers(&self, line: &Hash) -> &[(Hash, u32)] {
        self.carriers.get(line).map_or(&[], Vec::as_slice)
    }
}
