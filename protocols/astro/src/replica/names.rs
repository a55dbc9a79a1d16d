//! What payers call their admitted entries, and which of those are in no record yet: by account, as most look-ups are of an account's last
//! entries.
//!
//! Accounts of this node's own registrar have the numbers 1, 2, 3 and so on, so their names are found by number; those of others are few.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::near;
use synod_ledger::{AccountId, EntryId};

use crate::few::Few;

/// Names of an account above which they are looked up in a map.
const WALKED_MAX: usize = 32;

/// An entry that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    n: u64,
    name: u128,
    /// Whether no record holds it yet.
    is_fresh: bool,
}

/// The named entries of one account, in the order of their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    entries: Few<Named>,
    /// The last place of each name, where there are many.
    by_name: Option<BTreeMap<u128, u64>>,
}

impl Account {
    #[inline]
    fn at(&self, n: u64) -> Result<usize, usize> {
        self.entries.at(n, |named| named.n)
    }

    fn get_mut(&mut self, n: u64) -> Option<&mut Named> {
        let at = self.at(n).ok()?;
        self.entries.get_mut(at)
    }

    fn known(&self, name: u128) -> Option<u64> {
        match &self.by_name {
            Some(by_name) => by_name.get(&name).copied(),
            None => self.entries.iter().rev().find(|named| named.name == name).map(|named| named.n),
        }
    }

    /// Whether the entry had no name.
    fn put(&mut self, named: Named) -> bool {
        match self.at(named.n) {
            Ok(at) => {
                let was = self.entries.get_mut(at).expect("it was found there");
                let is_fresh = was.is_fresh || named.is_fresh;
                *was = Named { is_fresh, ..named };
                self.index_again();
                false
            }
            Err(at) => {
                self.entries.insert(at, named);
                match &mut self.by_name {
                    Some(by_name) => drop(by_name.insert(named.name, named.n)),
                    None if self.entries.len() > WALKED_MAX => self.index_again(),
                    None => {}
                }
                true
            }
        }
    }

    fn index_again(&mut self) {
        let is_many = self.entries.len() > WALKED_MAX;
        let all = || self.entries.iter().map(|named| (named.name, named.n)).collect();
        self.by_name = is_many.then(all);
    }

    fn remove(&mut self, n: u64) -> Option<Named> {
        let at = self.at(n).ok()?;
        let gone = self.entries.remove(at)?;
        if let Some(by_name) = &mut self.by_name
            && by_name.get(&gone.name) == Some(&n)
        {
            by_name.remove(&gone.name);
        }
        if self.entries.is_empty() {
            self.by_name = None;
            self.entries.clear();
        }
        Some(gone)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// This node's own.
    registrar: u32,
    shard: u16,
    /// Number 1 first.
    own: Vec<Account>,
    strange: BTreeMap<AccountId, Account>,
    /// How many there are.
    count: usize,
    /// How many of them are fresh and of accounts of this node's registrar.
    fresh: usize,
}

impl Names {
    /// Those that a registrar's accounts give, and others.
    pub(super) fn of(shard: u16, registrar: u32) -> Self {
        Self { registrar, shard, ..Self::default() }
    }

    fn is_strange(&self, id: AccountId) -> bool {
        (id.shard, id.registrar) != (self.shard, self.registrar)
    }

    #[inline]
    fn account(&self, id: AccountId) -> Option<&Account> {
        if self.is_strange(id) {
            return self.strange.get(&id);
        }
        self.own.get(usize::try_from(id.local.checked_sub(1)?).ok()?)
    }

    #[inline]
    fn account_mut(&mut self, id: AccountId) -> Option<&mut Account> {
        if self.is_strange(id) {
            return if self.strange.is_empty() { None } else { self.strange.get_mut(&id) };
        }
        self.own.get_mut(usize::try_from(id.local.checked_sub(1)?).ok()?)
    }

    /// Has the names of an account brought nearer, which are looked at soon.
    pub(super) fn near(&self, id: AccountId) {
        if !self.is_strange(id) {
            self.account(id).into_iter().for_each(near);
        }
    }

    /// The place of what its payer calls so.
    pub(super) fn known(&self, payer: AccountId, name: u128) -> Option<EntryId> {
        self.account(payer)?.known(name).map(|n| EntryId { spender: payer, n })
    }

    /// What the payer of an entry calls it.
    pub(super) fn name(&self, id: EntryId) -> Option<u128> {
        let account = self.account(id.spender)?;
        account.entries.get(account.at(id.n).ok()?).map(|named| named.name)
    }

    /// Keeps the name of an entry of an account that is open here.
    pub(super) fn put(&mut self, id: EntryId, name: u128, is_fresh: bool) {
        let was_fresh = self
            .account(id.spender)
            .and_then(|account| account.entries.get(account.at(id.n).ok()?).map(|named| named.is_fresh));
        let named = Named { n: id.n, name, is_fresh };
        let is_new = if self.is_strange(id.spender) {
            self.strange.entry(id.spender).or_default().put(named)
        } else {
            let at = usize::try_from(id.spender.local.saturating_sub(1)).expect("the account is in memory");
            if self.own.len() <= at {
                self.own.resize_with(at + 1, Account::default);
            }
            self.fresh += usize::from(is_fresh && was_fresh != Some(true));
            self.own[at].put(named)
        };
        self.count += usize::from(is_new);
    }

