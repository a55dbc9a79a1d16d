//! What the adapter knows of keys: which there are, when they end, and what they are charged.
//!
//! *Order.* Two orders of the same keys: by bytes, which is that of KEYS and of snapshots, and by a hash, which is that of
//! SCAN: a cursor is a hash, so it holds whatever is written meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_wire::Bytes;

/// What is charged for a key beside its words, in bytes.
pub(crate) const KEY_BYTES: u64 = 64;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    /// When it ends, in ms of agreed time.
    pub(crate) deadline: Option<u64>,
    /// At least what it holds, in bytes.
    pub(crate) charged: u64,
    /// Whether it may hold less: it grew by words that were there, or shrank.
    pub(crate) is_above: bool,
}

/// All keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyspace {
    keys: BTreeMap<Bytes, Kept>,
    ranks: BTreeSet<(u64, Bytes)>,
    due: BTreeSet<(u64, Bytes)>,
    /// Keys that may hold less than they are charged for: they are counted when the quota is reached.
    above: BTreeSet<Bytes>,
    charged: u64,
}

/// Where an element stands in the order of SCAN; never 0, which is the cursor of the beginning and of the end.
pub(crate) fn rank(element: &[u8]) -> u64 {
    Hash::of(element).short() >> 1 | 1
}

impl Keyspace {
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) const fn charged(&self) -> u64 {
        self.charged
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Kept> {
        self.keys.get(key).copied()
    }

    /// Keys by bytes.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Bytes, &Kept)> {
        self.keys.iter()
    }

    /// Keys in the order of SCAN, from a cursor on.
    pub(crate) fn from(&self, cursor: u64) -> impl Iterator<Item = &(u64, Bytes)> {
        self.ranks.range((cursor, Bytes::new())..)
    }

    /// A key is there.
    pub(crate) fn appears(&mut self, key: &Bytes) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.clone(), Kept::default());
            self.ranks.insert((rank(key), key.clone()));
        }
    }

    /// A key is gone, and its deadline and charge with it.
    pub(crate) fn vanishes(&mut self, key: &Bytes) {
        let Some(kept) = self.keys.remove(key) else { return };
        self.ranks.remove(&(rank(key), key.clone()));
        if let Some(deadline) = kept.deadline {
            self.due.remove(&(deadline, key.clone()));
        }
        self.above.remove(key);
        self.charged -= kept.charged;
    }

    /// Sets or clears the deadline of a key that is there.
    pub(crate) fn ends(&mut self, key: &Bytes, deadline: Option<u64>) {
        let Some(kept) = self.keys.get_mut(key) else { return };
        if let Some(former) = kept.deadline {
            self.due.remove(&(former, key.clone()));
        }
        kept.deadline = deadline;
        if let Some(deadline) = deadline {
            self.due.insert((deadline, key.clone()));
        }
    }
    /// Charges a key that is there for `bytes` in all, which is what it holds.
    pub(crate) fn charge(&mut self, key: &Bytes, bytes: u64) {
        if let Some(kept) = self.keys.get_mut(key) {
            self.charged = self.charged - kept.charged + bytes;
            (kept.charged, kept.is_above) = (bytes, false);
            self.above.remove(key);
        }
    }

    /// A key that is there may hold less than it is charged for.
    pub(crate) fn is_above(&mut self, key: &Bytes) {
        if let Some(kept) = self.keys.get_mut(key) {
            kept.is_above = true;
            self.above.insert(key.clone());
        }
    }

    /// A key that may hold less than it is charged for.
    pub(crate) fn first_above(&self) -> Option<Bytes> {
        self.above.first().cloned()
    }

    /// The keys whose time has come, by time.
    pub(crate) fn due(&self, now: u64) -> Vec<Bytes> {
        self.due.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, key)| key.clone()).collect()
    }

    /// Asserts that all orders hold the same keys.
    pub(crate) fn check(&self) {
        assert_eq!(self.keys.len(), self.ranks.len(), "each key has a rank");
        let is_above = |key: &Bytes| self.keys.get(key).is_some_and(|kept| kept.is_above);
        assert!(self.above.iter().all(is_above), "what may be above is");
        let deadlines = self.keys.values().filter(|kept| kept.deadline.is_some()).count();
        assert_eq!(deadlines, self.due.len(), "each deadline is of a key");
        assert_eq!(
            self.keys.values().map(|kept| kept.charged).sum::<u64>(),
            self.charged,
            "charges are a sum"
        );
    }
}
