//! Snapshots: the state at a checkpoint position as blobs under one root.
//!
//! The state root is the digest of a [`StateSummary`], which names the Merkle roots of the application's chunks and of
//! the session table's chunks. A chunk therefore proves itself against a certified root with the summary and a path.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_crypto::merkle::{self, Tree};
use synod_machine::broadcast::Position;
use synod_machine::{Record, Wall};
use synod_wire::{List, wire};

use crate::message::Part;

/// Most chunks of one snapshot: 15 GiB of state.
pub const SNAPSHOT_CHUNKS_MAX: usize = 250_000;
/// Snapshots kept: the newest certified one and the 16 newest. The ordering machine certifies no state that lies further
/// below what it delivered (hotstuff's `OWN_MAX`): a certified state that its attesters had dropped would leave a member
/// behind it without a way back.
const SNAPSHOTS_MAX: usize = 17;

wire! {
    /// What the state of a position consists of; the state root is its digest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StateSummary {
        /// The position.
        pub position: Position,
        /// Agreed time there.
        pub time: Wall,
        /// Merkle root over the application's chunks.
        pub app_root: Hash,
        /// Number of them, at least one.
        pub app_chunks: u32,
        /// Merkle root over the session table's chunks.
        pub sessions_root: Hash,
        /// Number of them, at least one.
        pub sessions_chunks: u32,
    }

    /// A snapshot whose chunks are blobs of the lane.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SnapshotRecord {
        /// What it consists of.
        pub summary: StateSummary,
        /// Name of the blob and Merkle leaf of each chunk: the application's, then the session table's.
        pub chunks: List<(Hash, Hash), SNAPSHOT_CHUNKS_MAX>,
    }

    /// What an executor keeps: which snapshots its lane holds. It makes no promise to peers of its own; that a
    /// snapshot is durable before its root leaves is the promise behind checkpoint certificates.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum ExecutorRecord {
        /// The snapshot's blobs precede this record.
        0 = Taken(SnapshotRecord),
        /// The snapshot of this position is released.
        1 = Dropped(Position),
    }
}

impl Record for ExecutorRecord {}

impl StateSummary {
    /// The state root.
    #[must_use]
    pub fn root(&self) -> Hash {
        Hash::of_value("synod state", self)
    }

    /// Number of chunks.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.app_chunks as u64 + self.sessions_chunks as u64
    }

    /// The part at this place among all chunks.
    pub(super) fn part(&self, place: u32) -> Part {
        match place.checked_sub(self.app_chunks) {
            None => Part::App(place),
            Some(index) => Part::Sessions(index),
        }
    }

    /// The place of a part among all chunks; `None` for the summary and beyond the last.
    pub(super) fn place(&self, part: Part) -> Option<u32> {
        match part {
            Part::Summary => None,
            Part::App(index) => (index < self.app_chunks).then_some(index),
            Part::Sessions(index) => {
                self.app_chunks.checked_add(index).filter(|_| index < self.sessions_chunks)
            }
        }
    }

    /// Whether `path` proves that `leaf` is this part.
    pub(super) fn proves(&self, part: Part, leaf: Hash, path: &[Hash]) -> bool {
        match part {
            Part::Summary => false,
            Part::App(index) => merkle::proves(&self.app_root, self.app_chunks, index, leaf, path),
            Part::Sessions(index) => {
                merkle::proves(&self.sessions_root, self.sessions_chunks, index, leaf, path)
            }
        }
    }
}

/// One snapshot of the lane; its trees are built when a peer first asks.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) record: SnapshotRecord,
    trees: Option<(Tree, Tree)>,
}

impl Snapshot {
    fn new(record: SnapshotRecord) -> Self {
        Self { record, trees: None }
    }

    pub(super) const fn position(&self) -> Position {
        self.record.summary.position
    }

    /// The blob that holds a part.
    pub(super) fn name(&self, part: Part) -> Option<Hash> {
        let place = usize::try_from(self.record.summary.place(part)?).ok()?;
        self.record.chunks.get(place).map(|(name, _)| *name)
    }

    /// The path that proves a part.
    pub(super) fn path(&mut self, part: Part) -> Option<Vec<Hash>> {
        let SnapshotRecord { summary, chunks } = &self.record;
        let (app, sessions) = self.trees.get_or_insert_with(|| {
            let split = usize::try_from(summary.app_chunks).unwrap_or(usize::MAX).min(chunks.len());
            let tree = |part: &[(Hash, Hash)]| Tree::new(part.iter().map(|(_, leaf)| *leaf).collect());
            (tree(&chunks[..split]), tree(&chunks[split..]))
        });
        match part {
            Part::Summary => None,
            Part::App(index) => app.path(index),
            Part::Sessions(index) => sessions.path(index),
        }
    }
}

