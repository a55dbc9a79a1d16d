//! Where the live blobs are, and what each segment file still holds.
//!
//! Bounds: one entry per live blob and one name per blob written to a segment that still exists, so both
//! are bounded by what the protocols store between two compactions.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Chain;

/// A blob: its lane and its name.
pub(crate) type Key = (u8, [u8; 32]);

/// Where a blob's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A segment file the journal still uses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// Its size.
    pub(crate) bytes: u64,
    /// The last lsn in it and the chain value there; of the active segment, not yet known.
    pub(crate) end: (u64, Chain),
    /// The blobs ever written to it.
    pub(crate) names: BTreeSet<Key>,
    /// Damage was found in it: its blobs are copied at the next compaction, whatever their share.
    pub(crate) suspect: bool,
}

/// The live blobs and the segment files.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    live: BTreeMap<Key, Place>,
    pub(crate) segments: BTreeMap<u64, Held>,
}

impl Blobs {
    /// A blob was written; an older copy of it is dead.
    pub(crate) fn insert(&mut self, key: Key, place: Place) {
        self.segments.entry(place.segment).or_default().names.insert(key);
        self.live.insert(key, place);
    }

    /// A blob was released.
    pub(crate) fn erase(&mut self, key: Key) {
        self.live.remove(&key);
    }

    pub(crate) fn get(&self, key: Key) -> Option<Place> {
        self.live.get(&key).copied()
    }

    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.live.contains_key(&key)
    }

    /// Bytes of live blobs in each segment that has any.
    pub(crate) fn live_bytes(&self) -> BTreeMap<u64, u64> {
        let mut bytes = BTreeMap::new();
        for place in self.live.values() {
            *bytes.entry(place.segment).or_insert(0) += place.length;
        }
        bytes
    }

    /// The live blobs of the segments that `wanted` picks.
    pub(crate) fn live_in(&self, wanted: impl Fn(u64) -> bool) -> Vec<(Key, Place)> {
        self.live
            .iter()
            .filter(|(_, place)| wanted(place.segment))
            .map(|(key, place)| (*key, *place))
            .collect()
    }

    /// Number of live blobs.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }
}
