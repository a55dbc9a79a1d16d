//! What is decided, done in the order of slots: each request once (specification, 4.8 and 4.11).

use synod_crypto::{Hash, Hasher};
use synod_machine::{Turn, Wall};
use synod_wire::Bytes;

use super::admit::{batch_bytes, read_registration};
use super::state::Replica;
use super::vocabulary::{Output, Requested};
use super::words::Ask;
use crate::batch::{Batch, Op, Request, Slot};
use crate::certificate::Checkpoint;
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
            if let (Fate::Fresh, Op::Inline(op)) = (self.sessions.fate(*session, *id, self.executed), op) {
                fresh.push(Requested { session: *session, id: *id, op: op.bytes().clone() });
            }
        }
        fresh
    }

    /// Begins the next slot, if it is decided and none is under way.
    pub(super) fn execute(&mut self, turn: &mut Turn<'_, Self>) {
        while self.executing.is_none() {
            let Some((slot, digest, batch)) = self.decided.front().cloned() else { return };
            assert_eq!(slot, self.executed, "slots come in order");
            self.executing = Some(slot);
            self.time = Wall(self.time.0.max(batch.time_ms));
            let requests = self.fresh(&batch);
            if requests.is_empty() {
                self.finish(&[], turn);
            } else {
                turn.output(Output::Execute { slot, time: self.time, draw: digest, requests });
            }
        }
    }

    /// The user executed a slot.
    pub(super) fn on_replies(&mut self, slot: Slot, replies: &[Bytes], turn: &mut Turn<'_, Self>) {
        if self.executing == Some(slot) {
            self.finish(replies, turn);
            self.execute(turn);
        }
    }

    fn finish(&mut self, replies: &[Bytes], turn: &mut Turn<'_, Self>) {
        let Some((slot, digest, batch)) = self.decided.pop_front() else { return };
        turn.applied(Rule::Execute);
        let fresh = self.fresh(&batch);
        assert_eq!(fresh.len(), replies.len(), "a result for each request");
        let mut chain = Hasher::new("ubft replies");
        chain.add(&self.exec_chain.0);
        self.executing = None;
        self.executed = Slot(slot.0.saturating_add(1));
        for (requested, reply) in fresh.iter().zip(replies) {
            let (session, id) = (requested.session, requested.id);
            self.sessions.done(session, id, reply, slot);
            chain.add(&session.to_le_bytes()).add(&id.to_le_bytes()).add(reply);
            if let Some((guest, _)) = self.attached.get(&session).copied() {
                self.reply(guest, (session, id), reply.clone(), false, turn);
            }
        }
        for request in &batch.requests {
            self.forget(request.session, request.id);
        }
        self.register(slot, &batch, &mut chain, turn);
        self.exec_chain = chain.finish();
        self.log_chain = link(self.log_chain, digest);
        self.archive(slot, batch);
        self.judge_again(turn);
        if self.executed.0.is_multiple_of(self.config.half_window()) {
            self.checkpoint(turn);
        }
    }

    /// Opens sessions.
    fn register(&mut self, slot: Slot, batch: &Batch, chain: &mut Hasher, turn: &mut Turn<'_, Self>) {
        for (place, request) in (0_u64..).zip(&batch.requests) {
            let Op::Inline(op) = &request.op else { continue };
            let Some(registration) =
                (request.session == SYSTEM).then(|| read_registration(op.bytes())).flatten()
            else {
                continue;
            };
            let (key, nonce) = (registration.key, registration.nonce);
            let session = self.sessions.open((key, nonce), slot, place);
            chain.add(&session.unwrap_or(0).to_le_bytes());
            turn.applied(Rule::Register);
            if let Some(registering) = self.registering.remove(&(key, nonce)) {
                turn.send(registering.guest, Message::Registered { nonce, session });
            }
        }
    }

    fn archive(&mut self, slot: Slot, batch: Batch) {
        self.archive_bytes = self.archive_bytes.saturating_add(batch_bytes(&batch) as u64);
        self.archive.insert(slot, batch);
        while self.archive_bytes > self.settings.archive_bytes_max {
            let Some((_, oldest)) = self.archive.pop_first() else { break };
            self.archive_bytes = self.archive_bytes.saturating_sub(batch_bytes(&oldest) as u64);
        }
    }

    /// Alg. 2, line 46: the state behind a half window.
    fn checkpoint(&mut self, turn: &mut Turn<'_, Self>) {
        let mut exec = Hasher::new("ubft executed");
        exec.add(&self.exec_chain.0).add(&self.sessions.root().0);
        let checkpoint = Checkpoint {
            epoch: self.epoch,
            low: self.executed,
            log_chain: self.log_chain,
            exec_chain: exec.finish(),
            config: Hash::ZERO,
            end: None,
        };
        self.checkpoints.insert(self.executed, checkpoint);
        if self.checkpoints.len() > 4 {
            self.checkpoints.pop_first();
        }
        if !self.has_diverged {
            self.ask(Ask::Executed(checkpoint), turn);
        }
    }

    /// f + 1 replicas signed a checkpoint: what differs from it here is wrong here (T28).
    pub(super) fn on_certified(&mut self, certified: &Checkpoint, turn: &mut Turn<'_, Self>) {
        let own = self.checkpoints.get(&certified.low).copied();
        if own.is_some_and(|own| own != *certified) && !self.has_diverged {
            self.has_diverged = true;
            turn.applied(Rule::Diverged);
            turn.output(Output::Diverged { low: certified.low });
        }
        self.checkpoints.retain(|low, _| *low > certified.low);
    }
}

/// The digest of all batches, with one more.
pub(super) fn link(chain: Hash, batch: Hash) -> Hash {
    let mut hasher = Hasher::new("ubft log");
    hasher.add(&chain.0).add(&batch.0);
    hasher.finish()
}
