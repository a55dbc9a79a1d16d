//! What is owed to accounts, by account and payment. Accounts of a registrar have the numbers 1, 2, 3 and so on, so an account's list is found by its
//! number; most are of a few payments, and are searched in one piece of memory.

use std::collections::BTreeMap;

use synod_ledger::{AccountId, EntryId};

use crate::credits::Owed;

/// Numbers that an account without a list may be beyond the last that has one; those further away are looked up in a tree.
const NEAR: usize = 1 << 16;

/// What is owed to one account, in the order of the payments.
type All<T> = Vec<(EntryId, T)>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Owing<T> {
    /// By shard and registrar, number 1 first.
    dense: BTreeMap<(u16, u32), Vec<All<T>>>,
    /// Accounts that have no number or one that is far from others'.
    strange: BTreeMap<AccountId, All<T>>,
    count: usize,
}

impl<T> Default for Owing<T> {
    fn default() -> Self {
        Self { dense: BTreeMap::new(), strange: BTreeMap::new(), count: 0 }
    }
}

impl<T> Owing<T> {
    /// How much there is.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Bytes held beside what elements hold, for memory accounting.
    pub(crate) fn bytes(&self) -> u64 {
        let places: usize = self.dense.values().map(Vec::capacity).sum();
        let lists = (places + 2 * self.strange.len()) * size_of::<(AccountId, All<T>)>();
        // A list has at most twice as much room as it needs, or room for four.
        (lists + self.count * 4 * size_of::<(EntryId, T)>()) as u64
    }

    fn all(&self, account: AccountId) -> Option<&All<T>> {
        let dense = self.dense.get(&(account.shard, account.registrar));
        let at = account.local.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let found = dense.zip(at).and_then(|(dense, at)| dense.get(at));
        found.filter(|all| !all.is_empty()).or_else(|| self.strange.get(&account))
    }

    fn all_mut(&mut self, account: AccountId) -> Option<&mut All<T>> {
        let dense = self.dense.get_mut(&(account.shard, account.registrar));
        let at = account.local.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let found = dense.zip(at).and_then(|(dense, at)| dense.get_mut(at));
        match found.filter(|all| !all.is_empty()) {
            Some(all) => Some(all),
            None => self.strange.get_mut(&account),
        }
    }

    /// The list of an account, empty if it has none.
    fn made(&mut self, account: AccountId) -> &mut All<T> {
        if self.strange.contains_key(&account) {
            return self.strange.entry(account).or_default();
        }
        let dense = self.dense.entry((account.shard, account.registrar)).or_default();
        let at = account.local.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        match at.filter(|at| *at < dense.len().saturating_add(NEAR)) {
            Some(at) => {
                if dense.len() <= at {
                    dense.resize_with(at + 1, Vec::new);
                }
                &mut dense[at]
            }
            None => self.strange.entry(account).or_default(),
        }
    }

    pub(crate) fn get(&self, (account, id): Owed) -> Option<&T> {
        let all = self.all(account)?;
        all.binary_search_by_key(&id, |(id, _)| *id).ok().and_then(|at| all.get(at)).map(|(_, one)| one)
    }

    pub(crate) fn get_mut(&mut self, (account, id): Owed) -> Option<&mut T> {
        let all = self.all_mut(account)?;
        let at = all.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        all.get_mut(at).map(|(_, one)| one)
    }

    /// Puts it in the place of what was there.
    pub(crate) fn insert(&mut self, (account, id): Owed, one: T) {
        let all = self.made(account);
        match all.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => all[at].1 = one,
            Err(at) => {
                all.insert(at, (id, one));
                self.count += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, (account, id): Owed) -> Option<T> {
        let all = self.all_mut(account)?;
        let at = all.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, gone) = all.remove(at);
        let is_empty = all.is_empty();
        if is_empty {
            *all = Vec::new();
        }
        self.count -= 1;
        if is_empty && !self.strange.is_empty() {
            self.strange.retain(|_, all| !all.is_empty());
        }
        Some(gone)
    }

    /// What is owed to an account, in the order of the payments.
    pub(crate) fn of(&self, account: AccountId) -> impl Iterator<Item = (EntryId, &T)> {
        self.all(account).into_iter().flatten().map(|(id, one)| (*id, one))
    }

    /// All of it, in the order of the accounts; those that have no number near others' are behind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Owed, &T)> {
        let dense = self.dense.iter().flat_map(|(&(shard, registrar), dense)| {
            (1_u64..).zip(dense).map(move |(local, all)| (AccountId { shard, registrar, local }, all))
        });
        let all = dense.chain(self.strange.iter().map(|(account, all)| (*account, all)));
        all.flat_map(|(account, all)| all.iter().map(move |(id, one)| ((account, *id), one)))
    }
}

#[cfg(test)]
mod tests {
    use synod_machine::testing::pick;
    use synod_wire::Drawn;

    use super::*;

    const fn account(shard: u16, registrar: u32, local: u64) -> AccountId {
        AccountId { shard, registrar, local }
    }

    /// Of accounts near each other, far away, without a number and of other shards, put and taken as it comes.
    #[test]
    fn what_is_owed_is_found_as_a_tree_of_it_finds_it() {
        let accounts = [
            account(3, 1, 1),
            account(3, 1, 2),
            account(3, 1, 900),
            account(3, 0, 1),
            account(3, 9, 4),
            account(4, 1, 1),
            account(3, 1, 0),
            account(3, 1, u64::MAX),
            account(3, 5, 1 << 17),
        ];
        let (mut drawn, mut owing, mut tree) = (Drawn::new(5), Owing::default(), BTreeMap::new());
        let mut there = 0;
        for round in 0..4_000_u64 {
            let account = accounts[pick(&mut drawn, accounts.len())];
            let id = EntryId { spender: accounts[pick(&mut drawn, 3)], n: 1 + drawn.below(3) };
            let owed = (account, id);
            assert_eq!(owing.get(owed), tree.get(&owed));
            assert_eq!(owing.get_mut(owed).map(|one| *one), tree.get(&owed).copied());
            there += u64::from(tree.contains_key(&owed));
            match drawn.below(3) {
                0 => {
                    owing.insert(owed, round);
                    tree.insert(owed, round);
                }
                1 => assert_eq!(owing.remove(owed), tree.remove(&owed)),
                _ => {}
            }
            assert_eq!(owing.len(), tree.len());
            let of = tree.iter().filter(|((to, _), _)| *to == account).map(|((_, id), one)| (*id, one));
            assert!(owing.of(account).eq(of));
            let listed: BTreeMap<Owed, u64> = owing.iter().map(|(owed, one)| (owed, *one)).collect();
            assert_eq!((listed.len(), owing.iter().count()), (tree.len(), tree.len()));
            assert!(listed == tree && owing.strange.values().all(|all| !all.is_empty()));
        }
        assert!(there > 1_000, "{there} were there");
    }

    #[test]
    fn an_account_far_from_others_takes_no_room_for_those_between() {
        let (id, mut owing) = (EntryId { spender: account(0, 0, 1), n: 1 }, Owing::default());
        owing.insert((account(0, 0, 1 << 40), id), ());
        owing.insert((account(0, 0, 2), id), ());
        assert!(owing.bytes() < 4_096, "{} bytes", owing.bytes());
        assert_eq!(owing.iter().map(|((to, _), ())| to.local).collect::<Vec<_>>(), [2, 1 << 40]);
    }
}
