//! Money between shards: what leaves one comes to another once, and each shard's sums fit what crossed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use synod_ledger::{
    AccountId, Book, Border, Code, Digests, Entry, EntryId, Flags, Kind, Leg, Part, Total, Units, UserData,
};
use synod_wire::List;

use crate::shop::{
    ABROAD, ANNA, BERT, CARL, DORA, EURO, NOBODY, book, incoming, opening, pay, put, sums, with,
};

const SHARDS: [u16; 3] = [4, 7, 9];

fn account(shard: u16, local: u64) -> AccountId {
    AccountId { shard, registrar: 1, local }
}

#[test]
fn legs_of_one_entry_are_credited_together_and_once() {
    let mut book = book();
    let entry = incoming(5, &[(ANNA, 3), (ABROAD, 40), (ANNA, 4), (BERT, 5)]);
    assert_eq!(book.may_import(&entry), Ok(Some(Total::of(12))));
    assert_eq!(book.import(&entry), Ok(true));
    let credits = |book: &Book, id| book.account(id).map(|account| account.credits_posted());
    assert_eq!([ANNA, BERT, CARL].map(|id| credits(&book, id)), [7, 5, 0].map(|sum| Some(Total::of(sum))));
    let border = Border { shard: ABROAD.shard, ledger: EURO };
    assert_eq!(book.imported().collect::<Vec<_>>(), [(&border, &Total::of(12))]);
    let before = format!("{book:?}");
    assert_eq!((book.import(&entry), book.may_import(&entry)), (Ok(false), Ok(None)));
    // The place is what is used, whatever else is said to stand there.
    assert_eq!(book.import(&incoming(5, &[(CARL, 9)])), Ok(false));
    assert_eq!(format!("{book:?}"), before);
    assert_eq!(book.import(&incoming(4, &[(CARL, 9)])), Ok(true), "an earlier entry may come later");
}

#[test]
fn what_cannot_be_credited_changes_nothing() {
    let mut book = with(5);
    let most = (1 << 96) - 1;
    let ours = put(&mut book, ANNA, pay(ABROAD, 1));
    assert_eq!(ours, Ok(()));
    let own = Entry { id: EntryId { spender: ANNA, n: 9 }, ..incoming(1, &[(BERT, 1)]) };
    let before = format!("{book:?}");
    for (entry, code) in [
        (own, Code::WrongShard),
        (incoming(1, &[(ABROAD, 4)]), Code::WrongShard),
        (Entry { kind: Kind::Move(3), ..incoming(1, &[(ANNA, 1)]) }, Code::WrongShard),
        (
            Entry { kind: Kind::Close(Leg { to: ANNA, amount: Units(0) }), ..incoming(1, &[]) },
            Code::WrongShard,
        ),
        (incoming(1, &[(ANNA, 1), (NOBODY, 2)]), Code::UnknownBeneficiary),
        (incoming(1, &[(ANNA, 1), (DORA, 2)]), Code::LedgerMismatch),
        (incoming(1, &[(ANNA, 1), (BERT, most + 1)]), Code::AmountTooLarge),
    ] {
        assert_eq!(book.import(&entry), Err(code), "{entry:?}");
        assert_eq!(format!("{book:?}"), before);
    }
    let limits: Vec<(AccountId, u128)> = vec![(ANNA, most); 64];
    assert_eq!(book.import(&incoming(1, &limits)), Ok(true), "64 of the largest amounts fit");
}

#[test]
fn a_total_that_would_wrap_is_refused_before_anything_is_credited() {
    let mut full = Book::new(0);
    full.open(&opening(account(0, 1), 0)).expect("the first");
    let border = Border { shard: ABROAD.shard, ledger: EURO };
    full.restore(Part::Imported { border, total: Total::MAX }).expect("a part");
    let entry = incoming(1, &[(account(0, 1), 1)]);
    assert_eq!(full.import(&entry), Err(Code::Overflow));
    assert!(!full.is_used(entry.id));
    let mut standing = book().standing(ANNA).expect("open");
    standing.opening.id = account(0, 1);
    standing.credits = Total::MAX;
    let mut rich = Book::new(0);
    rich.restore(Part::Account(standing)).expect("a part");
    assert_eq!(rich.import(&entry), Err(Code::Overflow));
    assert_eq!(rich.imported().count(), 0);
}

/// Three shards, and a bookkeeper who adds by hand what every account should have.
struct World {
    books: BTreeMap<u16, Book>,
    balances: BTreeMap<AccountId, i128>,
    /// Entries on their way, with where they are to come.
    flying: Vec<(u16, Entry)>,
    /// Those that came.
    came: BTreeSet<(u16, EntryId)>,
}

impl World {
    fn new() -> Self {
        let book = |shard: u16| {
            let mut book = Book::new(shard);
            for local in 1..=3 {
                let limit = if local == 1 { 500 } else { 0 };
                book.open(&opening(account(shard, local), limit)).expect("in their turn");
            }
            (shard, book)
        };
        let books = SHARDS.into_iter().map(book).collect();
        Self { books, balances: BTreeMap::new(), flying: Vec::new(), came: BTreeSet::new() }
    }

