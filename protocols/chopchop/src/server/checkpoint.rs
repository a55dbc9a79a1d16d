//! Checkpoints: the state at every `checkpoint_every`th position becomes durable, and every server says so (section 4.9).
//!
//! The state at a position is frozen when every item accepted up to it is delivered and nothing behind it is: by sharing its
//! chunks. Its blobs and its `Mark` stand in the lane before `Applied` and before MARK leaves, so a MARK is durable.
//!
//! *Entries that are nothing.* Positions count them, so checkpoints of one height follow one another. Their state is one: the first is
//! frozen, the others have its names under their own positions, and nothing is copied or hashed for them or waits for them.
//!
//! *Bounds.* Those that are due: [`KEPT_MAX`] of each height that wait, the older ones of it joined to them; 160 bytes each, and the
//! digests of the one that is frozen.

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
    take_superfluous(marks, certified)
}

fn take_superfluous(marks: &mut VecDeque<Mark>, certified: bool) -> Option<Mark> {
    match marks.len() {
        count if count <= KEPT || (count <= KEPT_MAX && !certified) => None,
        _ if certified => marks.pop_front(),
        _ => marks.remove(1),
    }
}

/// Same states after which the lane is worth rewriting.
const COMPACT_EVERY: u64 = 64;

/// How far a checkpoint is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its height is not delivered, or one before it is on its way.
    Waits,
    /// Its state is shared with a job that names its chunks.
    Frozen,
    /// Its state is that of the checkpoint before it.
    Same,
}

/// A checkpoint on its way.
#[derive(Clone, Debug)]
pub(super) struct Due {
    /// It stands for those of the same height from here on, too.
    first: Position,
    position: Position,
    height: u64,
    stage: Stage,
    length: u32,
    recent: u32,
    named: Option<Vec<(Hash, Bytes)>>,
    app: Option<Hash>,
}

impl Due {
    /// Whether nothing is missing to make it durable but those before it.
    const fn is_ready(&self) -> bool {
        match self.stage {
            Stage::Waits => false,
            Stage::Frozen => self.named.is_some() && self.app.is_some(),
            Stage::Same => self.app.is_some(),
        }
    }
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
    /// Position of the newest own one that became certified in this life.
    certified: Position,
}

impl Checkpoints {
    pub(super) fn new(members: u32) -> Self {
        Self { said: vec![0; members as usize], ..Self::default() }
    }

    /// Height of the last certified checkpoint.
    pub(super) const fn stable(&self) -> u64 {
        self.stable
    }

    /// Position of the newest own checkpoint that is known to be certified. Of several at one height the records do not tell.
    fn certified(&self) -> Position {
        let first = self.marks.iter().find(|mark| mark.height == self.stable);
        first.map_or(self.certified, |mark| mark.position.max(self.certified))
    }

    /// As [`superfluous`], by position: others ask for the newest certified state by the position at which it was certified.
    fn superfluous(&mut self) -> Option<Mark> {
        let certified = self.certified();
        let certified = self.marks.get(1).is_some_and(|next| next.position <= certified);
        take_superfluous(&mut self.marks, certified)
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
        self.due.iter().any(|due| due.stage != Stage::Waits && due.position >= position)
    }

    /// The state at a position is due. So many that wait are as good as all that wait at their height: more are not kept.
    fn expect(&mut self, position: Position, height: u64) {
        let (stage, length, recent, named, app) = (Stage::Waits, 0, 0, None, None);
        self.due.push_back(Due { first: position, position, height, stage, length, recent, named, app });
        let Some(at) = self.due.len().checked_sub(KEPT_MAX + 1) else { return };
        let oldest = self.due.get(at).filter(|due| due.stage == Stage::Waits && due.height == height);
        let Some(first) = oldest.map(|oldest| oldest.first) else { return };
        self.due.remove(at);
        if let Some(next) = self.due.get_mut(at) {
            next.first = first;
        }
    }

