//! Installing a state: the own snapshot after a restart, or a certified one from peers (hotstuff 4.12).
//!
//! Chunks come from several members at once. Each is proved against the certified root before it is used; a member
//! that sends another is blamed and asked no more. They are taken over in order, so at most [`PARALLEL`] chunks wait.
//! A chunk of the own snapshot that the lane lost is fetched like the others: its root is known.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, merkle};
use synod_machine::broadcast::{Checkpoint, Position, Submit};
use synod_machine::{Span, Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Limits, Wire};

use super::snapshot::{SNAPSHOT_CHUNKS_MAX, SnapshotRecord, StateSummary};
use super::{Executor, ExecutorOutput, ExecutorTimer, ServiceFault};
use crate::app::App;
use crate::message::{ClientMessage, FetchState, Part, StateChunk};
use crate::sessions::Sessions;

/// Chunks asked for or waiting to be taken over.
pub(super) const PARALLEL: usize = 16;
/// After this long without an answer another member is asked.
const PATIENCE: Span = Span::millis(500);

/// A state being installed.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) position: Position,
    /// The certified root, or that of the own record.
    root: Hash,
    /// The own snapshot of this position.
    own: Option<SnapshotRecord>,
    summary: Option<StateSummary>,
    /// The next chunk to ask for, and the next to take over.
    ask: u32,
    take: u32,
    arrived: BTreeMap<u32, Bytes>,
    /// Chunks asked of peers, or of nobody while all have lied.
    remote: BTreeMap<u32, Option<NodeId>>,
    sessions: Vec<Bytes>,
    chunks: Vec<(Hash, Hash)>,
    /// Blobs that this transfer stored.
    stored: BTreeSet<Hash>,
    /// Members that sent something else than the root contains, or nothing in time. They are asked again when all are
    /// in here.
    refused: NodeSet,
    /// Who was asked for the summary last.
    asked: Option<NodeId>,
    turns: u32,
}

impl Transfer {
    /// Of the own snapshot.
    pub(super) fn own(record: SnapshotRecord) -> Self {
        let summary = record.summary;
        let root = summary.root();
        Self { own: Some(record), summary: Some(summary), ..Self::certified(summary.position, root) }
    }

    /// Of a checkpoint that peers hold.
    pub(super) const fn certified(position: Position, root: Hash) -> Self {
        Self {
            position,
            root,
            own: None,
            summary: None,
            ask: 0,
            take: 0,
            arrived: BTreeMap::new(),
            remote: BTreeMap::new(),
            sessions: Vec::new(),
            chunks: Vec::new(),
            stored: BTreeSet::new(),
            refused: NodeSet::EMPTY,
            asked: None,
            turns: 0,
        }
    }

    /// The next member to ask: round robin over those that did not lie; nobody when all did, until patience ends.
    fn source(&mut self, others: NodeSet) -> Option<NodeId> {
        let good = others.minus(self.refused);
        let at = self.turns.checked_rem(good.count())?;
        self.turns = self.turns.wrapping_add(1);
        good.iter().nth(usize::try_from(at).ok()?)
    }

    /// The blob of the own snapshot at this place.
    fn own_name(&self, place: u32) -> Option<Hash> {
        let chunks = &self.own.as_ref()?.chunks;
        chunks.get(usize::try_from(place).ok()?).map(|(name, _)| *name)
    }

    fn outstanding(&self) -> usize {
        usize::try_from(self.ask - self.take).unwrap_or(usize::MAX)
    }

    pub(super) fn bytes(&self) -> u64 {
        let waiting: usize = self.arrived.values().chain(&self.sessions).map(Bytes::len).sum();
        waiting as u64 + (self.chunks.len() + self.stored.len()) as u64 * 64 + 1_024
    }
}