    fn pay(&mut self, from: AccountId, legs: &[(AccountId, u128)]) -> bool {
        let book = self.books.get_mut(&from.shard).expect("one of three");
        let legs: Vec<Leg> =
            legs.iter().map(|(to, amount)| Leg { to: *to, amount: Units(*amount) }).collect();
        let spender = book.account(from).expect("open");
        let entry = Entry {
            id: EntryId { spender: from, n: spender.sequence() + 1 },
            prev: spender.head(),
            kind: Kind::MultiPay(List::try_from(legs.clone()).expect("few")),
            transfer: 0,
            ledger: EURO,
            code: 0,
            user_data: UserData::default(),
            flags: Flags::default(),
        };
        if book.apply(&entry, Digests::default().entry(&entry)).is_err() {
            return false;
        }
        let mut abroad = BTreeSet::new();
        for leg in legs {
            let amount = i128::try_from(leg.amount.0).expect("small");
            *self.balances.entry(from).or_default() -= amount;
            if leg.to.shard == from.shard {
                *self.balances.entry(leg.to).or_default() += amount;
            } else {
                abroad.insert(leg.to.shard);
            }
        }
        self.flying.extend(abroad.into_iter().map(|shard| (shard, entry.clone())));
        true
    }

    /// One of the entries comes, and stays on its way: it may come again.
    fn come(&mut self, at: usize) {
        let Some((shard, entry)) = self.flying.get(at % self.flying.len().max(1)).cloned() else { return };
        let is_new = self.came.insert((shard, entry.id));
        let book = self.books.get_mut(&shard).expect("one of three");
        assert_eq!(book.import(&entry), Ok(is_new), "each comes once");
        let Kind::MultiPay(legs) = &entry.kind else { unreachable!("they are all") };
        for leg in legs.iter().filter(|leg| is_new && leg.to.shard == shard) {
            *self.balances.entry(leg.to).or_default() += i128::try_from(leg.amount.0).expect("small");
        }
    }

    /// What crossed a border, or all that did.
    fn sum<'a>(crossed: impl Iterator<Item = (&'a Border, &'a Total)>) -> Total {
        crossed.fold(Total::ZERO, |sum, (_, one)| sum.checked_add(*one).expect("small"))
    }

    fn check(&self) {
        for book in self.books.values() {
            let (credits, debits, _) = sums(book, EURO);
            let (out, back) = (Self::sum(book.exported()), Self::sum(book.imported()));
            assert_eq!(credits.checked_add(out), debits.checked_add(back), "conservation in each shard");
            for (id, account) in book.accounts() {
                let by_hand = self.balances.get(&id).copied().unwrap_or_default();
                let (has, owes) = account.balance();
                let sum = |total: Total| total.to_string().parse::<i128>().expect("small");
                assert_eq!(sum(has) - sum(owes), by_hand, "{id}");
            }
        }
        for (from, to) in SHARDS.into_iter().flat_map(|from| SHARDS.map(|to| (from, to))) {
            let at = |of: u16, other: u16, is_out: bool| {
                let key = Border { shard: other, ledger: EURO };
                let book = &self.books[&of];
                let mut all: Vec<_> =
                    if is_out { book.exported().collect() } else { book.imported().collect() };
                all.retain(|(border, _)| **border == key);
                Self::sum(all.into_iter())
            };
            assert!(at(from, to, true) >= at(to, from, false), "nothing comes that did not leave");
            let is_all_there =
                self.flying.iter().all(|(shard, entry)| self.came.contains(&(*shard, entry.id)));
            assert!(!is_all_there || at(from, to, true) == at(to, from, false), "in the end all came");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_order_each_entry_comes_once_and_every_shard_adds_up(
        drawn in proptest::collection::vec(any::<(u8, u8, u8, u8, u8)>(), 1..60),
    ) {
        let mut world = World::new();
        let pick = |at: u8| account(SHARDS[usize::from(at) % 3], 1 + u64::from(at / 3 % 3));
        for (what, from, one, other, amount) in drawn {
            if what % 2 == 0 {
                world.pay(pick(from), &[(pick(one), u128::from(amount)), (pick(other), 3)]);
            } else {
                world.come(usize::from(from));
            }
            world.check();
        }
        for at in 0..world.flying.len() {
            world.come(at);
        }
        world.check();
    }
}

#[test]
fn drawn_worlds_pay_abroad_and_are_refused() {
    let mut world = World::new();
    let rich = account(4, 1);
    assert!(world.pay(rich, &[(account(7, 2), 400), (account(9, 2), 50)]));
    assert!(!world.pay(rich, &[(account(7, 2), 100)]), "the limit holds across borders");
    assert!(!world.pay(account(7, 2), &[(rich, 1)]), "what has not come cannot be spent");
    world.come(0);
    assert!(world.pay(account(7, 2), &[(rich, 1)]));
    world.check();
    assert_eq!(world.flying.len(), 3);
}
