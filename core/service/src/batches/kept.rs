//! Durable checkpoints: which blobs of the lane are the state at a position.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_crypto::merkle::Tree;
use synod_machine::Record;
use synod_machine::broadcast::Position;
use synod_wire::{List, wire};

use crate::executor::SNAPSHOT_CHUNKS_MAX;

/// Checkpoints whose blobs are kept. A server keeps two, and asks for none that is older than its own.
pub(super) const KEPT_MAX: usize = 3;

wire! {
    /// A checkpoint whose chunks are blobs of the lane.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BatchCheckpoint {
        /// The position.
        pub position: Position,
        /// The height there.
        pub height: u64,
        /// Merkle root over the chunks.
        pub root: Hash,
        /// Name of the blob and Merkle leaf of each chunk.
        pub chunks: List<(Hash, Hash), SNAPSHOT_CHUNKS_MAX>,
    }

    /// What a batch executor keeps: which checkpoints its lane holds. It makes no promise to peers of its own; that a
    /// state is durable before its root leaves is the promise behind the server's marks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum BatchRecord {
        /// The checkpoint's blobs precede this record. The third before it is released.
        0 = Taken(BatchCheckpoint),
    }
}

impl Record for BatchRecord {}

/// A checkpoint; its tree is built when a peer first asks.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) record: BatchCheckpoint,
    tree: Option<Tree>,
}

impl Kept {
    /// The name of chunk `index`.
    pub(super) fn name(&self, index: u32) -> Option<Hash> {
        self.record.chunks.get(index as usize).map(|(name, _)| *name)
    }

    /// The path that proves chunk `index`.
    pub(super) fn path(&mut self, index: u32) -> Option<Vec<Hash>> {
        let leaves = || self.record.chunks.iter().map(|(_, leaf)| *leaf).collect();
        self.tree.get_or_insert_with(|| Tree::new(leaves())).path(index)
    }
}

/// The checkpoints of the lane, oldest first, and how many of them use each blob.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    kept: VecDeque<Kept>,
    uses: BTreeMap<Hash, u32>,
}

impl Checkpoints {
    /// What replaying the lane left, and the blobs of checkpoints that were released: whether they were erased before a
    /// crash is not known.
    pub(super) fn replay(records: &mut dyn Iterator<Item = BatchRecord>) -> (Self, Vec<Hash>) {
        let (mut checkpoints, mut gone) = (Self::default(), Vec::new());
        for BatchRecord::Taken(record) in records {
            gone.append(&mut checkpoints.add(record));
        }
        gone.sort_unstable();
        gone.dedup();
        gone.retain(|name| !checkpoints.holds(name));
        (checkpoints, gone)
    }

    pub(super) fn newest(&self) -> Option<&Kept> {
        self.kept.back()
    }

    pub(super) fn get(&self, position: Position) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.record.position == position)
    }

    pub(super) fn get_mut(&mut self, position: Position) -> Option<&mut Kept> {
        self.kept.iter_mut().find(|kept| kept.record.position == position)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &BatchCheckpoint> {
        self.kept.iter().map(|kept| &kept.record)
    }

    /// Whether the lane holds a blob of this name.
    pub(super) fn holds(&self, name: &Hash) -> bool {
        self.uses.contains_key(name)
    }

    /// Adds a checkpoint; gives the blobs that nothing uses any more.
    pub(super) fn add(&mut self, record: BatchCheckpoint) -> Vec<Hash> {
        for (name, _) in &record.chunks {
            *self.uses.entry(*name).or_default() += 1;
        }
        let mut gone = Vec::new();
        let same = self.kept.iter().position(|kept| kept.record.position == record.position);
        let old = same.and_then(|at| self.kept.remove(at));
        gone.append(&mut self.release(old));
        let at = self.kept.partition_point(|kept| kept.record.position < record.position);
        self.kept.insert(at, Kept { record, tree: None });
        if self.kept.len() > KEPT_MAX {
            let old = self.kept.pop_front();
            gone.append(&mut self.release(old));
        }
        gone
    }

    fn release(&mut self, kept: Option<Kept>) -> Vec<Hash> {
        let mut gone = Vec::new();
        for (name, _) in kept.iter().flat_map(|kept| &kept.record.chunks) {
            let Some(uses) = self.uses.get_mut(name) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(name);
                gone.push(*name);
            }
        }
        gone
    }

    /// Bytes of names, leaves and trees.
    pub(super) fn bytes(&self) -> u64 {
        self.kept.iter().map(|kept| 256 + kept.record.chunks.len() as u64 * 192).sum()
    }
}
