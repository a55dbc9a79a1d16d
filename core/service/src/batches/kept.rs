//! Durable checkpoints: which blobs of the lane are the state at a position.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_crypto::merkle::Tree;
use synod_machine::Record;
use synod_machine::broadcast::Position;
use synod_wire::{List, wire};

use crate::executor::SNAPSHOT_CHUNKS_MAX;

/// Checkpoints whose blobs are kept: a server keeps two, and asks for none that is older than its own.
const KEPT: usize = 3;
/// And how many when none of the newer ones is certified.
pub(super) const KEPT_MAX: usize = 8;
/// Bytes of the names, the leaf and the tree of a chunk.
pub(super) const NAMED_BYTES: u64 = 192;

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
        /// The checkpoint's blobs precede this record. Older ones are released by what is certified.
        0 = Taken {
            /// What is kept.
            checkpoint: BatchCheckpoint,
            /// Position of the newest certified checkpoint that was known.
            stable: Position,
        },
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
    stable: Position,
}

impl Checkpoints {
    /// What replaying the lane left, and the blobs of checkpoints that were released: whether they were erased before a
    /// crash is not known.
    pub(super) fn replay(records: &mut dyn Iterator<Item = BatchRecord>) -> (Self, Vec<Hash>) {
        let (mut checkpoints, mut gone) = (Self::default(), Vec::new());
        for BatchRecord::Taken { checkpoint, stable } in records {
            gone.append(&mut checkpoints.add(checkpoint, stable));
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

    /// Adds a checkpoint; gives the blobs that nothing uses any more. Those up to `stable` are certified, and others ask for
    /// the newest of these, so the oldest stays, however many follow, until a newer one is certified; the one behind it is
    /// needed least until then.
    pub(super) fn add(&mut self, record: BatchCheckpoint, stable: Position) -> Vec<Hash> {
        for (name, _) in &record.chunks {
            *self.uses.entry(*name).or_default() += 1;
        }
        let mut gone = Vec::new();
        let same = self.kept.iter().position(|kept| kept.record.position == record.position);
        let old = same.and_then(|at| self.kept.remove(at));
        gone.append(&mut self.release(old));
        let at = self.kept.partition_point(|kept| kept.record.position < record.position);
        self.kept.insert(at, Kept { record, tree: None });
        self.certify(stable);
        while let Some(old) = self.superfluous() {
            gone.append(&mut self.release(Some(old)));
        }
        gone
    }

    /// A checkpoint is certified.
    pub(super) fn certify(&mut self, position: Position) {
        self.stable = self.stable.max(position);
    }

    /// The position of the newest certified checkpoint that is known.
    pub(super) const fn stable(&self) -> Position {
        self.stable
    }

    fn superfluous(&mut self) -> Option<Kept> {
        let certified = self.kept.get(1).is_some_and(|next| next.record.position <= self.stable);
        match self.kept.len() {
            count if count <= KEPT || (count <= KEPT_MAX && !certified) => None,
            _ if certified => self.kept.pop_front(),
            _ => self.kept.remove(1),
        }
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
        self.kept.iter().map(|kept| 256 + kept.record.chunks.len() as u64 * NAMED_BYTES).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(position: u64) -> BatchCheckpoint {
        let name = Hash::of(&position.to_le_bytes());
        let chunks = List::try_from(vec![(name, name)]).expect("one chunk");
        BatchCheckpoint { position: Position(position), height: position, root: name, chunks }
    }

    fn positions(checkpoints: &Checkpoints) -> Vec<u64> {
        checkpoints.iter().map(|record| record.position.0).collect()
    }

    #[test]
    fn the_newest_certified_state_stays_however_many_follow() {
        let mut checkpoints = Checkpoints::default();
        let mut records = Vec::new();
        let mut add = |checkpoints: &mut Checkpoints, position, stable| {
            let (checkpoint, stable) = (taken(position), Position(stable));
            records.push(BatchRecord::Taken { checkpoint: checkpoint.clone(), stable });
            checkpoints.add(checkpoint, stable);
        };
        for position in 1..=4 {
            add(&mut checkpoints, position, position - 1);
        }
        assert_eq!(positions(&checkpoints), [2, 3, 4], "each of them certified by the next");
        for position in 5..=20 {
            add(&mut checkpoints, position, 3);
        }
        let kept = positions(&checkpoints);
        assert_eq!((kept[0], kept.len(), kept.last()), (3, KEPT_MAX, Some(&20)), "{kept:?}");
        assert!(checkpoints.holds(&Hash::of(&3_u64.to_le_bytes())));
        let (again, gone) = Checkpoints::replay(&mut records.into_iter());
        assert_eq!(positions(&again), kept);
        assert!(gone.iter().all(|name| !again.holds(name)));
        checkpoints.add(taken(21), Position(20));
        assert_eq!(positions(&checkpoints), [19, 20, 21], "a newer one is certified");
    }
}
