//! What the index knows at one time, as whoever reads sees it: records in memory, and runs.
//!
//! *Bounds.* [`SEAL`] entries in memory and a group more, about 120 bytes each.

use std::sync::Arc;

use synod_ledger::{AccountId, EntryId};
use synod_store::Reader;

use super::sealed::Runs;
use super::sorted::{Accounts, Carried, Names, Places, Sorted, Table, account, halves};
use super::words::Name;

/// Entries in memory that become a run.
pub(super) const SEAL: usize = 1 << 18;
/// Stretches of about one size that become one.
const STRETCHES: usize = 4;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Stretches of entries behind those of the runs, each in order.
    tail: Vec<Arc<Sorted>>,
    pub(super) runs: Runs,
}

impl Known {
    pub(super) const fn new(runs: Runs) -> Self {
        Self { tail: Vec::new(), runs }
    }

    /// Adds a stretch, which is in order.
    pub(super) fn push(&mut self, sorted: Sorted) {
        if sorted.records() == 0 {
            return;
        }
        self.tail.push(Arc::new(sorted));
        loop {
            let size = |sorted: &Sorted| sorted.records().checked_ilog2().unwrap_or(0) / 2;
            let Some(last) = self.tail.last().map(|last| size(last)) else { return };
            let small = self.tail.iter().rev().take_while(|sorted| size(sorted) <= last).count();
            if small < STRETCHES {
                return;
            }
            let some = self.tail.split_off(self.tail.len() - small);
            self.tail.push(Arc::new(Sorted::merged(some.iter().map(|sorted| &**sorted))));
        }
    }

    /// Entries in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.tail.iter().map(|sorted| sorted.len()).sum()
    }

    /// All that is in memory, in order; it is a run from now on.
    pub(super) fn take(&mut self) -> Sorted {
        let tail = std::mem::take(&mut self.tail);
        Sorted::merged(tail.iter().map(|sorted| &**sorted))
    }

    /// Records from this one on that begin with the same `alike` numbers, the first `max`, in order.
    fn range<T: Table>(
        &self,
        reader: &Reader,
        (from, alike): (T::Record, usize),
        max: usize,
    ) -> Vec<T::Record> {
        let on_disk = self.runs.range::<T>(reader, (&from, alike), max);
        self.with_tail::<T>(on_disk, (&from, alike), max)
    }

    fn with_tail<T: Table>(
        &self,
        found: Vec<T::Record>,
        (from, alike): (&T::Record, usize),
        max: usize,
    ) -> Vec<T::Record> {
        let mut found = found;
        for sorted in &self.tail {
            found.extend_from_slice(sorted.range::<T>(from, alike, max));
        }
        found.sort_unstable();
        found.truncate(max);
        found
    }

    /// Where the entry of a place stands.
    pub(super) fn position(&self, reader: &Reader, id: EntryId) -> Option<u64> {
        let [payer, of] = halves(id.spender.number());
        let from = [payer, of, id.n, 0];
        // What is asked for is mostly new.
        let found =
            self.tail.iter().rev().find_map(|sorted| sorted.range::<Places>(&from, 3, 1).first().copied());
        let found = found.or_else(|| self.runs.range::<Places>(reader, (&from, 3), 1).pop());
        found.map(|[.., position]| position)
    }

    /// Where the first entry of a payer's name stands; `is_own` where payments of this payer are ordered here.
    pub(super) fn named(&self, reader: &Reader, (name, payer): Name, is_own: bool) -> Option<u64> {
        let ([first, second], [high, low]) = (halves(name), halves(payer.number()));
        let from = [first, second, high, low, 0];
        let on_disk = if is_own {
            self.runs.named(reader, &from, 1)
        } else {
            self.runs.range::<Names>(reader, (&from, 4), 1)
        };
        self.with_tail::<Names>(on_disk, (&from, 4), 1).first().map(|[.., position]| *position)
    }

    /// Where entries of a name stand, of one payer where that is said; the first `max`, by their payers.
    pub(super) fn all_named(
        &self,
        reader: &Reader,
        name: u128,
        payer: Option<AccountId>,
        max: usize,
    ) -> Vec<u64> {
        let ([first, second], [high, low]) =
            (halves(name), payer.map_or([0; 2], |payer| halves(payer.number())));
        let alike = if payer.is_some() { 4 } else { 2 };
        let found = self.range::<Names>(reader, ([first, second, high, low, 0], alike), max);
        found.into_iter().map(|[.., position]| position).collect()
    }

    /// The first payer of a name from this number of an account on.
    pub(super) fn payer_from(&self, reader: &Reader, name: u128, from: u128) -> Option<AccountId> {
        let ([first, second], [high, low]) = (halves(name), halves(from));
        let found = self.range::<Names>(reader, ([first, second, high, low, 0], 2), 1);
        found.first().and_then(|[_, _, high, low, _]| account(*high, *low))
    }

    /// Where entries that an account has a part in stand, behind this position.
    pub(super) fn of_account(&self, reader: &Reader, id: AccountId, after: u64, max: usize) -> Vec<u64> {
        let [high, low] = halves(id.number());
        let Some(from) = after.checked_add(1) else { return Vec::new() };
        let found = self.range::<Accounts>(reader, ([high, low, from], 2), max);
        found.into_iter().map(|[.., position]| position).collect()
    }

    /// Lanes and numbers of batches that carry an entry.
    pub(super) fn batches(&self, reader: &Reader, id: EntryId, max: usize) -> Vec<(u8, u64)> {
        let [payer, of] = halves(id.spender.number());
        let mut found = self.range::<Carried>(reader, ([payer, of, id.n, 0, 0], 3), max);
        found.dedup();
        let lot = |[.., lane, number]: [u64; 5]| Some((u8::try_from(lane).ok()?, number));
        found.into_iter().filter_map(lot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_in_memory_stay_few_and_lose_nothing() {
        let mut known = Known::default();
        for position in 1..=1_000_u64 {
            let mut sorted = Sorted::default();
            let spender = AccountId { shard: 0, registrar: 0, local: position % 7 + 1 };
            sorted.add(position.into(), EntryId { spender, n: position }, position);
            sorted.sort();
            known.push(sorted);
            assert!(known.tail.len() <= 21, "{} stretches", known.tail.len());
        }
        assert_eq!(known.in_memory(), 1_000);
        let all = known.take();
        assert!(all.names.iter().zip(1..).all(|(record, position)| record[4] == position));
        assert_eq!((all.len(), known.in_memory()), (1_000, 0));
    }
}
