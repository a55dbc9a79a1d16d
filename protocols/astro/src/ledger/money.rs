//! The ledger of profile II: what nobody collected, and what open entries are backed with.

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId, Total};

use super::Ledger;
use crate::credits::{Credits, Owed, Unspent};
use crate::dependency::With;
use crate::words::Promise;

impl Ledger {
    /// What money is under way; none but in profile II.
    pub(crate) fn credits_mut(&mut self) -> Option<&mut Credits> {
        self.credits.as_deref_mut()
    }

    /// A payment that an account has not collected.
    pub(crate) fn unspent(&self, owed: Owed) -> Option<&Unspent> {
        self.credits.as_ref()?.get(owed)
    }

    /// What an account was paid and has not collected.
    pub(crate) fn unspent_of(&self, account: AccountId) -> impl Iterator<Item = (EntryId, &Unspent)> {
        self.credits.iter().flat_map(move |credits| credits.of(account))
    }

    /// All that nobody collected.
    pub(crate) fn all_unspent(&self) -> impl Iterator<Item = (Owed, &Unspent)> {
        self.credits.iter().flat_map(|credits| credits.all())
    }

    /// How much an account was paid and has not collected (E30).
    pub(crate) fn uncollected(&self, account: AccountId) -> Total {
        let all =
            self.unspent_of(account).map(|(_, unspent)| crate::dependency::paid_to(&unspent.entry, account));
        all.fold(Total::ZERO, |sum, next| sum.checked_add(next).unwrap_or(Total::MAX))
    }

    /// Keeps what an entry is backed with that is open here.
    pub(crate) fn back(&mut self, id: EntryId, digest: Hash, with: Option<&With>) {
        let Some(with) = with else { return };
        let is_here = self.slot(id).is_some_and(|slot| slot.digest == digest);
        if let Some(credits) = self.credits.as_mut().filter(|_| is_here) {
            credits.back(id, digest, With::clone(with));
        }
    }

    /// What an open entry is backed with.
    pub(crate) fn backing(&self, id: EntryId, digest: Hash) -> Option<&With> {
        self.credits.as_ref()?.backing(id, digest)
    }

    /// Whether an entry could be paid behind what its log has open, if so much more came.
    pub(crate) fn could_pay(&self, entry: &Entry, more: Total) -> bool {
        let spender = entry.id.spender;
        let promised = self.open.get(spender).map_or(Total::ZERO, |xlog| xlog.promised().debits());
        let available = self.book.available(spender).unwrap_or(Total::ZERO).checked_add(more);
        let taken = promised.checked_add(self.cost(entry));
        matches!((taken, available), (Some(taken), Some(available)) if taken <= available)
    }

    /// As records of a snapshot.
    pub(crate) fn credit_records(&self, put: &mut dyn FnMut(Promise)) {
        if let Some(credits) = &self.credits {
            credits.records(put);
        }
    }

    /// Bytes that money under way takes.
    pub(crate) fn credit_bytes(&self) -> u64 {
        self.credits.as_ref().map_or(0, |credits| credits.bytes())
    }
}
