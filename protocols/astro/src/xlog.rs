//! The open end of one exclusive log: entries that were accepted here and have not settled.

use synod_crypto::{Hash, near};
use synod_ledger::{Account, AccountId, Book, EntryId, Owner, Promised, Total, genesis};
use synod_machine::broadcast::Lot;
use synod_machine::planted;

use crate::batch::Line;
use crate::few::Few;

/// Where a log's open end begins: its last settled entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) sequence: u64,
    pub(crate) head: Hash,
}

impl Base {
    /// That of an account; one that is not open has settled nothing.
    #[inline]
    pub(crate) fn of(book: &Book, id: AccountId) -> Self {
        match book.account(id) {
            Some(account) => Self::behind(account),
            None => Self { sequence: 0, head: genesis(id) },
        }
    }

    /// Behind what an account has settled.
    #[inline]
    pub(crate) const fn behind(account: &Account) -> Self {
        Self { sequence: account.sequence(), head: account.head() }
    }
}

/// Batches whose certificates certify an entry: they are told when it settles. Mostly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lots {
    first: Option<Lot>,
    more: Option<Box<More>>,
}

/// Those behind the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct More(Vec<Lot>);

impl Lots {
    /// One alone.
    #[inline]
    pub(crate) const fn only(lot: Lot) -> Self {
        Self { first: Some(lot), more: None }
    }

    /// Whether it was not there.
    fn add(&mut self, lot: Lot) -> bool {
        match self.first {
            None => self.first = Some(lot),
            Some(_) if self.contains(lot) => return false,
            Some(_) => self.more.get_or_insert_default().0.push(lot),
        }
        true
    }

    pub(crate) fn contains(&self, lot: Lot) -> bool {
        self.iter().any(|one| one == lot)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Lot> {
        self.first.into_iter().chain(self.more.iter().flat_map(|more| more.0.iter().copied()))
    }
}

impl FromIterator<Lot> for Lots {
    fn from_iter<I: IntoIterator<Item = Lot>>(lots: I) -> Self {
        let mut all = Self::default();
        for lot in lots {
            all.add(lot);
        }
        all
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
    /// See there.
    pub(crate) lots: Lots,
}

impl Slot {
    #[inline]
    fn place(&self) -> u64 {
        self.line.entry.id.n
    }
}

/// The entries above the last settled one. Neighbours are chained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Xlog {
    /// In the order of their places; most logs have one or none.
    slots: Few<Slot>,
    promised: Promised,
    /// The last place of the whole stretch above the settled entries, which has an entry; 0 if the first place has none.
    tip: u64,
}

/// What came of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Certified {
    /// The log is whole up to the entry, or what is missing was asked for before.
    Whole,
    /// It settled with its certificate, as all does that waits for nothing.
    Settled,
    /// The entry's chain leads to this one, which is not here.
    Missing(EntryId, Hash),
    /// It contradicts what is certified or settled: more members lie than may.
    Contradicts,
}

impl Xlog {
    /// One in which there is nothing.
    pub(crate) const NONE: &Self = &Self { slots: Few::NONE, promised: Promised::NONE, tip: 0 };
    /// Bytes of one in which there is nothing, for memory accounting.
    pub(crate) const EMPTY_BYTES_MAX: usize = size_of::<Self>() + Few::<Slot>::EMPTY_BYTES_MAX;

    /// Has it brought nearer with its first entry, which is read soon.
    #[inline]
    pub(crate) fn near(&self) {
        // Nothing is read here: whether it has an entry is seen later.
        near(&self.slots);
        near(&self.promised);
        near(&self.tip);
    }

    /// Empties it for another account; the memory of a few slots stays.
    pub(crate) fn clear(&mut self) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        *self = Self { slots, ..Self::default() };
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn slot(&self, n: u64) -> Option<&Slot> {
        self.slots.get(self.at(n).ok()?)
    }

    #[inline]
    fn slot_mut(&mut self, n: u64) -> Option<&mut Slot> {
        let at = self.at(n).ok()?;
        self.slots.get_mut(at)
    }

