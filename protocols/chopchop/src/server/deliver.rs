//! Delivery, in height order: lanes of deduplication, sign-ups, verdicts (paper steps 14 to 16).

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::AtomicBroadcast;
use synod_quorum::NodeId;

use super::order::remember;
use super::{Apply, Outcome, Server, ServerOutput, ServerTask, Split, WINDOW, Work};
use crate::card::Card;
use crate::content::AnyBatch;
use crate::dedup::{Cut, Exceptions, Lane, Reason, Runs};
use crate::message::{ServerMessage, Verdict};
use crate::statement::Kind;
use crate::store::StoreInput;
use crate::trace::{Note, NoteName, Rule};

impl<A: AtomicBroadcast> Server<A> {
    /// Asks the store for the batches whose turn comes next.
    pub(super) fn want(&mut self, turn: &mut Turn<'_, Self>) {
        let until = self.delivered + WINDOW;
        for accepted in self.backlog.iter_mut().take_while(|accepted| accepted.height <= until) {
            if !accepted.needed {
                accepted.needed = true;
                turn.output(ServerOutput::Store(StoreInput::Need(accepted.statement.digest)));
            }
        }
    }

    /// The store has a batch.
    pub(super) fn on_have(
        &mut self,
        digest: &Hash,
        batch: AnyBatch,
        brokers: &[NodeId],
        turn: &mut Turn<'_, Self>,
    ) {
        let of = |accepted: &&mut super::Accepted| accepted.statement.digest == *digest;
        let Some(accepted) = self.backlog.iter_mut().find(of).filter(|accepted| accepted.needed) else {
            return;
        };
        brokers.iter().for_each(|broker| remember(&mut accepted.brokers, *broker));
        accepted.batch = Some(batch);
        self.advance(turn);
    }

    /// Starts on the next batch, if it is here and nothing else is at work.
    pub(super) fn advance(&mut self, turn: &mut Turn<'_, Self>) {
        if self.halted || self.loading.is_some() {
            return;
        }
        self.split_ahead(turn);
        if self.work.is_some() {
            return;
        }
        self.freeze(turn);
        if self.must_wait() || self.given.bytes() > self.settings.given {
            return;
        }
        let cut = self.table.cut();
        let Some(accepted) = self.backlog.front_mut() else { return };
        let Some(batch) = &accepted.batch else { return };
        if batch.header.witness(accepted.statement.digest) != accepted.statement {
            return self.stop_false(turn);
        }
        match core::mem::replace(&mut accepted.split, Split::Not) {
            Split::Done(by, runs) if by == cut => {
                accepted.batch = None;
                self.start_lanes(runs, turn);
            }
            Split::UnderWay => accepted.split = Split::UnderWay,
            Split::Not | Split::Done(..) => {
                let height = accepted.height;
                match accepted.batch.take().and_then(AnyBatch::into_sign_up) {
                    Some(cards) => {
                        self.work = Some(Work::Opening);
                        self.job(ServerTask::Cards(height, cards), turn);
                    }
                    None => unreachable!("batches of messages are split as soon as they are here"),
                }
            }
        }
    }

    /// Has the batches that come next opened and split, while those before them are deduplicated: up to the first that holds
    /// cards, behind which the table is another one.
    fn split_ahead(&mut self, turn: &mut Turn<'_, Self>) {
        let cut = self.table.cut();
        let mut tasks = Vec::new();
        let messages = self.backlog.iter_mut().take_while(|next| next.statement.kind == Kind::Messages);
        for accepted in messages.take(usize::try_from(WINDOW).unwrap_or(usize::MAX)) {
            let stale = match &accepted.split {
                Split::Not => true,
                Split::UnderWay => false,
                Split::Done(by, _) => *by != cut,
            };
            let Some(batch) = accepted.batch.as_ref().filter(|_| stale).cloned() else { continue };
            if batch.header.witness(accepted.statement.digest) != accepted.statement {
                // Its turn will show it; those before it go on.
                break;
            }
            let task = batch.into_messages().map(|batch| ServerTask::Split(accepted.height, batch, cut));
            accepted.split = Split::UnderWay;
            tasks.extend(task);
        }
        tasks.into_iter().for_each(|task| self.job(task, turn));
    }

    /// A batch was split.
    pub(super) fn on_split(&mut self, height: u64, by: Cut, runs: Option<Runs>, turn: &mut Turn<'_, Self>) {
        let of = |next: &&mut super::Accepted| next.height == height && matches!(next.split, Split::UnderWay);
        let Some(accepted) = self.backlog.iter_mut().find(of) else { return };
        accepted.split = Split::Done(by, runs);
        self.advance(turn);
    }