    /// A record holds an entry, or it needs none any more.
    pub(super) fn record(&mut self, id: EntryId) {
        let is_strange = self.is_strange(id.spender);
        let named = self.account_mut(id.spender).and_then(|account| account.get_mut(id.n));
        let was_fresh = named.is_some_and(|named| std::mem::take(&mut named.is_fresh));
        self.fresh -= usize::from(was_fresh && !is_strange);
    }

    /// Forgets the name of an entry.
    pub(super) fn remove(&mut self, id: EntryId) {
        let is_strange = self.is_strange(id.spender);
        let Some(account) = self.account_mut(id.spender) else { return };
        let Some(gone) = account.remove(id.n) else { return };
        let is_empty = account.entries.is_empty();
        self.count -= 1;
        if !is_strange {
            self.fresh -= usize::from(gone.is_fresh);
        } else if is_empty {
            self.strange.remove(&id.spender);
        }
    }

    /// Whether entries of accounts of this one's registrar are in no record.
    pub(super) fn has_fresh(&self, of: AccountId) -> bool {
        if !self.is_strange(of) {
            return self.fresh > 0;
        }
        let all = self.strange.range(AccountId { local: 0, ..of }..);
        all.take_while(|(id, _)| (id.shard, id.registrar) == (of.shard, of.registrar))
            .any(|(_, account)| account.entries.iter().any(|named| named.is_fresh))
    }

    /// Takes the entries of these accounts that no record holds: one does from here on.
    pub(super) fn take_fresh(&mut self, of: &BTreeSet<AccountId>) -> Vec<EntryId> {
        let mut all = Vec::new();
        for spender in of {
            let is_strange = self.is_strange(*spender);
            let before = all.len();
            let entries =
                self.account_mut(*spender).into_iter().flat_map(|account| account.entries.iter_mut());
            for named in entries.filter(|named| named.is_fresh) {
                named.is_fresh = false;
                all.push(EntryId { spender: *spender, n: named.n });
            }
            self.fresh -= if is_strange { 0 } else { all.len() - before };
        }
        all
    }

    /// Bytes held at most, for memory accounting: those of names, and of places for them.
    pub(super) fn bytes(&self) -> u64 {
        let account = size_of::<Account>() + Few::<Named>::EMPTY_BYTES_MAX;
        let accounts =
            self.own.capacity() * account + self.strange.len() * 2 * (account + size_of::<AccountId>());
        (accounts + 2 * self.count * (size_of::<Named>() + size_of::<(u128, u64)>())) as u64
    }
}

#[cfg(test)]
mod tests {
    use synod_wire::Drawn;

    use super::*;

    /// Entries of own accounts and of others', with few names and many, named, recorded and forgotten as it comes.
    #[test]
    fn names_are_those_that_three_maps_would_keep() {
        let (mut most, mut known) = (0, 0);
        for seed in 0..40 {
            let mut drawn = Drawn::new(seed);
            let mut names = Names::of(0, 1);
            let (mut by_id, mut fresh) = (BTreeMap::<EntryId, u128>::new(), BTreeSet::new());
            for _ in 0..600 {
                let registrar = 1 + u32::try_from(drawn.below(5) / 4).expect("one or two");
                let spender = AccountId { shard: 0, registrar, local: 1 + drawn.below(3) };
                let id = EntryId { spender, n: 1 + drawn.below(80) };
                match drawn.below(8) {
                    0..=3 => {
                        let (name, is_fresh) =
                            (u128::from(id.n) << 64 | u128::from(seed), drawn.below(2) == 0);
                        names.put(id, name, is_fresh);
                        by_id.insert(id, name);
                        if is_fresh {
                            fresh.insert(id);
                        }
                    }
                    4 => {
                        names.record(id);
                        fresh.remove(&id);
                    }
                    5 | 6 => {
                        names.remove(id);
                        by_id.remove(&id);
                        fresh.remove(&id);
                    }
                    _ if drawn.below(6) == 0 => {
                        let of = BTreeSet::from([spender]);
                        let mine: Vec<_> = fresh.iter().copied().filter(|id| id.spender == spender).collect();
                        assert_eq!(names.take_fresh(&of), mine);
                        fresh.retain(|id| id.spender != spender);
                    }
                    _ => {}
                }
                let name = by_id.get(&id).copied();
                assert_eq!(names.name(id), name);
                assert_eq!(names.known(spender, name.unwrap_or(0)), name.map(|_| id));
                assert_eq!(
                    names.has_fresh(spender),
                    fresh.iter().any(|id| id.spender.registrar == registrar)
                );
                assert_eq!(names.count, by_id.len());
                known += usize::from(name.is_some());
                most = most.max(by_id.keys().filter(|id| id.spender == spender).count());
            }
        }
        assert!(most > WALKED_MAX && known > 5_000, "{most} of one account, {known} known");
    }
}
