//! Executing the agreed order: each (session, sequence) once, one body of results per frame.
//!
//! *Cost.* A frame of 1,024 commands is one call of the application, one list, one body and one hash; per command
//! there is nothing but the application's own reply and its copy into the body.

use synod_crypto::{Hash, Hasher};
use synod_machine::broadcast::{Entry, Origin, Position, Submit};
use synod_machine::{Note, Turn, Wall};
use synod_quorum::NodeId;
use synod_tail::Seen;
use synod_wire::{Blob, Bytes, List, Wire};

use super::backlog::{Check, Slot};
use super::job::{ExecutorJob, ItemCheck, Signed, signed_digest};
use super::pool::{Name, Pending};
use super::replies::{Route, SMALL_MAX};
use super::{ClientAuth, Executor, ExecutorOutput, ServiceFault};
use crate::app::{App, At, Replies, Request};
use crate::frame::{COMMANDS_MAX, ClientFrame, Item, Opening, item_digest};
use crate::message::{Answered, BODY_MAX, CommandResult, Refused, Reply, Results, body_digest};
use crate::sessions::{Fate, Opened, Session};

/// Bytes of a body besides its values: heading, and tag and length of each result.
const BODY_FIXED: usize = 64 + COMMANDS_MAX * 6;

/// A note: the entries of a block are executed: last position, commands and skipped items since the start.
const BLOCK_EXECUTED: &str = "block_executed";

/// How long a client waits before it opens again at a full table.
const TABLE_FULL_RETRY_MS: u32 = 10_000;

