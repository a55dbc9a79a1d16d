//! What is looked at once nobody runs: whether every payment that was taken settled once at every replica of its shard, and whether the
//! books of all shards hold what they were given, no unit more or less.

use std::collections::BTreeMap;
use synod_ledger::{Account, AccountId, Book, Border, Total};

/// Entries of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Orders of its customers that were taken in the whole run, those that hand out money among them.
    pub taken: u64,
    /// Entries that settled at its replica with the fewest, at the end.
    pub least: u64,
    /// Entries that settled at its replica with the most.
    pub most: u64,
}

/// What a replica holds at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    accounts: Vec<(AccountId, Account)>,
    left: BTreeMap<Border, Total>,
    came: BTreeMap<Border, Total>,
    /// What was paid and nobody collected (profile II).
    unspent: Total,
}

impl Books {
    pub(super) fn of(book: &Book, unspent: Total) -> Self {
        Self {
            accounts: book.accounts().map(|(id, account)| (id, account.clone())).collect(),
            left: book.exported().map(|(border, total)| (*border, *total)).collect(),
            came: book.imported().map(|(border, total)| (*border, *total)).collect(),
            unspent,
        }
    }

    /// A log's last number is how many entries of it the book holds: one that settles twice is told twice and stands there once.
    pub(super) fn entries(&self) -> u64 {
        self.accounts.iter().map(|(_, account)| account.sequence()).sum()
    }

    /// Whether as much was paid, or came, as was received, or left, or waits for who was paid.
    fn is_conserved(&self) -> bool {
        let credits = sum(self.accounts.iter().map(|(_, account)| account.credits_posted()));
        let debits = sum(self.accounts.iter().map(|(_, account)| account.debits_posted()));
        let left = sum(self.left.values().copied());
        let came = sum(self.came.values().copied());
        let received = [credits, left, Some(self.unspent)].into_iter().collect::<Option<Vec<_>>>();
        let paid = [debits, came].into_iter().collect::<Option<Vec<_>>>();
        let [received, paid] = [received, paid].map(|all| all.and_then(|all| sum(all.into_iter())));
        received.is_some() && received == paid
    }

    /// What crossed borders here, by the other shard.
    pub(super) fn crossed(&self) -> [u128; 2] {
        [&self.left, &self.came].map(|all| all.values().map(|total| number(*total)).sum())
    }
}

/// The lower 128 bits.
pub(super) fn number(total: Total) -> u128 {
    let [_, _, _, _, _, _, _, _, low @ ..] = total.to_be_bytes();
    u128::from_be_bytes(low)
}

fn sum(mut totals: impl Iterator<Item = Total>) -> Option<Total> {
    totals.try_fold(Total::ZERO, Total::checked_add)
}

/// Whether the replicas of each shard hold the same.
pub(super) fn are_equal(shards: &[Vec<&Books>]) -> bool {
    shards.iter().all(|books| books.windows(2).all(|two| two[0] == two[1]))
}

/// Whether each shard's books add up, and what left a shard for another came there.
pub(super) fn are_conserved(shards: &[Vec<&Books>]) -> bool {
    let first: Vec<&Books> = shards.iter().filter_map(|books| books.first().copied()).collect();
    let crossing = |of: fn(&Books) -> &BTreeMap<Border, Total>, is_leaving: bool| {
        let mut all: BTreeMap<(u16, u16, u32), Total> = BTreeMap::new();
        for (own, books) in (0_u16..).zip(&first) {
            for (border, total) in of(books) {
                let pair = if is_leaving { (own, border.shard) } else { (border.shard, own) };
                all.insert((pair.0, pair.1, border.ledger), *total);
            }
        }
        all
    };
    first.len() == shards.len()
        && first.iter().all(|books| books.is_conserved())
        && crossing(|books| &books.left, true) == crossing(|books| &books.came, false)
}

#[cfg(test)]
mod tests {
    use super::{Books, are_conserved, are_equal};
    use crate::pay::bank::{Bank, Place, account};
    use crate::pay::orders::draft;
    use crate::pay::tests::plan;
    use crate::pay::{PayPlan, Workload};
    use synod_ledger::{Book, Digests, Entry, EntryId, Kind, Leg, Total, Units, genesis};

    /// Two shards; the issuer of one has paid a customer of the other 7, who received it or not.
    fn two(is_received: bool) -> [Book; 2] {
        let bank = Bank::new(PayPlan { shards: 2, workload: Workload::Pay, ..plan() }).expect("a plan");
        let mut books = [0, 1].map(|shard| {
            let mut book = Book::new(shard);
            bank.genesis(shard).iter().for_each(|opening| book.open(opening).expect("a genesis"));
            book
        });
        let [from, to] = [(0, 1), (1, 2)].map(|(shard, local)| account(Place { shard, id: 0 }, local));
        let order = draft(from, Kind::Pay(Leg { to, amount: Units(7) }), 1);
        let entry = Entry {
            id: EntryId { spender: from, n: 1 },
            prev: genesis(from),
            kind: order.kind,
            transfer: 1,
            ledger: order.ledger,
            code: 0,
            user_data: order.user_data,
            flags: order.flags,
        };
        books[0].apply(&entry, Digests::default().entry(&entry)).expect("the issuer pays");
        if is_received {
            assert_eq!(books[1].import(&entry), Ok(true));
        }
        books
    }

    #[test]
    fn what_left_a_shard_and_did_not_come_fails_the_audit() {
        for is_received in [true, false] {
            let books = two(is_received).map(|book| Books::of(&book, Total::ZERO));
            let shards = [vec![&books[0]], vec![&books[1]]];
            assert!(are_equal(&shards) && books.iter().all(Books::is_conserved));
            assert_eq!(are_conserved(&shards), is_received);
            assert_eq!(books[0].crossed(), [7, 0]);
            assert_eq!((books[0].entries(), books[1].entries()), (1, 0));
        }
    }

    #[test]
    fn a_unit_that_nobody_paid_and_a_replica_of_its_own_opinion_fail_the_audit() {
        let [one, other] = two(true);
        let books = Books::of(&one, Total::ZERO);
        assert!(!Books::of(&one, Total::of(1)).is_conserved(), "somebody is owed what nobody paid");
        let other = Books::of(&other, Total::ZERO);
        assert!(are_equal(&[vec![&books, &books], vec![&other]]));
        assert!(!are_equal(&[vec![&books, &other], vec![&other]]));
        assert!(!are_conserved(&[vec![&books], Vec::new()]), "a shard without books");
    }
}
