//! Statuses: what a member knows, said on reconnection and while behind or idle, so that whoever is behind learns it.

use std::sync::Arc;

use synod_crypto::{Claim, Verified};
use synod_machine::{Span, Turn};
use synod_quorum::{NodeId, NodeSet};

use super::serve::RANGE_FROM;
use super::state::{Core, Mode};
use crate::job::{Purpose, Task};
use crate::message::{Message, Status, Want};
use crate::sync::Key;
use crate::trace::{Note, NoteName};
use crate::{Fault, Kind, Qc, Statement, Tc, Timer, View};

/// How often a status is due while behind or idle.
pub(crate) const STATUS_EVERY: Span = Span::secs(1);

impl Core {
    /// A connection came up: the peer learns where this member stands.
    pub(crate) fn on_link_up(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        if self.config.roster().member(peer).is_some() && peer != self.own() {
            self.send_status(NodeSet::only(peer), turn);
            self.attest_again(Some(peer), turn);
        }
    }

    /// Nothing committed since the last firing: says so, and asks again for what is still missing.
    pub(crate) fn on_status_timer(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Status, STATUS_EVERY);
        self.write_commit();
        for name in core::mem::take(&mut self.delivery.unreadable) {
            self.load_body(Some(name), turn);
        }
        self.count_standstill();
        let others = self.others();
        if others.is_empty() {
            return;
        }
        if self.mode != Mode::Acting {
            turn.send(others, Message::Fetch(Want::Status));
            self.stir(turn);
        } else if core::mem::replace(&mut self.quiet, true) || self.sync.get().is_busy() {
            self.send_status(others, turn);
        }
        self.attest_again(None, turn);
        self.want_missing(turn);
    }

    /// What is known to be missing and was not asked for, or was given up.
    fn want_missing(&mut self, turn: &mut Turn<'_, Self>) {
        if self.is_at_standstill() {
            self.want_key(Key::Anchor, NodeSet::EMPTY, turn);
        }
        let root = self.tree.root_header().view;
        if self.high.view > root && self.tree.get(&self.high.digest).is_none() {
            self.want_block(self.high.digest, self.high.votes.signers(), turn);
        }
        let gap = self.tree.gap(self.high.digest).filter(|_| self.high.view > root);
        if let Some(gap) = gap {
            self.want_block(gap, self.high.votes.signers(), turn);
        }
        if gap.is_some() && core::mem::replace(&mut self.gap, gap) == gap {
            // Nobody gives this one: where the others dropped it below their states, they answer to a range with a state.
            self.want_key(Key::Range(self.chain.top().header.height + 1), self.others(), turn);
        }
        if let Some((mark, _)) = self.pending_commit.clone() {
            self.want_block(self.tree.gap(mark.digest).unwrap_or(mark.digest), NodeSet::EMPTY, turn);
            // The others may have dropped what lies between: to a range they answer with a state then.
            self.want_key(Key::Range(self.chain.top().header.height + 1), self.others(), turn);
        }
        for digest in self.tree.ancestors(self.high.digest) {
            let missing = self.tree.get(&digest).filter(|b| b.body.is_none()).map(|b| b.header.root);
            if let Some(root) = missing {
                self.want_body(root, self.others(), turn);
            }
        }
    }

    /// Sends a status to each of `to`, with the newest statement of the receiver that is held here. A listening
    /// member answers nobody.
    pub(crate) fn send_status(&self, to: NodeSet, turn: &mut Turn<'_, Self>) {
        if !self.may_act() {
            return;
        }
        let top = self.chain.top();
        for peer in to.without(self.own()).iter() {
            let status = Status {
                height: top.header.height,
                view: top.header.view,
                high: Qc::clone(&self.high),
                tc: self.tc.as_deref().cloned(),
                stable: self.checkpoints.stable_position(),
                yours: self.newest_of(peer),
            };
            turn.send(peer, Message::Status(status));
        }
    }

    /// The newest statement of `peer` held here: a vote, an order or a complaint.
    fn newest_of(&self, peer: NodeId) -> Option<(Statement, synod_crypto::Signature)> {
        let vote = self.votes.newest(peer);
        let vote = vote.map(|(kind, b)| (b.view, (Statement::vote(kind, b.view, b.digest), b.signature)));
        let held = self.pacemaker.get().newest(peer);
        let complaint =
            held.map(|h| (h.view, (Statement::Complain { view: h.view, high: h.high.view }, h.signature)));
        vote.into_iter().chain(complaint).max_by_key(|(view, _)| *view).map(|(_, statement)| statement)
    }

    /// A member says where it stands: its certificates are used, its heights are hints.
    pub(crate) fn on_status(&mut self, from: NodeId, status: Status, turn: &mut Turn<'_, Self>) {
        let Status { height, view, high, tc, stable: _, yours } = status;
        let given_up = tc.as_ref().map_or(View::GENESIS, |tc| tc.view);
        self.take_qc(from, Arc::new(high), Purpose::Status(given_up), turn);
        if let Some(tc) = tc {
            self.take_tc(from, Arc::new(tc), turn);
        }
        let top = self.chain.top().header.height;
        if height > top + RANGE_FROM {
            self.want_key(Key::Range(top + 1), NodeSet::only(from), turn);
        } else if view > self.chain.top().header.view {
            self.want_key(Key::Proof, NodeSet::only(from), turn);
        }
        if let Some((statement, signature)) = yours
            && self.is_newer_than_own(&statement)
        {
            self.compute(Task::Own(from, statement, signature), turn);
        }
    }

    /// Whether the log does not know this statement. Off while listening, for then nothing is known. A vote or an order
    /// of a view that is given up here contradicts nothing: this member makes none there, and after a rejoin it knows
    /// none of those it made.
    fn is_newer_than_own(&self, statement: &Statement) -> bool {
        if !self.may_act() {
            return false;
        }
        let complained = self.safety.complained;
        match statement {
            Statement::Complain { view, .. } => *view > complained,
            other => match other.as_vote() {
                Some((Kind::Order, view, _)) => view > self.safety.ordered.view.max(complained),
                Some((_, view, _)) => view > self.safety.voted.view.max(complained),
                None => false,
            },
        }
    }

    /// A statement said to be this node's own was checked: a good one that the log does not know means the log was
    /// rolled back.
    pub(crate) fn on_checked_own(
        &mut self,
        from: NodeId,
        checked: Result<Verified<Claim<Statement>>, Statement>,
        turn: &mut Turn<'_, Self>,
    ) {
        match checked {
            Ok(claim) if self.is_newer_than_own(&claim.statement) => {
                let shown_by = [u64::from(from.0), 0, 0];
                self.halt(NoteName::RolledBack, shown_by, synod_crypto::Hash::ZERO, turn);
            }
            Ok(_) => {}
            Err(statement) => turn.blame(from, Fault::ForgedEvidence.with(&statement)),
        }
    }

    /// Starts: timers, the current view, what must be read back, what was promised last.
    pub(crate) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Status, STATUS_EVERY);
        for name in core::mem::take(&mut self.restart) {
            self.load_body(Some(name), turn);
        }
        self.say_stable();
        if let Some(anchor) = self.checkpoints.jumping() {
            self.land(&anchor, turn);
        }
        self.note_resumed(turn);
        let view = self.start_view();
        if let Mode::Listening { .. } = self.mode {
            turn.applied(crate::Rule::Listen);
            turn.note(Note { name: NoteName::Listening, values: [0; 3], digest: synod_crypto::Hash::ZERO });
            self.out.keep(crate::Record::Listening);
            let others = self.others();
            if !others.is_empty() {
                turn.send(others, Message::Fetch(Want::Status));
            }
        }
        self.enter(view, crate::pacemaker::Reason::Start, None, turn);
        if self.may_act() {
            self.tell(crate::pacemaker::Pace::GaveUp(self.safety.complained), turn);
            self.say_again(turn);
        }
    }

    /// M5: the view after a restart, and at any time: nothing but a certificate changes it.
    pub(crate) fn start_view(&self) -> View {
        let certified = if self.rules.pack.is_basic() { self.safety.decided } else { self.high.view };
        let tc = self.tc.as_deref().map_or(View::GENESIS, |tc: &Tc| tc.view);
        certified.max(tc).next()
    }

    /// The last vote, order and proposal again, for a crash may have lost them: the very same, so nothing conflicts.
    fn say_again(&mut self, turn: &mut Turn<'_, Self>) {
        self.propose_again(turn);
        let (voted, ordered) = (self.safety.voted, self.safety.ordered);
        let complained = self.safety.complained;
        if voted.view >= self.view && voted.view > complained {
            self.out.promise(Statement::vote(self.safety.phase, voted.view, voted.digest));
        }
        if ordered.view > View::GENESIS && ordered.view.next() >= self.view && ordered.view > complained {
            self.out.promise(Statement::Order { view: ordered.view, digest: ordered.digest });
        }
    }
}
