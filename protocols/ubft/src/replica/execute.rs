//! What is decided, done in the order of slots: each request once (specification, 4.8 and 4.11).

use synod_crypto::{Hash, Hasher};
use synod_machine::{Turn, Wall};
use synod_wire::Bytes;

use super::admit::read_registration;
use super::state::Replica;
use super::vocabulary::{Output, Requested};
use super::words::Ask;
use crate::batch::{Batch, Op, Request, Slot, View};
use crate::certificate::Checkpoint;
use crate::chain::Chain;
use crate::message::{Message, SYSTEM};
use crate::sessions::Fate;
use crate::trace::Rule;

impl Replica {
    /// What of a batch is to be executed: each request once, and those that do something.
    fn fresh(&self, batch: &Batch) -> Vec<Requested> {
        let mut fresh: Vec<Requested> = Vec::new();
        for request in &batch.requests {
            let Request { session, id, op, .. } = request;
            let is_again = fresh.iter().any(|other| (other.session, other.id) == (*session, *id));
            if *session == SYSTEM || is_again {
                continue;
            }
            if let (Fate::Fresh, Op::Inline(op)) = (self.fate(*session, *id), op) {
                fresh.push(Requested { session: *session, id: *id, op: op.bytes().clone() });
            }
        }
        fresh
    }

    /// Begins the next slot, if it is decided and none is under way.
    pub(super) fn execute(&mut self, turn: &mut Turn<'_, Self>) {
        while self.executing.is_none() && self.installing.is_none() {
            if self.is_full() {
                turn.applied(Rule::Full);
                return;
            }
            let Some((slot, digest, batch)) = self.decided.front().cloned() else { return };
            assert_eq!(slot, self.executed, "slots come in order");
            self.executing = Some(slot);
            self.time = Wall(self.time.0.max(batch.time_ms));
            let requests = self.fresh(&batch);
            self.asked.clear();
            self.asked.extend(requests.iter().map(|requested| (requested.session, requested.id)));
            if requests.is_empty() {
                self.finish(&[], turn);
            } else {
                turn.output(Output::Execute { slot, time: self.time, draw: digest, requests });
            }
        }
    }

    /// The user executed a slot.
    pub(super) fn on_replies(&mut self, slot: Slot, replies: &[Bytes], turn: &mut Turn<'_, Self>) {
        // What the user did before it took another state is worth nothing.
        if self.executing == Some(slot) && self.installing.is_none() {
            self.finish(replies, turn);
            self.execute(turn);
        }
    }

    fn finish(&mut self, replies: &[Bytes], turn: &mut Turn<'_, Self>) {
        let Some((slot, digest, batch)) = self.decided.pop_front() else { return };
        turn.applied(Rule::Execute);
        let asked = core::mem::take(&mut self.asked);
        assert_eq!(asked.len(), replies.len(), "a result for each request");
        self.exec_chain.add(&slot.0.to_le_bytes());
        self.executing = None;
        self.executed = Slot(slot.0.saturating_add(1));
        for ((session, id), reply) in asked.iter().copied().zip(replies) {
            self.sessions.done(session, id, reply, slot);
            self.exec_chain.add([session, id].map(u64::to_le_bytes).as_flattened());
            self.exec_chain.add(reply);
            if let Some((guest, _)) = self.attached.get(&session).copied() {
                self.reply(guest, (session, id), reply.clone(), false, turn);
            }
        }
        self.asked = asked;
        for request in &batch.requests {
            self.forget(request.session, request.id);
        }
        self.register(slot, &batch, turn);
        self.change(slot, &batch, turn);
        self.log_chain.follow(slot, digest, self.config.half_window());
        let origin = batch.origin;
        self.archive(slot, &batch);
        self.judge_again(turn);
        if self.executed.0.is_multiple_of(self.config.half_window()) {
            self.checkpoint(origin, turn);
        }
    }

