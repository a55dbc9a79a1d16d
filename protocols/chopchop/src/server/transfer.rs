//! A state from others: which chunks, then chunk by chunk, from several servers at a time (section 4.9).
//!
//! The names are proved by the certified root, each chunk by its name; so a server that sends something else is blamed and
//! only costs time: it has a share of the places alone, each chunk is asked of another one when its time is over, whatever else
//! came meanwhile, and whoever is late is asked after the others. What of the state is here already is read from the own disk.
//!
//! *Bounds.* The chunks of one state, of 64 KiB at most, whose number its certified root proves.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_machine::broadcast::{AtomicBroadcast, Position, Submit};
use synod_machine::{Span, Time, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::{Mark, Server, ServerOutput, ServerRecord, ServerTimer};
use crate::fault::Fault;
use crate::message::{CHUNK_MAX, ServerMessage, TransferMessage};
use crate::trace::{Note, NoteName};

/// Chunks asked for at a time.
const PARALLEL: usize = 16;
/// How long a server has to answer.
pub(super) const PATIENCE: Span = Span::millis(500);
/// Bytes held for a chunk beside it: its name in up to five places.
const CHUNK_OVERHEAD: u64 = 256;
/// Chunks that are read for others at a time.
const SERVING_MAX: usize = 256;

/// A chunk that somebody was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    of: NodeId,
    since: Time,
}

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
    /// Chunks that are not here, and that nobody is asked for.
    foreign: VecDeque<Hash>,
    asked: BTreeMap<Hash, Asked>,
    turns: u32,
    /// Who was asked for the names last.
    names_of: Option<NodeId>,
    /// Chunks or names that did not come in time, less those that did, by who was asked.
    late: BTreeMap<NodeId, u32>,
    /// Chunks that were fetched and stored here, named by no own mark yet.
    stored: Vec<Hash>,
    /// Another state was fetched before, so that parts of it may come late.
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
    pub(super) fn behind(position: Position, root: Hash, again: bool) -> Self {
        Self { above: true, again, ..Self::certified(position, root) }
    }

    const fn certified(position: Position, root: Hash) -> Self {
        Self {
            position,
            root,
            own: false,
            mark: None,
            read: BTreeMap::new(),
            missing: 0,
            foreign: VecDeque::new(),
            asked: BTreeMap::new(),
            turns: 0,
            names_of: None,
            late: BTreeMap::new(),
            stored: Vec::new(),
            again: false,
            told: false,
            above: false,
        }
    }

    fn take(&mut self, mark: Mark) {
        self.read = mark.names().map(|name| (name, None)).collect();
        self.missing = self.read.len();
        (self.mark, self.names_of) = (Some(mark), None);
    }

    /// Every chunk is here.
    pub(super) const fn whole(&self) -> bool {
        self.mark.is_some() && self.missing == 0
    }

    fn fill(&mut self, name: &Hash, bytes: &Bytes) -> bool {
        let Some(place) = self.read.get_mut(name).filter(|place| place.is_none()) else { return false };
        *place = Some(bytes.clone());
        self.missing -= 1;
        if let Some(late) = self.asked.remove(name).and_then(|asked| self.late.get_mut(&asked.of)) {
            *late = late.saturating_sub(1);
        }
        true
    }

    /// Whom to ask next: one of those that were late least, in a circle, and not whoever was asked just before unless nobody
    /// else is there. Nobody has more than his share of what is asked for at a time.
    fn source(&mut self, others: NodeSet, not: Option<NodeId>) -> Option<NodeId> {
        let at = usize::try_from(self.turns.checked_rem(others.count())?).ok()?;
        self.turns = self.turns.wrapping_add(1);
        let mut circle: Vec<NodeId> = others.iter().collect();
        circle.rotate_left(at);
        let share = PARALLEL.div_ceil(circle.len());
        let used = |id: NodeId| self.asked.values().filter(|asked| asked.of == id).count();
        let free = circle.iter().copied().filter(|id| Some(*id) != not && used(*id) < share);
        let least = free.min_by_key(|id| self.late.get(id).copied().unwrap_or(0));
        least.or_else(|| circle.first().copied())
    }

    /// Asks somebody for the names; whoever was asked before and said nothing was late.
    fn ask_names(&mut self, others: NodeSet) -> Option<NodeId> {
        if let Some(silent) = self.names_of.take() {
            *self.late.entry(silent).or_insert(0) += 1;
        }
        self.names_of = self.source(others, None);
        self.names_of
    }

    /// Asks somebody for a chunk.
    fn ask(&mut self, name: Hash, others: NodeSet, not: Option<NodeId>, now: Time) -> Option<NodeId> {
        let of = self.source(others, not)?;
        self.asked.insert(name, Asked { of, since: now });
        Some(of)
    }

    /// The chunks that did not come in time, and who was asked for each.
    fn overdue(&mut self, now: Time) -> Vec<(Hash, NodeId)> {
        let over = self.asked.iter().filter(|(_, asked)| now.since(asked.since) >= PATIENCE);
        let over: Vec<(Hash, NodeId)> = over.map(|(name, asked)| (*name, asked.of)).collect();
        for (name, of) in &over {
            self.asked.remove(name);
            *self.late.entry(*of).or_insert(0) += 1;
        }
        over
    }

    /// Whether everybody was asked in vain for chunks of an own state that the disk lost: the others may have let go of it, and
    /// then only a newer one leads on.
    fn is_hopeless(&self, others: NodeSet) -> bool {
        self.own && others.iter().all(|id| self.late.get(&id).is_some_and(|late| *late > 0))
    }

    /// How long the first of those that are asked still has.
    fn patience(&self, now: Time) -> Option<Span> {
        let first = self.asked.values().map(|asked| asked.since).min()?;
        Some(Span(PATIENCE.0.saturating_sub(now.since(first).0).max(1)))
    }

    /// The names of what is fetched from others, once they are known.
    pub(super) fn taking(&self) -> Option<&Mark> {
        self.mark.as_ref().filter(|_| !self.own)
    }

    pub(super) fn bytes(&self) -> u64 {
        let chunks: usize = self.read.values().flatten().map(Bytes::len).sum();
        chunks as u64 + self.read.len() as u64 * CHUNK_OVERHEAD
    }

    /// Most bytes that a state of these names takes.
    pub(super) fn bytes_max(&self) -> u64 {
        let chunks = self.mark.as_ref().map_or(0, Mark::chunks) as u64;
        chunks * (CHUNK_MAX as u64 + CHUNK_OVERHEAD)
    }
}

