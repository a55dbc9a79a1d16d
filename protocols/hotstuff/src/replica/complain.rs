//! Giving terms up: complaints, joining, certificates of complaints (M2-M4), and help for complainers (R9).

use std::sync::Arc;

use synod_crypto::{Signature, Verified};
use synod_machine::{To, Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use super::state::Core;
use crate::config::Complaints as Route;
use crate::job::{Purpose, Task};
use crate::message::{FORWARD_MAX, Proof};
use crate::pacemaker::{Held, Pace, Paced};
use crate::proven::Proven;
use crate::trace::{Note, NoteName};
use crate::{Fault, Message, Qc, Rule, Statement, Tc, View};

impl Core {
    /// Acts on what the pacemaker says.
    pub(crate) fn on_paced(&mut self, paced: Paced, turn: &mut Turn<'_, Self>) {
        match paced {
            Paced::Expired { times } => self.on_expired(times, turn),
            Paced::Join(view) => {
                turn.applied(Rule::Join);
                self.complain(view, 2, turn);
            }
            Paced::Quorum(tc) => self.compute(Task::Complaints(tc), turn),
        }
    }

    /// M2: the timer of the current view ran out, for the `times`-th time.
    fn on_expired(&mut self, times: u32, turn: &mut Turn<'_, Self>) {
        if !self.may_act() {
            return;
        }
        turn.applied(if times == 1 { Rule::Complain } else { Rule::ComplainAgain });
        let duration = self.pacemaker.get().duration().as_millis();
        let failures = u64::from(self.pacemaker.get().failures());
        let values = [duration, failures, self.view.0];
        turn.note(Note { name: NoteName::Timeout, values, digest: self.high.digest });
        self.complain(self.terms.end(self.view), times, turn);
        if times >= 2 {
            self.help_on(turn);
        }
    }

    /// From the second expiry on: the certificate this view rests on, and the oldest own items, to all. What members
    /// forwarded they forward themselves: it is charged to whoever sends it.
    fn help_on(&mut self, turn: &mut Turn<'_, Self>) {
        let others = self.others();
        if others.is_empty() {
            return;
        }
        if let Some(tc) = self.tc.clone().filter(|tc| tc.view.precedes(self.view)) {
            self.out.send(others, Message::Advance(Proof::Tc(Tc::clone(&tc))));
        }
        let mut items = self.pool.oldest(u64::from(self.config.parameters().block_bytes), FORWARD_MAX);
        if items.is_empty() {
            items.push(self.empty_item());
        }
        turn.applied(Rule::ForwardToAll);
        self.send_items(others, items, turn);
    }

    /// Gives up everything up to `view`: promised before it is said, and never taken back.
    fn complain(&mut self, view: View, times: u32, turn: &mut Turn<'_, Self>) {
        if !self.may_act() {
            return;
        }
        let named = self.safety.complained.max(view);
        let kept = if planted!(O5) { self.view } else { named };
        assert!(self.terms.is_end(named), "a complaint names the end of a term");
        self.safety.complained = self.safety.complained.max(kept);
        let genesis = Qc::empty(self.safety.epoch, self.rules.pack.kind(), self.genesis);
        let high = if planted!(O4) { Arc::new(genesis) } else { Arc::clone(&self.high) };
        self.complaining = Some((Arc::clone(&high), times));
        self.out.promise(Statement::Complain { view: named, high: high.view });
        self.tell(Pace::GaveUp(named), turn);
        turn.note(Note {
            name: NoteName::GaveUp,
            values: [named.0, high.view.0, self.view.0],
            digest: high.digest,
        });
    }

    /// An own complaint is signed: it counts here and goes out with its certificate.
    pub(crate) fn on_signed_complaint(
        &mut self,
        view: View,
        high: View,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some((qc, times)) = self.complaining.clone().filter(|(qc, _)| qc.view == high) else { return };
        if view < self.safety.complained && !planted!(O5) {
            return;
        }
        let to = self.complaint_route(view, times);
        let others = to.without(self.own());
        if !others.is_empty() {
            turn.send(To::Set(others), Message::Complain { view, high: Qc::clone(&qc), signature });
        }
        if to.contains(self.own()) && qc.view <= view {
            self.tell(Pace::Complaint(self.own(), Held { view, high: qc, signature }), turn);
        }
    }

    fn complaint_route(&self, view: View, times: u32) -> NodeSet {
        let next = NodeSet::only(self.leaders.after_tc(view.next()));
        match self.config.parameters().complaints {
            Route::Broadcast => self.config.roster().all(),
            Route::LeaderFirst if times >= 2 => self.config.roster().all(),
            Route::LeaderFirst => next.with(self.own()),
            Route::LeaderOnly => next,
        }
    }

    /// A member gives up a term: screen, help it on, have its certificate verified, count it.
    pub(crate) fn on_complain(
        &mut self,
        from: NodeId,
        view: View,
        high: Qc,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.terms.is_end(view) {
            return turn.blame(from, Fault::NotTermEnd.with(&view));
        }
        // In the basic pack a certificate does not end its view, so one may know a higher one than its own view: such a
        // complaint is helped on and counts for nothing.
        let ahead = high.view > view;
        if ahead && !self.rules.pack.is_basic() {
            return turn.blame(from, Fault::ComplaintAhead.with(&(view, high)));
        }
        if let Err(fault) = self.fit_qc(&high) {
            return turn.blame(from, fault.with(&high));
        }
        if ahead {
            self.help(from, view, high.view, turn);
            return self.take_qc(from, Arc::new(high), Purpose::Alone, turn);
        }
        self.help(from, view, high.view, turn);
        self.take_qc(from, Arc::new(high), Purpose::Complaint(view, signature), turn);
    }

    /// R9: at most once per peer and `timeout_base`.
    fn help(&mut self, from: NodeId, view: View, high: View, turn: &mut Turn<'_, Self>) {
        let now = turn.now();
        let every = self.config.parameters().timeout_base;
        let recent = self.helped.get(&from).is_some_and(|last| now.since(*last) < every);
        if recent || !self.may_act() || !self.config.parameters().rules.is_insistent() {
            return;
        }
        let tc = self.tc.clone().filter(|tc| tc.view >= view);
        let qc = (self.high.view >= view || self.high.view > high).then(|| Arc::clone(&self.high));
        let committed = self.chain.top().header.view;
        let proof =
            (committed >= high && committed > View::GENESIS).then(|| self.newest_proof(from, turn)).flatten();
        if tc.is_none() && qc.is_none() && proof.is_none() {
            return;
        }
        self.helped.insert(from, now);
        if let Some(proof) = proof {
            turn.applied(Rule::AnswerWithProof);
            self.out.send(from, Message::Advance(Proof::Commit(Box::new(proof))));
        }
        if let Some(tc) = tc {
            turn.applied(Rule::AnswerWithCertificate);
            self.out.send(from, Message::Advance(Proof::Tc(Tc::clone(&tc))));
        }
        if let Some(qc) = qc {
            turn.applied(Rule::AnswerWithCertificate);
            let message = match (self.rules.pack.is_basic(), self.decided.clone()) {
                (true, Some(decided)) if decided.view >= view => Message::Phase(Qc::clone(&decided)),
                _ => Message::Advance(Proof::Qc(Qc::clone(&qc))),
            };
            self.out.send(from, message);
        }
    }

    /// A complaint whose certificate is verified is counted; its own signature is checked at quorum.
    pub(crate) fn take_complaint(
        &mut self,
        from: NodeId,
        view: View,
        high: Proven<Qc>,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        self.tell(Pace::Complaint(from, Held { view, high: high.share(), signature }), turn);
    }

    /// M4: complaints of quorum power were checked: a certificate for all, or forgers whose slots close.
    pub(crate) fn on_checked_complaints(
        &mut self,
        tc: &Arc<Tc>,
        checked: Result<Verified<Arc<Tc>>, Vec<NodeId>>,
        turn: &mut Turn<'_, Self>,
    ) {
        match checked {
            Ok(verified) => {
                let proven = self.remember_tc(verified);
                if proven.view < self.view {
                    return;
                }
                turn.applied(Rule::FormTc);
                let others = self.others();
                self.on_tc(&proven, turn);
                if !others.is_empty() && self.may_act() {
                    self.out.send(others, Message::Advance(Proof::Tc(Tc::clone(&proven))));
                }
            }
            Err(forgers) => {
                for forger in &forgers {
                    turn.blame(*forger, Fault::ForgedComplaint.with(&tc.view));
                }
                self.tell(Pace::Close(tc.view, forgers), turn);
            }
        }
    }
}