/// The snapshots of the lane, oldest first, and how many of them use each blob.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    kept: VecDeque<Snapshot>,
    uses: BTreeMap<Hash, u32>,
}

impl Snapshots {
    /// What replaying the lane left.
    pub(super) fn replay(records: &mut dyn Iterator<Item = ExecutorRecord>) -> Self {
        let mut snapshots = Self::default();
        for record in records {
            match record {
                ExecutorRecord::Taken(record) => snapshots.add(record),
                ExecutorRecord::Dropped(position) => {
                    snapshots.drop_one(position);
                }
            }
        }
        snapshots
    }

    /// Forgets all; gives their positions and the blobs that each was the last to use.
    pub(super) fn give_up(&mut self) -> Vec<(Position, Vec<Hash>)> {
        let positions: Vec<Position> = self.kept.iter().map(Snapshot::position).collect();
        positions.into_iter().map(|position| (position, self.drop_one(position))).collect()
    }

    pub(super) fn newest(&self) -> Option<&Snapshot> {
        self.kept.back()
    }

    pub(super) fn get_mut(&mut self, position: Position) -> Option<&mut Snapshot> {
        self.kept.iter_mut().find(|snapshot| snapshot.position() == position)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Snapshot> {
        self.kept.iter()
    }

    /// Whether the lane holds a blob of this name.
    pub(super) fn holds(&self, name: Hash) -> bool {
        self.uses.contains_key(&name)
    }

    /// Adds a snapshot, newest last; one of the same position is replaced.
    pub(super) fn add(&mut self, record: SnapshotRecord) {
        self.drop_one(record.summary.position);
        for (name, _) in &record.chunks {
            *self.uses.entry(*name).or_default() += 1;
        }
        let at = self.kept.partition_point(|snapshot| snapshot.position() < record.summary.position);
        self.kept.insert(at, Snapshot::new(record));
    }

    /// The positions to release when `stable` is certified, or when too many are kept.
    pub(super) fn superfluous(&self, stable: Position) -> Vec<Position> {
        let below = self.kept.iter().map(Snapshot::position).filter(|position| *position < stable);
        let mut out: Vec<Position> = below.collect();
        let rest = self.kept.len() - out.len();
        let middle = self.kept.iter().skip(out.len() + 1).take(rest.saturating_sub(SNAPSHOTS_MAX));
        out.extend(middle.map(Snapshot::position));
        out
    }

    /// Releases a snapshot; gives the blobs that no other snapshot uses.
    pub(super) fn drop_one(&mut self, position: Position) -> Vec<Hash> {
        let Some(at) = self.kept.iter().position(|snapshot| snapshot.position() == position) else {
            return Vec::new();
        };
        let Some(snapshot) = self.kept.remove(at) else { return Vec::new() };
        let mut unused = Vec::new();
        for (name, _) in &snapshot.record.chunks {
            let Some(uses) = self.uses.get_mut(name) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(name);
                unused.push(*name);
            }
        }
        unused
    }

    /// Bytes of names, leaves and trees.
    pub(super) fn bytes(&self) -> u64 {
        self.kept.iter().map(|snapshot| 256 + snapshot.record.chunks.len() as u64 * 192).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Hash, List, Position, SNAPSHOTS_MAX, SnapshotRecord, Snapshots, StateSummary, Wall};

    fn taken(position: u64) -> SnapshotRecord {
        let (root, chunks) = (Hash::ZERO, List::default());
        let position = Position(position);
        let (app_root, sessions_root, time) = (root, root, Wall(0));
        let summary =
            StateSummary { position, time, app_root, app_chunks: 1, sessions_root, sessions_chunks: 1 };
        SnapshotRecord { summary, chunks }
    }

    #[test]
    fn the_certified_state_and_the_sixteen_newest_are_kept() {
        let mut snapshots = Snapshots::default();
        let most = u64::try_from(SNAPSHOTS_MAX).expect("small");
        (1..=most).for_each(|at| snapshots.add(taken(4 * at)));
        assert!(snapshots.superfluous(Position(0)).is_empty(), "16 may yet be certified");
        snapshots.add(taken(4 * most + 4));
        assert_eq!(snapshots.superfluous(Position(0)), [Position(8)], "4 is certified");
        assert_eq!(snapshots.superfluous(Position(12)), [Position(4), Position(8)]);
    }
}