impl<P: App + 'static> Executor<P> {
    /// The next entry of the order. After a jump to a state that was reached here meanwhile, entries come again.
    pub(super) fn on_entry(&mut self, entry: Entry, turn: &mut Turn<'_, Self>) {
        if entry.position <= self.backlog.delivered() {
            return;
        }
        let last = entry.last;
        let item = if entry.payload.is_empty() { None } else { Item::parse(&entry.payload).ok() };
        if item.is_none() && !entry.payload.is_empty() {
            self.blame_proposer(&entry, turn);
        }
        let check = self.known(item.as_ref(), &entry.payload);
        self.backlog.push(Slot { entry, item, check });
        if last {
            let checks = ask(self.backlog.fresh(), |session| self.sessions.get(session), self.settings.scope);
            compute(checks, turn);
        }
        self.run(turn);
    }

    /// What is known about the signature of an item without checking it again.
    fn known(&self, item: Option<&Item>, payload: &Bytes) -> Check {
        let Some(item) = item else { return Check::Bad };
        match (self.pool.get(Name::of(item)), self.settings.auth) {
            (Some(pending), _) if pending.payload == *payload => Check::Good(pending.digest),
            (_, ClientAuth::Channel) => Check::Good(item_digest(payload)),
            (_, ClientAuth::Signed) => Check::Unasked,
        }
    }

    /// Signatures of a block were checked.
    pub(super) fn on_checked(&mut self, checked: Vec<(Position, Signed)>, turn: &mut Turn<'_, Self>) {
        for (position, signed) in checked {
            if let Some(slot) = self.backlog.slot_mut(position).filter(|slot| slot.check == Check::Asked) {
                slot.check = signed.as_ref().and_then(signed_digest).map_or(Check::Bad, Check::Good);
            }
        }
        self.run(turn);
    }

    /// Executes what is ready, oldest first, and answers the barriers that are reached.
    pub(super) fn run(&mut self, turn: &mut Turn<'_, Self>) {
        while self.transfer.is_none() {
            if let Some(ticket) = self.backlog.pop_barrier(self.executed) {
                self.answer_reads(ticket, turn);
                continue;
            }
            let Some(slot) = self.backlog.front() else { break };
            if !self.is_ready(slot) {
                // The checks of a block are asked when it ends, but those whose session was opened since.
                if slot.check == Check::Unasked && self.backlog.is_flushed(slot.entry.position) {
                    let checks =
                        ask(self.backlog.all(), |session| self.sessions.get(session), self.settings.scope);
                    compute(checks, turn);
                }
                break;
            }
            if let Some(slot) = self.backlog.pop() {
                self.apply(slot, turn);
            }
        }
    }

    /// Whether the fate of the entry is known. A frame of no open session is skipped whoever signed it.
    fn is_ready(&self, slot: &Slot) -> bool {
        match (slot.check, &slot.item) {
            (Check::Good(_) | Check::Bad, _) | (_, None) => true,
            (Check::Asked, _) | (Check::Unasked, Some(Item::Open(_))) => false,
            (Check::Unasked, Some(Item::Frame(frame))) => self.sessions.get(frame.session).is_none(),
        }
    }

    fn apply(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let Slot { entry, item, check } = slot;
        assert!(entry.position.0 == self.executed.0 + 1, "positions are executed without holes");
        self.executed = entry.position;
        self.time = self.time.max(entry.time);
        if let Origin::Member(proposer) = entry.origin {
            self.leader = proposer.member();
        }
        let name = item.as_ref().map(Name::of);
        let ours =
            name.and_then(|name| self.pool.get(name)).is_some_and(|ours| ours.payload == entry.payload);
        let pending = name.filter(|_| ours).and_then(|name| self.pool.settle(name));
        self.pool.drain(entry.payload.len() as u64, turn.now());
        match (item, check) {
            (Some(Item::Open(opening)), Check::Good(_)) => self.open(&opening, pending.as_ref(), turn),
            (Some(Item::Frame(frame)), Check::Good(digest)) => {
                let draw = draw(entry.position, self.time, digest);
                self.execute(
                    &frame,
                    pending.as_ref(),
                    &At { position: entry.position, time: self.time, draw },
                    turn,
                );
            }
            (Some(_), Check::Bad) => self.blame_proposer(&entry, turn),
            _ => {}
        }
        self.close_entry(entry.last, turn);
    }

    /// Says what the end of an entry is due: replies, `Applied`, a snapshot.
    fn close_entry(&mut self, last: bool, turn: &mut Turn<'_, Self>) {
        let checkpoint = self.executed.0.is_multiple_of(self.settings.limits.checkpoint_every);
        if !last && !checkpoint {
            return;
        }
        self.flush(turn);
        if last {
            let values = [self.executed.0, self.commands, self.skipped, 0];
            turn.note(Note { name: BLOCK_EXECUTED, values, digest: Hash::ZERO });
        }
        let root = checkpoint.then(|| self.take_snapshot(turn));
        let applied = Submit::Applied { position: self.executed, root };
        turn.output(ExecutorOutput::Submit(applied));
    }

    fn open(&mut self, opening: &Opening, pending: Option<&Pending>, turn: &mut Turn<'_, Self>) {
        let waiters = pending.map_or(&[][..], |pending| &pending.waiters);
        let nonce = opening.nonce;
        let reply = match self.sessions.open(opening.key, nonce, self.executed, self.time) {
            Opened::New { session, closed } => {
                if let Some(closed) = closed {
                    self.close(closed, turn);
                }
                if let Some(guest) = waiters.last().copied() {
                    self.replier.attach(session, Route { guest, counter: 0 });
                }
                Reply::Opened { nonce, session }
            }
            Opened::Before(session) => Reply::Opened { nonce, session },
            Opened::Full => {
                let why = Refused::Busy { retry_ms: TABLE_FULL_RETRY_MS };
                Reply::Refused { session: 0, first: nonce, why }
            }
        };
        for waiter in waiters {
            self.reply(*waiter, reply.clone(), turn);
        }
    }

    fn execute(
        &mut self,
        frame: &ClientFrame,
        pending: Option<&Pending>,
        at: &At,
        turn: &mut Turn<'_, Self>,
    ) {
        let (session, first) = (frame.session, frame.first);
        let mut fates = core::mem::take(&mut self.fates);
        if self.sessions.begin(frame, self.time, &mut fates).is_none() {
            let why = Refused::UnknownSession;
            self.answer(None, pending, &Reply::Refused { session, first, why }, turn);
        } else if fates.contains(&Fate::Fresh) {
            let body = self.execute_fresh(frame, &fates, at);
            let digest = body_digest(&body);
            self.sessions.remember(frame, digest, &body);
            self.replier.keep(session, first, digest, &body);
            let named = Some(frame.full) == self.settings.own.member();
            let in_full = named || body.len() <= SMALL_MAX || pending.is_some_and(|pending| pending.repeated);
            let answer = if in_full { full(body) } else { Answered::Digest(digest) };
            let route = self.replier.route(session).map(|route| route.guest);
            self.answer(route, pending, &Reply::Executed { session, first, answer }, turn);
        } else if pending.is_some() {
            let reply = self.repeat(session, first, frame.commands.len() as u64);
            self.answer(None, pending, &reply, turn);
        }
        self.fates = fates;
    }

    /// Executes the fresh commands and gives the body of all results.
    fn execute_fresh(&mut self, frame: &ClientFrame, fates: &[Fate], at: &At) -> Bytes {
        let session = frame.session;
        let mut requests = (frame.first..)
            .zip(&frame.commands)
            .zip(fates)
            .filter(|(_, fate)| **fate == Fate::Fresh)
            .map(|((sequence, command), _)| Request { session, sequence, body: command });
        let mut replies = core::mem::take(&mut self.scratch);
        self.app.execute(at, &mut requests, &mut replies);
        let body = body(frame, fates, at.position, &mut replies);
        self.scratch = replies;
        self.commands += fates.iter().filter(|fate| **fate == Fate::Fresh).count() as u64;
        body
    }

    /// Replies to the session's connection and to whoever waits for the item.
    fn answer(
        &mut self,
        route: Option<NodeId>,
        pending: Option<&Pending>,
        reply: &Reply,
        turn: &mut Turn<'_, Self>,
    ) {
        let waiters = pending.map_or(&[][..], |pending| &pending.waiters);
        let routed = route.filter(|guest| !waiters.contains(guest));
        for guest in routed.iter().chain(waiters) {
            self.reply(*guest, reply.clone(), turn);
        }
    }

    /// An invalid item is skipped alike by all, and counts against whoever proposed its block.
    fn blame_proposer(&mut self, entry: &Entry, turn: &mut Turn<'_, Self>) {
        self.skipped += 1;
        if let Origin::Member(proposer) = entry.origin
            && proposer != self.settings.own
        {
            turn.blame(proposer, ServiceFault::SuspectedForgery(entry.payload.clone()));
        }
    }
}

