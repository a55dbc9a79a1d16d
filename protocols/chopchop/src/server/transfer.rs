//! A state from others: which chunks, then chunk by chunk, from several servers at a time (section 4.9).
//!
//! The names are proved by the certified root, each chunk by its name; so a server that sends something else is blamed and
//! only costs time. What of the state is here already is read from the own disk.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::broadcast::{AtomicBroadcast, Position, Submit};
use synod_machine::{Span, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::{Mark, Server, ServerOutput, ServerRecord, ServerTimer};
use crate::fault::Fault;
use crate::message::{ServerMessage, TransferMessage};
use crate::trace::{Note, NoteName};

/// Chunks asked for at a time.
const PARALLEL: usize = 16;
/// How long a server has to answer.
pub(super) const PATIENCE: Span = Span::millis(500);
/// Chunks that are read for others at a time.
const SERVING_MAX: usize = 256;

/// A state that is being read or fetched.
#[derive(Clone, Debug)]
pub(super) struct Loading {
    pub(super) position: Position,
    root: Hash,
    /// Of an own mark; else certified by others.
    pub(super) own: bool,
    /// Nothing until its names are known.
    pub(super) mark: Option<Mark>,
    pub(super) read: BTreeMap<Hash, Option<Bytes>>,
    pub(super) missing: usize,
    /// Chunks that are not here.
    foreign: Vec<Hash>,
    asked: BTreeMap<Hash, NodeId>,
    turns: u32,
    /// Chunks that were fetched and stored here, named by no own mark yet.
    stored: Vec<Hash>,
    /// Another state was wanted before, so that parts of it may come late.
    again: bool,
    /// The application was told to take its part.
    told: bool,
    /// What was decided behind it stays: the ordering layer did not ask for it, and says nothing again.
    above: bool,
}

impl Loading {
    /// Of the own last mark.
    pub(super) fn own(mark: Mark) -> Self {
        let mut loading = Self::certified(mark.position, Hash::ZERO);
        loading.own = true;
        loading.take(mark);
        loading
    }

    /// Of a checkpoint that servers name to one that fell behind.
    pub(super) fn behind(position: Position, root: Hash) -> Self {
        Self { above: true, ..Self::certified(position, root) }
    }

    const fn certified(position: Position, root: Hash) -> Self {
        Self {
            position,
            root,
            own: false,
            mark: None,
            read: BTreeMap::new(),
            missing: 0,
            foreign: Vec::new(),
            asked: BTreeMap::new(),
            turns: 0,
            stored: Vec::new(),
            again: false,
            told: false,
            above: false,
        }
    }

    fn take(&mut self, mark: Mark) {
        self.read = mark.names().map(|name| (name, None)).collect();
        self.missing = self.read.len();
        self.mark = Some(mark);
    }

    /// Every chunk is here.
    pub(super) const fn whole(&self) -> bool {
        self.mark.is_some() && self.missing == 0
    }

    fn fill(&mut self, name: &Hash, bytes: &Bytes) -> bool {
        let Some(place) = self.read.get_mut(name).filter(|place| place.is_none()) else { return false };
        *place = Some(bytes.clone());
        self.missing -= 1;
        self.asked.remove(name);
        true
    }

    fn source(&mut self, others: NodeSet) -> Option<NodeId> {
        let at = self.turns.checked_rem(others.count())?;
        self.turns = self.turns.wrapping_add(1);
        others.iter().nth(usize::try_from(at).ok()?)
    }

    /// The names of what is fetched from others, once they are known.
    pub(super) fn taking(&self) -> Option<&Mark> {
        self.mark.as_ref().filter(|_| !self.own)
    }

    pub(super) fn bytes(&self) -> u64 {
        let chunks: usize = self.read.values().flatten().map(Bytes::len).sum();
        chunks as u64 + self.read.len() as u64 * 96
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// This server is behind what others retain, or cannot go on: the state of that root takes the place of what is here,
    /// and every entry behind it comes again.
    pub(super) fn on_jump(&mut self, position: Position, root: Hash, turn: &mut Turn<'_, Self>) {
        let reported = self.checkpoints.reported();
        if self.loading.is_none() && reported >= position {
            // It got beyond it before it was told.
            return self.submits.push_back(Submit::Applied { position: reported, root: None });
        }
        let same =
            |loading: &&mut Loading| !loading.own && loading.position == position && loading.root == root;
        if let Some(loading) = self.loading.as_mut().filter(same) {
            if core::mem::take(&mut loading.above) {
                // From here on it is the ordering layer's, which says again what lies behind.
                self.queue.clear();
            }
            return;
        }
        if self.checkpoints.reaches(position) {
            return;
        }
        turn.note(Note::of(NoteName::Behind, [position.0, self.delivered, 0], Hash::ZERO));
        self.work = None;
        self.queue.clear();
        self.behind.stop();
        let mut loading = Loading::certified(position, root);
        if let Some(old) = self.loading.take() {
            // Whoever was silent is not asked first again.
            (loading.turns, loading.again) = (old.turns, true);
            let held: Vec<Hash> = self.checkpoints.marks.iter().flat_map(Mark::names).collect();
            old.stored.into_iter().filter(|name| !held.contains(name)).for_each(|name| turn.erase(name));
        }
        self.loading = Some(loading);
        self.on_fetch(turn);
    }

    /// Asks for the names, or for chunks that are not here, whoever was asked before.
    pub(super) fn on_fetch(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(loading) = &mut self.loading else {
            if self.behind.is_asking() {
                self.ask_newest(turn);
            }
            return;
        };
        loading.asked.clear();
        self.fetch(turn);
    }

    fn fetch(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.settings.cluster.roster().others(self.settings.own);
        let Some(loading) = &mut self.loading else { return };
        if loading.mark.is_none() {
            if let Some(source) = loading.source(others) {
                turn.send(source, ServerMessage::Transfer(TransferMessage::Wanted(loading.position)).into());
            }
            return turn.arm(ServerTimer::Fetch, PATIENCE);
        }
        let read = &loading.read;
        loading.foreign.retain(|name| read.get(name).is_some_and(Option::is_none));
        for name in loading.foreign.clone() {
            if loading.asked.len() >= PARALLEL {
                break;
            }
            if loading.asked.contains_key(&name) {
                continue;
            }
            let Some(source) = loading.source(others) else { return };
            loading.asked.insert(name, source);
            turn.send(source, ServerMessage::Transfer(TransferMessage::ChunkWanted(name)).into());
        }
        if !loading.asked.is_empty() {
            turn.arm(ServerTimer::Fetch, PATIENCE);
        }
    }

    /// A part of a state, or a question for one.
    pub(super) fn on_transfer(&mut self, from: NodeId, part: TransferMessage, turn: &mut Turn<'_, Self>) {
        if self.settings.cluster.roster().member(from).is_none() {
            return turn.blame(from, Fault::Stranger);
        }
        match part {
            TransferMessage::Wanted(position) => {
                let mark = self.checkpoints.marks.iter().find(|mark| mark.position == position);
                self.send_names(from, mark, turn);
            }
            TransferMessage::NewestWanted(until) => self.send_names(from, self.newest(until), turn),
            TransferMessage::ChunkWanted(name) => self.serve(from, name, turn),
            TransferMessage::Names(mark) => self.on_names(from, mark, turn),
            TransferMessage::Chunk(bytes) => self.on_foreign(from, &bytes.into_bytes(), turn),
        }
    }

    fn send_names(&self, to: NodeId, mark: Option<&Mark>, turn: &mut Turn<'_, Self>) {
        if let Some(mark) = mark.filter(|_| self.loading.is_none()).cloned() {
            turn.send(to, ServerMessage::Transfer(TransferMessage::Names(mark)).into());
        }
    }

    fn serve(&mut self, to: NodeId, name: Hash, turn: &mut Turn<'_, Self>) {
        let known = self.checkpoints.marks.iter().any(|mark| mark.names().any(|known| known == name));
        if !known || self.serving.len() >= SERVING_MAX {
            return;
        }
        let waiting = self.serving.entry(name).or_default();
        if waiting.is_empty() {
            turn.load(name);
        }
        if !waiting.contains(&to) {
            waiting.push(to);
        }
    }

    /// The names of the state that is wanted.
    fn on_names(&mut self, from: NodeId, mark: Mark, turn: &mut Turn<'_, Self>) {
        if self.loading.is_none() && self.behind.is_asking() {
            return self.on_newest(from, mark, turn);
        }
        let wanted = |loading: &&mut Loading| loading.mark.is_none() && loading.position == mark.position;
        let Some(loading) = self.loading.as_mut().filter(wanted) else { return };
        let cluster = &self.settings.cluster;
        if !mark.is_whole(cluster.rules().horizon) || mark.root(cluster.domains()) != loading.root {
            return turn.blame(from, Fault::WrongStatePart);
        }
        self.take_names(mark, turn);
    }

    /// Goes on with the names of a state. What an own mark names is read from the own disk.
    pub(super) fn take_names(&mut self, mark: Mark, turn: &mut Turn<'_, Self>) {
        let Some(loading) = &mut self.loading else { return };
        let record = ServerRecord::Taking(mark.clone());
        loading.take(mark);
        let mut held: Vec<Hash> = self.checkpoints.marks.iter().flat_map(Mark::names).collect();
        held.sort_unstable();
        for name in loading.read.keys() {
            match held.binary_search(name) {
                Ok(_) => turn.load(*name),
                Err(_) => loading.foreign.push(*name),
            }
        }
        if !loading.foreign.is_empty() {
            turn.persist(record);
        }
        self.fetch(turn);
        self.loaded(turn);
    }

    /// A chunk was read from the own disk, or is lost there.
    pub(super) fn on_chunk(&mut self, name: Hash, bytes: Option<&Bytes>, turn: &mut Turn<'_, Self>) {
        for to in self.serving.remove(&name).into_iter().flatten() {
            if let Some(bytes) = bytes.and_then(|bytes| Blob::try_from(bytes.clone()).ok()) {
                turn.send(to, ServerMessage::Transfer(TransferMessage::Chunk(bytes)).into());
            }
        }
        let Some(loading) = &mut self.loading else { return };
        match bytes {
            Some(bytes) => drop(loading.fill(&name, bytes)),
            None if loading.read.get(&name).is_some_and(Option::is_none) => {
                loading.foreign.push(name);
                self.fetch(turn);
            }
            None => {}
        }
        self.loaded(turn);
    }

    /// A chunk of another server, which its name proves.
    fn on_foreign(&mut self, from: NodeId, bytes: &Bytes, turn: &mut Turn<'_, Self>) {
        let name = Hash::of(bytes);
        let Some(loading) = &mut self.loading else { return };
        if loading.fill(&name, bytes) {
            turn.store(name, bytes.clone());
            loading.stored.push(name);
            self.fetch(turn);
            self.loaded(turn);
        } else if !loading.again
            && !loading.read.contains_key(&name)
            && loading.asked.values().any(|asked| *asked == from)
        {
            turn.blame(from, Fault::WrongStatePart);
        }
    }

    /// Every chunk of a certified state is here: the application takes its part first.
    pub(super) fn tell_application(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(loading) = self.loading.as_mut().filter(|loading| !loading.told) else { return };
        let Some(mark) = &loading.mark else { return };
        loading.told = true;
        turn.disarm(ServerTimer::Fetch);
        turn.output(ServerOutput::Jump { position: mark.position, height: mark.height, root: mark.app });
    }

    /// The application holds its part of a certified state durably; whether that is what was waited for.
    pub(super) fn on_app_installed(
        &mut self,
        position: Position,
        root: Hash,
        turn: &mut Turn<'_, Self>,
    ) -> bool {
        let of = |loading: &Loading| loading.told && loading.position == position;
        if !self.loading.as_ref().is_some_and(of) {
            return false;
        }
        let Some(loading) = self.loading.take() else { return true };
        let (Some(mark), Some((table, directory, recent))) = (loading.mark.clone(), self.state_of(&loading))
        else {
            return true;
        };
        assert_eq!(root, mark.app, "the application took the state of its root");
        (self.table, self.directory) = (table, directory);
        self.delivered = mark.height;
        if loading.above {
            self.backlog.retain(|accepted| accepted.height > mark.height);
        } else {
            self.recent = recent;
            self.backlog.clear();
            self.queue.retain(|queued| queued.position > position);
            // What of these was ordered in the gap is not known here: brokers say again what was not.
            self.pending.clear();
            self.tickets.clear();
        }
        let backlog = &self.backlog;
        let waits = |digest: &Hash| backlog.iter().any(|accepted| accepted.statement.digest == *digest);
        self.behind.forget(waits);
        turn.persist(ServerRecord::Mark(mark.clone()));
        turn.note(Note::of(NoteName::Installed, [position.0, mark.height, 0], Hash::ZERO));
        let root = mark.root(self.settings.cluster.domains());
        self.overtaken(mark, loading.above, turn);
        self.submits.push_back(Submit::Applied { position, root: Some(root) });
        self.report();
        self.begin(turn);
        self.accept(turn);
        true
    }
}
