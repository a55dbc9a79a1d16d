//! Which entries of other shards were credited here: places of logs, as sorted runs per spender.
//!
//! Keyed by spender and place alone and never by what certified an entry, for one entry may be certified in several batches and
//! lanes. The spender's name holds its shard.

use std::collections::BTreeMap;

use synod_wire::wire;

use crate::{AccountId, EntryId};

wire! {
    /// Neighbouring places of a log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Run {
        /// The first.
        pub first: u64,
        /// The last, not below the first.
        pub last: u64,
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    /// Rising, none next to another.
    runs: BTreeMap<AccountId, Vec<Run>>,
    count: usize,
}

impl Used {
    pub(crate) fn contains(&self, id: EntryId) -> bool {
        let Some(runs) = self.runs.get(&id.spender) else { return false };
        let behind = runs.partition_point(|run| run.first <= id.n);
        behind.checked_sub(1).and_then(|at| runs.get(at)).is_some_and(|run| id.n <= run.last)
    }

    /// Takes a place in, which none of the runs holds.
    pub(crate) fn insert(&mut self, id: EntryId) {
        let place = Run { first: id.n, last: id.n };
        assert!(self.put(id.spender, place), "a place is used once");
    }

    /// Takes places in; false, and nothing has changed, unless they rise and none of them was there.
    pub(crate) fn put(&mut self, spender: AccountId, new: Run) -> bool {
        let runs = self.runs.entry(spender).or_default();
        let at = runs.partition_point(|run| run.first <= new.first);
        let before = at.checked_sub(1).and_then(|at| runs.get(at)).copied();
        let behind = runs.get(at).copied();
        let is_free = before.is_none_or(|before| before.last < new.first)
            && behind.is_none_or(|behind| new.last < behind.first);
        if new.first > new.last || !is_free {
            if runs.is_empty() {
                self.runs.remove(&spender);
            }
            return false;
        }
        let joins_before = before.filter(|before| before.last.checked_add(1) == Some(new.first));
        let joins_behind = behind.filter(|behind| new.last.checked_add(1) == Some(behind.first));
        let first = joins_before.map_or(new.first, |before| before.first);
        let last = joins_behind.map_or(new.last, |behind| behind.last);
        let from = at - usize::from(joins_before.is_some());
        let until = at + usize::from(joins_behind.is_some());
        runs.splice(from..until, [Run { first, last }]);
        self.count = self.count + 1 - (until - from);
        true
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (AccountId, Run)> {
        self.runs.iter().flat_map(|(spender, runs)| runs.iter().map(|run| (*spender, *run)))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.count * 2 * size_of::<Run>() + self.runs.len() * 2 * size_of::<(AccountId, Vec<Run>)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use synod_wire::Drawn;

    use super::*;

    const ANNA: AccountId = AccountId { shard: 1, registrar: 1, local: 1 };
    const BERT: AccountId = AccountId { shard: 2, registrar: 1, local: 1 };

    #[test]
    fn runs_hold_what_a_set_of_places_holds_and_none_touches_another() {
        let (mut used, mut set, mut drawn) = (Used::default(), BTreeSet::new(), Drawn::new(3));
        for _ in 0..400 {
            let spender = [ANNA, BERT][usize::from(drawn.below(2) == 0)];
            let id = EntryId { spender, n: 1 + drawn.below(90) };
            assert_eq!(used.contains(id), set.contains(&id));
            if set.insert(id) {
                used.insert(id);
            }
            let listed: Vec<(AccountId, Run)> = used.runs().collect();
            assert_eq!(listed.len(), used.count);
            let apart = |two: &[(AccountId, Run)]| two[0].0 < two[1].0 || two[0].1.last + 1 < two[1].1.first;
            assert!(listed.windows(2).all(apart), "runs that touch are one");
            let places = listed
                .iter()
                .flat_map(|(spender, run)| (run.first..=run.last).map(|n| EntryId { spender: *spender, n }));
            assert!(places.eq(set.iter().copied()));
        }
        assert!(set.len() > 150 && used.count < set.len() / 2, "most places have neighbours");
    }

    #[test]
    fn runs_that_overlap_or_fall_are_refused() {
        let mut used = Used::default();
        assert!(!used.put(ANNA, Run { first: 3, last: 2 }));
        assert_eq!(used.bytes(), 0);
        assert!(used.put(ANNA, Run { first: 5, last: 8 }));
        assert!(used.put(ANNA, Run { first: u64::MAX, last: u64::MAX }));
        for (first, last) in [(5, 5), (8, 9), (4, 5), (1, 20), (6, 7), (u64::MAX, u64::MAX)] {
            assert!(!used.put(ANNA, Run { first, last }), "{first} to {last}");
        }
        assert!(used.put(ANNA, Run { first: 9, last: 9 }));
        assert!(used.put(ANNA, Run { first: 1, last: 4 }));
        let runs = [Run { first: 1, last: 9 }, Run { first: u64::MAX, last: u64::MAX }];
        assert!(used.runs().eq(runs.map(|run| (ANNA, run))));
    }
}
