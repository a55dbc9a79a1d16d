//! What the adapter knows of keys: which there are, their virtual ids, and when they end.

use std::collections::{BTreeMap, BTreeSet};

use synod_wire::Bytes;

/// What is charged for an item beside key and value, in bytes.
pub(crate) const ITEM_BYTES: u64 = 64;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Changes with every write; the server's own ids are never told.
    pub(crate) cas: u64,
    /// When it ends, in ms of agreed time.
    pub(crate) deadline: Option<u64>,
    /// Bytes of its value.
    pub(crate) length: u64,
}

/// All keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyspace {
    items: BTreeMap<Bytes, Item>,
    due: BTreeSet<(u64, Bytes)>,
    charged: u64,
}

fn charge(key: &[u8], item: &Item) -> u64 {
    ITEM_BYTES + key.len() as u64 + item.length
}

impl Keyspace {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) const fn charged(&self) -> u64 {
        self.charged
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Item> {
        self.items.get(key).copied()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Bytes, &Item)> {
        self.items.iter()
    }

    pub(crate) fn put(&mut self, key: &Bytes, item: Item) {
        self.remove(key);
        self.charged += charge(key, &item);
        if let Some(deadline) = item.deadline {
            self.due.insert((deadline, key.clone()));
        }
        self.items.insert(key.clone(), item);
    }

    pub(crate) fn remove(&mut self, key: &Bytes) {
        let Some(item) = self.items.remove(key) else { return };
        self.charged -= charge(key, &item);
        if let Some(deadline) = item.deadline {
            self.due.remove(&(deadline, key.clone()));
        }
    }

    /// The keys whose time has come, by time.
    pub(crate) fn due(&self, now: u64) -> Vec<Bytes> {
        self.due.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, key)| key.clone()).collect()
    }

    /// Asserts that charges and deadlines are those of the items.
    pub(crate) fn check(&self) {
        let charged: u64 = self.items.iter().map(|(key, item)| charge(key, item)).sum();
        assert_eq!(charged, self.charged, "charges are a sum");
        let deadlines = self.items.values().filter(|item| item.deadline.is_some()).count();
        assert_eq!(deadlines, self.due.len(), "each deadline is of a key");
    }
}