    /// Opens sessions.
    fn register(&mut self, slot: Slot, batch: &Batch, turn: &mut Turn<'_, Self>) {
        for (place, request) in (0_u64..).zip(&batch.requests) {
            let Op::Inline(op) = &request.op else { continue };
            let Some(registration) =
                (request.session == SYSTEM).then(|| read_registration(op.bytes())).flatten()
            else {
                continue;
            };
            let (key, nonce) = (registration.key, registration.nonce);
            let session = self.sessions.open((key, nonce), slot, place);
            self.exec_chain.add(&session.unwrap_or(0).to_le_bytes());
            turn.applied(Rule::Register);
            if let Some(registering) = self.registering.remove(&(key, nonce)) {
                turn.send(registering.guest, Message::Registered { nonce, session });
            }
        }
    }

    /// Bytes that the archive may have: it is full at a checkpoint alone, up to a window behind.
    pub(super) fn archive_most(&self) -> u64 {
        let parameters = &self.config.parameters;
        let batch = self.config.body_max() as u64 + 64 * u64::from(parameters.batch_max) + 128;
        self.settings.archive_bytes_max.saturating_add(u64::from(parameters.window).saturating_mul(batch))
    }

    /// Keeps a batch for peers that are behind; what a certified snapshot has gives way.
    fn archive(&mut self, slot: Slot, batch: &Batch) {
        let bytes = self.archive.keep(slot, batch);
        self.snapshots.count(bytes);
        self.archive.shrink(self.settings.archive_bytes_max, self.snapshots.low());
    }

    /// Alg. 2, line 46: the state behind a half window. The last one of an epoch has the configuration of the next.
    fn checkpoint(&mut self, origin: View, turn: &mut Turn<'_, Self>) {
        let mut exec = Hasher::new("ubft executed");
        let epochs = Hash::of_value("ubft epochs", &self.epochs);
        exec.add(&self.exec_chain.close().0).add(&self.sessions.root().0).add(&epochs.0);
        let next = self.epochs.next(self.executed, origin);
        let configuration = next.as_ref().unwrap_or(&self.epochs.configuration);
        let checkpoint = Checkpoint {
            epoch: self.epochs.configuration.epoch,
            low: self.executed,
            log_chain: self.log_chain.head(),
            exec_chain: exec.finish(),
            config: configuration.digest(),
            end: self.epochs.end(),
        };
        if let Some(next) = next {
            self.epochs.enter(next);
            self.forget_own();
        }
        self.checkpoints.insert(self.executed, checkpoint);
        if self.checkpoints.len() > 4 {
            self.checkpoints.pop_first();
        }
        let newest = self.newest.as_ref().map(|newest| newest.subject);
        if let Some(newest) = newest.filter(|newest| newest.low == checkpoint.low) {
            self.on_certified(&newest, turn);
        } else if !self.has_diverged {
            self.ask(Ask::Executed(Box::new(checkpoint)), turn);
        }
        if self.executed == checkpoint.low {
            self.consider_snapshot(turn);
        }
    }

    /// f + 1 replicas signed a checkpoint: what differs from it here is wrong here (T28), and is discarded; the second time for good.
    pub(super) fn on_certified(&mut self, certified: &Checkpoint, turn: &mut Turn<'_, Self>) {
        let own = self.checkpoints.get(&certified.low).copied();
        self.checkpoints.retain(|low, _| *low > certified.low);
        if own.is_none_or(|own| own == *certified) || self.has_diverged {
            return;
        }
        turn.applied(Rule::Diverged);
        turn.output(Output::Diverged { low: certified.low });
        if core::mem::replace(&mut self.was_repaired, true) {
            self.has_diverged = true;
            turn.output(Output::Irreparable { low: certified.low });
        } else {
            self.discard(turn);
        }
    }
}

/// The digest of all batches.
pub(super) const fn log_chain(closed: Hash) -> Chain {
    Chain::new("ubft log", closed)
}

/// The digest of all results.
pub(super) const fn exec_chain(closed: Hash) -> Chain {
    Chain::new("ubft replies", closed)
}