    /// The runs of the next batch go to their lanes; without them it breaks a rule.
    fn start_lanes(&mut self, runs: Option<Runs>, turn: &mut Turn<'_, Self>) {
        let Some(runs) = runs else { return self.stop_false(turn) };
        let height = self.delivered + 1;
        turn.applied(Rule::ParallelDedup);
        let lists = vec![None; runs.runs().len()];
        for (at, run) in runs.runs().iter().enumerate() {
            let Some(lane) = self.table.take(run.lane) else {
                unreachable!("no lane is out between batches")
            };
            self.job(ServerTask::Dedup { height, at, runs: runs.clone(), lane }, turn);
        }
        self.work = Some(Work::Lanes(runs, lists));
    }

    /// A lane comes back; after the last the batch is delivered.
    pub(super) fn on_lane(
        &mut self,
        height: u64,
        at: usize,
        lane: Lane,
        list: Vec<(u32, Reason)>,
        turn: &mut Turn<'_, Self>,
    ) {
        // A lane that comes back behind a state that took its place is of no use.
        let current = height == self.delivered + 1;
        let Some(Work::Lanes(runs, lists)) = self.work.as_mut().filter(|_| current) else { return };
        let Some(run) = runs.runs().get(at) else { return };
        self.table.put(run.lane, lane);
        if let Some(place) = lists.get_mut(at) {
            *place = Some(list);
        }
        if lists.iter().any(Option::is_none) {
            return;
        }
        let Some(Work::Lanes(runs, lists)) = self.work.take() else { return };
        let count = runs.batch().header().count;
        let exceptions = Exceptions::new(count, lists.into_iter().flatten().flatten().collect());
        turn.applied(Rule::ReplayRule);
        self.deliver(height, &runs, exceptions, turn);
        self.advance(turn);
    }

    fn deliver(&mut self, height: u64, runs: &Runs, exceptions: Exceptions, turn: &mut Turn<'_, Self>) {
        let Some(accepted) = self.backlog.pop_front() else { return };
        let batch = runs.batch().clone();
        let digest = accepted.statement.digest;
        let counts = [height, u64::from(exceptions.count()), u64::from(exceptions.exc_count())];
        turn.note(Note::of(NoteName::Delivered, counts, digest));
        let super::Accepted { position, time, draw, .. } = accepted;
        // Body, ids, and what was not delivered.
        let bytes = u64::from(accepted.statement.body_len) + 4 * counts[1] + 8 * counts[2];
        let awaited = self.given.give(height, bytes, self.settings.given);
        let apply = Apply {
            height,
            position,
            time,
            draw,
            batch: batch.clone(),
            ids: runs.ids().clone(),
            exceptions: exceptions.clone(),
            directory: self.directory.len(),
            awaited,
        };
        turn.output(ServerOutput::Apply(Box::new(apply)));
        self.finish(digest, accepted.brokers, Outcome::Messages(batch, exceptions), turn);
    }

    /// The cards of a sign-up batch enter the directory, in listed order.
    pub(super) fn on_cards(&mut self, height: u64, cards: Option<Vec<Card>>, turn: &mut Turn<'_, Self>) {
        if height != self.delivered + 1 || !matches!(self.work, Some(Work::Opening)) {
            return;
        }
        let Some(cards) = cards else { return self.stop_false(turn) };
        self.work = None;
        let Some(accepted) = self.backlog.pop_front() else { return };
        let assigned = self.directory.deliver(&cards);
        self.table.grow(self.directory.len());
        turn.applied(Rule::Directory);
        let values = [height, u64::from(self.directory.len()), u64::from(assigned.exc_count())];
        turn.note(Note::of(NoteName::SignedUp, values, accepted.statement.digest));
        self.finish(accepted.statement.digest, accepted.brokers, Outcome::Cards(assigned), turn);
        self.advance(turn);
    }

    /// One batch is delivered: it is signed, and the next ones are wanted.
    fn finish(&mut self, digest: Hash, brokers: Vec<NodeId>, outcome: Outcome, turn: &mut Turn<'_, Self>) {
        self.delivered += 1;
        turn.applied(Rule::Step15);
        self.answers.expect(self.delivered, digest, brokers);
        self.job(ServerTask::Delivered(self.delivered, digest, outcome), turn);
        self.report();
        self.answer_states(turn);
        self.answer_early(turn);
        self.accept(turn);
    }

    /// A verdict is signed: the brokers of its batch hear it. The ordering layer's record of it stands before, and holds it.
    pub(super) fn on_verdict(&mut self, verdict: Verdict, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::Step16);
        for broker in self.answers.keep(verdict.clone()) {
            turn.send(broker, ServerMessage::Delivered(verdict.clone()).into());
        }
    }

    /// f + 1 servers witnessed what breaks a rule: more than f are faulty, and nothing that follows could be trusted.
    fn stop_false(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(statement) = self.backlog.front().map(|accepted| accepted.statement.clone()) else { return };
        turn.note(Note::of(NoteName::FalseWitness, [self.delivered + 1, 0, 0], statement.digest));
        turn.output(ServerOutput::FalseWitness { statement });
        self.halted = true;
    }
}
