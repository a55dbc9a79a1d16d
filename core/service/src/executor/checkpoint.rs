//! Taking snapshots at checkpoint positions, releasing old ones, serving their parts to members (hotstuff 4.12).

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_crypto::merkle::{self, Tree};
use synod_machine::broadcast::{Checkpoint, Position};
use synod_machine::{Machine, Turn};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, List, Wire};

use super::snapshot::{ExecutorRecord, SnapshotRecord, StateSummary};
use super::{Executor, ExecutorOutput, ServiceFault};
use crate::app::{App, CHUNK_MAX};
use crate::message::{ClientMessage, FetchState, Part, StateChunk};

/// Most chunks being read for peers.
const SERVING_MAX: usize = 256;

/// Peers that wait for a blob to be read.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    waiting: BTreeMap<Hash, Vec<(NodeId, FetchState)>>,
    count: usize,
}

impl Serving {
    pub(crate) fn add(&mut self, name: Hash, asker: NodeId, fetch: FetchState) -> bool {
        let room = self.count < SERVING_MAX;
        if room {
            self.count += 1;
            self.waiting.entry(name).or_default().push((asker, fetch));
        }
        room
    }

    pub(crate) fn take(&mut self, name: Hash) -> Vec<(NodeId, FetchState)> {
        let askers = self.waiting.remove(&name).unwrap_or_default();
        self.count -= askers.len();
        askers
    }
}

/// A snapshot in the making: chunks are stored as they come.
struct Builder {
    chunks: Vec<(Hash, Hash)>,
    stored: BTreeSet<Hash>,
}

impl Builder {
    fn root(&self, from: usize) -> Hash {
        Tree::new(self.chunks.iter().skip(from).map(|(_, leaf)| *leaf).collect()).root()
    }
}

impl<P: App + 'static> Executor<P> {
    /// Stores the present state as a snapshot, releases what it makes superfluous, and gives its root. Blobs and
    /// record are issued before the root leaves in `Applied`, so the gate holds the root until they are durable.
    pub(super) fn take_snapshot(&mut self, turn: &mut Turn<'_, Self>) -> Hash {
        let app_root = self.app.root();
        let app_chunks = self.app.chunks();
        assert!(app_chunks > 0, "an application has at least one chunk, for chunk 0 clears the state");
        let mut builder = Builder { chunks: Vec::new(), stored: BTreeSet::new() };
        let snapshots = &self.snapshots;
        let mut add = |chunk: Bytes, builder: &mut Builder| {
            assert!(chunk.len() <= CHUNK_MAX, "chunks are bounded");
            let name = Hash::of(&chunk);
            builder.chunks.push((name, merkle::leaf(&chunk)));
            if !snapshots.holds(name) && builder.stored.insert(name) {
                turn.store(name, chunk);
            }
        };
        for index in 0..app_chunks {
            add(self.app.chunk(index), &mut builder);
        }
        let split = builder.chunks.len();
        assert_eq!(
            builder.root(0),
            app_root,
            "the root of an application is the Merkle root over its chunks"
        );
        self.sessions.chunks(|chunk| add(chunk, &mut builder));
        let sessions_chunks = u32::try_from(builder.chunks.len() - split).unwrap_or(u32::MAX);
        let sessions_root = builder.root(split);
        let (position, time) = (self.executed, self.time);
        let summary = StateSummary { position, time, app_root, app_chunks, sessions_root, sessions_chunks };
        self.keep_snapshot(summary, builder.chunks, turn);
        summary.root()
    }

    /// Records a snapshot whose blobs are stored.
    pub(super) fn keep_snapshot(
        &mut self,
        summary: StateSummary,
        chunks: Vec<(Hash, Hash)>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Ok(chunks) = List::try_from(chunks) else {
            unreachable!("the bound of the application's bytes keeps the number of chunks below the maximum")
        };
        let record = SnapshotRecord { summary, chunks };
        // What a damaged lane held stays on the disk until there is a state in its place.
        let given_up = core::mem::take(&mut self.given_up);
        given_up.iter().for_each(|(position, _)| turn.persist(ExecutorRecord::Dropped(*position)));
        turn.persist(ExecutorRecord::Taken(record.clone()));
        self.snapshots.add(record);
        for name in given_up.into_iter().flat_map(|(_, names)| names) {
            if !self.snapshots.holds(name) {
                turn.erase(name);
            }
        }
        self.release(self.snapshots.superfluous(Position(0)), turn);
    }

    /// A checkpoint is certified: snapshots below it go.
    pub(super) fn on_stable(&mut self, checkpoint: Checkpoint, turn: &mut Turn<'_, Self>) {
        let superfluous = self.snapshots.superfluous(checkpoint.position);
        let compact = !superfluous.is_empty();
        self.release(superfluous, turn);
        if compact {
            turn.compact();
        }
        turn.output(ExecutorOutput::Stable(checkpoint));
    }

    fn release(&mut self, positions: Vec<Position>, turn: &mut Turn<'_, Self>) {
        for position in positions {
            turn.persist(ExecutorRecord::Dropped(position));
            for name in self.snapshots.drop_one(position) {
                turn.erase(name);
            }
        }
    }

    /// A member wants a part of a snapshot. One this node does not hold is not answered: the asker turns to others.
    pub(super) fn on_fetch(&mut self, from: NodeId, fetch: FetchState, turn: &mut Turn<'_, Self>) {
        if self.settings.roster.member(from).is_none() {
            return turn.blame(from, ServiceFault::OutOfRole);
        }
        let Some(snapshot) = self.snapshots.get_mut(fetch.position) else { return };
        if fetch.part == Part::Summary {
            let bytes = snapshot.record.summary.encode();
            return send_part(from, fetch, bytes, Vec::new(), turn);
        }
        if let Some(name) = snapshot.name(fetch.part)
            && self.serving.add(name, from, fetch)
        {
            turn.load(name);
        }
    }

    /// A blob was read for peers.
    pub(super) fn serve(&mut self, name: Hash, bytes: Option<&Bytes>, turn: &mut Turn<'_, Self>) {
        for (asker, fetch) in self.serving.take(name) {
            let path = self.snapshots.get_mut(fetch.position).and_then(|snapshot| snapshot.path(fetch.part));
            if let (Some(bytes), Some(path)) = (bytes, path) {
                send_part(asker, fetch, bytes.clone(), path, turn);
            }
        }
    }
}

/// Sends a part of a state with its proof.
pub(crate) fn send_part<M: Machine<Message = ClientMessage>>(
    to: NodeId,
    fetch: FetchState,
    bytes: Bytes,
    path: Vec<Hash>,
    turn: &mut Turn<'_, M>,
) {
    let FetchState { position, part } = fetch;
    if let (Ok(bytes), Ok(path)) = (Blob::try_from(bytes), List::try_from(path)) {
        turn.send(to, ClientMessage::StateChunk(StateChunk { position, part, bytes, path }));
    }
}
