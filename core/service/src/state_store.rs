//! Large application state: an ordered key-value store whose batches are committed with their position.
//!
//! The simulator uses [`MemoryStore`]; on disk a runtime implements the trait. A batch and the position it belongs to
//! become durable together, so that after a crash the store says by itself where execution continues.

use std::collections::BTreeMap;

use synod_machine::broadcast::Position;
use synod_wire::Bytes;

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a key.
    Put(Bytes, Bytes),
    /// Removes a key.
    Delete(Bytes),
}

/// An ordered key-value store. Errors of the world end the process inside the implementation: state that cannot be
/// read or written is no state to go on with.
pub trait StateStore: Send {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// At most `max` entries with keys from `from` on, in key order.
    fn scan(&self, from: &[u8], max: usize) -> Vec<(Bytes, Bytes)>;

    /// Applies all changes in order, together with the position that made them.
    ///
    /// # Panics
    /// When `position` is below the present one: positions only rise.
    fn commit(&mut self, position: Position, changes: Vec<Change>);

    /// The position of the newest batch; zero before the first.
    fn position(&self) -> Position;

    /// Removes every entry and the position: a snapshot is about to be restored.
    fn clear(&mut self);

    /// Bytes of keys and values.
    fn bytes(&self) -> u64;
}

/// The store in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    entries: BTreeMap<Bytes, Bytes>,
    position: Position,
    bytes: u64,
}

impl MemoryStore {
    fn remove(&mut self, key: &[u8]) {
        if let Some((key, value)) = self.entries.remove_entry(key) {
            self.bytes -= (key.len() + value.len()) as u64;
        }
    }
}

impl StateStore for MemoryStore {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.entries.get(key).cloned()
    }

    fn scan(&self, from: &[u8], max: usize) -> Vec<(Bytes, Bytes)> {
        let from = Bytes::copy_from_slice(from);
        self.entries.range(from..).take(max).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn commit(&mut self, position: Position, changes: Vec<Change>) {
        assert!(position >= self.position, "positions only rise");
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    self.remove(&key);
                    self.bytes += (key.len() + value.len()) as u64;
                    self.entries.insert(key, value);
                }
                Change::Delete(key) => self.remove(&key),
            }
        }
        self.position = position;
    }

    fn position(&self) -> Position {
        self.position
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