impl<P: App + 'static> Executor<P> {
    /// Goes back to the newest own snapshot, after a restart.
    pub(super) fn restore_own(&mut self, turn: &mut Turn<'_, Self>) {
        if let Some(snapshot) = self.snapshots.newest() {
            self.transfer = Some(Transfer::own(snapshot.record.clone()));
            self.pull(turn);
        }
    }

    /// This node is behind what peers retain: the state of the checkpoint replaces what is here.
    pub(super) fn on_jump(&mut self, checkpoint: &Checkpoint, turn: &mut Turn<'_, Self>) {
        let Checkpoint { position, root, .. } = *checkpoint;
        if self.executed >= position {
            let applied = Submit::Applied { position: self.executed, root: None };
            return turn.output(ExecutorOutput::Submit(applied));
        }
        self.backlog.jump(position);
        // Whoever lied or was silent is not asked first again, or each transfer would be overtaken by the next.
        let (refused, turns) = self.transfer.as_ref().map_or((NodeSet::EMPTY, 0), |t| (t.refused, t.turns));
        self.abandon(turn);
        self.transfer = Some(Transfer { refused, turns, ..Transfer::certified(position, root) });
        self.pull(turn);
    }

    /// Gives up a transfer that a newer checkpoint overtook: what it stored is released.
    fn abandon(&mut self, turn: &mut Turn<'_, Self>) {
        for name in self.transfer.take().into_iter().flat_map(|transfer| transfer.stored) {
            if !self.snapshots.holds(name) {
                turn.erase(name);
            }
        }
    }

    /// Asks for what is not asked for yet.
    fn pull(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        let Some(transfer) = &mut self.transfer else { return };
        let position = transfer.position;
        let Some(summary) = transfer.summary else {
            transfer.asked = transfer.source(others);
            if let Some(source) = transfer.asked {
                let fetch = FetchState { position, part: Part::Summary };
                turn.send(source, ClientMessage::FetchState(fetch));
            }
            return turn.arm(ExecutorTimer::Fetch, PATIENCE);
        };
        while transfer.outstanding() < PARALLEL && u64::from(transfer.ask) < summary.count() {
            let place = transfer.ask;
            transfer.ask += 1;
            match transfer.own_name(place) {
                Some(name) => turn.load(name),
                None => ask(transfer, place, summary.part(place), others, turn),
            }
        }
    }

    /// Nobody answered for a while: asks others.
    pub(super) fn on_patience(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        if let Some(transfer) = &mut self.transfer {
            let late = transfer.asked.filter(|_| transfer.summary.is_none());
            for source in transfer.remote.values().copied().chain([late]).flatten() {
                transfer.refused.insert(source);
            }
            if others.within(transfer.refused) {
                transfer.refused = NodeSet::EMPTY;
            }
        }
        self.ask_again(None, turn);
    }

    /// Asks others for what was asked of one member, or of all.
    fn ask_again(&mut self, of: Option<NodeId>, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        let Some(transfer) = &mut self.transfer else { return };
        match transfer.summary {
            // What was asked of somebody else is on its way.
            None if of.is_some() && of != transfer.asked => {}
            None => self.pull(turn),
            Some(summary) => {
                let asked = transfer.remote.iter().filter(|(_, source)| of.is_none() || of == **source);
                let late: Vec<u32> = asked.map(|(place, _)| *place).collect();
                for place in late {
                    ask(transfer, place, summary.part(place), others, turn);
                }
            }
        }
    }

    /// A part from a member; proved before it is used.
    pub(super) fn on_chunk(&mut self, from: NodeId, chunk: StateChunk, turn: &mut Turn<'_, Self>) {
        if !self.settings.roster.others(self.settings.own).contains(from) {
            return turn.blame(from, ServiceFault::OutOfRole);
        }
        let Some(transfer) = self.transfer.as_mut().filter(|transfer| transfer.position == chunk.position)
        else {
            return;
        };
        let StateChunk { part, bytes, path, .. } = chunk;
        let bytes = bytes.into_bytes();
        let fits = match (transfer.summary, part) {
            (None, Part::Summary) => {
                transfer.summary = summary(&bytes, transfer.position, transfer.root);
                transfer.summary.is_some()
            }
            (Some(summary), Part::App(_) | Part::Sessions(_)) => {
                let Some(place) = summary.place(part).filter(|place| transfer.remote.contains_key(place))
                else {
                    return;
                };
                let leaf = merkle::leaf(&bytes);
                let proved = summary.proves(part, leaf, &path);
                if proved {
                    transfer.remote.remove(&place);
                    let name = Hash::of(&bytes);
                    let held = transfer.own.is_none() && self.snapshots.holds(name);
                    if !held && transfer.stored.insert(name) {
                        turn.store(name, bytes.clone());
                    }
                    transfer.arrived.insert(place, bytes.clone());
                }
                proved
            }
            _ => return,
        };
        if fits {
            self.take_over(turn);
        } else {
            transfer.refused.insert(from);
            turn.blame(from, ServiceFault::WrongStateChunk(bytes));
            self.ask_again(Some(from), turn);
        }
    }

    /// A blob of the own snapshot was read, or is lost.
    pub(super) fn on_own_chunk(&mut self, name: Hash, bytes: Option<&Bytes>, turn: &mut Turn<'_, Self>) {
        let others = self.settings.roster.others(self.settings.own);
        let Some(transfer) = &mut self.transfer else { return };
        let Some(summary) = transfer.summary else { return };
        for place in transfer.take..transfer.ask {
            let known = transfer.arrived.contains_key(&place) || transfer.remote.contains_key(&place);
            if known || transfer.own_name(place) != Some(name) {
                continue;
            }
            match bytes {
                Some(bytes) => {
                    transfer.arrived.insert(place, bytes.clone());
                }
                None => ask(transfer, place, summary.part(place), others, turn),
            }
        }
        self.take_over(turn);
    }

    /// Takes over chunks in order; after the last the state is installed.
    fn take_over(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(transfer) = &mut self.transfer else { return };
        let Some(summary) = transfer.summary else { return };
        while let Some(bytes) = transfer.arrived.remove(&transfer.take) {
            transfer.chunks.push((Hash::of(&bytes), merkle::leaf(&bytes)));
            match summary.part(transfer.take) {
                Part::App(index) => match self.app.restore(index, &bytes) {
                    Ok(()) => {}
                    Err(why) => unreachable!("a certified chunk is one of this application: {why}"),
                },
                Part::Sessions(_) | Part::Summary => transfer.sessions.push(bytes),
            }
            transfer.take += 1;
        }
        if u64::from(transfer.take) == summary.count() {
            self.install(turn);
        } else {
            self.pull(turn);
        }
    }

    fn install(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(transfer) = self.transfer.take() else { return };
        let Some(summary) = transfer.summary else { return };
        turn.disarm(ExecutorTimer::Fetch);
        assert_eq!(self.app.root(), summary.app_root, "a restored application has the root of its chunks");
        self.sessions = match Sessions::restore(self.settings.limits.sessions, &transfer.sessions) {
            Ok(sessions) => sessions,
            Err(why) => unreachable!("certified chunks are a session table: {why}"),
        };
        self.executed = summary.position;
        self.time = summary.time;
        if transfer.own.is_none() {
            self.keep_snapshot(summary, transfer.chunks, turn);
            let applied = Submit::Applied { position: summary.position, root: Some(summary.root()) };
            turn.output(ExecutorOutput::Submit(applied));
        }
        self.settle_installed(turn);
        self.run(turn);
    }

    /// Answers what was in flight and is part of the installed state.
    fn settle_installed(&mut self, turn: &mut Turn<'_, Self>) {
        for name in self.pool.names() {
            let done = match (name, self.pool.get(name)) {
                (super::pool::Name::Open(key, nonce), _) => self.sessions.find(key, nonce).is_some(),
                (super::pool::Name::Frame(session, _), Some(pending)) => {
                    let open = self.sessions.get(session);
                    open.is_none_or(|open| is_repeat(open, &pending.payload))
                }
                (super::pool::Name::Frame(..), None) => false,
            };
            if let Some(pending) = done.then(|| self.pool.settle(name)).flatten() {
                for waiter in pending.waiters {
                    self.on_item(waiter, pending.payload.clone(), turn);
                }
            }
        }
    }
}

fn is_repeat(open: &crate::sessions::Session, payload: &Bytes) -> bool {
    match crate::frame::Item::parse(payload) {
        Ok(crate::frame::Item::Frame(frame)) => open.is_repeat_of(&frame),
        _ => false,
    }
}

/// Asks a member for one chunk.
fn ask<P: App + 'static>(
    transfer: &mut Transfer,
    place: u32,
    part: Part,
    others: NodeSet,
    turn: &mut Turn<'_, Executor<P>>,
) {
    let position = transfer.position;
    let source = transfer.source(others);
    transfer.remote.insert(place, source);
    if let Some(source) = source {
        turn.send(source, ClientMessage::FetchState(FetchState { position, part }));
    }
    turn.arm(ExecutorTimer::Fetch, PATIENCE);
}

/// The summary, if it is the one the certified root names.
fn summary(bytes: &Bytes, position: Position, root: Hash) -> Option<StateSummary> {
    let summary = StateSummary::decode(bytes.clone(), &Limits::default()).ok()?;
    let sized = summary.app_chunks > 0 && summary.count() <= SNAPSHOT_CHUNKS_MAX as u64;
    let certified = planted!(K4) || summary.root() == root;
    (certified && sized && summary.position == position).then_some(summary)
}
