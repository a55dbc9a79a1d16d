//! Checkpoints: the chunks that changed are copied between two batches, hashed beside the next ones, and stored.
//!
//! Blobs and record stand in the lane before `Applied`, so a root that leaves is the root of a durable state. A checkpoint of the
//! height of the one before it has the same state, also when later batches were executed meanwhile: it is a record alone.

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_wire::{Bytes, List};

use super::BatchExecutor;
use super::job::Task;
use super::kept::{BatchCheckpoint, BatchRecord};
use super::work::Work;
use crate::executor::{ServiceFault, send_part};
use crate::lanes::LaneApp;
use crate::message::{FetchState, Part};

/// A checkpoint whose chunks are being named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming {
    pub(super) position: Position,
    pub(super) height: u64,
    /// Of the copied chunks.
    pub(super) bytes: u64,
}

impl<P: LaneApp> BatchExecutor<P> {
    /// A checkpoint is due: nothing is at work, and everything before it is executed.
    pub(super) fn on_due(&mut self, position: Position, height: u64, turn: &mut Turn<'_, Self>) {
        if let Some(kept) = self.kept.get(position) {
            // Asked again after a restart.
            let root = kept.record.root;
            return Self::applied(position, root, turn);
        }
        let newest = self.kept.newest().map(|newest| &newest.record);
        if let Some(newest) = newest.filter(|newest| newest.height == height && newest.position < position) {
            // Nothing was executed between the two: the same state, which others may ask for under either position.
            let record = BatchCheckpoint { position, ..newest.clone() };
            let root = record.root;
            if self.height == height {
                self.position = position;
            }
            self.keep(record, turn);
            return Self::applied(position, root, turn);
        }
        if height < self.height {
            // Older than anything kept here. A server whose own mark is as old takes a state from others.
            return;
        }
        // Sign-ups have heights and no batch.
        (self.height, self.position) = (height, position);
        let (layout, shards) = (self.state.layout().clone(), self.state.take());
        self.work = Some(Work::Freezing { position, height });
        self.job(Task::Freeze { layout, shards }, turn);
    }

    /// What changed is copied: the lanes go on.
    pub(super) fn on_frozen(
        &mut self,
        shards: Vec<P::Shard>,
        mut changed: Vec<(u32, Bytes)>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(Work::Freezing { position, height }) = self.work.take() else { return };
        self.state.put(shards);
        changed.push((0, self.state.header()));
        let bytes = changed.iter().map(|(_, chunk)| chunk.len() as u64).sum();
        self.naming = Some(Naming { position, height, bytes });
        let mut names = core::mem::take(&mut self.names);
        names.resize(self.state.chunks() as usize, (Hash::ZERO, Hash::ZERO));
        self.job(Task::Name { names, changed }, turn);
    }

    /// The chunks are named: they become durable, then the root leaves.
    pub(super) fn on_named(
        &mut self,
        names: Vec<(Hash, Hash)>,
        root: Hash,
        changed: Vec<(u32, Bytes)>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(Naming { position, height, .. }) = self.naming.take() else { return };
        let chunks = changed.into_iter().filter_map(|(index, chunk)| {
            let (name, _) = names.get(index as usize)?;
            Some((*name, chunk))
        });
        let record = BatchCheckpoint { position, height, root, chunks: list(names.clone()) };
        self.store(chunks.collect(), turn);
        self.names = names;
        self.keep(record, turn);
        Self::applied(position, root, turn);
    }

    /// Stores the blobs that the lane does not hold.
    pub(super) fn store(&self, mut chunks: Vec<(Hash, Bytes)>, turn: &mut Turn<'_, Self>) {
        chunks.sort_unstable_by_key(|(name, _)| *name);
        chunks.dedup_by_key(|(name, _)| *name);
        for (name, chunk) in chunks {
            if !self.kept.holds(&name) {
                turn.store(name, chunk);
            }
        }
    }

    /// Records a checkpoint whose blobs are stored, and releases what nothing uses any more.
    pub(super) fn keep(&mut self, record: BatchCheckpoint, turn: &mut Turn<'_, Self>) {
        let stable = self.kept.stable();
        turn.persist(BatchRecord::Taken { checkpoint: record.clone(), stable });
        let gone = self.kept.add(record, stable);
        if !gone.is_empty() {
            gone.into_iter().for_each(|name| turn.erase(name));
            turn.compact();
        }
    }

    /// A member wants a chunk. What is not here is not answered: the asker turns to others.
    pub(super) fn on_fetch(&mut self, from: NodeId, fetch: FetchState, turn: &mut Turn<'_, Self>) {
        if self.settings.roster.member(from).is_none() {
            return turn.blame(from, ServiceFault::OutOfRole);
        }
        let Part::App(index) = fetch.part else { return };
        let name = self.kept.get(fetch.position).and_then(|kept| kept.name(index));
        if let Some(name) = name
            && self.serving.add(name, from, fetch)
        {
            turn.load(name);
        }
    }

    /// A blob was read for peers.
    pub(super) fn serve(&mut self, name: Hash, bytes: Option<&Bytes>, turn: &mut Turn<'_, Self>) {
        for (asker, fetch) in self.serving.take(name) {
            let Part::App(index) = fetch.part else { continue };
            let path = self.kept.get_mut(fetch.position).and_then(|kept| kept.path(index));
            if let (Some(bytes), Some(path)) = (bytes, path) {
                send_part(asker, fetch, bytes.clone(), path, turn);
            }
        }
    }
}

/// Names of chunks as a record holds them.
pub(super) fn list<const MAX: usize>(names: Vec<(Hash, Hash)>) -> List<(Hash, Hash), MAX> {
    match List::try_from(names) {
        Ok(names) => names,
        Err(_) => unreachable!("2^32 clients have fewer chunks than a record may name"),
    }
}
