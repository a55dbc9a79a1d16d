//! Certificates: collecting votes (R6), acting on a QC (R4) or TC (M5), order votes (R5), and entering views.

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Refusal, Signature, Verified};
use synod_machine::{Span, Time, Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use super::state::{Core, Far, Ordered, Shown};
use crate::config::Votes as Route;
use crate::job::{Known, Purpose, Sound, Task};
use crate::message::Proof;
use crate::pacemaker::{Pace, Reason};
use crate::proven::Proven;
use crate::record::{Mark, Record};
use crate::rules::is_higher;
use crate::sync::Key;
use crate::trace::{Note, NoteName};
use crate::votes::{Added, Ballot};
use crate::{Fault, Kind, Message, Qc, Rule, Statement, Tc, View};

/// One check of a certificate far ahead per sender in this time.
const FAR_EVERY: Span = Span::secs(1);

/// Verified votes of one member that are remembered: those of the view before and of the current one, in every phase.
const KNOWN_PER_MEMBER: usize = 8;

impl Core {
    /// I5, as far as it needs no signature: epoch, kind, and the view of the block if it is known.
    pub(crate) fn fit_qc(&self, qc: &Qc) -> Result<(), Fault> {
        if qc.epoch != self.safety.epoch {
            return Err(Fault::WrongEpoch);
        }
        if qc.view == View::GENESIS {
            return if qc.is_genesis(self.genesis) { Ok(()) } else { Err(Fault::FalseGenesis) };
        }
        let certified = if self.rules.pack.is_basic() { Kind::Prepare } else { Kind::Generic };
        if qc.kind != certified && !planted!(H7) {
            return Err(Fault::WrongKind);
        }
        self.fit_view(qc)
    }

    fn fit_view(&self, qc: &Qc) -> Result<(), Fault> {
        match self.tree.get(&qc.digest) {
            Some(block) if block.header.view != qc.view => Err(Fault::WrongView),
            _ => Ok(()),
        }
    }

    /// The same for a TC and the QC in it.
    pub(crate) fn fit_tc(&self, tc: &Tc) -> Result<(), Fault> {
        if tc.epoch != self.safety.epoch {
            return Err(Fault::WrongEpoch);
        }
        if !self.terms.is_end(tc.view) {
            return Err(Fault::NotTermEnd);
        }
        self.fit_qc(&tc.high)
    }

    /// Whether something far ahead came too soon after the last of its kind from this sender.
    pub(crate) fn is_too_far(&mut self, from: NodeId, view: View, what: Far, now: Time) -> bool {
        let window = self.config.parameters().view_window;
        if view.0 <= self.view.0.saturating_add(window) {
            return false;
        }
        let last = self.far.get(&(from, what)).copied();
        let soon = last.is_some_and(|last| now.since(last) < FAR_EVERY);
        if !soon {
            self.far.insert((from, what), now);
        }
        soon
    }

    /// Takes a peer's QC: acts on it if it was verified before, else has it verified.
    pub(crate) fn take_qc(&mut self, from: NodeId, qc: Arc<Qc>, purpose: Purpose, turn: &mut Turn<'_, Self>) {
        let basic_phase = self.rules.pack.is_basic() && qc.kind != Kind::Order && qc.kind != Kind::Generic;
        let fit = match basic_phase && qc.view > View::GENESIS && qc.epoch == self.safety.epoch {
            true => self.fit_view(&qc),
            false => self.fit_qc(&qc),
        };
        if let Err(fault) = fit {
            return turn.blame(from, fault.with(&*qc));
        }
        if let Some(proven) = self.certificates.qc(&qc) {
            self.on_qc(&proven, turn);
            return self.with_qc(from, proven, purpose, turn);
        }
        if !self.is_too_far(from, qc.view, Far::Certificate, turn.now()) {
            self.compute(Task::Qc(from, qc, purpose), turn);
        }
    }

    /// A peer's QC was checked.
    pub(crate) fn on_checked_qc(
        &mut self,
        from: NodeId,
        checked: Result<Verified<Arc<Qc>>, Refusal>,
        purpose: Purpose,
        turn: &mut Turn<'_, Self>,
    ) {
        match checked {
            Err(_) => turn.blame(from, Fault::BadQc),
            Ok(verified) => {
                let proven = self.remember_qc(verified);
                self.on_qc(&proven, turn);
                self.with_qc(from, proven, purpose, turn);
            }
        }
    }

    /// What a verified QC came along with.
    fn with_qc(&mut self, from: NodeId, qc: Proven<Qc>, purpose: Purpose, turn: &mut Turn<'_, Self>) {
        match purpose {
            Purpose::Alone => {}
            Purpose::Complaint(view, signature) => self.take_complaint(from, view, qc, signature, turn),
            Purpose::NewView(view) => self.count_new_view(from, view),
            Purpose::Status(tc) => self.on_shown(from, Shown { qc: qc.view, tc }, turn),
        }
    }

    /// Takes a peer's TC: acts on it if it was verified before, else has it verified.
    pub(crate) fn take_tc(&mut self, from: NodeId, tc: Arc<Tc>, turn: &mut Turn<'_, Self>) {
        if let Err(fault) = self.fit_tc(&tc) {
            return turn.blame(from, fault.with(&*tc));
        }
        if self.tc.as_ref().is_some_and(|own| own.view >= tc.view) && self.high.view >= tc.high.view {
            return;
        }
        if let Some(proven) = self.certificates.tc(&tc) {
            return self.on_tc(&proven, turn);
        }
        if !self.is_too_far(from, tc.view, Far::Certificate, turn.now()) {
            self.compute(Task::Tc(from, tc), turn);
        }
    }

    /// A peer's TC was checked.
    pub(crate) fn on_checked_tc(
        &mut self,
        from: NodeId,
        checked: Result<Verified<Arc<Tc>>, Refusal>,
        turn: &mut Turn<'_, Self>,
    ) {
        match checked {
            Err(_) => turn.blame(from, Fault::BadTc),
            Ok(verified) => {
                let proven = self.remember_tc(verified);
                self.on_tc(&proven, turn);
            }
        }
    }

    /// R4, or the phases of the basic pack: acts on a verified QC.
    pub(crate) fn on_qc(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) {
        if qc.view == View::GENESIS || qc.kind == Kind::Order {
            return;
        }
        match self.rules.pack.is_basic() {
            true => self.on_phase_qc(qc, turn),
            false => self.on_generic_qc(qc, turn),
        }
    }

    fn on_generic_qc(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) {
        let new = self.certify_block(qc, turn);
        let raised = self.raise_high(qc, turn);
        if !new && !raised && qc.view < self.view {
            return;
        }
        let led = self.tree.get(&qc.digest).map(|block| block.header.proposer());
        if led.is_some() {
            self.after_certified(qc, turn);
        } else if qc.view > self.tree.root_header().view {
            turn.applied(Rule::QcForUnknown);
            self.want_block(qc.digest, qc.votes.signers(), turn);
            self.count_orders(qc.view, qc.digest, turn);
        }
        if qc.view >= self.view {
            turn.applied(Rule::AdvanceByQc);
            self.enter(qc.view.next(), Reason::Qc, led, turn);
        }
    }

    /// Notes the certificate at its block; whether it was the block's first.
    pub(crate) fn certify_block(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) -> bool {
        match self.tree.get_mut(&qc.digest) {
            Some(block) if block.qc.is_none() && block.header.view == qc.view => {
                block.qc = Some(qc.share());
                block.certified_at = turn.now();
                let values = [block.header.height, qc.view.0, 0];
                turn.note(Note { name: NoteName::Certified, values, digest: qc.digest });
                true
            }
            _ => false,
        }
    }

    /// Alg. 2 lines 3-6 corrected: high QC := the one of the higher view.
    pub(crate) fn raise_high(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) -> bool {
        let height = |digest: &Hash| self.tree.get(digest).map_or(0, |block| block.header.height);
        let taller = height(&qc.digest) > height(&self.high.digest);
        let higher = if planted!(H20) { taller } else { is_higher(qc, &self.high) };
        if higher == planted!(H11) {
            return false;
        }
        turn.applied(Rule::RaiseHighQc);
        self.high = qc.share();
        self.safety.high = Mark { view: qc.view, digest: qc.digest };
        self.out.keep(Record::Qc(Qc::clone(qc)));
        self.out.promised = true;
        // A higher one says more than those that were asked for; what nobody needs must not fill the list of wants.
        for view in self.sync.get().certificates_to(qc.view) {
            self.settle_want(Key::Certificate(view), None, turn);
        }
        true
    }

    /// Lock, order and commit: what a certificate of a known block allows. Repeated when something it lacked arrives.
    pub(crate) fn after_certified(&mut self, qc: &Proven<Qc>, turn: &mut Turn<'_, Self>) {
        self.raise_lock(qc, turn);
        self.try_order(qc.view, qc.digest, turn);
        if qc.view > self.tree.root_header().view
            && let Some(digest) = (self.rules.commit)(qc, &self.tree)
        {
            self.commit_to(digest, None, Rule::CommitByChain, turn);
        }
        self.count_orders(qc.view, qc.digest, turn);
    }

    pub(crate) fn raise_lock(&mut self, qc: &Qc, turn: &mut Turn<'_, Self>) {
        if let Some(lock) = (self.rules.lock)(&self.safety, qc, &self.tree) {
            assert!(lock.view > self.safety.lock.view, "a lock only rises");
            turn.applied(Rule::RaiseLock);
            self.safety.lock = lock;
            self.out.promised = true;
        }
    }

    /// R5: an order vote for a certified block whose body is here.
    pub(crate) fn try_order(&mut self, view: View, digest: Hash, turn: &mut Turn<'_, Self>) {
        let due = view > self.safety.ordered.view && (view > self.safety.complained || planted!(O1));
        let whole = self.tree.get(&digest).is_some_and(|block| block.qc.is_some() && block.body.is_some());
        if !self.rules.pack.has_orders() || !due || !whole || !self.may_act() {
            return;
        }
        turn.applied(Rule::Order);
        self.safety.ordered = Mark { view, digest };
        self.store_block(digest);
        self.out.promise(Statement::Order { view, digest });
    }

    /// An own order is signed: it counts here and goes to all.
    pub(crate) fn on_signed_order(
        &mut self,
        (view, digest): (View, Hash),
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let promised = self.safety.ordered == Mark { view, digest };
        if promised && (view > self.safety.complained || planted!(O1)) {
            turn.send(self.others(), Message::Order { view, digest, signature });
            self.votes.add(Kind::Order, self.own(), Ballot { view, digest, signature }, self.view);
            self.count_orders(view, digest, turn);
        }
    }

    /// A vote or an order arrived: screen, record, count.
    pub(crate) fn on_vote(&mut self, from: NodeId, kind: Kind, ballot: Ballot, turn: &mut Turn<'_, Self>) {
        if !(self.rules.phases)().contains(&kind) {
            return turn.blame(from, Fault::WrongKind.with(&kind));
        }
        let window = self.config.parameters().view_window;
        let behind = planted!(H21) && self.leaders.after_tc(ballot.view.next()) == self.own();
        let early = ballot.view.next() < self.view || behind;
        let late = ballot.view.0 > self.view.0.saturating_add(window) && !planted!(H17);
        if early || late {
            return;
        }
        match self.votes.add(kind, from, ballot, self.view) {
            Added::New if kind == Kind::Order => {
                self.count_orders(ballot.view, ballot.digest, turn);
                self.ask_certificate(from, &ballot, turn);
            }
            Added::New => self.certify(kind, ballot.view, ballot.digest, turn),
            Added::Nothing => {}
            Added::Conflict(first) => {
                let fault =
                    if kind == Kind::Order { Fault::EquivocatedOrder } else { Fault::EquivocatedVote };
                let of = |b: &Ballot| ((b.view, b.digest), b.signature);
                turn.blame(from, fault.with(&(kind, (of(&first), of(&ballot)))));
            }
        }
    }

    /// R6: votes of quorum power are assembled and verified as one batch.
    pub(crate) fn certify(&mut self, kind: Kind, view: View, digest: Hash, turn: &mut Turn<'_, Self>) {
        let formed = self.formed.get(&kind).is_some_and(|formed| *formed >= view);
        let known = !self.rules.pack.is_basic() && self.high.view >= view;
        if formed || known || self.checking.contains(&(kind, view, digest)) {
            return;
        }
        if !self.is_enough(self.votes.tally(kind, view, &digest)) {
            return;
        }
        let votes = self.votes.collect(kind, view, &digest);
        let qc = Qc::assemble(self.safety.epoch, (kind, view, digest), votes);
        self.checking.insert((kind, view, digest));
        let known = self.known_votes(&qc);
        self.compute(Task::Votes(Arc::new(qc), known), turn);
    }

    /// Votes that were verified here, or made here: certificates with the very same ones cost no second check.
    pub(crate) fn know_votes(&mut self, votes: Vec<Verified<Claim<Statement>>>) {
        for vote in votes {
            if !self.known.contains(&vote) {
                self.known.push(vote);
            }
        }
        let max = KNOWN_PER_MEMBER * self.config.roster().members().len();
        let over = self.known.len().saturating_sub(max);
        self.known.drain(..over);
    }

    /// Those of them that a certificate may hold.
    pub(crate) fn known_votes(&self, qc: &Qc) -> Known {
        let statement = Statement::vote(qc.kind, qc.view, qc.digest);
        Arc::new(self.known.iter().filter(|claim| claim.statement == statement).cloned().collect())
    }

    fn is_enough(&self, voters: NodeSet) -> bool {
        let weights = self.config.roster().weights();
        weights.is_quorum(voters) || (planted!(H1) && weights.is_weak(voters))
    }

    /// Assembled votes were checked: a certificate, or forgers whose slots close.
    pub(crate) fn on_checked_votes(
        &mut self,
        qc: &Arc<Qc>,
        checked: Result<Sound, Vec<NodeId>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (kind, view, digest) = (qc.kind, qc.view, qc.digest);
        self.checking.remove(&(kind, view, digest));
        match checked {
            Ok(sound) if kind == Kind::Order => self.on_orders_verified(&sound.qc.into_inner(), turn),
            Ok(sound) => {
                turn.applied(Rule::FormQc);
                self.know_votes(sound.votes);
                let formed = self.formed.entry(kind).or_default();
                *formed = (*formed).max(view);
                let proven = self.remember_qc(sound.qc);
                self.announce = Some(proven.share());
                self.on_qc(&proven, turn);
            }
            Err(forgers) => {
                let fault = if kind == Kind::Order { Fault::ForgedOrder } else { Fault::ForgedVote };
                for forger in &forgers {
                    self.votes.close(kind, view, *forger);
                    turn.blame(*forger, fault.with(&(kind, (view, digest))));
                }
                match kind {
                    Kind::Order => self.on_orders_forged(qc, &forgers, turn),
                    _ => self.certify(kind, view, digest, turn),
                }
            }
        }
    }

    /// A certificate formed here reaches whoever did not see the votes: by a proposal on it, else by itself.
    pub(crate) fn announce(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(qc) = self.announce.take() else { return };
        let others = self.others();
        if others.is_empty() || !self.may_act() {
            return;
        }
        if self.rules.pack.is_basic() {
            return turn.send(others, Message::Phase(Qc::clone(&qc)));
        }
        let proposed = self.safety.proposed.view == qc.view.next();
        if self.config.parameters().votes == Route::Leader && !proposed {
            turn.send(others, Message::Advance(Proof::Qc(Qc::clone(&qc))));
        }
    }

    /// R5: order votes of quorum power for a certified block commit it. They are counted on link authentication.
    pub(crate) fn count_orders(&mut self, view: View, digest: Hash, turn: &mut Turn<'_, Self>) {
        if !self.rules.pack.has_orders() || view <= self.tree.root_header().view {
            return;
        }
        if !self.is_enough(self.votes.tally(Kind::Order, view, &digest)) {
            return;
        }
        match self.tree.get(&digest).map(|block| block.qc.is_some()) {
            Some(true) => {
                let votes = self.votes.collect(Kind::Order, view, &digest);
                let qc = Arc::new(Qc::assemble(self.safety.epoch, (Kind::Order, view, digest), votes));
                self.ordered = Some(Ordered { qc, verified: false });
                // They prove nothing to others before their signatures are checked.
                self.commit_to(digest, None, Rule::CommitByOrders, turn);
            }
            // Certified, ordered and not here: when it comes it commits, or shows that it lies on a fork.
            None if self.safety.high == (Mark { view, digest }) => {
                self.await_commit(Mark { view, digest }, None);
            }
            Some(false) | None => {}
        }
    }

    /// Orders without their certificate: it is asked from their sender.
    fn ask_certificate(&mut self, from: NodeId, ballot: &Ballot, turn: &mut Turn<'_, Self>) {
        let enough = self.is_enough(self.votes.tally(Kind::Order, ballot.view, &ballot.digest));
        if enough && self.high.view < ballot.view {
            self.want_key(Key::Certificate(ballot.view), NodeSet::only(from), turn);
        }
    }

    /// M5: acts on a verified TC, and on the QC in it.
    pub(crate) fn on_tc(&mut self, tc: &Proven<Tc>, turn: &mut Turn<'_, Self>) {
        self.on_qc(&Proven::covered(Arc::new(tc.high.clone())), turn);
        if self.tc.as_ref().is_none_or(|own| tc.view > own.view) {
            self.tc = Some(tc.share());
            self.safety.tc = tc.view;
            self.out.keep(Record::Tc(Tc::clone(tc)));
            self.out.promised = true;
            self.try_rejoin(turn);
        }
        if tc.view >= self.view {
            turn.applied(Rule::AdvanceByTc);
            self.enter(tc.view.next(), Reason::Tc, None, turn);
        }
    }

    /// Enters a view; nothing but a certificate calls this.
    pub(crate) fn enter(
        &mut self,
        view: View,
        reason: Reason,
        led: Option<NodeId>,
        turn: &mut Turn<'_, Self>,
    ) {
        assert!(view > self.view, "views only rise");
        let new_term = self.terms.of(view) != self.terms.of(self.view);
        turn.disarm(crate::Timer::Linger(self.view));
        self.view = view;
        self.reason = reason;
        self.entered_at = turn.now();
        self.linger_due = None;
        self.leader = self.expected_leader();
        self.forward_again |= new_term;
        self.votes.advance(view);
        self.proposals.retain(|(proposed, _), _| proposed.next() >= view);
        self.tell(Pace::Enter { view, reason, led }, turn);
        let leader = self.leader.map_or(u64::MAX, |id| u64::from(id.0));
        let why = match reason {
            Reason::Start => 0,
            Reason::Qc => 1,
            Reason::Tc => 2,
        };
        turn.note(Note { name: NoteName::View, values: [view.0, why, leader], digest: self.high.digest });
        if reason == Reason::Tc || (self.rules.pack.is_basic() && reason == Reason::Qc) {
            self.send_new_view(turn);
        }
        for digest in self.tree.in_view(view) {
            self.consider_vote(digest, turn);
        }
    }

    /// The leader of the current view by the certificate through which it was entered (4.1).
    pub(crate) fn expected_leader(&self) -> Option<NodeId> {
        if self.rules.pack.is_basic() || self.reason != Reason::Qc {
            return Some(self.leaders.after_tc(self.view));
        }
        let parent = self.tree.get(&self.high.digest).filter(|_| self.high.view.precedes(self.view));
        parent.map(|block| self.leaders.after(&block.header, self.view))
    }

    /// M6: the leader learns the highest QC of whoever entered; basic sends what ended the view before along.
    fn send_new_view(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(leader) = self.leader else { return };
        if !self.may_act() {
            return;
        }
        turn.applied(Rule::NewView);
        self.out.promised = true;
        if leader == self.own() {
            self.newviews.insert(leader, self.view);
            return;
        }
        if let Some(decided) = self.decided.clone().filter(|qc| qc.view.precedes(self.view)) {
            self.out.send(leader, Message::Phase(Qc::clone(&decided)));
        }
        self.out.send(leader, Message::NewView { view: self.view, high: Qc::clone(&self.high) });
    }
}
