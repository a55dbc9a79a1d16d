//! When a leader is given up, and how replicas come to one view (specification, 4.14; Algorithm 3, line 1).
//!
//! The wait is measured from the oldest thing that waits for the leader: what a client signed, a proposal that is not decided, the end
//! of the epoch; so one client that is censored is enough. A single replica that suspects wrongly is followed, at most once in ten
//! seconds, or the fast path would be lost for good. It waits for f + 1 replicas in its view before it gives that up as well: who went on
//! alone would be where nobody follows.

use std::collections::BTreeMap;

use synod_machine::{Span, Time, Turn};
use synod_quorum::NodeId;

use super::consensus::Consensus;
use super::words::{Alarm, Word};
use crate::batch::View;
use crate::config::SUSPECT_MAX;
use crate::trace::Rule;

/// A replica that suspects alone is followed once in so long.
pub(super) const COURTESY: Span = Span::secs(10);
/// Memory nodes are asked for something so often, whether it is needed or not.
const TOUCH_EVERY: Span = Span::secs(1);
/// Tails are said again so often, as long as something waits.
const GREET_EVERY: Span = Span::secs(1);
/// Own shares of slots that are said again at a time.
const RESHARE_MAX: usize = 64;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Suspicion {
    pub(super) wait: Span,
    /// Since when what a client signed waits.
    pub(super) pressing: Option<Time>,
    /// When the present view was entered, or left for another.
    entered: Time,
    /// When the epoch's end was known.
    pub(super) ending: Option<Time>,
    /// When memory nodes were asked for something last.
    touched: Time,
    /// When the tails were said again.
    greeted: Option<Time>,
    is_armed: bool,
    /// Something may wait that did not when it was looked for last: without it nothing is looked for.
    is_new: bool,
    followed: BTreeMap<NodeId, Time>,
}

impl Suspicion {
    pub(super) const fn new(wait: Span) -> Self {
        Self {
            wait,
            pressing: None,
            entered: Time::ZERO,
            ending: None,
            touched: Time::ZERO,
            greeted: None,
            is_armed: false,
            is_new: false,
            followed: BTreeMap::new(),
        }
    }

    pub(super) const fn enter(&mut self, now: Time) {
        self.entered = now;
    }

    /// Something may wait now.
    pub(super) const fn look(&mut self) {
        self.is_new = true;
    }

    /// A decision in the present view about something that is here since then: its leader works. What older views left must be decided anew, all of it
    /// within one wait, and that shortens none; each other decision halves it, but for twice what it took, measured as the wait is: what
    /// is decided in time now would else be late the next time.
    pub(super) fn decided(&mut self, (first, is_must): (Span, bool), since: Time, now: Time) {
        let oldest = self.pressing.map_or(since, |pressing| pressing.min(since));
        let took = now.since(oldest.max(self.entered)).times(2);
        if !is_must {
            self.wait = Span((self.wait.0 / 2).max(took.0.min(self.wait.0)).max(first.0));
        }
    }
}

