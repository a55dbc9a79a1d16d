//! The store: entries with what must be found besides them, and every account kept in one place.
//!
//! Beside the tree stand the keys in byte order (ranges) and the deadlines in (time, key) order (expiry). All
//! changes of entries pass through the four writers of this file, so versions, sums and both indexes cannot
//! drift apart; `invariants` recounts them.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::{
    ENTRY_BYTES_MAX,
    denied::{Denied, ENTRY_TOO_LARGE},
    tree::{self, Entry, Tree},
    value::Value,
};

/// Memory of an entry beside its encoding, in bytes: boxes, both indexes, allocator overhead.
pub(crate) const ENTRY_OVERHEAD: u64 = 256;
/// Memory of an element beside its encoding, in bytes.
pub(crate) const ELEMENT_OVERHEAD: u64 = 96;

/// What an edit did to a value.
pub(crate) enum Edit<R> {
    /// Nothing: the version stays.
    Kept(R),
    /// The value changed.
    Changed(R),
}

/// What becomes of a deadline when a key is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    Keep,
    Clear,
    At(u64),
}

/// All data.
#[derive(Debug)]
pub(crate) struct Store {
    tree: Tree,
    /// All keys in byte order.
    keys: BTreeSet<Bytes>,
    deadlines: BTreeSet<(u64, Bytes)>,
    /// Agreed time of the newest block, in ms.
    time: u64,
    /// Changes so far; each gives its number to the entry as version.
    writes: u64,
    weight: u64,
    elements: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            tree: Tree::new(),
            keys: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            time: 0,
            writes: 0,
            weight: 0,
            elements: 0,
        }
    }

    /// An empty store at a given time and number of writes, to be filled by `adopt`.
    pub(crate) fn resumed(time: u64, writes: u64) -> Self {
        Self { time, writes, ..Self::new() }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.tree.get(key)
    }

    /// Agreed time of the newest block, in ms.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// All keys in byte order.
    pub(crate) fn keys(&self) -> &BTreeSet<Bytes> {
        &self.keys
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Length of the encoding of all entries, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// An upper estimate of the memory in use, in bytes; equal at all replicas.
    pub(crate) fn bytes(&self) -> u64 {
        self.weight + self.keys.len() as u64 * ENTRY_OVERHEAD + self.elements * ELEMENT_OVERHEAD
    }

    /// The version of a key: 0 when it is absent.
    pub(crate) fn version(&self, key: &[u8]) -> u64 {
        self.get(key).map_or(0, |entry| entry.version)
    }

    /// Moves agreed time on and removes what has expired, in (deadline, key) order.
    pub(crate) fn advance(&mut self, time: u64) {
        self.time = self.time.max(time);
        while let Some((deadline, key)) = self.deadlines.first() {
            if *deadline > self.time {
                break;
            }
            let key = key.clone();
            let removed = self.remove(&key);
            assert!(removed, "a deadline names a key that is there");
        }
    }

    /// Edits the value of `key`; with `fresh`, an absent key starts as that value. `None` when the key is absent
    /// and nothing fresh was given. A collection left empty is removed. `growth` is the most bytes by which the
    /// entry may grow.
    ///
    /// # Errors
    /// The refusal of `edit`, or that the entry would be too large; nothing has changed then.
    pub(crate) fn edit<R>(
        &mut self,
        key: &[u8],
        growth: u64,
        fresh: Option<fn() -> Value>,
        edit: impl FnOnce(&mut Value) -> Result<Edit<R>, Denied>,
    ) -> Result<Option<R>, Denied> {
        let place = tree::place(key);
        let leaf = self.tree.leaf_mut(place);
        let index = match (leaf.find(place, key), fresh) {
            (Ok(index), _) => index,
            (Err(_), None) => return Ok(None),
            (Err(_), Some(fresh)) => {
                let mut value = fresh();
                let result = match edit(&mut value)? {
                    Edit::Kept(result) => result,
                    Edit::Changed(result) => {
                        self.create(key, value, None);
                        result
                    }
                };
                return Ok(Some(result));
            }
        };
        let (weight, elements) = (leaf.entry(index).weight(), leaf.entry(index).value.elements());
        if growth > 0 && weight + growth > ENTRY_BYTES_MAX {
            return Err(ENTRY_TOO_LARGE);
        }
        let version = self.writes + 1;
        let result = leaf.change(index, |entry| match edit(&mut entry.value)? {
            Edit::Kept(result) => Ok((result, false)),
            Edit::Changed(result) => {
                entry.version = version;
                Ok((result, true))
            }
        });
        let (result, changed) = result?;
        if changed {
            let entry = leaf.entry(index);
            let empty = entry.value.is_empty_collection();
            self.writes = version;
            self.weight = self.weight - weight + entry.weight();
            self.elements = self.elements - elements + entry.value.elements();
            if empty {
                self.remove(key);
            }
        }
        Ok(Some(result))
    }

    /// Makes `key` the string `text`, whatever it was.
    pub(crate) fn put(&mut self, key: &[u8], text: &[u8], deadline: Deadline) {
        let place = tree::place(key);
        let leaf = self.tree.leaf_mut(place);
        let Ok(index) = leaf.find(place, key) else {
            let deadline = match deadline {
                Deadline::At(time) => Some(time),
                Deadline::Keep | Deadline::Clear => None,
            };
            return self.create(key, Value::Text(text.to_vec()), deadline);
        };
        self.writes += 1;
        let version = self.writes;
        let old = leaf.entry(index);
        let (weight, elements, old_deadline) = (old.weight(), old.value.elements(), old.deadline);
        let new_deadline = match deadline {
            Deadline::Keep => old_deadline,
            Deadline::Clear => None,
            Deadline::At(time) => Some(time),
        };
        let new_weight = leaf.change(index, |entry| {
            entry.version = version;
            entry.deadline = new_deadline;
            entry.value.become_text(text);
            entry.weight()
        });
        self.weight = self.weight - weight + new_weight;
        self.elements -= elements;
        if old_deadline != new_deadline {
            let key = leaf.entry(index).key.clone();
            self.reindex(key, old_deadline, new_deadline);
        }
    }

    /// Gives `key` a deadline, or takes it away; whether the key is there.
    pub(crate) fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> bool {
        let place = tree::place(key);
        let leaf = self.tree.leaf_mut(place);
        let Ok(index) = leaf.find(place, key) else { return false };
        self.writes += 1;
        let version = self.writes;
        let (key, old) = leaf.change(index, |entry| {
            entry.version = version;
            (entry.key.clone(), core::mem::replace(&mut entry.deadline, deadline))
        });
        self.reindex(key, old, deadline);
        true
    }

    /// Removes a key; whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let place = tree::place(key);
        let leaf = self.tree.leaf_mut(place);
        let Ok(index) = leaf.find(place, key) else { return false };
        let entry = leaf.remove(index);
        self.writes += 1;
        self.weight -= entry.weight();
        self.elements -= entry.value.elements();
        self.keys.remove(&entry.key);
        self.reindex(entry.key, entry.deadline, None);
        true
    }

    /// Takes an entry of a snapshot as it is; whether its key was new.
    pub(crate) fn adopt(&mut self, entry: Entry) -> bool {
        let place = tree::place(&entry.key);
        let leaf = self.tree.leaf_mut(place);
        let Err(index) = leaf.find(place, &entry.key) else { return false };
        self.weight += entry.weight();
        self.elements += entry.value.elements();
        self.keys.insert(entry.key.clone());
        if let Some(deadline) = entry.deadline {
            self.deadlines.insert((deadline, entry.key.clone()));
        }
        leaf.insert(index, place, entry);
        true
    }

    fn create(&mut self, key: &[u8], value: Value, deadline: Option<u64>) {
        if value.is_empty_collection() {
            return;
        }
        self.writes += 1;
        let entry = Entry { key: Bytes::copy_from_slice(key), version: self.writes, deadline, value };
        let new = self.adopt(entry);
        assert!(new, "only an absent key is created");
    }

    fn reindex(&mut self, key: Bytes, old: Option<u64>, new: Option<u64>) {
        let key = match old {
            Some(old) => {
                let pair = (old, key);
                let found = self.deadlines.remove(&pair);
                assert!(found, "every deadline is indexed");
                pair.1
            }
            None => key,
        };
        if let Some(new) = new {
            self.deadlines.insert((new, key));
        }
    }

    /// Recounts every account.
    pub(crate) fn invariants(&self) {
        let (mut weight, mut elements, mut count, mut deadlines) = (0, 0, 0, 0);
        self.tree.walk(0, &mut |_, entry| {
            weight += entry.weight();
            elements += entry.value.elements();
            count += 1;
            assert!(entry.version <= self.writes && entry.version > 0);
            assert!(!entry.value.is_empty_collection());
            if let Some(deadline) = entry.deadline {
                deadlines += 1;
                assert!(deadline > self.time, "what has expired is gone");
                assert!(self.deadlines.contains(&(deadline, entry.key.clone())));
            }
            assert!(self.keys.contains(&entry.key));
            true
        });
        assert_eq!((weight, elements), (self.weight, self.elements));
        assert_eq!((count, deadlines), (self.keys.len(), self.deadlines.len()));
        self.tree.invariants();
    }
}
