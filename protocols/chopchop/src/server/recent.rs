//! The digests of the last accepted batches, by which none is accepted twice (deviation D4).
//!
//! A correct witness saw an expiry of at most its own height plus the horizon, and its height was not above that of
//! acceptance; so a digest leaves this set only when its item has expired.
//!
//! Those that left are remembered for as long as batches can be accepted and not delivered: a checkpoint of what is delivered has
//! the digests that were recent at its height.
//!
//! *Bounds.* One digest for each of the last `horizon` heights, 112 bytes with its set entry, and 32 bytes for each of the 4,096
//! before them.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;

use super::BACKLOG_MAX;

/// The last accepted digests.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// Those of `heights` behind those that left.
    ring: VecDeque<Hash>,
    heights: BTreeMap<Hash, u64>,
    /// Height of the last one; the first batch after genesis has 2.
    last: u64,
    most: u64,
}

impl Recent {
    /// None yet: genesis counts as height 1.
    pub(super) const fn new(most: u64) -> Self {
        Self { ring: VecDeque::new(), heights: BTreeMap::new(), last: 1, most }
    }

    /// Those of a checkpoint, ending at height `last`; `None` when there are more than can be.
    pub(super) fn restore(most: u64, last: u64, digests: Vec<Hash>) -> Option<Self> {
        let count = digests.len() as u64;
        if count > most || count != last.saturating_sub(1).min(most) {
            return None;
        }
        let first = last - count;
        let heights = digests.iter().zip(first + 1..).map(|(digest, height)| (*digest, height)).collect();
        Some(Self { ring: digests.into(), heights, last, most })
    }

    /// The height (H).
    pub(super) const fn height(&self) -> u64 {
        self.last
    }

    /// The height at which a digest was accepted.
    pub(super) fn of(&self, digest: &Hash) -> Option<u64> {
        self.heights.get(digest).copied()
    }

    /// Accepts a digest that is not here; its height.
    pub(super) fn accept(&mut self, digest: Hash) -> u64 {
        self.last += 1;
        self.ring.push_back(digest);
        self.heights.insert(digest, self.last);
        if self.heights.len() as u64 > self.most
            && let Some(old) = self.ring.get(self.ring.len() - self.heights.len())
        {
            self.heights.remove(old);
        }
        if self.ring.len() - self.heights.len() > BACKLOG_MAX {
            self.ring.pop_front();
        }
        self.last
    }

    /// The digests, rising.
    pub(super) fn digests(&self) -> Vec<Hash> {
        self.until(self.last)
    }

    /// Those that were recent at a height that is accepted, and delivered at most a moment ago.
    pub(super) fn until(&self, height: u64) -> Vec<Hash> {
        let count = height.saturating_sub(1).min(self.most);
        let behind = self.last.saturating_sub(height);
        let before = (self.ring.len() as u64).checked_sub(behind + count);
        let Some(before) = before.and_then(|before| usize::try_from(before).ok()) else {
            unreachable!("what may be frozen is remembered")
        };
        self.ring.iter().skip(before).take(usize::try_from(count).unwrap_or(usize::MAX)).copied().collect()
    }

    /// Asserts that these are the last accepted digests, each once.
    pub(super) fn invariants(&self) {
        assert_eq!(
            self.heights.len() as u64,
            (self.last - 1).min(self.most),
            "the last min(H - 1, W) digests"
        );
        let left = self.ring.len().checked_sub(self.heights.len());
        assert!(left.is_some_and(|left| left <= BACKLOG_MAX), "a digest is accepted once");
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.heights.len() * 80 + self.ring.len() * 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;
    use synod_crypto::Hash;

    #[test]
    fn a_digest_is_recent_for_as_many_heights_as_the_horizon_and_survives_a_checkpoint() {
        let name = |n: u64| Hash::of(&n.to_le_bytes());
        let mut recent = Recent::new(4);
        for n in 0..10_u64 {
            assert_eq!(recent.accept(name(n)), n + 2);
            recent.invariants();
            assert_eq!(recent.of(&name(n)), Some(n + 2));
            assert_eq!(recent.of(&name(n.wrapping_sub(4))), None);
            let again = Recent::restore(4, recent.height(), recent.digests()).expect("its own digests");
            again.invariants();
            assert_eq!(again.of(&name(n)), Some(n + 2));
            for height in 1..=n + 2 {
                let until: Vec<Hash> = (height.max(5) - 5..height - 1).map(name).collect();
                assert_eq!(recent.until(height), until, "at {height} of {}", n + 2);
            }
        }
        assert!(Recent::restore(4, 11, vec![name(1); 3]).is_none());
        assert!(Recent::restore(4, 3, vec![name(1); 4]).is_none());
    }
}
