//! Taking a state over: the own newest checkpoint after a restart, or one that others certified (chopchop 4.9).
//!
//! The header comes first: it says how many chunks there are, and its path proves that number against the root. Until it is
//! proved nothing is made of it: a state takes the memory that its header names. The other chunks come from several members
//! at once; each is proved before it is used, and a member that sends another is blamed and asked no more. Chunks are taken
//! from members alone, of any of them: one asked before may answer late. A chunk of an own checkpoint that the lane lost is
//! fetched like the others; where nobody has it any more, the server is told to look for a newer state.

use std::collections::BTreeMap;

use synod_crypto::{Hash, merkle};
use synod_machine::broadcast::Position;
use synod_machine::{Span, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use super::checkpoint::list;
use super::kept::BatchCheckpoint;
use super::{BatchExecutor, BatchOutput, BatchTimer};
use crate::executor::{SNAPSHOT_CHUNKS_MAX, ServiceFault};
use crate::lanes::{LaneApp, State};
use crate::message::{ClientMessage, FetchState, Part, StateChunk};

/// Chunks asked for at a time.
pub(super) const PARALLEL: usize = 16;
/// After this long without an answer other members are asked.
const PATIENCE: Span = Span::millis(500);

/// Where a chunk is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Disk,
    /// A member, or nobody while all have lied.
    Member(Option<NodeId>),
}

/// A state being taken over.
#[derive(Debug)]
pub(super) struct Install<P: LaneApp> {
    pub(super) position: Position,
    height: u64,
    root: Hash,
    /// The own checkpoint of this position.
    own: Option<BatchCheckpoint>,
    /// Whether the server waits for it.
    asked: bool,
    /// Once the header is here.
    state: Option<State<P>>,
    /// The next chunk to ask for.
    next: u32,
    sources: BTreeMap<u32, Source>,
    names: Vec<(Hash, Hash)>,
    taken: u32,
    /// Chunks of others, which are stored when all are here.
    foreign: Vec<(Hash, Bytes)>,
    /// Members that sent something else than the root contains, or nothing in time.
    refused: NodeSet,
    turns: u32,
}

impl<P: LaneApp> Install<P> {
    /// Of the own checkpoint `record`.
    pub(super) fn own(record: BatchCheckpoint, asked: bool) -> Self {
        let (position, height, root) = (record.position, record.height, record.root);
        Self { own: Some(record), asked, ..Self::certified(position, height, root) }
    }

    /// Of a root that others certified.
    pub(super) const fn certified(position: Position, height: u64, root: Hash) -> Self {
        Self {
            position,
            height,
            root,
            own: None,
            asked: true,
            state: None,
            next: 0,
            sources: BTreeMap::new(),
            names: Vec::new(),
            taken: 0,
            foreign: Vec::new(),
            refused: NodeSet::EMPTY,
            turns: 0,
        }
    }

    /// Chunks of it; one, the header, until that is here.
    fn count(&self) -> u32 {
        self.state.as_ref().map_or(1, State::chunks)
    }

    fn own_name(&self, index: u32) -> Option<Hash> {
        self.own.as_ref()?.chunks.get(index as usize).map(|(name, _)| *name)
    }

    /// The next member to ask: round robin over those that did not lie.
    fn source(&mut self, others: NodeSet) -> Option<NodeId> {
        let good = others.minus(self.refused);
        let at = self.turns.checked_rem(good.count())?;
        self.turns = self.turns.wrapping_add(1);
        good.iter().nth(usize::try_from(at).ok()?)
    }

    /// Takes a chunk that is proved; false when it is none of this application.
    fn take(&mut self, app: &P, lanes: u8, index: u32, bytes: &Bytes) -> bool {
        let taken = match &mut self.state {
            Some(state) => state.adopt(index, bytes),
            None => {
                self.state = State::of_header(app.clone(), lanes, bytes);
                self.state.is_some()
            }
        };
        if taken {
            self.names.resize(self.count() as usize, (Hash::ZERO, Hash::ZERO));
            if let Some(place) = self.names.get_mut(index as usize) {
                *place = (Hash::of(bytes), merkle::leaf(bytes));
            }
            self.taken += 1;
        }
        taken
    }

    pub(super) fn bytes(&self) -> u64 {
        let state = self.state.as_ref().map_or(0, State::chunk_bytes);
        let foreign: usize = self.foreign.iter().map(|(_, chunk)| 32 + chunk.len()).sum();
        state + (foreign + 64 * self.names.len()) as u64 + 1_024
    }
}

