//! Money under way in profile II: what was paid and is not collected, and what was collected before the payment settled here.
//!
//! A payment is credited when an entry of its beneficiary that depends on it settles, once for each beneficiary (E20, E22): if the
//! payment has settled here, it is on the list of what nobody collected; if not, collecting it is remembered until it does. So
//! nothing is kept of what was paid and collected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, Book, Code, Entry, EntryId, Promised, judge};
use synod_machine::planted;

use crate::dependency::{With, paid_to, payees};
use crate::owing::Owing;
use crate::words::Promise;
use crate::xlog::Base;

/// A payment that its beneficiary has not collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unspent {
    pub(crate) entry: Arc<Entry>,
    /// The digest that settled.
    pub(crate) digest: Hash,
    /// What stands for the payment's own dependencies.
    pub(crate) with: Hash,
}

/// A beneficiary and a payment.
pub(crate) type Owed = (AccountId, EntryId);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credits {
    unspent: Owing<Unspent>,
    ahead: BTreeSet<Owed>,
    /// What open entries are backed with, by place and digest.
    backed: BTreeMap<(EntryId, Hash), With>,
}

const fn least(id: EntryId) -> (EntryId, Hash) {
    (id, Hash::ZERO)
}

impl Credits {
    /// Keeps what an open entry is backed with.
    pub(crate) fn back(&mut self, id: EntryId, digest: Hash, with: With) {
        self.backed.insert((id, digest), with);
    }

    /// What an open entry is backed with.
    pub(crate) fn backing(&self, id: EntryId, digest: Hash) -> Option<&With> {
        self.backed.get(&(id, digest))
    }

    /// Settles the next entry of a log: its dependencies are collected, each once, and then it is paid or rejected (4.6, rule 5).
    ///
    /// # Errors
    /// It has to wait; nothing has changed then.
    pub(crate) fn spend(&mut self, book: &mut Book, entry: &Arc<Entry>, digest: Hash) -> Result<bool, Code> {
        match judge(book, entry, &Promised::NONE) {
            Ok(_) | Err(Code::InsufficientFunds | Code::LimitBelowUse) => {}
            Err(code) => return Err(code),
        }
        let (id, spender) = (entry.id, entry.id.spender);
        let with = self.backed.remove(&(id, digest));
        for dependency in with.iter().flat_map(|with| with.iter()) {
            let owed = (spender, dependency.entry.id);
            let is_settled = owed.1.n <= Base::of(book, owed.1.spender).sequence;
            let is_new =
                if is_settled { self.unspent.remove(owed).is_some() } else { self.ahead.insert(owed) };
            if is_new || planted!(A20) {
                let sum = paid_to(&dependency.entry, spender);
                book.collect(spender, sum)
                    .expect("an account that spends is open, and 2^96 payments are none");
            }
        }
        let is_poor = planted!(A8) && judge(book, entry, &Promised::NONE).is_err();
        let is_paid = if is_poor { Err(Code::InsufficientFunds) } else { book.spend(entry, digest) }?;
        if is_paid {
            let with = with.map_or(Hash::ZERO, |with| with.root());
            for to in payees(entry) {
                if !self.ahead.remove(&(to, id)) {
                    self.unspent.insert((to, id), Unspent { entry: Arc::clone(entry), digest, with });
                }
            }
        }
        // What gave way to this entry leaves nothing behind.
        let gone = self.backed.range(least(id)..).map(|(key, _)| *key).take_while(|(of, _)| *of == id);
        for key in gone.collect::<Vec<_>>() {
            self.backed.remove(&key);
        }
        Ok(is_paid)
    }

    /// What an account was paid and has not collected.
    pub(crate) fn of(&self, account: AccountId) -> impl Iterator<Item = (EntryId, &Unspent)> {
        self.unspent.of(account)
    }

    /// All that nobody collected.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Owed, &Unspent)> {
        self.unspent.iter()
    }

    /// A payment that an account has not collected.
    pub(crate) fn get(&self, owed: Owed) -> Option<&Unspent> {
        self.unspent.get(owed)
    }

    /// As records of a snapshot, but for what open entries are backed with.
    pub(crate) fn records(&self, put: &mut dyn FnMut(Promise)) {
        for ((to, _), unspent) in self.unspent.iter() {
            let Unspent { entry, digest, with } = unspent;
            put(Promise::Unspent { to, entry: Arc::clone(entry), digest: *digest, with: *with });
        }
        for (to, id) in &self.ahead {
            put(Promise::Ahead { to: *to, id: *id });
        }
    }

    /// Of a snapshot.
    pub(crate) fn restore(&mut self, owed: Owed, unspent: Option<Unspent>) {
        match unspent {
            Some(unspent) => self.unspent.insert(owed, unspent),
            None => drop(self.ahead.insert(owed)),
        }
    }

    /// Bytes held: payments that wait for whoever was paid, and what open entries are backed with.
    pub(crate) fn bytes(&self) -> u64 {
        let unspent = self.unspent.len() * 2 * size_of::<Entry>();
        let backed = self.backed.values().flat_map(|with| with.iter());
        let backed: u64 = backed.map(crate::dependency::Dependency::bytes).sum();
        let small = self.backed.len() * 2 * size_of::<(EntryId, Hash, With)>()
            + self.ahead.len() * 2 * size_of::<Owed>();
        (unspent + small) as u64 + self.unspent.bytes() + backed
    }
}
