//! The phases of the basic pack (paper 2.2.3), and new-views.

use std::sync::Arc;

use synod_machine::Turn;
use synod_quorum::NodeId;

use super::state::Core;
use crate::job::Purpose;
use crate::pacemaker::{Pace, Reason};
use crate::proof::Commitment;
use crate::proven::Proven;
use crate::record::{Mark, Record};
use crate::{Fault, Kind, Qc, Rule, View};

impl Core {
    /// A leader starts a phase with the certificate of the one before.
    pub(crate) fn on_phase(&mut self, from: NodeId, qc: Qc, turn: &mut Turn<'_, Self>) {
        if !self.rules.pack.is_basic() || !(self.rules.phases)().contains(&qc.kind) {
            return turn.blame(from, Fault::WrongKind.with(&qc));
        }
        self.take_qc(from, Arc::new(qc), Purpose::Alone, turn);
    }

    /// BR3 to BR5: each certificate of a view leads to the next phase.
    pub(crate) fn on_phase_qc(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) {
        if self.tree.get(&qc.digest).is_none() && qc.view > self.tree.root_header().view {
            turn.applied(Rule::QcForUnknown);
            self.want_block(qc.digest, qc.votes.signers(), turn);
        }
        if qc.kind != Kind::Commit && qc.view == self.view {
            let leader = self.leaders.after_tc(qc.view);
            self.tell(Pace::Certified(leader), turn);
        }
        match qc.kind {
            Kind::Prepare => {
                self.certify_block(qc, turn);
                self.raise_high(qc, turn);
                self.vote_phase(qc, Kind::Precommit, Rule::BasicPrecommit, turn);
            }
            // Who missed the first certificate of the view does not lock: the lock never passes the high QC.
            Kind::Precommit if self.high.view >= qc.view => {
                self.raise_lock(qc, turn);
                self.vote_phase(qc, Kind::Commit, Rule::BasicCommit, turn);
            }
            Kind::Commit => self.decide_on(qc, turn),
            Kind::Precommit | Kind::Generic | Kind::Order => {}
        }
    }

    /// Phases of one view rise strictly, and every one is subject to what was given up.
    fn vote_phase(&mut self, qc: &Qc, next: Kind, rule: Rule, turn: &mut Turn<'_, Self>) {
        let whole = self.tree.get(&qc.digest).is_some_and(|block| block.body.is_some());
        let rises = (self.safety.voted.view, self.safety.phase) < (qc.view, next);
        let open = qc.view == self.view && qc.view > self.safety.complained;
        if self.may_act() && whole && rises && open {
            turn.applied(rule);
            self.cast(next, qc.view, qc.digest);
        }
    }

    /// BR5: commit, and enter the next view.
    fn decide_on(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) {
        if qc.view > self.safety.decided {
            turn.applied(Rule::BasicDecide);
            self.safety.decided = qc.view;
            self.decided = Some(qc.share());
            self.out.keep(Record::Qc(Qc::clone(qc)));
            self.out.promised = true;
        }
        if let Some(digest) = (self.rules.commit)(qc, &self.tree) {
            let commitment = Arc::new(Commitment::Direct(Qc::clone(qc)));
            if self.tree.get(&digest).is_some() {
                self.commit_to(digest, Some(commitment), Rule::BasicDecide, turn);
            } else if qc.view > self.tree.root_header().view {
                self.pending_commit = Some((Mark { view: qc.view, digest }, Some(commitment)));
            }
        }
        if qc.view >= self.view {
            turn.applied(Rule::AdvanceByQc);
            let led = self.tree.get(&qc.digest).map(|block| block.header.proposer());
            self.enter(qc.view.next(), Reason::Qc, led, turn);
        }
    }

    /// BR1, M6: a member entered a view. It counts once its certificate is verified, for the leader proposes on the
    /// highest of those that count.
    pub(crate) fn on_new_view(&mut self, from: NodeId, view: View, high: Qc, turn: &mut Turn<'_, Self>) {
        self.take_qc(from, Arc::new(high), Purpose::NewView(view), turn);
    }

    /// A member that entered a view showed its highest certificate.
    pub(crate) fn count_new_view(&mut self, from: NodeId, view: View) {
        let known = self.newviews.entry(from).or_default();
        *known = (*known).max(view);
    }
}
