//! The fast path (paper, section 5.4; Algorithm 2, lines 18 to 31): promises in place of signatures.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Turn, planted};
use synod_quorum::NodeId;

use super::consensus::Consensus;
use super::words::{Told, Word};
use super::work::Work;
use crate::batch::{Batch, Slot, View};
use crate::config::NUMBER_END;
use crate::fault::Fault;
use crate::slot::Stand;
use crate::trace::Rule;

impl Consensus {
    /// A leader's stream shows a proposal; the batch may still be missing, where a summary showed it.
    pub(super) fn on_proposed(
        &mut self,
        (k, view, slot): (u64, View, Slot),
        digest: Hash,
        batch: Option<Arc<Batch>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (now, leader) = (turn.now(), self.config.leader(view));
        let is_must = self.stream(leader).and_then(|stream| stream.must(slot)) == Some(digest);
        let Some(work) = self.work(slot) else { return };
        if work.ballot.proposed().is_some_and(|(last, _)| last >= view) {
            return;
        }
        work.ballot.propose(view, digest);
        (work.k, work.since) = (k, Some(now));
        (work.is_unanimous, work.is_scored) = (false, false);
        if is_must {
            // f + 1 replicas show that it was certified: nobody need have heard it (E30).
            work.endorsed = Some((view, digest));
            turn.applied(Rule::A3Must);
        }
        match batch {
            Some(batch) => work.keep(digest, batch),
            None => self.want_batch(slot, digest, turn),
        }
        self.suspicion.look();
        self.expect_slot(turn);
        self.judge(slot, turn);
        self.consider(slot, turn);
        self.try_decide(slot, turn);
        // What was decided without its batch may have it now.
        if self.works.get(slot).is_some_and(|work| work.ballot.decided().is_some()) {
            self.hand_over(turn);
        }
    }

    /// Asks the user about the proposal of the present view, once.
    pub(super) fn judge(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let (view, is_own) = (self.view, self.leader() == self.me());
        let Some(work) = self.works.get_mut(slot) else { return };
        let Some((_, digest)) = work.ballot.proposed().filter(|(proposed, _)| *proposed == view) else {
            return;
        };
        if work.judged == Some(view) || work.endorsed == Some((view, digest)) {
            return;
        }
        if is_own {
            work.endorsed = Some((view, digest));
            return;
        }
        if let Some(batch) = work.batch(digest).cloned() {
            work.judged = Some(view);
            turn.output(Told::Judge { view, slot, digest, batch });
        }
    }

    /// The user vouches for it.
    pub(super) fn on_endorsed(&mut self, view: View, slot: Slot, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(work) = self.works.get_mut(slot) else { return };
        if work.ballot.proposed() == Some((view, digest)) {
            work.endorsed = Some((view, digest));
            self.consider(slot, turn);
        }
    }

    /// Says about a slot what may be said now (E9: what may not yet is looked at again with each view, checkpoint and endorsement).
    pub(super) fn consider(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let (view, me, leader) = (self.view, self.me(), self.leader());
        let (all, others) = (self.config.roster.all(), self.others());
        let (is_open, is_sealing) = (self.is_open(slot), self.sealing.is_some());
        let (is_slow, is_merged) = (self.mode.is_slow, self.config.parameters.merge_promises);
        let is_far = slot.0 >= self.next.0.saturating_add(u64::from(self.config.parameters.window));
        let Some(work) = self.works.get_mut(slot) else { return };
        let Some((_, digest)) = work.ballot.proposed().filter(|(proposed, _)| *proposed == view) else {
            return;
        };
        if !is_open || work.endorsed != Some((view, digest)) {
            return;
        }
        let mut must_sign = is_slow || work.slow == Some(view);
        if !is_sealing || planted!(V2) {
            match work.ballot.stand(view, digest, leader == me) {
                Some(Stand::Promise) if leader != me => {
                    turn.applied(Rule::A2WillCertify);
                    work.ballot.will_certify(me, view);
                    turn.send(others, Word::WillCertify { view, slot, tag: digest.short() });
                }
                Some(Stand::Signature) => must_sign = true,
                // The leader's proposal is its promise (D5).
                Some(Stand::Promise) | None => {}
            }
            if work.ballot.is_certain(view, leader, all) && !is_far && work.ballot.promise_commit(view) {
                turn.applied(Rule::A2WillCommit);
                work.ballot.will_commit(me, view);
                work.stood = (is_merged && work.k > 0).then_some((view, work.k, digest));
                turn.send(others, Word::WillCommit { view, slot, tag: digest.short() });
            }
        }
        if must_sign {
            self.certify(slot, turn);
        }
        // The own promise may be the last one.
        self.try_decide(slot, turn);
    }

    /// Looks again at all slots that are open.
    pub(super) fn consider_all(&mut self, turn: &mut Turn<'_, Self>) {
        let slots: Vec<Slot> = self.works.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.judge(slot, turn);
            self.consider(slot, turn);
        }
    }

    fn promised(
        &mut self,
        from: NodeId,
        view: View,
        slot: Slot,
        turn: &mut Turn<'_, Self>,
    ) -> Option<&mut Work> {
        if view.0 >= NUMBER_END || slot.0 >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return None;
        }
        self.work(slot)
    }

    pub(super) fn on_will_certify(
        &mut self,
        from: NodeId,
        view: View,
        slot: Slot,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(work) = self.promised(from, view, slot, turn) else { return };
        work.ballot.will_certify(from, view);
        self.consider(slot, turn);
    }

    pub(super) fn on_will_commit(&mut self, from: NodeId, view: View, slot: Slot, turn: &mut Turn<'_, Self>) {
        let Some(work) = self.promised(from, view, slot, turn) else { return };
        work.ballot.will_commit(from, view);
        self.try_decide(slot, turn);
    }

    /// All promised to commit to it in the view that this replica is in (Alg. 2, lines 29 to 31).
    pub(super) fn try_decide(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let (view, all, now) = (self.view, self.config.roster.all(), turn.now());
        let fast = self.pace.fast(&self.config.parameters);
        let Some(work) = self.works.get_mut(slot) else { return };
        let Some(digest) = work.ballot.unanimous(view, all).filter(|_| !work.is_unanimous) else { return };
        work.is_unanimous = true;
        let is_in_time = work.since.is_some_and(|since| now.since(since) <= fast);
        let counts = is_in_time && !core::mem::replace(&mut work.is_scored, true);
        turn.applied(Rule::A2DecideFast);
        if counts {
            self.score(true, turn);
        }
        self.decide(slot, digest, turn);
    }
}
