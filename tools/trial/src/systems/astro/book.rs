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

    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_insert(0) += by;
    }
}
