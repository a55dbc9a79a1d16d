//! The digests of the last accepted batches, by which none is accepted twice (deviation D4).
//!
//! A correct witness saw an expiry of at most its own height plus the horizon, and its height was not above that of
//! acceptance; so a digest leaves this set only when its item has expired.
//!
//! *Bounds.* One digest for each of the last `horizon` heights: 48 bytes and a set entry.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;

/// The last accepted digests.
#[derive(Clone, Debug)]
pub(super) struct Recent {
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
        if self.ring.len() as u64 > self.most
            && let Some(old) = self.ring.pop_front()
        {
            self.heights.remove(&old);
        }
        self.last
    }

    /// The digests, rising.
    pub(super) fn digests(&self) -> Vec<Hash> {
        self.ring.iter().copied().collect()
    }

    /// Asserts that these are the last accepted digests, each once.
    pub(super) fn invariants(&self) {
        assert_eq!(self.ring.len(), self.heights.len(), "a digest is accepted once");
        assert_eq!(self.ring.len() as u64, (self.last - 1).min(self.most), "the last min(H - 1, W) digests");
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ring.len() as u64 * 112
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
        }
        assert!(Recent::restore(4, 11, vec![name(1); 3]).is_none());
        assert!(Recent::restore(4, 3, vec![name(1); 4]).is_none());
    }
}