fn ask_chunk<A: AtomicBroadcast>(of: NodeId, name: Hash, turn: &mut Turn<'_, Server<A>>) {
    turn.send(of, ServerMessage::Transfer(TransferMessage::ChunkWanted(name)).into());
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
        let mut loading = Loading { again: self.behind.fetched, ..Loading::certified(position, root) };
        if let Some(old) = self.loading.take() {
            // Whoever was silent is not asked first again.
            (loading.turns, loading.late, loading.again) = (old.turns, old.late, true);
            let held: Vec<Hash> = self.checkpoints.marks.iter().flat_map(Mark::names).collect();
            old.stored.into_iter().filter(|name| !held.contains(name)).for_each(|name| turn.erase(name));
        }
        self.loading = Some(loading);
        self.on_fetch(turn);
    }

    /// Asks the next one for the names, or for the chunks that did not come in time.
    pub(super) fn on_fetch(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(loading) = &mut self.loading else {
            if self.behind.is_asking() {
                self.ask_newest(turn);
                if self.behind.is_asking() {
                    // What the others hold may lie above all that is decided here: only the ordering layer leads there.
                    self.submits.push_back(Submit::Stuck);
                }
            }
            return;
        };
        let others = self.settings.cluster.roster().others(self.settings.own);
        if loading.is_hopeless(others) {
            self.submits.push_back(Submit::Stuck);
        }
        for (name, of) in loading.overdue(turn.now()) {
            let source = loading.ask(name, others, Some(of), turn.now());
            source.into_iter().for_each(|source| ask_chunk(source, name, turn));
        }
        self.fetch(turn);
    }

    fn fetch(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.settings.cluster.roster().others(self.settings.own);
        let Some(loading) = &mut self.loading else { return };
        if loading.mark.is_none() {
            if let Some(source) = loading.ask_names(others) {
                turn.send(source, ServerMessage::Transfer(TransferMessage::Wanted(loading.position)).into());
            }
            return turn.arm(ServerTimer::Fetch, PATIENCE);
        }
        while loading.asked.len() < PARALLEL {
            let Some(name) = loading.foreign.pop_front() else { break };
            if !loading.read.get(&name).is_some_and(Option::is_none) {
                continue;
            }
            let Some(source) = loading.ask(name, others, None, turn.now()) else { return };
            self.behind.fetched = true;
            ask_chunk(source, name, turn);
        }
        // Nothing that comes gives those who are asked already more time.
        if let Some(left) = loading.patience(turn.now()) {
            turn.arm(ServerTimer::Fetch, left);
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
                Err(_) => loading.foreign.push_back(*name),
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
                loading.foreign.push_back(name);
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
            && loading.asked.values().any(|asked| asked.of == from)
        {
            turn.blame(from, Fault::WrongStatePart);
        }
    }

    /// Every chunk of a certified state is here: the application takes its part first.
    pub(super) fn tell_application(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(loading) = self.loading.as_mut().filter(|loading| !loading.told) else { return };
        let Some(mark) = &loading.mark else { return };
        loading.told = true;
        self.given.clear();
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
        let before = core::mem::replace(&mut self.delivered, mark.height);
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
        turn.persist(ServerRecord::Certified(position));
        turn.note(Note::of(NoteName::Installed, [position.0, mark.height, before], Hash::ZERO));
        let root = mark.root(self.settings.cluster.domains());
        self.overtaken(mark, loading.above, turn);
        self.submits.push_back(Submit::Applied { position, root: Some(root) });
        self.report();
        self.begin(turn);
        self.accept(turn);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_asked_of_everybody_though_one_who_is_silent_was_never_late_with_a_chunk() {
        // Found by a soak: the two that answer had been late with chunks of another state, and were asked no more.
        let mut loading = Loading::certified(Position(65), Hash::ZERO);
        loading.late = BTreeMap::from([(NodeId(0), 2), (NodeId(3), 3)]);
        let others = NodeSet::first(4).without(NodeId(2));
        let asked: Vec<u32> = (0..8).filter_map(|_| loading.ask_names(others)).map(|id| id.0).collect();
        assert!([0, 1, 3].iter().all(|id| asked.contains(id)), "{asked:?}");
    }

    #[test]
    fn an_own_state_is_hopeless_once_everybody_was_asked_for_it_in_vain() {
        let others = NodeSet::first(4).without(NodeId(2));
        let mut own = Loading { own: true, ..Loading::certified(Position(65), Hash::ZERO) };
        assert!(!own.is_hopeless(others));
        own.late = BTreeMap::from([(NodeId(0), 1), (NodeId(1), 0), (NodeId(3), 1)]);
        assert!(!own.is_hopeless(others), "one of them answers");
        own.late.insert(NodeId(1), 1);
        assert!(own.is_hopeless(others));
        own.own = false;
        assert!(!own.is_hopeless(others), "what is certified somebody has");
    }
}
