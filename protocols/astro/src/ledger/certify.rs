//! Certificates of entries: what they settle, and what they show to be missing.

use synod_crypto::{Hash, planted};
use synod_ledger::EntryId;
use synod_machine::broadcast::Lot;

use super::Ledger;
use crate::batch::Line;
use crate::waits::Cause;
use crate::xlog::{Base, Certified};

impl Ledger {
    /// Counts a certificate for an entry by descent; what settles by it, [`Self::settle`] says.
    pub(crate) fn certify(&mut self, line: &Line, digest: Hash) -> Certified {
        self.count_certificate(line, digest, None).0
    }

    /// Counts a certificate for an entry of a batch, and says whether the entry did not know of the batch and waited for its turn, or
    /// had it now.
    ///
    /// Where entries do not wait for words, its log settles here and now either way: who else waits, and what was accepted, no record
    /// says, so the order in which the entries of a batch settle must not depend on it.
    pub(crate) fn certify_in(&mut self, line: &Line, digest: Hash, lot: Lot) -> (Certified, bool) {
        if self.settle_at_once(&line.entry, digest, lot) {
            return (Certified::Settled, true);
        }
        let counted = self.count_certificate(line, digest, Some(lot));
        if self.credits.is_none() {
            self.settle_in_turn(line.entry.id.spender);
        }
        counted
    }

    fn count_certificate(&mut self, line: &Line, digest: Hash, lot: Option<Lot>) -> (Certified, bool) {
        let EntryId { spender, n } = line.entry.id;
        let base = Base::of(&self.book, spender);
        if n <= base.sequence {
            let again = planted!(A5) && self.book.apply(&line.entry, digest).is_ok();
            let contradicts = !again && (n == 0 || n == base.sequence && digest != base.head);
            return (if contradicts { Certified::Contradicts } else { Certified::Whole }, false);
        }
        let how = (lot, self.profile.descends());
        let known = self.open.get_mut(spender).map(|xlog| {
            let before = xlog.count();
            (xlog.certify_known(base, (n, digest), how), before, xlog.count())
        });
        let ((certified, is_new), expected, count) = match known {
            Some((Some(certified), before, count)) => (certified, before, count),
            _ => {
                let (slot, before) = (self.fresh(line, digest), known.map_or(0, |(_, before, _)| before));
                let xlog = self.open.or_default(spender, &self.book);
                let certified = xlog.certify(base, slot, how);
                (certified, before.saturating_add(1), xlog.count())
            }
        };
        if certified != Certified::Contradicts && count < expected {
            // What gave way to it may let others have its money.
            self.stir(Cause::Funds(spender));
        }
        if !self.waits.is_empty() {
            self.stir(Cause::Place(line.entry.id));
            self.stir_next(spender);
        }
        if count == 0 {
            self.open.remove(spender);
        }
        (certified, is_new)
    }

    /// The entries that logs lack below certified ones.
    pub(crate) fn missing(&self) -> Vec<(EntryId, Hash)> {
        let open = self.open.iter().filter(|_| self.profile.descends());
        open.flat_map(|(id, xlog)| xlog.gaps(Base::of(&self.book, id))).collect()
    }
}
