//! Checkpoints: the state at every `checkpoint_every`th position becomes durable, and every server says so (section 4.9).
//!
//! The state at a position is frozen when every item accepted up to it is delivered and nothing behind it is: by sharing its
//! chunks. Its blobs and its `Mark` stand in the lane before `Applied` and before MARK leaves, so a MARK is durable.

use std::collections::VecDeque;

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::{AtomicBroadcast, Position, Submit};
use synod_machine::planted;
use synod_quorum::NodeId;
use synod_wire::{Bytes, List};

use super::{Frozen, MARKS_EVERY, Mark, Named, Server, ServerOutput, ServerRecord, ServerTask, ServerTimer};
use crate::fault::Fault;
use crate::message::ServerMessage;
use crate::statement::Height;
use crate::trace::{Note, NoteName};

/// Checkpoints whose blobs are kept, and how many when none of the newer ones is certified.
const KEPT: usize = 2;
pub(super) const KEPT_MAX: usize = 8;

/// Takes out a checkpoint that is not kept any more, if there is one; those up to the height `stable` are certified. The newest
/// certified one is what others ask for, so the oldest stays, however many follow, until it is known that a newer one is
/// certified; the one behind it is needed least until then.
pub(super) fn superfluous(marks: &mut VecDeque<Mark>, stable: u64) -> Option<Mark> {
    let certified = marks.get(1).is_some_and(|next| next.height <= stable);
    match marks.len() {
        count if count <= KEPT || (count <= KEPT_MAX && !certified) => None,
        _ if certified => marks.pop_front(),
        _ => marks.remove(1),
    }
}

/// A checkpoint on its way.
#[derive(Clone, Debug)]
pub(super) struct Due {
    position: Position,
    height: u64,
    length: u32,
    recent: Vec<Hash>,
    frozen: bool,
    named: Option<Vec<(Hash, Bytes)>>,
    app: Option<Hash>,
}

/// The checkpoints of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    due: VecDeque<Due>,
    /// Positions that were decided, each with the height behind it.
    decided: VecDeque<(Position, u64)>,
    /// Up to where the ordering layer was told.
    reported: Position,
    pub(super) named: Named,
    /// Own durable ones, oldest first.
    pub(super) marks: VecDeque<Mark>,
    /// What every server said last.
    pub(super) said: Vec<u64>,
    pub(super) stable: u64,
}

impl Checkpoints {
    pub(super) fn new(members: u32) -> Self {
        Self { said: vec![0; members as usize], ..Self::default() }
    }

    /// Height of the last certified checkpoint.
    pub(super) const fn stable(&self) -> u64 {
        self.stable
    }

    /// Position of the newest own checkpoint that is known to be certified.
    fn certified(&self) -> Position {
        let newest = self.marks.iter().rev().find(|mark| mark.height <= self.stable);
        newest.map_or(Position(0), |mark| mark.position)
    }

    /// Height that a durable checkpoint of every server covers.
    pub(super) fn collected(&self) -> u64 {
        self.said.iter().copied().min().unwrap_or(0)
    }

    /// Up to where the ordering layer was told that everything is delivered.
    pub(super) const fn reported(&self) -> Position {
        self.reported
    }

    /// Up to where it is decided what is accepted.
    pub(super) fn decided(&self) -> Position {
        self.decided.back().map_or(self.reported, |(position, _)| *position)
    }

    /// Whether the state at a position is here, and waits for nothing but to become durable.
    pub(super) fn reaches(&self, position: Position) -> bool {
        self.due.iter().any(|due| due.frozen && due.position >= position)
    }

    fn own(&self) -> u64 {
        self.marks.back().map_or(0, |mark| mark.height)
    }

    pub(super) fn bytes(&self) -> u64 {
        let rings: usize = self.due.iter().map(|due| due.recent.len() * 32).sum();
        let blobs = self.due.iter().flat_map(|due| due.named.iter().flatten());
        let blobs: usize = blobs.map(|(_, bytes)| 32 + bytes.len()).sum();
        let names: usize = self.marks.iter().map(|mark| 32 * mark.chunks() + 128).sum();
        (rings + blobs + names + self.named.bytes() + self.decided.len() * 16) as u64
    }

