//! The open ends of logs by account. Accounts of a registrar have the numbers 1, 2, 3 and so on, so a log is found by its number.

use std::collections::BTreeMap;

use synod_ledger::{AccountId, Book};

use crate::xlog::Xlog;

/// Logs of one registrar's accounts, number 1 first.
type Dense = Vec<Option<Box<Xlog>>>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    shard: u16,
    dense: Vec<(u32, Dense)>,
    /// Logs of accounts that are not open here.
    strange: BTreeMap<AccountId, Xlog>,
    count: usize,
}

impl Logs {
    /// Of the accounts of a shard, none of which has a log.
    pub(crate) const fn new(shard: u16) -> Self {
        Self { shard, dense: Vec::new(), strange: BTreeMap::new(), count: 0 }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Bytes held beside what the logs hold, for memory accounting.
    pub(crate) fn bytes(&self) -> u64 {
        let places: usize = self.dense.iter().map(|(_, dense)| dense.len()).sum();
        (places * size_of::<Option<Box<Xlog>>>() + self.count * 2 * size_of::<(AccountId, Xlog)>()) as u64
    }

    pub(crate) fn get(&self, id: AccountId) -> Option<&Xlog> {
        let dense = self.place(id).and_then(|(of, at)| self.dense.get(of)?.1.get(at)?.as_deref());
        dense.or_else(|| self.strange.get(&id))
    }

    pub(crate) fn get_mut(&mut self, id: AccountId) -> Option<&mut Xlog> {
        let dense = self.place(id).and_then(|(of, at)| self.dense.get_mut(of)?.1.get_mut(at)?.as_deref_mut());
        dense.or_else(|| self.strange.get_mut(&id))
    }

    /// The log of an account, made if there is none.
    pub(crate) fn or_default(&mut self, id: AccountId, book: &Book) -> &mut Xlog {
        if book.account(id).is_none() || self.strange.contains_key(&id) {
            self.count += usize::from(!self.strange.contains_key(&id));
            return self.strange.entry(id).or_default();
        }
        let of = match self.dense.binary_search_by_key(&id.registrar, |(registrar, _)| *registrar) {
            Ok(of) => of,
            Err(of) => {
                self.dense.insert(of, (id.registrar, Dense::new()));
                of
            }
        };
        let dense = &mut self.dense[of].1;
        let at = usize::try_from(id.local.saturating_sub(1)).expect("the account is in memory");
        if dense.len() <= at {
            dense.resize_with(at + 1, || None);
        }
        self.count += usize::from(dense[at].is_none());
        dense[at].get_or_insert_default()
    }

    pub(crate) fn remove(&mut self, id: AccountId) {
        let dense = self.place(id).and_then(|(of, at)| self.dense.get_mut(of)?.1.get_mut(at)?.take());
        let is_here = dense.is_some() || self.strange.remove(&id).is_some();
        self.count -= usize::from(is_here);
    }

    /// All of them, in the order of their accounts, those that are not open here behind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AccountId, &Xlog)> {
        let shard = self.shard;
        let dense = self.dense.iter().flat_map(move |(registrar, dense)| {
            let logs = (1_u64..).zip(dense);
            logs.filter_map(move |(local, log)| {
                Some((AccountId { shard, registrar: *registrar, local }, log.as_deref()?))
            })
        });
        dense.chain(self.strange.iter().map(|(id, log)| (*id, log)))
    }

    /// Where a log is, if its account is open.
    fn place(&self, id: AccountId) -> Option<(usize, usize)> {
        let of = self.dense.binary_search_by_key(&id.registrar, |(registrar, _)| *registrar).ok();
        let of = of.filter(|_| id.shard == self.shard)?;
        Some((of, usize::try_from(id.local.checked_sub(1)?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use synod_ledger::{Opening, Owner, Terms, Units, UserData};
    use synod_machine::testing::pick;
    use synod_wire::Drawn;

    use super::*;

    const fn account(shard: u16, registrar: u32, local: u64) -> AccountId {
        AccountId { shard, registrar, local }
    }

    fn book() -> Book {
        let mut book = Book::new(3);
        for registrar in [1, 2, 9] {
            for local in 1..=4 {
                let terms = Terms {
                    owner: Owner::Custodial(1),
                    recovery: None,
                    limit: Units(0),
                    code: 0,
                    user_data: UserData::default(),
                };
                let id = account(3, registrar, local);
                let opening = Opening { id, ledger: 1, terms, limit_max: Units(0), representative: 1 };
                book.open(&opening).expect("in its turn");
            }
        }
        book
    }

    /// Logs of accounts that are open, that are not, of other shards and of no number, come and go.
    #[test]
    fn logs_are_found_as_a_tree_of_them_finds_them() {
        let book = book();
        let mut all: Vec<AccountId> = book.accounts().map(|(id, _)| id).collect();
        all.extend([account(3, 1, 0), account(3, 1, 5), account(3, 5, 1), account(3, 9, u64::MAX)]);
        all.extend([account(0, 1, 1), account(4, 2, 2), account(3, 0, 1)]);
        let (mut drawn, mut here) = (Drawn::new(1), 0);
        let (mut logs, mut tree) = (Logs::new(3), BTreeMap::new());
        for _ in 0..2_000 {
            let id = all[pick(&mut drawn, all.len())];
            assert_eq!(logs.get(id), tree.get(&id));
            assert_eq!(logs.get_mut(id).map(|log| &*log), tree.get(&id));
            here += usize::from(tree.contains_key(&id));
            if drawn.below(2) == 0 {
                logs.remove(id);
                tree.remove(&id);
            } else {
                assert_eq!(logs.or_default(id, &book), tree.entry(id).or_insert_with(Xlog::default));
            }
            let listed: BTreeMap<AccountId, &Xlog> = logs.iter().collect();
            assert!(listed.keys().eq(tree.keys()) && logs.count() == tree.len());
        }
        assert!(here > 500, "{here} were there");
    }

    #[test]
    fn an_account_that_opens_keeps_its_log() {
        let (mut book, id) = (book(), account(3, 2, 5));
        let mut logs = Logs::new(3);
        logs.or_default(id, &book);
        let (terms, limit_max) =
            book.terms(account(3, 2, 4)).map(|(terms, max)| (terms.clone(), max)).expect("open");
        book.open(&Opening { id, ledger: 1, terms, limit_max, representative: 1 }).expect("the next one");
        logs.or_default(id, &book);
        assert_eq!(logs.count(), 1);
        logs.remove(id);
        assert_eq!((logs.count(), logs.get(id)), (0, None));
    }
}