impl<P: LaneApp> BatchExecutor<P> {
    /// After a restart: back to the newest own checkpoint, and rid of blobs that a crash may have left.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        core::mem::take(&mut self.orphans).into_iter().for_each(|name| turn.erase(name));
        self.pull(turn);
        self.advance(turn);
    }

    /// The server continues at another state: whatever is at work here is of no use any more.
    pub(super) fn on_jump(&mut self, position: Position, height: u64, root: Hash, turn: &mut Turn<'_, Self>) {
        let same = |install: &&mut Install<P>| {
            install.position == position && install.height == height && install.root == root
        };
        if let Some(install) = self.install.as_mut().filter(same) {
            // A server that comes back names the state that is being read here already.
            install.asked = true;
            self.queue.clear();
            self.queue_bytes = 0;
            return;
        }
        let idle = self.work.is_none() && self.install.is_none() && self.queue.is_empty();
        let own = self.kept.get(position).map(|kept| kept.record.clone());
        let own = own.filter(|record| record.root == root && record.height == height);
        if idle && own.is_some() && self.height == height {
            return Self::applied(position, root, turn);
        }
        self.generation += 1;
        (self.work, self.naming) = (None, None);
        self.queue.clear();
        self.queue_bytes = 0;
        drop(self.state.take());
        let install = match own {
            Some(record) => Install::own(record, true),
            None => Install::certified(position, height, root),
        };
        self.install = Some(install);
        self.pull(turn);
    }

    /// Asks for what is not asked for yet.
    fn pull(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        let Some(install) = &mut self.install else { return };
        while install.sources.len() < PARALLEL && install.next < install.count() {
            let index = install.next;
            install.next += 1;
            match install.own_name(index) {
                Some(name) => {
                    install.sources.insert(index, Source::Disk);
                    turn.load(name);
                }
                None => ask(install, index, others, turn),
            }
        }
    }

    /// Nobody answered for a while: asks others.
    pub(super) fn on_patience(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        let Some(install) = &mut self.install else { return };
        let late = install.sources.values().filter_map(|source| match source {
            Source::Member(member) => *member,
            Source::Disk => None,
        });
        install.refused = late.fold(install.refused, NodeSet::with);
        if others.within(install.refused) {
            install.refused = NodeSet::EMPTY;
            turn.output(BatchOutput::Stuck);
        }
        ask_again(install, None, others, turn);
    }

    /// A chunk from a member; proved before it is used.
    pub(super) fn on_chunk(&mut self, from: NodeId, chunk: StateChunk, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        if !others.contains(from) {
            return turn.blame(from, ServiceFault::OutOfRole);
        }
        let Some(install) = self.install.as_mut().filter(|install| install.position == chunk.position) else {
            return;
        };
        let (Part::App(index), bytes) = (chunk.part, chunk.bytes.into_bytes()) else { return };
        if !matches!(install.sources.get(&index), Some(Source::Member(_))) {
            return;
        }
        let lanes = u8::try_from(self.state.layout().lanes()).unwrap_or(u8::MAX);
        let app = self.state.app();
        let count = match &install.state {
            Some(state) => Some(u64::from(state.chunks())),
            None => State::chunks_of_header(app, &bytes),
        };
        let bounded = count.filter(|count| *count <= SNAPSHOT_CHUNKS_MAX as u64);
        let bounded = bounded.and_then(|count| u32::try_from(count).ok());
        let leaf = merkle::leaf(&bytes);
        let proved =
            bounded.is_some_and(|count| merkle::proves(&install.root, count, index, leaf, &chunk.path));
        if !proved {
            install.refused.insert(from);
            turn.blame(from, ServiceFault::WrongStateChunk(bytes));
            return ask_again(install, Some(from), others, turn);
        }
        install.sources.remove(&index);
        assert!(install.take(app, lanes, index, &bytes), "a certified chunk is one of this application");
        install.foreign.push((Hash::of(&bytes), bytes));
        self.go_on(turn);
    }

    /// A blob of an own checkpoint was read, or is lost.
    pub(super) fn on_own_chunk(&mut self, name: Hash, bytes: Option<&Bytes>, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        let lanes = u8::try_from(self.state.layout().lanes()).unwrap_or(u8::MAX);
        let app = self.state.app();
        let Some(install) = &mut self.install else { return };
        let of = |(index, source): (&u32, &Source)| {
            (*source == Source::Disk && install.own_name(*index) == Some(name)).then_some(*index)
        };
        for index in install.sources.iter().filter_map(of).collect::<Vec<u32>>() {
            match bytes {
                Some(bytes) => {
                    install.sources.remove(&index);
                    assert!(
                        install.take(app, lanes, index, bytes),
                        "an own chunk is one of this application"
                    );
                }
                None => ask(install, index, others, turn),
            }
        }
        self.go_on(turn);
    }

    /// Asks for more, or takes the state over when every chunk is here.
    fn go_on(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(install) = &self.install else { return };
        if install.state.is_none() || install.taken < install.count() {
            return self.pull(turn);
        }
        let Some(install) = self.install.take() else { return };
        let Install { position, height, root, own, asked, state, names, foreign, .. } = install;
        turn.disarm(BatchTimer::Fetch);
        let Some(state) = state else { unreachable!("the header is here") };
        self.state = state;
        (self.height, self.position) = (height, position);
        match own {
            // Chunks that the lane had lost.
            Some(_) => foreign.into_iter().for_each(|(name, chunk)| turn.store(name, chunk)),
            None => {
                self.store(foreign, turn);
                let record = BatchCheckpoint { position, height, root, chunks: list(names.clone()) };
                self.kept.certify(position);
                self.keep(record, turn);
            }
        }
        self.names = names;
        if asked {
            Self::applied(position, root, turn);
        }
        self.advance(turn);
    }
}

/// Asks others for what was asked of one member, or of all.
fn ask_again<P: LaneApp>(
    install: &mut Install<P>,
    of: Option<NodeId>,
    others: NodeSet,
    turn: &mut Turn<'_, BatchExecutor<P>>,
) {
    let late = |(index, source): (&u32, &Source)| match source {
        Source::Member(member) if of.is_none() || of == *member => Some(*index),
        Source::Member(_) | Source::Disk => None,
    };
    for index in install.sources.iter().filter_map(late).collect::<Vec<u32>>() {
        ask(install, index, others, turn);
    }
}

/// Asks a member for one chunk.
fn ask<P: LaneApp>(
    install: &mut Install<P>,
    index: u32,
    others: NodeSet,
    turn: &mut Turn<'_, BatchExecutor<P>>,
) {
    let source = install.source(others);
    install.sources.insert(index, Source::Member(source));
    if let Some(member) = source {
        let fetch = FetchState { position: install.position, part: Part::App(index) };
        turn.send(member, ClientMessage::FetchState(fetch));
    }
    turn.arm(BatchTimer::Fetch, PATIENCE);
}