    /// Bytes that the names of all checkpoints take at most, of a state of so many chunks.
    pub(super) const fn names_max(chunks: u64) -> u64 {
        (KEPT_MAX as u64 + 1) * (32 * chunks + 128) + 48 * chunks
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// Every entry up to `position` is decided.
    pub(super) fn behind(&mut self, position: Position) {
        let height = self.height();
        let checkpoints = &mut self.checkpoints;
        match checkpoints.decided.back_mut() {
            Some(last) if last.1 == height => last.0 = position,
            Some(_) | None => checkpoints.decided.push_back((position, height)),
        }
        if position.0.is_multiple_of(self.settings.cluster.rules().checkpoint_every) {
            let recent = if planted!(C17) { Vec::new() } else { self.recent.digests() };
            let (frozen, named, app) = (false, None, None);
            checkpoints.due.push_back(Due { position, height, length: 0, recent, frozen, named, app });
        }
        self.report();
    }

    /// Tells the ordering layer up to where everything is delivered. Beyond a checkpoint only its root leads.
    pub(super) fn report(&mut self) {
        let limit = self.checkpoints.due.front().map_or(u64::MAX, |due| due.position.0 - 1);
        let mut last = None;
        while let Some((position, height)) = self.checkpoints.decided.front().copied() {
            if height > self.delivered || (position.0 > limit && last.is_some()) {
                break;
            }
            if position.0 > limit {
                // Part of a run of positions of one height: what lies before the checkpoint is applied.
                last = Some(Position(limit));
                break;
            }
            last = Some(position);
            self.checkpoints.decided.pop_front();
        }
        if let Some(position) = last.filter(|position| *position > self.checkpoints.reported) {
            self.checkpoints.reported = position;
            self.submits.push_back(Submit::Applied { position, root: None });
        }
    }

    /// Freezes the state if a checkpoint is due here: nothing is at work.
    pub(super) fn freeze(&mut self, turn: &mut Turn<'_, Self>) {
        let delivered = self.delivered;
        let length = self.directory.len();
        let Some(due) = self.checkpoints.due.front_mut() else { return };
        if due.frozen || due.height != delivered {
            return;
        }
        (due.frozen, due.length) = (true, length);
        let (position, height) = (due.position, due.height);
        let recent = due.recent.clone();
        let frozen = Frozen { dedup: self.table.chunks(), directory: self.directory.view(), recent };
        let named = self.checkpoints.named.clone();
        let stable = self.checkpoints.certified();
        turn.output(ServerOutput::Checkpoint { position, height, stable });
        self.job(ServerTask::Chunks(position, frozen, named), turn);
    }

    /// Whether a checkpoint is due here that waits for the one before it.
    pub(super) fn must_wait(&self) -> bool {
        self.checkpoints.due.iter().any(|due| !due.frozen && due.height == self.delivered)
    }

    /// The chunks of the frozen state are named.
    pub(super) fn on_chunks(
        &mut self,
        position: Position,
        named: Named,
        blobs: Vec<(Hash, Bytes)>,
        turn: &mut Turn<'_, Self>,
    ) {
        let due = self.checkpoints.due.front_mut();
        if let Some(due) = due.filter(|due| due.position == position) {
            due.named = Some(blobs);
            self.checkpoints.named = named;
            self.mark(turn);
        }
    }

    /// The application's root at a checkpoint.
    pub(super) fn on_applied(&mut self, position: Position, root: Hash, turn: &mut Turn<'_, Self>) {
        if self.on_app_installed(position, root, turn) {
            return;
        }
        let of = |due: &&mut Due| due.position == position;
        if let Some(due) = self.checkpoints.due.iter_mut().find(of) {
            due.app = Some(root);
            self.mark(turn);
        }
    }

    /// Forgets what was on its way: another state takes the place, of all or only of what lies before it.
    pub(super) fn overtaken(&mut self, mark: Mark, above: bool, turn: &mut Turn<'_, Self>) {
        let checkpoints = &mut self.checkpoints;
        checkpoints.due.retain(|due| above && due.position > mark.position);
        checkpoints.decided.retain(|(position, _)| above && *position > mark.position);
        checkpoints.named = Named::default();
        checkpoints.reported = mark.position;
        checkpoints.stable = checkpoints.stable.max(mark.height);
        checkpoints.marks.push_back(mark);
        self.let_go(turn);
        self.said_own();
        self.send_mark(turn);
    }

    /// Makes the oldest checkpoint durable, once its chunks are named and the application answered.
    fn mark(&mut self, turn: &mut Turn<'_, Self>) {
        let ready = |due: &Due| due.named.is_some() && due.app.is_some();
        if !self.checkpoints.due.front().is_some_and(ready) {
            return;
        }
        let Some(due) = self.checkpoints.due.pop_front() else { return };
        let (Some(blobs), Some(app)) = (due.named, due.app) else { return };
        let held: Vec<Hash> = self.checkpoints.marks.iter().flat_map(Mark::names).collect();
        for (name, bytes) in blobs {
            if !held.contains(&name) {
                turn.store(name, bytes);
            }
        }
        let named = &self.checkpoints.named;
        let list = |names: Vec<Hash>| List::try_from(names).unwrap_or_default();
        let mark = Mark {
            position: due.position,
            height: due.height,
            length: due.length,
            recent: u32::try_from(due.recent.len()).unwrap_or(u32::MAX),
            app,
            dedup: list(named.dedup.iter().map(|(_, name)| *name).collect()),
            directory: list(named.directory.iter().map(|(_, name)| *name).collect()),
            ring: list(named.ring.clone()),
        };
        let (position, root) = (mark.position, mark.root(self.settings.cluster.domains()));
        turn.persist(ServerRecord::Mark(mark.clone()));
        turn.note(Note::of(NoteName::Marked, [position.0, mark.height, 0], Hash::ZERO));
        self.checkpoints.marks.push_back(mark);
        self.let_go(turn);
        self.checkpoints.reported = position;
        self.submits.push_back(Submit::Applied { position, root: Some(root) });
        self.said_own();
        self.send_mark(turn);
        self.report();
        self.advance(turn);
    }

    /// Releases the blobs of checkpoints that are not kept any more.
    fn let_go(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some(old) = superfluous(&mut self.checkpoints.marks, self.checkpoints.stable) {
            let mut kept: Vec<Hash> = self.checkpoints.marks.iter().flat_map(Mark::names).collect();
            kept.sort_unstable();
            let mut gone: Vec<Hash> = old.names().filter(|name| kept.binary_search(name).is_err()).collect();
            gone.sort_unstable();
            gone.dedup();
            gone.into_iter().for_each(|name| turn.erase(name));
            turn.compact();
        }
    }

    pub(super) fn said_own(&mut self) {
        let (own, height) = (self.settings.own, self.checkpoints.own());
        if let Some(said) = self.checkpoints.said.get_mut(own.0 as usize) {
            *said = height;
        }
    }

    /// Says the own durable height to every server.
    pub(super) fn send_mark(&self, turn: &mut Turn<'_, Self>) {
        let height = if planted!(C29) { self.delivered } else { self.checkpoints.own() };
        if height > 0 {
            let others = self.settings.cluster.roster().others(self.settings.own);
            turn.send(others, ServerMessage::Mark(Height { height }).into());
        }
    }

    pub(super) fn on_marks(&self, turn: &mut Turn<'_, Self>) {
        self.send_mark(turn);
        turn.arm(ServerTimer::Marks, MARKS_EVERY);
    }

    /// Another server's durable height. One above what is known here is said again later.
    pub(super) fn on_mark(&mut self, from: NodeId, height: u64, turn: &mut Turn<'_, Self>) {
        if self.settings.cluster.roster().member(from).is_none() {
            return turn.blame(from, Fault::Stranger);
        }
        let own = self.height();
        let Some(said) = self.checkpoints.said.get_mut(from.0 as usize) else { return };
        if height < *said {
            return turn.blame(from, Fault::FallingMark);
        }
        if height <= own {
            *said = height;
        }
    }

    /// The ordering layer certified a checkpoint.
    pub(super) fn on_stable(&mut self, position: Position, turn: &mut Turn<'_, Self>) {
        let of = |mark: &&Mark| mark.position == position;
        let Some(height) = self.checkpoints.marks.iter().find(of).map(|mark| mark.height) else { return };
        if height > self.checkpoints.stable {
            self.checkpoints.stable = height;
            turn.persist(ServerRecord::Certified(position));
        }
        self.let_go(turn);
    }
}
