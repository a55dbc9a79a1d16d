//! The open ends of logs by account. Accounts of a registrar have the numbers 1, 2, 3 and so on, so a log is found by its number.
//! Logs come and go with each payment: the memory of one that ended is the next one's.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use synod_crypto::near;
use synod_ledger::{AccountId, Book};

use crate::xlog::Xlog;

/// Where logs of one registrar's accounts are kept, number 1 first: the place in the store and one more, if there is a log.
type Dense = Vec<Option<NonZeroU32>>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    shard: u16,
    dense: Vec<(u32, Dense)>,
    store: Vec<Xlog>,
    /// Places of the store that no account has, the last one that was given back last.
    free: Vec<NonZeroU32>,
    /// Logs of accounts that are not open here.
    strange: BTreeMap<AccountId, Xlog>,
    count: usize,
}

impl Logs {
    /// Of the accounts of a shard, none of which has a log.
    pub(crate) const fn new(shard: u16) -> Self {
        Self {
            shard,
            dense: Vec::new(),
            store: Vec::new(),
            free: Vec::new(),
            strange: BTreeMap::new(),
            count: 0,
        }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Bytes held beside what the logs hold, for memory accounting.
    pub(crate) fn bytes(&self) -> u64 {
        let places: usize = self.dense.iter().map(|(_, dense)| dense.capacity()).sum();
        let places =
            places * size_of::<Option<NonZeroU32>>() + self.free.capacity() * size_of::<NonZeroU32>();
        let strange = self.strange.len() * 2 * size_of::<(AccountId, Xlog)>();
        (places + self.store.capacity() * Xlog::EMPTY_BYTES_MAX + strange) as u64
    }

    /// Has the place of a log brought nearer, which is looked up soon.
    #[inline]
    pub(crate) fn near_place(&self, id: AccountId) {
        self.at(id).into_iter().for_each(near);
    }

    /// Has a log brought nearer whose place is near.
    #[inline]
    pub(crate) fn near_log(&self, id: AccountId) {
        self.place(id).and_then(|place| self.store.get(index(place))).into_iter().for_each(Xlog::near);
    }

    #[inline]
    pub(crate) fn get(&self, id: AccountId) -> Option<&Xlog> {
        match self.place(id) {
            Some(place) => self.store.get(index(place)),
            None if self.strange.is_empty() => None,
            None => self.strange.get(&id),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: AccountId) -> Option<&mut Xlog> {
        match self.place(id) {
            Some(place) => self.store.get_mut(index(place)),
            None if self.strange.is_empty() => None,
            None => self.strange.get_mut(&id),
        }
    }

    /// The log of an account, made if there is none.
    pub(crate) fn or_default(&mut self, id: AccountId, book: &Book) -> &mut Xlog {
        if let Some(place) = self.place(id) {
            return &mut self.store[index(place)];
        }
        if book.account(id).is_none() || self.strange.contains_key(&id) {
            self.count += usize::from(!self.strange.contains_key(&id));
            return self.strange.entry(id).or_default();
        }
        let of = self.of(id.registrar).unwrap_or_else(|of| {
            self.dense.insert(of, (id.registrar, Dense::new()));
            of
        });
        let at = usize::try_from(id.local.saturating_sub(1)).expect("the account is in memory");
        if self.dense[of].1.len() <= at {
            self.dense[of].1.resize(at + 1, None);
        }
        let place = self.take();
        self.dense[of].1[at] = Some(place);
        self.count += 1;
        &mut self.store[index(place)]
    }

    /// A place of the store for a log.
    fn take(&mut self) -> NonZeroU32 {
        self.free.pop().unwrap_or_else(|| {
            self.store.push(Xlog::default());
            let count = u32::try_from(self.store.len()).ok().and_then(NonZeroU32::new);
            count.expect("as many logs as accounts at most, of which 2^32 fit in no memory")
        })
    }

    pub(crate) fn remove(&mut self, id: AccountId) {
        if let Some(place) = self.place(id) {
            self.store[index(place)].clear();
            self.free.push(place);
            if let Some(kept) = self.kept(id) {
                *kept = None;
            }
            self.count -= 1;
        } else if self.strange.remove(&id).is_some() {
            self.count -= 1;
        }
    }

    /// All of them, in the order of their accounts, those that are not open here behind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AccountId, &Xlog)> {
        let shard = self.shard;
        let dense = self.dense.iter().flat_map(move |(registrar, dense)| {
            let logs = (1_u64..).zip(dense);
            logs.filter_map(move |(local, place)| {
                let log = self.store.get(index((*place)?))?;
                Some((AccountId { shard, registrar: *registrar, local }, log))
            })
        });
        dense.chain(self.strange.iter().map(|(id, log)| (*id, log)))
    }

    /// Where the log of an account is, if it is open and has one.
    #[inline]
    fn place(&self, id: AccountId) -> Option<NonZeroU32> {
        *self.at(id)?
    }

    /// Where a registrar's logs are, or would be. Members are numbered 0, 1, 2 and so on, so nearly all are where their number says.
    #[inline]
    fn of(&self, registrar: u32) -> Result<usize, usize> {
        let guess = usize::try_from(registrar).unwrap_or(usize::MAX);
        if self.dense.get(guess).is_some_and(|(of, _)| *of == registrar) {
            return Ok(guess);
        }
        self.dense.binary_search_by_key(&registrar, |(registrar, _)| *registrar)
    }

    #[inline]
    fn at(&self, id: AccountId) -> Option<&Option<NonZeroU32>> {
        let of = self.of(id.registrar).ok();
        let (_, dense) = self.dense.get(of.filter(|_| id.shard == self.shard)?)?;
        dense.get(usize::try_from(id.local.checked_sub(1)?).ok()?)
    }

    #[inline]
    fn kept(&mut self, id: AccountId) -> Option<&mut Option<NonZeroU32>> {
        let of = self.of(id.registrar).ok()?;
        let (_, dense) = self.dense.get_mut(of)?;
        dense.get_mut(usize::try_from(id.local.checked_sub(1)?).ok()?)
    }
}

/// Places count from 1.
fn index(place: NonZeroU32) -> usize {
    usize::try_from(place.get() - 1).unwrap_or(usize::MAX)
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