impl Consensus {
    pub(super) fn start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Alarm::Reshare, self.config.parameters.suspect);
        let ids: Vec<NodeId> = self.ctb.keys().collect();
        ids.into_iter().for_each(|id| self.cast(id, synod_machine::Event::Start, turn));
        self.touch(turn);
        self.hand_over(turn);
    }

    /// Memory nodes are asked for something, so that they know the epoch, and this replica whether they came back empty.
    fn touch(&mut self, turn: &mut Turn<'_, Self>) {
        self.suspicion.touched = turn.now();
        if let Some(id) = self.others().iter().next() {
            self.cast(id, synod_machine::Event::Input(crate::ctb::Input::Touch), turn);
        }
    }

    /// Says again what a replica that came to the epoch may have missed: the tails, and shares that are open.
    pub(super) fn greet(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::Greet);
        let ids: Vec<NodeId> = self.ctb.keys().collect();
        for id in ids {
            self.cast(id, synod_machine::Event::Input(crate::ctb::Input::Greet(peer)), turn);
        }
        let shares = self.open_shares();
        shares.into_iter().for_each(|word| turn.send(peer, word));
        self.answer_checkpoint(peer, turn);
    }

    pub(super) fn on_pressing(&mut self, since: Option<Time>, turn: &mut Turn<'_, Self>) {
        self.suspicion.pressing = since;
        self.suspicion.look();
        self.watch(turn);
    }

    /// The oldest thing that waits for the leader.
    fn oldest(&self) -> Option<Time> {
        // Of an older view nobody owes anything: what its clients wait for is said to the new leader.
        let open = self.works.from(self.next.max(self.low.low));
        let undecided = open.filter(|(_, work)| {
            work.ballot.decided().is_none()
                && work.ballot.proposed().is_some_and(|(view, _)| view == self.view)
        });
        let first = undecided.filter_map(|(_, work)| work.since).min();
        let is_ending = self.end().is_some_and(|end| self.next < end);
        let ending = self.suspicion.ending.filter(|_| is_ending);
        [first, self.suspicion.pressing, ending].into_iter().flatten().min()
    }

    /// Arms the suspicion while something waits. It is looked for only where something new may: a proposal, a view, a client, an end.
    pub(super) fn watch(&mut self, turn: &mut Turn<'_, Self>) {
        if self.end().is_some() && self.suspicion.ending.is_none() {
            self.suspicion.ending = Some(turn.now());
            self.suspicion.look();
        }
        if self.suspicion.is_armed || !core::mem::take(&mut self.suspicion.is_new) {
            return;
        }
        if let Some(oldest) = self.oldest() {
            let due = oldest.max(self.suspicion.entered) + self.suspicion.wait;
            self.suspicion.is_armed = true;
            turn.arm(Alarm::Suspect, due.since(turn.now()));
        }
    }

    pub(super) fn on_suspect(&mut self, turn: &mut Turn<'_, Self>) {
        self.suspicion.is_armed = false;
        self.suspicion.look();
        let Some(oldest) = self.oldest() else { return };
        let now = turn.now();
        if now < oldest.max(self.suspicion.entered) + self.suspicion.wait {
            return;
        }
        self.suspicion.enter(now);
        // What a link lost its receiver may not know of, so it asks for none of it, and nobody says anything new meanwhile.
        if self.suspicion.greeted.is_none_or(|last| now.since(last) >= GREET_EVERY) {
            self.suspicion.greeted = Some(now);
            self.others().iter().for_each(|peer| self.greet(peer, turn));
        }
        if self.sealing.is_some() {
            // The view cannot be left yet: what is missing for it is asked for again.
            self.miss_shares(turn);
            return;
        }
        if self.in_view() < self.one_correct() {
            return;
        }
        turn.applied(Rule::A3Suspect);
        self.suspicion.wait = Span(self.suspicion.wait.times(2).0.min(SUSPECT_MAX.0));
        self.change_view(View(self.view.0.saturating_add(1)), turn);
    }

    /// Replicas whose streams are in the present view or beyond it, this one among them.
    fn in_view(&self) -> u32 {
        let others =
            self.lanes.iter().filter(|(id, lane)| **id != self.me() && lane.stream.view() >= self.view);
        u32::try_from(1 + others.count()).unwrap_or(u32::MAX)
    }

    /// A replica's stream is in a view: f + 1 that are beyond the own one include a correct one (E25).
    pub(super) fn on_peer_view(&mut self, of: NodeId, view: View, turn: &mut Turn<'_, Self>) {
        let own = self.view.max(self.sealing.unwrap_or_default());
        let mut beyond: Vec<View> =
            self.lanes.values().map(|lane| lane.stream.view()).filter(|view| *view > own).collect();
        beyond.sort_unstable_by(|a, b| b.cmp(a));
        let need = usize::try_from(self.one_correct()).unwrap_or(usize::MAX);
        if let Some(to) = need.checked_sub(1).and_then(|at| beyond.get(at)) {
            turn.applied(Rule::Join);
            self.change_view(*to, turn);
        } else if view > own && of != self.me() {
            let now = turn.now();
            if self.suspicion.followed.get(&of).is_none_or(|last| now.since(*last) >= COURTESY) {
                self.suspicion.followed.insert(of, now);
                turn.applied(Rule::Courtesy);
                self.change_view(view, turn);
            }
        }
    }

    /// Own shares of slots and of a checkpoint that are not known to be certified.
    fn open_shares(&self) -> Vec<Word> {
        let (me, view) = (self.me(), self.view);
        let open = self.works.from(self.low.low);
        let shares = open.filter(|(_, work)| work.ballot.decided().is_none());
        let mut words: Vec<Word> = shares
            .filter_map(|(slot, work)| {
                let (digest, signature) = work.ballot.own_share(me, view)?;
                Some(Word::Certify { view, slot, digest, signature: Box::new(signature) })
            })
            .take(RESHARE_MAX)
            .collect();
        if let Some((checkpoint, claim)) = self.checkpoints.get(&me).filter(|(own, _)| own.low > self.low.low)
        {
            words.push(Word::CertifyCheckpoint {
                checkpoint: Box::new(*checkpoint),
                signature: Box::new(claim.signature),
            });
        }
        words
    }

    /// Own shares whose subjects are not known to be certified are said again.
    pub(super) fn reshare(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Alarm::Reshare, self.config.parameters.suspect);
        if turn.now().since(self.suspicion.touched) >= TOUCH_EVERY {
            self.touch(turn);
        }
        // Whoever was not followed at once is followed later.
        let ahead: Vec<(NodeId, View)> =
            self.lanes.iter().map(|(id, lane)| (*id, lane.stream.view())).collect();
        ahead.into_iter().for_each(|(of, view)| self.on_peer_view(of, view, turn));
        let (me, others, view) = (self.me(), self.others(), self.view);
        for word in self.open_shares() {
            turn.send(others, word);
        }
        let leader = self.leader();
        for (id, lane) in &self.lanes {
            let seen = lane.summary.as_ref().map_or(0, |summary| summary.certificate.subject.k);
            if let Some((_, word)) = lane.share.as_ref().filter(|(k, _)| *k > seen && *id != me) {
                turn.send(*id, word.clone());
            }
            let is_shown = self.lanes.get(&leader).is_some_and(|lane| lane.stream.may_propose(&self.config));
            let is_of_view = |word: &&Word| matches!(word, Word::CertifyLeft { view: of, .. } if *of == view);
            if let Some(word) =
                lane.left_share.as_ref().filter(is_of_view).filter(|_| !is_shown && leader != me)
            {
                turn.send(leader, word.clone());
            }
        }
        self.say_summary_again(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Span = Span::millis(50);

    fn decided(wait: u64, pressing: Option<u64>, (since, now): (u64, u64), is_must: bool) -> Span {
        let mut suspicion = Suspicion::new(Span::millis(wait));
        suspicion.enter(Time::ZERO + Span::millis(1_000));
        suspicion.pressing = pressing.map(|at| Time::ZERO + Span::millis(at));
        let at = |ms| Time::ZERO + Span::millis(ms);
        suspicion.decided((FIRST, is_must), at(since), at(now));
        suspicion.wait
    }

    #[test]
    fn a_decision_halves_the_wait_down_to_twice_what_it_took_and_to_the_first() {
        assert_eq!(decided(1_000, None, (2_000, 2_001), false), Span::millis(500), "at once");
        assert_eq!(decided(1_000, None, (2_000, 2_400), false), Span::millis(800), "slowly");
        assert_eq!(decided(1_000, None, (2_000, 2_900), false), Span::millis(1_000), "it is never longer");
        assert_eq!(decided(60, None, (2_000, 2_001), false), FIRST);
        assert_eq!(decided(1_000, None, (2_000, 2_001), true), Span::millis(1_000), "of an older view");
    }

    #[test]
    fn what_a_decision_took_is_measured_as_the_wait_is() {
        // From the oldest that waits, but not from before the view.
        assert_eq!(decided(1_000, Some(1_600), (2_000, 2_000), false), Span::millis(800));
        assert_eq!(decided(4_000, Some(0), (2_000, 2_400), false), Span::millis(2_800));
    }
}
