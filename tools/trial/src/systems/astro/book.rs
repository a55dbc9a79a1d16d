//! What a run knows of itself: who ordered what, what became of it, and the books kept by hand. Users, checker and phases share it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId, Kind, Opening};
use synod_machine::Time;

use crate::oracle::astro::{Facts, Reckoning};

/// How far an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its institution has not answered, or says to come again.
    Open,
    /// It has its place, in this life of the institution's member.
    Accepted(EntryId, u32),
    /// Nobody waits for it.
    Dropped,
}

/// An order of a customer.
#[derive(Clone, Debug)]
pub struct Order {
    /// The institution's member.
    pub node: u32,
    /// Whose log.
    pub spender: AccountId,
    /// What is to happen.
    pub kind: Kind,
    /// When it was given first.
    pub at: Time,
    /// How far it is.
    pub stage: Stage,
    /// How often it was given.
    pub tries: u32,
    /// Whether it settled somewhere.
    pub settled: bool,
}

/// The shared notes of a run.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// What was asked for.
    pub facts: Facts,
    /// Orders; the ticket of the first is 1, which is its name as well.
    pub orders: Vec<Order>,
    /// What settled anywhere, by place.
    pub agreed: BTreeMap<EntryId, Hash>,
    /// Of those, whether each was paid or rejected (profile II).
    pub paid: BTreeMap<EntryId, (Hash, bool)>,
    /// Entries whose certificate each member has.
    pub delivered: BTreeMap<u32, BTreeMap<EntryId, Hash>>,
    /// The accounts of each member, by hand.
    pub reckonings: BTreeMap<u32, Reckoning>,
    /// Lives of members.
    pub lives: BTreeMap<u32, u32>,
    /// Members that told of each account that it is open.
    pub opened: BTreeMap<AccountId, BTreeSet<u32>>,
    /// Accounts whose opening was asked for and not told of.
    pub opening: BTreeMap<u32, Opening>,
    /// When the core was healed.
    pub healed: Option<Time>,
    /// Entries that owners signed and that may still have to be carried.
    pub pinned: BTreeMap<AccountId, BTreeMap<u64, Hash>>,
    /// Counts for coverage.
    pub counts: BTreeMap<&'static str, u64>,
}

/// The notes, as all sides hold them.
pub type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Registers an order; its ticket.
    pub fn order(&mut self, node: u32, spender: AccountId, kind: Kind, at: Time) -> u64 {
        let stage = Stage::Open;
        self.orders.push(Order { node, spender, kind, at, stage, tries: 0, settled: false });
        self.orders.len() as u64
    }

    /// The same, of one that is given at once.
    pub fn given(&mut self, node: u32, spender: AccountId, kind: Kind, at: Time) -> u64 {
        let stage = Stage::Open;
        self.orders.push(Order { node, spender, kind, at, stage, tries: 1, settled: false });
        self.orders.len() as u64
    }

    /// The order of a ticket.
    #[must_use]
    pub fn get(&self, ticket: u64) -> Option<&Order> {
        self.orders.get(usize::try_from(ticket.checked_sub(1)?).ok()?)
    }

    /// The same, to change.
    pub fn get_mut(&mut self, ticket: u64) -> Option<&mut Order> {
        self.orders.get_mut(usize::try_from(ticket.checked_sub(1)?).ok()?)
    }

    /// What so many members at least have for an account to spend.
    #[must_use]
    pub fn available(&self, id: AccountId, members: usize) -> u128 {
        let of = |reckoning: &Reckoning| reckoning.purse(id).map(|_| reckoning.spendable(id));
        let mut all: Vec<u128> = self.reckonings.values().filter_map(of).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        members.checked_sub(1).and_then(|at| all.get(at)).copied().unwrap_or(0)
    }

    /// Whether so many members have an account.
    #[must_use]
    pub fn is_open(&self, id: AccountId, members: usize) -> bool {
        self.reckonings.values().filter(|reckoning| reckoning.purse(id).is_some()).count() >= members
    }

    /// Whether so many members have a hold open.
    #[must_use]
    pub fn is_held(&self, id: EntryId, members: usize) -> bool {
        let holds = |reckoning: &&Reckoning| reckoning.holds().any(|(held, _)| held == id);
        self.reckonings.values().filter(holds).count() >= members
    }

    /// What settled at one of these members at least.
    pub fn settled_at<'a>(&'a self, members: &'a [u32]) -> impl Iterator<Item = EntryId> + 'a {
        let all = self.agreed.keys().copied();
        all.filter(|id| members.iter().any(|member| self.has_settled(*member, *id)))
    }

    /// Whether an entry has settled at a member.
    #[must_use]
    pub fn has_settled(&self, member: u32, id: EntryId) -> bool {
        let purse = self.reckonings.get(&member).and_then(|reckoning| reckoning.purse(id.spender));
        purse.is_some_and(|purse| purse.sequence >= id.n)
    }

    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_insert(0) += by;
    }
}

#[cfg(test)]
mod tests {
    use synod_ledger::{Entry, Flags, Leg, Opening, Owner, Terms, Units, UserData, genesis};

    use super::*;

    const PAYER: AccountId = AccountId { shard: 0, registrar: 1, local: 1 };
    const PAYEE: AccountId = AccountId { local: 2, ..PAYER };

    /// A member may settle something by a certificate that nobody else gets, and lie from then on: it is owed nowhere.
    #[test]
    fn what_settled_where_nobody_stayed_honest_is_owed_by_nobody() {
        let terms = Terms {
            owner: Owner::Custodial(1),
            recovery: None,
            limit: Units(9),
            code: 0,
            user_data: UserData::default(),
        };
        let id = EntryId { spender: PAYER, n: 1 };
        let entry = Entry {
            id,
            prev: genesis(PAYER),
            kind: Kind::Pay(Leg { to: PAYEE, amount: Units(1) }),
            transfer: 1,
            ledger: 1,
            code: 0,
            user_data: UserData::default(),
            flags: Flags::default(),
        };
        let mut before = Reckoning::default();
        for id in [PAYER, PAYEE] {
            before.open(&Opening {
                id,
                ledger: 1,
                terms: terms.clone(),
                limit_max: Units(9),
                representative: 1,
            });
        }
        let mut behind = before.clone();
        behind.settle(&entry, Hash::ZERO).expect("the next of its log");
        let reckonings = BTreeMap::from([(0, before), (1, behind)]);
        let book = Book { reckonings, agreed: BTreeMap::from([(id, Hash::ZERO)]), ..Book::default() };
        assert!(book.settled_at(&[0]).eq([]), "only member 1 has it");
        assert!(book.settled_at(&[0, 1]).eq([id]));
        assert!(!book.has_settled(2, id), "nothing is known of it");
    }
}
