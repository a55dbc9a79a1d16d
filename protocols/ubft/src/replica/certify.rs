//! The slow path (Algorithm 2, lines 22 and 33 to 36), and when it is taken (specification, 4.10).

use synod_crypto::Hash;
use synod_machine::{Event, Turn};
use synod_quorum::NodeId;

use super::consensus::{Consensus, Share};
use super::words::{Told, Word};
use crate::batch::{Slot, View};
use crate::body::Body;
use crate::config::NUMBER_END;
use crate::ctb;
use crate::fault::Fault;
use crate::statement::Statement;
use crate::trace::Rule;

/// Slow slots in a row after which slots are signed at once.
const SLOW_MAX: u32 = 3;
/// Fast slots in a row after which they are not.
const FAST_MIN: u32 = 64;

impl Consensus {
    /// Signs the proposal of the present view, once.
    pub(super) fn certify(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        let Some(work) = self.works.get_mut(slot) else { return };
        let Some((_, digest)) = work.ballot.proposed().filter(|(proposed, _)| *proposed == view) else {
            return;
        };
        if work.ballot.certify(view, digest) {
            self.sign_proposal(view, slot, digest, turn);
        }
    }

    pub(super) fn sign_proposal(&self, view: View, slot: Slot, digest: Hash, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::A2Certify);
        self.sign(turn, |signer| Statement::Certify { signer, view, slot, digest });
    }

    /// A checked share of a slot: with f + 1, the own among them, the certificate is said.
    pub(super) fn on_certify(&mut self, slot: Slot, claim: &Share, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        let Some(work) = self.work(slot) else { return };
        work.ballot.share(claim, view);
        self.try_commit(slot, turn);
    }

    /// Alg. 2, lines 34 to 36: once for each slot and view, and only while the own stream is in the view.
    pub(super) fn try_commit(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        // The own stream shows the checkpoint whose window the slot is in first.
        self.show_checkpoint(turn);
        let (view, me, need) = (self.view, self.me(), self.one_correct());
        let is_shown = self.own.low == self.low.low;
        if self.own.view != view || !is_shown || !self.can_say() || !self.is_open(slot) {
            return;
        }
        let Some(work) = self.works.get_mut(slot) else { return };
        if work.ballot.is_committed(view) {
            return;
        }
        let Some(certificate) = work.ballot.certificate(me, view, need) else { return };
        if work.ballot.commit(view) {
            turn.applied(Rule::A2Commit);
            self.say(&Body::Commit(certificate), turn);
        }
    }

    /// The wait for slots begins where none does.
    pub(super) fn expect_slot(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.is_fast_armed {
            self.is_fast_armed = true;
            turn.arm(super::words::Alarm::Fast, self.pace.fast(&self.config.parameters));
        }
    }

    /// Slots whose proposal is here for T_fast and that not all have promised to commit to are slow.
    pub(super) fn on_slow(&mut self, turn: &mut Turn<'_, Self>) {
        self.is_fast_armed = false;
        let (view, now, fast) = (self.view, turn.now(), self.pace.fast(&self.config.parameters));
        let (mut due, mut next) = (Vec::new(), None);
        for (slot, work) in self.works.iter_mut() {
            let is_here = work.ballot.proposed().is_some_and(|(proposed, _)| proposed == view);
            let Some(since) = work.since.filter(|_| is_here && !work.is_scored) else { continue };
            if now.since(since) >= fast {
                work.is_scored = true;
                due.push((slot, work.k, work.ballot.decided().is_some()));
            } else {
                let left = (since + fast).since(now);
                next = Some(next.map_or(left, |next: synod_machine::Span| next.min(left)));
            }
        }
        for (slot, k, is_decided) in due {
            self.score(false, turn);
            if !is_decided {
                self.slow_down(slot, k, turn);
            }
        }
        if let Some(left) = next {
            self.is_fast_armed = true;
            turn.arm(super::words::Alarm::Fast, left);
        }
    }

    /// One slot is slow: it is signed, and others learn that it is.
    fn slow_down(&mut self, slot: Slot, k: u64, turn: &mut Turn<'_, Self>) {
        let (view, me, leader) = (self.view, self.me(), self.leader());
        turn.applied(Rule::Slow);
        if let Some(work) = self.works.get_mut(slot) {
            work.slow = Some(view);
        }
        if leader == me {
            self.cast(me, Event::Input(ctb::Input::Show(k)), turn);
        } else if let (Some(broadcaster), true) = (leader.member(), k > 0) {
            turn.send(leader, Word::Ctb { broadcaster, word: ctb::Message::Nack { k } });
        }
        turn.send(self.others(), Word::Hint { view, slot });
        self.consider(slot, turn);
    }

    /// Somebody finds a slot slow: this replica signs early, if it may.
    pub(super) fn on_hint(&mut self, from: NodeId, view: View, slot: Slot, turn: &mut Turn<'_, Self>) {
        if view.0 >= NUMBER_END || slot.0 >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        if view != self.view || !self.fetches.may_serve(from, turn.now()) {
            return;
        }
        let Some(work) = self.works.get_mut(slot).filter(|work| work.ballot.decided().is_none()) else {
            return;
        };
        turn.applied(Rule::Hint);
        work.slow = Some(view);
        self.consider(slot, turn);
    }

    /// Counts a slot, and switches between the paths.
    pub(super) fn score(&mut self, is_fast: bool, turn: &mut Turn<'_, Self>) {
        let mode = &mut self.mode;
        (mode.fast, mode.slow) =
            if is_fast { (mode.fast.saturating_add(1), 0) } else { (0, mode.slow.saturating_add(1)) };
        if !mode.is_slow && mode.slow >= SLOW_MAX {
            self.become_slow(true, turn);
        } else if mode.is_slow && mode.fast >= FAST_MIN {
            self.become_slow(false, turn);
        }
    }

    pub(super) fn become_slow(&mut self, is_slow: bool, turn: &mut Turn<'_, Self>) {
        let is_slow = is_slow || self.mode.is_forced;
        if self.mode.is_slow == is_slow {
            return;
        }
        self.mode.is_slow = is_slow;
        turn.applied(if is_slow { Rule::ToSlow } else { Rule::ToFast });
        self.cast(self.me(), Event::Input(ctb::Input::Slow(is_slow)), turn);
        turn.output(Told::Slow(is_slow));
    }
}
