//! The places that a lane carried for the accounts of its registrar: a function of the content of its batches up to one of them.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_ledger::AccountId;
use synod_machine::broadcast::Lot;

use super::STEPS_MAX;
use super::words::LaneEnd;
use crate::batch::Opened;

/// One batch, by what it changed.
#[derive(Clone, Debug)]
struct Step {
    end: LaneEnd,
    /// Accounts that the registrar had opened before.
    accounts: u64,
    /// What the places of these accounts were before, by number.
    before: BTreeMap<u64, u64>,
}

/// See the module. Places of accounts that a lane does not carry are 0.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    shard: u16,
    window: u64,
    /// The last batch that was counted.
    end: LaneEnd,
    accounts: u64,
    /// By number, 1 first.
    highest: Vec<u64>,
    /// The last batches, oldest first.
    steps: VecDeque<Step>,
}

/// The places at an earlier batch.
#[derive(Clone, Debug)]
pub(crate) struct CarriedAt<'a> {
    carried: &'a Carried,
    /// The batch.
    pub(crate) end: LaneEnd,
    /// Accounts that the registrar had opened.
    pub(crate) accounts: u64,
    before: BTreeMap<u64, u64>,
}

impl Carried {
    /// A lane without batches, whose registrar has so many accounts in the genesis.
    pub(crate) fn new((shard, source): (u16, u8), accounts: u64, window: u64) -> Self {
        let end = LaneEnd { lot: Lot { source, sequence: 0 }, digest: Hash::ZERO };
        Self { shard, window, end, accounts, highest: Vec::new(), steps: VecDeque::new() }
    }

    /// The last batch that was counted.
    pub(crate) const fn end(&self) -> LaneEnd {
        self.end
    }

    /// Counts the next batch of the lane, behind which its registrar has so many accounts. A place counts that is at most a window
    /// above the one before: what a lying lane writes of places that nobody reaches is not counted.
    pub(crate) fn carry(&mut self, opened: &Opened, accounts: u64) {
        let (lot, digest) = (opened.lot(), opened.digest);
        let mut step = Step { end: self.end, accounts: self.accounts, before: BTreeMap::new() };
        (self.end, self.accounts) = (LaneEnd { lot, digest }, accounts);
        for line in &opened.batch.lines {
            let (AccountId { shard, registrar, local }, n) = (line.entry.id.spender, line.entry.id.n);
            if (shard, registrar) != (self.shard, u32::from(lot.source)) || local == 0 || local > accounts {
                continue;
            }
            let before = self.place(local);
            if n > before && n - before <= self.window {
                step.before.entry(local).or_insert(before);
                self.put(local, n);
            }
        }
        self.steps.push_back(step);
        if self.steps.len() > STEPS_MAX {
            self.steps.pop_front();
        }
    }

    fn place(&self, local: u64) -> u64 {
        let at = usize::try_from(local.saturating_sub(1)).unwrap_or(usize::MAX);
        self.highest.get(at).copied().unwrap_or_default()
    }

    fn put(&mut self, local: u64, place: u64) {
        let at = usize::try_from(local.saturating_sub(1)).expect("the account is in memory");
        if self.highest.len() <= at {
            self.highest.resize(at + 1, 0);
        }
        self.highest[at] = place;
    }

    /// The places at a batch; `None` where it is too old, or has not come.
    pub(crate) fn at(&self, sequence: u64) -> Option<CarriedAt<'_>> {
        let mut at =
            CarriedAt { carried: self, end: self.end, accounts: self.accounts, before: BTreeMap::new() };
        for step in self.steps.iter().rev() {
            if at.end.lot.sequence <= sequence {
                break;
            }
            (at.end, at.accounts) = (step.end, step.accounts);
            at.before.extend(step.before.iter().map(|(local, place)| (*local, *place)));
        }
        (at.end.lot.sequence == sequence).then_some(at)
    }

    /// Goes on from a state: the places behind a batch, and no batches before it.
    pub(crate) fn restart(&mut self, end: LaneEnd, places: impl Iterator<Item = u64>) {
        (self.end, self.steps) = (end, VecDeque::new());
        self.highest = places.collect();
        self.accounts = self.highest.len() as u64;
    }

    /// Puts one place right, of a state that goes on.
    pub(crate) fn set(&mut self, local: u64, place: u64) {
        if local > 0 && local <= self.accounts {
            self.put(local, place);
        }
    }

    /// All places, number 1 first.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        (1..=self.accounts).map(|local| (local, self.place(local)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        let steps: usize = self
            .steps
            .iter()
            .map(|step| size_of::<Step>() + step.before.len() * 2 * size_of::<(u64, u64)>())
            .sum();
        (steps + self.highest.capacity() * size_of::<u64>()) as u64
    }
}

impl CarriedAt<'_> {
    /// The highest place that the lane had carried of an account of its registrar.
    pub(crate) fn place(&self, local: u64) -> u64 {
        self.before.get(&local).copied().unwrap_or_else(|| self.carried.place(local))
    }
}
