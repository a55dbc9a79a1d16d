//! U-L2: once faults have ended, 64 slots and half a window later slots are decided on the fast path.
//! U-L3: whoever found that another one misbehaves goes on.

use std::collections::BTreeSet;

use crate::oracle::{Verdict, breach};

/// Slots that the way back may take, beside half a window.
const BACK: u64 = 64;
/// Slots behind them that are looked at.
const LOOK: u64 = 16;

/// See the module. Slots are counted from when the faults were over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Returning {
    window: u64,
    first: u64,
    /// Decisions of all replicas behind the way back: on the fast path, and on the slow one.
    decided: (u64, u64),
}

impl Returning {
    /// Faults are over, everybody is there, and this is the next slot.
    #[must_use]
    pub const fn new(window: u64, first: u64) -> Self {
        Self { window, first, decided: (0, 0) }
    }

    /// Whether slots up to this one have been seen through, and all is said.
    #[must_use]
    pub const fn is_over(&self, slot: u64) -> bool {
        slot >= self.first + BACK + self.window / 2 + LOOK
    }

    /// So many were decided while this was the highest slot.
    pub const fn decide(&mut self, slot: u64, (fast, slow): (u64, u64)) {
        if slot > self.first + BACK + self.window / 2 {
            self.decided = (self.decided.0 + fast, self.decided.1 + slow);
        }
    }

    /// Behind the way back most is fast.
    ///
    /// # Errors
    /// U-L2 if it is not.
    pub fn judge(&self) -> Verdict {
        let (fast, slow) = self.decided;
        if fast > slow {
            return Ok(());
        }
        let from = self.first;
        breach("U-L2", format!("of what was decided long after slot {from} {fast} were fast and {slow} slow"))
    }
}

/// Those that found somebody misbehaving, and what became of them.
#[derive(Clone, Debug, Default)]
pub struct Detectors {
    found: BTreeSet<u32>,
}

impl Detectors {
    /// A correct replica found that another one misbehaves.
    pub fn find(&mut self, node: u32) {
        self.found.insert(node);
    }

    /// It begins a life, and knows nothing of it.
    pub fn open(&mut self, node: u32) {
        self.found.remove(&node);
    }

    /// Those of these that found something.
    #[must_use]
    pub fn among(&self, nodes: &[u32]) -> Vec<u32> {
        nodes.iter().copied().filter(|node| self.found.contains(node)).collect()
    }

    /// Time is up, and these replicas are behind.
    ///
    /// # Errors
    /// U-L3 if one of them found somebody misbehaving and all others went on.
    pub fn judge(&self, behind: &[u32]) -> Verdict {
        let found = self.among(behind);
        if behind.is_empty() || found.len() < behind.len() {
            return Ok(());
        }
        breach("U-L3", format!("replicas {found:?} found somebody misbehaving, and they alone are behind"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_path_is_back_in_time_or_that_is_seen() {
        let mut back = Returning::new(32, 100);
        back.decide(150, (0, 90));
        assert!(!back.is_over(195) && back.is_over(196));
        assert!(back.judge().is_err(), "nothing was decided behind");
        let mut slow = back;
        back.decide(190, (40, 3));
        assert_eq!(back.judge(), Ok(()));
        slow.decide(190, (3, 40));
        assert_eq!(slow.judge().err().map(|breach| breach.checker), Some("U-L2"));
    }

    #[test]
    fn those_that_alone_are_behind_and_found_somebody_misbehaving_are_named() {
        let mut detectors = Detectors::default();
        detectors.find(1);
        assert_eq!(detectors.judge(&[]), Ok(()));
        assert_eq!(detectors.judge(&[2]), Ok(()), "it found nothing");
        assert_eq!(detectors.judge(&[1, 2]), Ok(()), "not for what it found");
        assert_eq!(detectors.judge(&[1]).err().map(|breach| breach.checker), Some("U-L3"));
        detectors.open(1);
        assert_eq!((detectors.judge(&[1]), detectors.among(&[1])), (Ok(()), Vec::new()));
    }
}
