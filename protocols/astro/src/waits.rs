//! Who waits for what: each of whoever waits has one place, under the one thing that can release it.

use std::collections::{BTreeMap, BTreeSet};

use synod_ledger::{AccountId, EntryId};
use synod_machine::broadcast::Lot;

/// What can release whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The account opens.
    Opening(AccountId),
    /// The account can spend more, or pays fewer holds.
    Funds(AccountId),
    /// This place of a log is the next one, or an entry has it.
    Place(EntryId),
    /// The entry settles: if it is a hold, it is there then.
    Entry(EntryId),
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiter {
    /// The next entry of this log, to settle.
    Log(AccountId),
    /// The entries of a log in a batch, to be judged again.
    Batch(Lot, AccountId),
    /// An entry of another shard, to be credited.
    Import(EntryId),
}

/// The least account, and the least of whoever waits.
const LEAST: AccountId = AccountId { shard: 0, registrar: 0, local: 0 };

/// Everybody who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// For what, and with which of a batch's entries.
    places: BTreeMap<Waiter, (Cause, u32)>,
    by_cause: BTreeSet<(Cause, Waiter)>,
}

impl Waits {
    /// Has somebody wait, who waits for nothing else any more. `at` is the first entry of the log in the batch that waits.
    pub(crate) fn put(&mut self, waiter: Waiter, cause: Cause, at: u32) {
        self.let_go(waiter);
        self.places.insert(waiter, (cause, at));
        self.by_cause.insert((cause, waiter));
    }

    /// Lets go of somebody who waits no longer.
    pub(crate) fn let_go(&mut self, waiter: Waiter) {
        if let Some((cause, _)) = self.places.remove(&waiter) {
            self.by_cause.remove(&(cause, waiter));
        }
    }

    /// Lets go of all that waits in a batch.
    pub(crate) fn let_go_of(&mut self, lot: Lot) {
        let all = self.places.range(Waiter::Batch(lot, LEAST)..).map(|(waiter, _)| *waiter);
        let all = all.take_while(|waiter| matches!(waiter, Waiter::Batch(of, _) if *of == lot));
        for waiter in all.collect::<Vec<_>>() {
            self.let_go(waiter);
        }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether anybody waits for this.
    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.of(cause).next().is_some()
    }

    /// Takes out whoever waits for this.
    pub(crate) fn take(&mut self, cause: Cause) -> Vec<(Waiter, u32)> {
        let all: Vec<Waiter> = self.of(cause).collect();
        let taken = all.into_iter().filter_map(|waiter| {
            self.by_cause.remove(&(cause, waiter));
            self.places.remove(&waiter).map(|(_, at)| (waiter, at))
        });
        taken.collect()
    }

    fn of(&self, cause: Cause) -> impl Iterator<Item = Waiter> {
        let from = self.by_cause.range((cause, Waiter::Log(LEAST))..);
        from.take_while(move |(of, _)| *of == cause).map(|(_, waiter)| *waiter)
    }

    /// Bytes held, for memory accounting.
    pub(crate) fn bytes(&self) -> u64 {
        (self.places.len() * 2 * (size_of::<(Waiter, Cause, u32)>() + size_of::<(Cause, Waiter)>())) as u64
    }

    /// Asserts that both sides name the same.
    pub(crate) fn assert_sound(&self) {
        assert!(self.places.len() == self.by_cause.len(), "everybody waits for one thing");
    }
}