    /// Where the entry of a place is, or would be.
    #[inline]
    fn at(&self, n: u64) -> Result<usize, usize> {
        self.slots.at(n, Slot::place)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// The last place that has an entry.
    #[inline]
    pub(crate) fn last(&self) -> Option<u64> {
        self.slots.last().map(Slot::place)
    }

    pub(crate) const fn promised(&self) -> &Promised {
        &self.promised
    }

    /// Whoever owns the log at a place, where `settled` is whoever owns it behind the settled entries.
    pub(crate) fn owner(&self, settled: Owner, n: u64) -> Owner {
        self.promised.owner_at(n).unwrap_or(settled)
    }

    /// The last place of the whole stretch above the settled entries, and the digest there.
    #[inline]
    pub(crate) fn tip(&self, base: Base) -> (u64, Hash) {
        match self.slot(self.tip).filter(|_| self.tip > base.sequence) {
            Some(slot) => (self.tip, slot.digest),
            None => (base.sequence, base.head),
        }
    }

    /// Moves the tip on over what follows it: over each entry once, unless some are dropped.
    fn extend(&mut self, base: Base) {
        let mut tip = self.tip(base);
        while let Some(slot) = self.slot(tip.0.saturating_add(1)).filter(|slot| slot.line.entry.prev == tip.1)
        {
            tip = (slot.place(), slot.digest);
            self.tip = tip.0;
        }
    }

    /// Whether its first entry has this place and digest, no certificate of it was counted, and nothing behind it waits for it alone.
    #[inline]
    pub(crate) fn begins_with(&self, n: u64, digest: Hash) -> bool {
        let is_it = |slot: &Slot| slot.place() == n && slot.digest == digest;
        self.slots.first().is_some_and(|slot| is_it(slot) && !slot.is_certified && slot.lots.is_empty())
            && self.slots.get(1).is_none_or(|next| !next.is_certified)
    }

    /// Puts an entry at its place, which is free.
    pub(crate) fn put(&mut self, base: Base, slot: Slot) {
        self.promised.add(&slot.line.entry, slot.debit);
        if self.last().is_none_or(|last| last < slot.place()) {
            let (tip, head) = self.tip(base);
            if tip.checked_add(1) == Some(slot.place()) && slot.line.entry.prev == head {
                self.tip = slot.place();
            }
            return self.slots.push(slot);
        }
        let at = self.at(slot.place()).expect_err("a place has one entry");
        self.slots.insert(at, slot);
        self.extend(base);
    }

    /// Counts a certificate for an entry that is in its place, and says whether the batch is a new one; `None` where another
    /// entry is, or none.
    pub(crate) fn certify_known(
        &mut self,
        base: Base,
        (n, digest): (u64, Hash),
        (lot, descends): (Option<Lot>, bool),
    ) -> Option<(Certified, bool)> {
        let known = self.slot_mut(n).filter(|known| known.digest == digest)?;
        known.is_certified = true;
        let is_new = lot.is_some_and(|lot| known.lots.add(lot));
        Some((if descends { self.descend(base, n) } else { Certified::Whole }, is_new))
    }

    /// Counts a certificate for an entry and, where certificates descend, all its ancestors (the ancestor rule), against what was
    /// accepted here without one (certified beats accepted). Says as well whether the batch is one that the entry did not know.
    pub(crate) fn certify(
        &mut self,
        base: Base,
        mut slot: Slot,
        (lot, descends): (Option<Lot>, bool),
    ) -> (Certified, bool) {
        let EntryId { n, .. } = slot.line.entry.id;
        if let Some(certified) = self.certify_known(base, (n, slot.digest), (lot, descends)) {
            return certified;
        }
        if self.contradicts(base, &slot) {
            return (Certified::Contradicts, false);
        }
        if self.slot(n).is_some() || !self.precedes(n, slot.digest) {
            self.drop_accepted(base, n);
        }
        slot.is_certified = true;
        let is_new = lot.is_some_and(|lot| slot.lots.add(lot));
        self.put(base, slot);
        if descends {
            return (self.descend(base, n), is_new);
        }
        self.make_way(base, n);
        (Certified::Whole, is_new)
    }

    /// Forgets what was accepted below a certified entry and is not on its chain: it can be certified no more, though what has its
    /// place waits for a certificate of its own.
    fn make_way(&mut self, base: Base, from: u64) {
        let mut at = from;
        while let Some(slot) = self.slot(at) {
            let (below, prev) = (at - 1, slot.line.entry.prev);
            match self.slot(below).filter(|_| below > base.sequence) {
                Some(known) if known.digest == prev => at = below,
                Some(_) => return self.drop_accepted(base, below),
                None => return,
            }
        }
    }

    /// Whether an entry contradicts what is certified or settled: in its place, behind it, or below it.
    fn contradicts(&self, base: Base, slot: &Slot) -> bool {
        let EntryId { n, .. } = slot.line.entry.id;
        let next = n.checked_add(1).and_then(|next| self.slot(next));
        let is_taken = self.slot(n).is_some_and(|known| known.is_certified);
        let is_passed_over =
            next.is_some_and(|next| next.is_certified && next.line.entry.prev != slot.digest);
        is_taken || is_passed_over || self.leads_elsewhere(base, n, slot.line.entry.prev)
    }

    /// Whether the chain below a place, which ends in this digest, meets another one that is certified or settled.
    fn leads_elsewhere(&self, base: Base, n: u64, digest: Hash) -> bool {
        let (mut at, mut digest) = (n.saturating_sub(1), digest);
        while at > base.sequence {
            match self.slot(at) {
                Some(known) if known.digest == digest && !known.is_certified => {
                    digest = known.line.entry.prev
                }
                Some(known) => return known.is_certified && known.digest != digest,
                None => return false,
            }
            at -= 1;
        }
        digest != base.head
    }

    /// Whether the entry behind a place, if there is one, names this digest.
    pub(crate) fn precedes(&self, n: u64, digest: Hash) -> bool {
        let next = n.checked_add(1).and_then(|next| self.slot(next));
        next.is_none_or(|next| next.line.entry.prev == digest)
    }

    /// Forgets what was accepted from a place on and is not certified.
    pub(crate) fn drop_accepted(&mut self, base: Base, from: u64) {
        let is_above = |slot: &Slot| slot.place() > from;
        self.slots
            .retain(|slot| slot.place() < from || slot.is_certified || (planted!(A26) && is_above(slot)));
        let mut promised = Promised::default();
        for slot in self.slots.iter() {
            promised.add(&slot.line.entry, slot.debit);
        }
        self.promised = promised;
        self.tip = 0;
        self.extend(base);
    }

    /// Marks the ancestors of a certified entry as certified.
    fn descend(&mut self, base: Base, from: u64) -> Certified {
        let mut at = from;
        loop {
            if at - 1 == base.sequence {
                return Certified::Whole;
            }
            let Some(slot) = self.slot(at) else { return Certified::Whole };
            let (id, prev) = (slot.line.entry.id, slot.line.entry.prev);
            let below = EntryId { n: at - 1, ..id };
            match self.slot_mut(below.n) {
                Some(known) if known.digest == prev && known.is_certified => return Certified::Whole,
                Some(known) if known.digest == prev => known.is_certified = true,
                Some(_) => {
                    self.drop_accepted(base, below.n);
                    return Certified::Missing(below, prev);
                }
                None => return Certified::Missing(below, prev),
            }
            at = below.n;
        }
    }

    /// The entry that settles next, if its certificate is known.
    #[inline]
    pub(crate) fn next(&self, base: Base) -> Option<&Slot> {
        self.slot(base.sequence.checked_add(1)?).filter(|slot| slot.is_certified)
    }

    /// Takes the entry out that settled.
    pub(crate) fn settled(&mut self, n: u64) -> Option<Slot> {
        let slot = self.slots.remove(self.at(n).ok()?)?;
        self.promised.settled(&slot.line.entry, slot.debit);
        self.tip = if self.tip > n { self.tip } else { 0 };
        Some(slot)
    }

    /// Entries below certified ones that are not here, with the digests that those name.
    pub(crate) fn gaps(&self, base: Base) -> impl Iterator<Item = (EntryId, Hash)> {
        self.slots.iter().filter(|slot| slot.is_certified).filter_map(move |slot| {
            let id = slot.line.entry.id;
            let below = EntryId { n: id.n.checked_sub(1)?, ..id };
            let is_gap = below.n > base.sequence && self.slot(below.n).is_none();
            is_gap.then_some((below, slot.line.entry.prev))
        })
    }

    /// Asserts that places, chains and certificates fit each other.
    pub(crate) fn assert_sound(&self, base: Base, window: u64, descends: bool) {
        let (tip, head) = self.tip(base);
        let is_at = |n: u64| self.slot(n).is_some_and(|slot| slot.digest == head);
        assert!(tip == base.sequence || is_at(tip), "the tip is an entry");
        let next = tip.checked_add(1).and_then(|next| self.slot(next));
        assert!(next.is_none_or(|next| next.line.entry.prev != head), "the tip is the last of its stretch");
        assert!(self.slots.iter().is_sorted_by(|one, next| one.place() < next.place()), "places in order");
        for slot in self.slots.iter() {
            let n = slot.place();
            assert!(n > base.sequence, "a settled entry that is open");
            assert!(slot.is_certified || n - base.sequence <= window, "an accepted entry outside the window");
            let below = n.checked_sub(1).and_then(|below| self.slot(below));
            let is_chained = below.is_none_or(|below| below.digest == slot.line.entry.prev);
            assert!(is_chained || planted!(A17), "neighbours are chained");
            assert!(
                !descends || below.is_none_or(|below| below.is_certified || !slot.is_certified),
                "a certificate reaches every ancestor that is here"
            );
        }
    }
}

#[cfg(test)]
mod tests;
