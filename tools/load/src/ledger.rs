//! Which value each key may hold, as far as its one writer was told.
//!
//! Writes of a lane may be in flight together, and the cluster may execute those in any order. A write that was
//! issued after another was acknowledged comes later, so the other's value can be the last no more. A write in doubt
//! may still be executed at any time.
//!
//! *Bounds.* A key holds at most as many candidates as its lane has writes in flight; doubts are as many as writes
//! ended unknown.

use std::collections::{BTreeSet, VecDeque};

use synod_host::Outcome;

use crate::Tally;

/// A write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) lane: u64,
    pub(crate) key: u64,
    /// Its index among the operations of the lane.
    pub(crate) index: u64,
}

/// An acknowledged write whose value may be the last one.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: u64,
    /// Operations the lane had issued when it was acknowledged: those from here on come after it.
    issued: u64,
}

/// What differs between what was told and what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Keys that hold another value than an acknowledged write left there, or none.
    pub lost: u64,
    /// Reads that gave what was never written to their key.
    pub wrong_reads: u64,
}

/// What became of all writes of a load.
pub(crate) struct Ledger {
    issued: Vec<u64>,
    keys: Vec<VecDeque<Candidate>>,
    doubts: BTreeSet<(u64, u64)>,
    /// Outcomes of writes.
    pub(crate) writes: Tally,
    wrong_reads: u64,
}

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Ledger {
    pub(crate) fn new(lanes: u64, keys: u64) -> Self {
        Self {
            issued: vec![0; at(lanes.max(1))],
            keys: vec![VecDeque::new(); at(keys)],
            doubts: BTreeSet::new(),
            writes: Tally::default(),
            wrong_reads: 0,
        }
    }

    /// Numbers the next `count` operations of a lane; gives the first number.
    pub(crate) fn issue(&mut self, lane: u64, count: u64) -> u64 {
        let issued = self.issued.get_mut(at(lane)).expect("a load knows its lanes");
        let first = *issued;
        *issued += count;
        first
    }

    /// Operations of a lane so far.
    pub(crate) fn issued(&self, lane: u64) -> u64 {
        self.issued.get(at(lane)).copied().unwrap_or(0)
    }

    /// Notes what became of a write.
    pub(crate) fn wrote(&mut self, write: &Write, outcome: &Outcome) {
        self.writes.add(Tally::of(std::slice::from_ref(outcome)));
        match outcome {
            Outcome::Rejected { .. } => {}
            Outcome::Unknown(_) => {
                self.doubts.insert((write.key, write.index));
            }
            Outcome::Accepted { .. } => {
                let issued = self.issued(write.lane);
                let Some(candidates) = self.keys.get_mut(at(write.key)) else { return };
                // They stand in the order of their acknowledgement.
                while candidates.front().is_some_and(|oldest| oldest.issued <= write.index) {
                    candidates.pop_front();
                }
                candidates.push_back(Candidate { index: write.index, issued });
            }
        }
    }

    /// Notes whether a read gave something possible.
    pub(crate) fn read(&mut self, possible: bool) {
        self.wrong_reads += u64::from(!possible);
    }

    /// Compares all keys found, each with the index its value names, with what was told.
    pub(crate) fn judge(&self, found: impl Iterator<Item = (u64, Option<u64>)>) -> Findings {
        let mut seen = BTreeSet::new();
        let mut lost = 0;
        for (key, index) in found {
            seen.insert(key);
            let candidates = self.keys.get(at(key));
            let told = index.is_some_and(|index| {
                candidates.is_some_and(|all| all.iter().any(|one| one.index == index))
                    || self.doubts.contains(&(key, index))
            });
            lost += u64::from(!told);
        }
        let absent = (0_u64..).zip(&self.keys).filter(|(key, all)| !all.is_empty() && !seen.contains(key));
        lost += absent.count() as u64;
        Findings { lost, wrong_reads: self.wrong_reads }
    }
}

#[cfg(test)]
mod tests {
    use super::{Findings, Ledger, Write};
    use bytes::Bytes;
    use synod_host::Outcome;

    const DONE: Outcome = Outcome::Accepted { value: Bytes::new(), position: 0 };

    fn lost(ledger: &Ledger, found: &[(u64, u64)]) -> u64 {
        ledger.judge(found.iter().map(|(key, index)| (*key, Some(*index)))).lost
    }

    fn wrote(ledger: &mut Ledger, key: u64, index: u64, outcome: &Outcome) {
        ledger.wrote(&Write { lane: 0, key, index }, outcome);
    }

    #[test]
    fn the_last_acknowledged_write_is_the_one_to_be_found() {
        let mut ledger = Ledger::new(1, 2);
        for index in 0..3 {
            assert_eq!(ledger.issue(0, 1), index);
            wrote(&mut ledger, 0, index, &DONE);
        }
        assert_eq!(lost(&ledger, &[(0, 2)]), 0);
        assert_eq!(lost(&ledger, &[(0, 1)]), 1, "an older value");
        assert_eq!(lost(&ledger, &[]), 1, "no value");
        assert_eq!(lost(&ledger, &[(0, 2), (1, 0)]), 1, "a value nobody was told of");
    }

    #[test]
    fn writes_in_flight_together_may_end_in_any_order() {
        let mut ledger = Ledger::new(1, 1);
        ledger.issue(0, 2);
        wrote(&mut ledger, 0, 1, &DONE);
        wrote(&mut ledger, 0, 0, &DONE);
        assert_eq!((lost(&ledger, &[(0, 0)]), lost(&ledger, &[(0, 1)])), (0, 0));
        ledger.issue(0, 1);
        wrote(&mut ledger, 0, 2, &DONE);
        assert_eq!((lost(&ledger, &[(0, 0)]), lost(&ledger, &[(0, 1)]), lost(&ledger, &[(0, 2)])), (1, 1, 0));
    }

    #[test]
    fn a_write_in_doubt_may_be_found_and_a_rejected_one_may_not() {
        let mut ledger = Ledger::new(1, 3);
        ledger.issue(0, 4);
        wrote(&mut ledger, 0, 0, &DONE);
        wrote(&mut ledger, 0, 1, &Outcome::Unknown(None));
        wrote(&mut ledger, 0, 2, &Outcome::Rejected { code: 3_402, retry_ms: 0 });
        wrote(&mut ledger, 1, 3, &Outcome::Unknown(None));
        assert_eq!((lost(&ledger, &[(0, 0)]), lost(&ledger, &[(0, 1)]), lost(&ledger, &[(0, 2)])), (0, 0, 1));
        assert_eq!(lost(&ledger, &[(0, 0), (1, 3)]), 0, "a key in doubt may be there");
        assert_eq!((ledger.writes.accepted, ledger.writes.unknown, ledger.writes.busy), (1, 2, 1));
    }

    #[test]
    fn candidates_of_a_key_are_bounded_by_what_is_in_flight() {
        let mut ledger = Ledger::new(1, 1);
        for index in 0..1_000 {
            ledger.issue(0, 1);
            if index >= 10 {
                wrote(&mut ledger, 0, index - 10, &DONE);
            }
            assert!(ledger.keys[0].len() <= 22, "{}", ledger.keys[0].len());
        }
        assert_eq!(ledger.judge(std::iter::empty()), Findings { lost: 1, wrong_reads: 0 });
    }
}