/// The checks of those slots that nobody asked for and whose key is known.
fn ask<'a, 'b>(
    slots: impl Iterator<Item = &'a mut Slot>,
    session: impl Fn(u64) -> Option<&'b Session>,
    scope: synod_crypto::Scope,
) -> Vec<(Position, ItemCheck)> {
    let mut checks = Vec::new();
    for slot in slots.filter(|slot| slot.check == Check::Unasked) {
        let Some(item) = &slot.item else { continue };
        let key = match item {
            Item::Open(opening) => Some(opening.key),
            Item::Frame(frame) => session(frame.session).map(Session::key),
        };
        if let Some(key) = key {
            checks.push((slot.entry.position, ItemCheck::new(item, slot.entry.payload.clone(), key, scope)));
            slot.check = Check::Asked;
        }
    }
    checks
}

fn compute<P: App + 'static>(checks: Vec<(Position, ItemCheck)>, turn: &mut Turn<'_, Executor<P>>) {
    if !checks.is_empty() {
        turn.compute(ExecutorJob::Block(checks));
    }
}

/// The hash of the ordering entry: what applications draw from.
fn draw(position: Position, time: Wall, digest: Hash) -> Hash {
    let mut hasher = Hasher::new("synod draw");
    hasher.add(&position.0.to_le_bytes()).add(&time.0.to_le_bytes()).add(&digest.0);
    hasher.finish()
}

/// The body of a frame's results; a reply that would exceed [`BODY_MAX`] is marked instead, alike by all.
fn body(frame: &ClientFrame, fates: &[Fate], position: Position, replies: &mut Replies) -> Bytes {
    let fresh = fates.iter().filter(|fate| **fate == Fate::Fresh).count();
    assert_eq!(replies.count(), fresh, "an application replies exactly once to each request");
    let mut room = BODY_MAX - BODY_FIXED;
    let mut values = replies.drain().map(|reply| match room.checked_sub(reply.len()) {
        None => CommandResult::Oversize,
        Some(rest) => {
            room = rest;
            Blob::try_from(reply).map_or(CommandResult::Oversize, CommandResult::Value)
        }
    });
    let results = fates.iter().map(|fate| match fate {
        Fate::Fresh => values.next().unwrap_or(CommandResult::Oversize),
        Fate::Repeated => CommandResult::Repeated,
        Fate::Forgotten => CommandResult::Forgotten,
        Fate::Outside => CommandResult::Outside,
    });
    Results { session: frame.session, first: frame.first, position, results: bounded(results.collect()) }
        .encode()
}

/// The answer to a repeat of which no results are kept: per command, whether it was executed or forgotten.
pub(super) fn marks(open: Option<&Session>, session: u64, first: u64, count: u64) -> Answered {
    let mark = |sequence| match open.map_or(Seen::Below, |open| open.window().look(sequence)) {
        Seen::New | Seen::Before => CommandResult::Repeated,
        Seen::Below => CommandResult::Forgotten,
        Seen::Beyond => CommandResult::Outside,
    };
    let results = (first..first.saturating_add(count)).map(mark).collect();
    full(Results { session, first, position: Position(0), results: bounded(results) }.encode())
}

/// A body as an answer.
pub(super) fn full(body: Bytes) -> Answered {
    match Blob::try_from(body) {
        Ok(body) => Answered::Body(body),
        Err(_) => unreachable!("bodies are built within their maximum"),
    }
}

fn bounded(results: Vec<CommandResult>) -> List<CommandResult, COMMANDS_MAX> {
    match List::try_from(results) {
        Ok(list) => list,
        Err(_) => unreachable!("a frame has as many results as commands"),
    }
}
