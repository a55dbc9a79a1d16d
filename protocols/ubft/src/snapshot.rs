//! Snapshots: the state at a checkpoint as chunks under one root that f + 1 replicas signed (specification, 4.12).
//!
//! The root is the digest of a [`Snapshot`], which names the Merkle roots of the replica's own chunks (sessions, epochs) and of the
//! application's. So every chunk proves itself against the certified root, with the [`Snapshot`] and a path.

use synod_crypto::{Hash, merkle};
use synod_quorum::Epoch;
use synod_wire::{Bytes, Limits, List, Wire as _, wire};

use crate::batch::Slot;
use crate::certificate::{Certificate, Snapshotted};
use crate::epoch::Epochs;
use crate::sessions::{SessionRow, TABLE_MAX};

/// Longest chunk.
pub const CHUNK_MAX: usize = 64 << 10;
/// Chunks of one snapshot at most.
pub const CHUNKS_MAX: u32 = 250_000;
/// Hashes of a path at most.
pub const PATH_MAX: usize = 32;

/// A certificate of a snapshot.
pub type SnapshotBy = Certificate<Snapshotted>;

wire! {
    /// What the state behind all slots below `low` consists of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Snapshot {
        /// The epoch in which it was reached.
        pub epoch: Epoch,
        /// The first slot that it does not have.
        pub low: Slot,
        /// Agreed time there.
        pub time_ms: u64,
        /// Over the digests of all batches below.
        pub log_chain: Hash,
        /// Over the digests of all replies to them.
        pub exec_chain: Hash,
        /// Merkle root over the replica's own chunks.
        pub own_root: Hash,
        /// Number of them.
        pub own_chunks: u32,
        /// Merkle root over the application's chunks.
        pub app_root: Hash,
        /// Number of them.
        pub app_chunks: u32,
    }

    /// A part of a snapshot.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Part {
        /// The [`Snapshot`] itself.
        0 = Summary,
        /// A chunk of the replica's.
        1 = Own(u32),
        /// A chunk of the application's.
        2 = App(u32),
    }

    /// What a replica holds itself, in its chunks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Held {
        /// Which epochs are, and come.
        pub epochs: Epochs,
        /// All sessions.
        pub sessions: List<SessionRow, TABLE_MAX>,
    }
}

impl Snapshot {
    /// What f + 1 replicas sign.
    #[must_use]
    pub fn root(&self) -> Hash {
        Hash::of_value("ubft snapshot", self)
    }

    /// Number of chunks.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.own_chunks.saturating_add(self.app_chunks)
    }

    /// The part at this place among all chunks.
    #[must_use]
    pub const fn part(&self, place: u32) -> Part {
        match place.checked_sub(self.own_chunks) {
            None => Part::Own(place),
            Some(index) => Part::App(index),
        }
    }

    /// The place of a part among all chunks; none for the summary and beyond the last.
    #[must_use]
    pub fn place(&self, part: Part) -> Option<u32> {
        match part {
            Part::Summary => None,
            Part::Own(index) => (index < self.own_chunks).then_some(index),
            Part::App(index) => self.own_chunks.checked_add(index).filter(|_| index < self.app_chunks),
        }
    }

    /// Whether `path` proves that `leaf` is this part.
    #[must_use]
    pub fn proves(&self, part: Part, leaf: Hash, path: &[Hash]) -> bool {
        match part {
            Part::Summary => false,
            Part::Own(index) => merkle::proves(&self.own_root, self.own_chunks, index, leaf, path),
            Part::App(index) => merkle::proves(&self.app_root, self.app_chunks, index, leaf, path),
        }
    }

    /// Reads the snapshot that has this root.
    #[must_use]
    pub fn read(bytes: &Bytes, certified: &Snapshotted) -> Option<Self> {
        let read = Self::decode(bytes.clone(), &Limits { frame_max: 512 }).ok()?;
        let is_sized = read.own_chunks > 0
            && u64::from(read.own_chunks) + u64::from(read.app_chunks) <= u64::from(CHUNKS_MAX);
        (read.root() == certified.root && read.low == certified.low && is_sized).then_some(read)
    }
}

/// Cuts what a replica holds into chunks.
#[must_use]
pub fn chunks(bytes: &Bytes) -> Vec<Bytes> {
    let cuts = (0..bytes.len().max(1)).step_by(CHUNK_MAX);
    cuts.map(|at| bytes.slice(at..bytes.len().min(at + CHUNK_MAX))).collect()
}
