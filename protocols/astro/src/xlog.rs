//! The open end of one exclusive log: entries that were accepted here and have not settled.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_ledger::{AccountId, Book, EntryId, Owner, Promised, Total, genesis};
use synod_machine::broadcast::Lot;

use crate::batch::Line;

/// Where a log's open end begins: its last settled entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) sequence: u64,
    pub(crate) head: Hash,
}

impl Base {
    /// That of an account; one that is not open has settled nothing.
    pub(crate) fn of(book: &Book, id: AccountId) -> Self {
        let account = book.account(id);
        account.map_or(Self { sequence: 0, head: genesis(id) }, |account| Self {
            sequence: account.sequence(),
            head: account.head(),
        })
    }
}

/// An entry in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) line: Line,
    pub(crate) digest: Hash,
    /// What it takes, as it was when it was accepted.
    pub(crate) debit: Total,
    /// A certificate of this entry or of a later one of its chain is known.
    pub(crate) is_certified: bool,
    /// Batches whose certificates certify it: they are told when it settles.
    pub(crate) lots: Vec<Lot>,
}

/// The entries above the last settled one. Neighbours are chained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Xlog {
    slots: BTreeMap<u64, Slot>,
    promised: Promised,
}

/// What came of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Certified {
    /// The log is whole up to the entry, or what is missing was asked for before.
    Whole,
    /// The entry's chain leads to this one, which is not here.
    Missing(EntryId, Hash),
    /// It contradicts what is certified or settled: more members lie than may.
    Contradicts,
}

impl Xlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn slot(&self, n: u64) -> Option<&Slot> {
        self.slots.get(&n)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values()
    }

    pub(crate) const fn promised(&self) -> &Promised {
        &self.promised
    }

    /// Whoever owns the log behind its open entries.
    pub(crate) fn owner(&self, settled: Owner) -> Owner {
        self.promised.owner().unwrap_or(settled)
    }

    /// The last place of the whole stretch above the settled entries, and the digest there.
    pub(crate) fn tip(&self, base: Base) -> (u64, Hash) {
        let mut tip = (base.sequence, base.head);
        while let Some(slot) =
            self.slots.get(&tip.0.saturating_add(1)).filter(|slot| slot.line.entry.prev == tip.1)
        {
            tip = (slot.line.entry.id.n, slot.digest);
        }
        tip
    }

    /// Puts an entry at its place, which is free.
    pub(crate) fn put(&mut self, slot: Slot) {
        self.promised.add(&slot.line.entry, slot.debit);
        let before = self.slots.insert(slot.line.entry.id.n, slot);
        assert!(before.is_none(), "a place has one entry");
    }

    /// Counts a certificate for an entry and all its ancestors (the ancestor rule), against what was accepted here without one
    /// (certified beats accepted).
    pub(crate) fn certify(&mut self, base: Base, mut slot: Slot, lot: Option<Lot>) -> Certified {
        let EntryId { n, .. } = slot.line.entry.id;
        let known = self.slots.get_mut(&n);
        if let Some(known) = known.filter(|known| known.digest == slot.digest) {
            known.is_certified = true;
            known.lots.extend(lot.filter(|lot| !known.lots.contains(lot)));
            return self.descend(base, n);
        }
        if self.slots.contains_key(&n) || !self.precedes(n, slot.digest) {
            self.drop_accepted(n);
        }
        if self.slots.contains_key(&n) || !self.precedes(n, slot.digest) {
            return Certified::Contradicts;
        }
        slot.is_certified = true;
        slot.lots.extend(lot);
        self.put(slot);
        self.descend(base, n)
    }

    /// Whether the entry behind a place, if there is one, names this digest.
    fn precedes(&self, n: u64, digest: Hash) -> bool {
        let next = n.checked_add(1).and_then(|next| self.slots.get(&next));
        next.is_none_or(|next| next.line.entry.prev == digest)
    }

    /// Forgets what was accepted from a place on and is not certified.
    fn drop_accepted(&mut self, from: u64) {
        self.slots.retain(|n, slot| *n < from || slot.is_certified);
        let mut promised = Promised::default();
        for slot in self.slots.values() {
            promised.add(&slot.line.entry, slot.debit);
        }
        self.promised = promised;
    }

    /// Marks the ancestors of a certified entry as certified.
    fn descend(&mut self, base: Base, from: u64) -> Certified {
        let mut at = from;
        loop {
            let Some(slot) = self.slots.get(&at) else { return Certified::Whole };
            let (id, prev) = (slot.line.entry.id, slot.line.entry.prev);
            let below = EntryId { n: at - 1, ..id };
            if below.n == base.sequence {
                return if prev == base.head { Certified::Whole } else { Certified::Contradicts };
            }
            match self.slots.get_mut(&below.n) {
                Some(known) if known.digest == prev && known.is_certified => return Certified::Whole,
                Some(known) if known.digest == prev => known.is_certified = true,
                Some(known) if known.is_certified => return Certified::Contradicts,
                Some(_) => {
                    self.drop_accepted(below.n);
                    return Certified::Missing(below, prev);
                }
                None => return Certified::Missing(below, prev),
            }
            at = below.n;
        }
    }

    /// The entry that settles next, if its certificate is known.
    pub(crate) fn next(&self, base: Base) -> Option<&Slot> {
        self.slots.get(&base.sequence.checked_add(1)?).filter(|slot| slot.is_certified)
    }

    /// Takes the entry out that settled.
    pub(crate) fn settled(&mut self, n: u64) -> Option<Slot> {
        let slot = self.slots.remove(&n)?;
        self.promised.settled(&slot.line.entry, slot.debit);
        Some(slot)
    }

    /// Entries below certified ones that are not here, with the digests that those name.
    pub(crate) fn gaps(&self, base: Base) -> impl Iterator<Item = (EntryId, Hash)> {
        self.slots.values().filter(|slot| slot.is_certified).filter_map(move |slot| {
            let id = slot.line.entry.id;
            let below = EntryId { n: id.n.checked_sub(1)?, ..id };
            let is_gap = below.n > base.sequence && !self.slots.contains_key(&below.n);
            is_gap.then_some((below, slot.line.entry.prev))
        })
    }

    /// Asserts that places, chains and certificates fit each other.
    pub(crate) fn assert_sound(&self, base: Base, window: u64) {
        for (n, slot) in &self.slots {
            assert!(*n > base.sequence, "a settled entry that is open");
            assert!(slot.is_certified || n - base.sequence <= window, "an accepted entry outside the window");
            let below = n.checked_sub(1).and_then(|below| self.slots.get(&below));
            assert!(below.is_none_or(|below| below.digest == slot.line.entry.prev), "neighbours are chained");
            assert!(
                below.is_none_or(|below| below.is_certified || !slot.is_certified),
                "a certificate reaches every ancestor that is here"
            );
        }
    }
}