    /// How many are on their way, the height of the first that waits behind them, and that of the one before it.
    fn next(&self) -> Option<(usize, u64, Option<u64>)> {
        let at = self.due.partition_point(|due| due.stage != Stage::Waits);
        let next = self.due.get(at)?.height;
        let before = at.checked_sub(1).and_then(|before| self.due.get(before)).map(|due| due.height);
        Some((at, next, before.or_else(|| self.marks.back().map(|mark| mark.height))))
    }

    fn own(&self) -> u64 {
        self.marks.back().map_or(0, |mark| mark.height)
    }

    pub(super) fn bytes(&self) -> u64 {
        let frozen = self.due.iter().filter(|due| due.stage == Stage::Frozen);
        let rings: usize = frozen.map(|due| due.recent as usize * 32).sum();
        let blobs = self.due.iter().flat_map(|due| due.named.iter().flatten());
        let blobs: usize = blobs.map(|(_, bytes)| 32 + bytes.len()).sum();
        let names: usize = self.marks.iter().map(|mark| 32 * mark.chunks() + 128).sum();
        (rings + blobs + names + self.named.bytes() + self.due.len() * 160 + self.decided.len() * 16) as u64
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
            checkpoints.expect(position, height);
        }
        self.report();
    }

    /// Tells the ordering layer up to where everything is delivered. Beyond a checkpoint only its root leads.
    pub(super) fn report(&mut self) {
        let limit = self.checkpoints.due.front().map_or(u64::MAX, |due| due.first.0 - 1);
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

    /// Freezes the state if a checkpoint is due here: nothing is at work. Those behind it at its height share what becomes of it.
    pub(super) fn freeze(&mut self, turn: &mut Turn<'_, Self>) {
        let delivered = self.delivered;
        if let Some((0, height, before)) = self.checkpoints.next()
            && height == delivered
            && before != Some(height)
        {
            self.freeze_first(turn);
        }
        while let Some((at, height, Some(before))) = self.checkpoints.next() {
            let Some(due) = self.checkpoints.due.get_mut(at) else { return };
            if before != height || at >= KEPT_MAX {
                return;
            }
            due.stage = Stage::Same;
            let (position, stable) = (due.position, self.checkpoints.certified());
            turn.output(ServerOutput::Checkpoint { position, height, stable });
        }
    }

    fn freeze_first(&mut self, turn: &mut Turn<'_, Self>) {
        let (stable, named) = (self.checkpoints.certified(), self.checkpoints.named.clone());
        let Some(due) = self.checkpoints.due.front_mut() else { return };
        let recent = if planted!(C17) { Vec::new() } else { self.recent.until(due.height) };
        (due.stage, due.length) = (Stage::Frozen, self.directory.len());
        due.recent = u32::try_from(recent.len()).unwrap_or(u32::MAX);
        let (position, height) = (due.position, due.height);
        let frozen = Frozen { dedup: self.table.chunks(), directory: self.directory.view(), recent };
        turn.output(ServerOutput::Checkpoint { position, height, stable });
        self.job(ServerTask::Chunks(position, frozen, named), turn);
    }

    /// Whether a checkpoint is due here whose state nothing holds yet: it waits for the one before it.
    pub(super) fn must_wait(&self) -> bool {
        let Checkpoints { due, marks, .. } = &self.checkpoints;
        let first = due.get(due.partition_point(|due| due.height < self.delivered));
        let held = marks.back().is_some_and(|mark| mark.height == self.delivered);
        !held && first.is_some_and(|due| due.stage == Stage::Waits && due.height == self.delivered)
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
        let of = |due: &&mut Due| due.stage != Stage::Waits && due.position == position;
        if let Some(due) = self.checkpoints.due.iter_mut().find(of) {
            due.app = Some(root);
            self.mark(turn);
        }
    }

    /// Forgets what was on its way: another state takes the place, of all or only of what lies before it.
    pub(super) fn overtaken(&mut self, mark: Mark, above: bool, turn: &mut Turn<'_, Self>) {
        let every = self.settings.cluster.rules().checkpoint_every;
        let checkpoints = &mut self.checkpoints;
        checkpoints.due.retain(|due| above && due.position > mark.position);
        if let Some(due) = checkpoints.due.front_mut() {
            // What it stands for begins behind that state.
            due.first = due.first.max(Position(mark.position.0 + every));
        }
        checkpoints.decided.retain(|(position, _)| above && *position > mark.position);
        checkpoints.named = Named::default();
        checkpoints.reported = mark.position;
        checkpoints.stable = checkpoints.stable.max(mark.height);
        checkpoints.certified = checkpoints.certified.max(mark.position);
        checkpoints.marks.push_back(mark);
        self.let_go(turn);
        self.said_own();
        self.send_mark(turn);
    }

    /// Makes the oldest checkpoints durable, once their chunks are named and the application answered.
    fn mark(&mut self, turn: &mut Turn<'_, Self>) {
        let mut moved = false;
        while self.checkpoints.due.front().is_some_and(Due::is_ready) {
            let Some(due) = self.checkpoints.due.pop_front() else { break };
            self.mark_first(due, turn);
            moved = true;
        }
        if moved {
            self.report();
            self.advance(turn);
        }
    }

    fn mark_first(&mut self, due: Due, turn: &mut Turn<'_, Self>) {
        let Due { first, position, height, stage, length, recent, named, app } = due;
        let Some(app) = app else { return };
        let before = self.checkpoints.marks.back().filter(|mark| mark.height == height);
        let mark = match (stage, before) {
            (Stage::Same, Some(before)) => Mark { position, app, ..before.clone() },
            (Stage::Same, None) => unreachable!("the state of the one before it is durable"),
            (Stage::Waits | Stage::Frozen, _) => {
                self.store_new(named.unwrap_or_default(), turn);
                let named = &self.checkpoints.named;
                let list = |names: Vec<Hash>| List::try_from(names).unwrap_or_default();
                let dedup = list(named.dedup.iter().map(|(_, name)| *name).collect());
                let directory = list(named.directory.iter().map(|(_, name)| *name).collect());
                let ring = list(named.ring.clone());
                Mark { position, height, length, recent, app, dedup, directory, ring }
            }
        };
        let root = mark.root(self.settings.cluster.domains());
        turn.persist(ServerRecord::Mark(mark.clone()));
        turn.note(Note::of(NoteName::Marked, [position.0, mark.height, 0], Hash::ZERO));
        self.checkpoints.marks.push_back(mark);
        self.let_go(turn);
        self.checkpoints.reported = position;
        let every = self.settings.cluster.rules().checkpoint_every;
        let mut passed = first;
        while passed <= position {
            self.submits.push_back(Submit::Applied { position: passed, root: Some(root) });
            passed = Position(passed.0 + every);
        }
        if stage != Stage::Same {
            self.said_own();
            self.send_mark(turn);
        }
    }

    /// Stores the blobs of a state that no checkpoint here has.
    fn store_new(&self, blobs: Vec<(Hash, Bytes)>, turn: &mut Turn<'_, Self>) {
        let held: Vec<Hash> = self.checkpoints.marks.iter().flat_map(Mark::names).collect();
        for (name, bytes) in blobs {
            if !held.contains(&name) {
                turn.store(name, bytes);
            }
        }
    }

    /// Releases the blobs of checkpoints that are not kept any more.
    fn let_go(&mut self, turn: &mut Turn<'_, Self>) {
        let every = self.settings.cluster.rules().checkpoint_every;
        while let Some(old) = self.checkpoints.superfluous() {
            if self.checkpoints.marks.iter().any(|mark| mark.height == old.height) {
                // The same blobs, kept under another position.
                if (old.position.0 / every).is_multiple_of(COMPACT_EVERY) {
                    turn.compact();
                }
                continue;
            }
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
        self.checkpoints.certified = self.checkpoints.certified.max(position);
        if height > self.checkpoints.stable {
            self.checkpoints.stable = height;
            turn.persist(ServerRecord::Certified(position));
        }
        self.let_go(turn);
    }
}
