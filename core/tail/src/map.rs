//! An ordered map with a maximum.

use std::collections::BTreeMap;

use crate::fifo::AtMax;

/// What an insertion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full map refuses or evicts, and somebody has to know"]
pub enum Inserted<K, V> {
    /// The key is new; nothing else changed.
    New,
    /// The key had this value before.
    Replaced(V),
    /// The key is new; the smallest key gave way.
    Evicted(K, V),
    /// The map is full and keeps what it has: it refuses, or the key is smaller than all of its keys.
    Refused(V),
}

/// At most `max` keys, iterated in order.
#[derive(Clone, Debug)]
pub struct TailMap<K, V> {
    entries: BTreeMap<K, V>,
    max: usize,
    at_max: AtMax,
}

impl<K: Ord, V> TailMap<K, V> {
    /// A map of at most `max` keys that refuses more.
    #[must_use]
    pub const fn refusing(max: usize) -> Self {
        Self { entries: BTreeMap::new(), max, at_max: AtMax::Refuse }
    }

    /// A map of the largest `max` keys: a full one evicts its smallest.
    #[must_use]
    pub const fn evicting(max: usize) -> Self {
        Self { entries: BTreeMap::new(), max, at_max: AtMax::Evict }
    }

    /// Sets the value of `key`, within the maximum.
    pub fn insert(&mut self, key: K, value: V) -> Inserted<K, V> {
        if let Some(present) = self.entries.get_mut(&key) {
            return Inserted::Replaced(core::mem::replace(present, value));
        }
        if self.entries.len() < self.max {
            self.entries.insert(key, value);
            return Inserted::New;
        }
        let evicts =
            self.at_max == AtMax::Evict && self.entries.keys().next().is_some_and(|smallest| *smallest < key);
        match evicts.then(|| self.entries.pop_first()).flatten() {
            None => Inserted::Refused(value),
            Some((smallest, old)) => {
                self.entries.insert(key, value);
                Inserted::Evicted(smallest, old)
            }
        }
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// The value of `key`, to change.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// Whether `key` has a value.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Takes the value of `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key)
    }

    /// Takes the smallest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.entries.pop_first()
    }

    /// The smallest key.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        self.entries.first_key_value()
    }

    /// The largest key.
    #[must_use]
    pub fn last(&self) -> Option<(&K, &V)> {
        self.entries.last_key_value()
    }

    /// The entries in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    /// The entries in key order, to change.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.entries.iter_mut()
    }

    /// Keeps the entries that `keep` approves.
    pub fn retain(&mut self, keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain(keep);
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Keys that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.max - self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
