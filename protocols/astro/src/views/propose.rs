//! Steps 1 to 4: changes are asked for, lists of views proposed, accepted and converged on.

use synod_crypto::{Certificate, Claim, Hash, Verified};
use synod_machine::broadcast::Context;
use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, Wire as _};

use super::chain::{Step, claims_of};
use super::job::Transfer;
use super::reconfig::{Asking, Good, Reconfig};
use super::roll::Roll;
use super::trace::{Fault, Rule};
use super::view::{CHANGES_MAX, Change, Sequence, View, ViewId, merged};
use super::words::{Agreed, Endorsement, Message, Output, Proposal, Record, Refusal, Sworn};

/// Of changes, for whoever does not know that they are endorsed.
pub(super) type Endorsements = List<Endorsement, CHANGES_MAX>;

impl<S: Transfer> Reconfig<S> {
    pub(super) fn on_request(&mut self, endorsement: Endorsement, turn: &mut Turn<'_, Self>) {
        let change = endorsement.change;
        let refusal = if self.config.founding.claims(&endorsement).is_none() {
            Some(Refusal::Endorsement)
        } else if self.current().view().contains(&change) {
            Some(Refusal::Made)
        } else {
            let is_other = |asking: &Asking| asking.endorsement.change != change;
            self.asking.as_ref().is_some_and(is_other).then_some(Refusal::Busy)
        };
        if let Some(why) = refusal {
            return turn.output(Output::Refused { change: Some(change), why });
        }
        // The newest endorsement: the one before may be no good.
        let confirmed = self.asking.take().map_or(NodeSet::EMPTY, |asking| asking.confirmed);
        self.asking = Some(Asking { endorsement, confirmed, is_told: false });
        self.ask(turn);
        self.soon(turn);
    }

    /// Step 1, at whoever wants a change.
    pub(super) fn ask(&self, turn: &mut Turn<'_, Self>) {
        let Some(asking) = &self.asking else { return };
        let current = self.current();
        let (view, endorsement) = (current.id(), asking.endorsement.clone());
        turn.send(current.members().minus(asking.confirmed), Message::Reconfig { view, endorsement });
    }

    /// Step 1, at a member.
    pub(super) fn on_reconfig(
        &mut self,
        from: NodeId,
        view: ViewId,
        endorsement: Endorsement,
        good: Option<&Good>,
        turn: &mut Turn<'_, Self>,
    ) {
        let change = endorsement.change;
        if view != self.current().id() {
            return self.elsewhere(from, view, Message::Reconfig { view, endorsement }, turn);
        }
        if !self.is_active() {
            return self.show_newer(from, view, turn);
        }
        if !self.endorsed.contains_key(&change) {
            let Some(claims) = self.config.founding.claims(&endorsement) else {
                return turn.blame(from, Fault::BadChange);
            };
            if good.is_none() {
                return self.check(from, claims, Message::Reconfig { view, endorsement }, turn);
            }
            if !self.learn(vec![endorsement], turn) {
                return turn.blame(from, Fault::BadChange);
            }
            turn.applied(Rule::Request);
        }
        turn.send(from, Message::ReconfigConfirm { view, change });
        self.propose(turn);
    }

    pub(super) fn on_confirm(
        &mut self,
        from: NodeId,
        view: ViewId,
        change: &Change,
        turn: &mut Turn<'_, Self>,
    ) {
        let current = std::sync::Arc::clone(self.current());
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.endorsement.change == *change) else {
            return;
        };
        if view != current.id() || !current.members().contains(from) {
            return;
        }
        asking.confirmed.insert(from);
        if current.quorums().intersects(asking.confirmed) && !asking.is_told {
            asking.is_told = true;
            turn.output(Output::Confirmed(*change));
        }
    }

    /// Those of some changes that are not known to be endorsed; `None` where one of them is not endorsed at all.
    pub(super) fn unknown<'a>(
        &self,
        changes: impl Iterator<Item = &'a Change>,
        endorsements: &Endorsements,
    ) -> Option<Vec<Endorsement>> {
        let unknown = changes.filter(|change| !self.endorsed.contains_key(change));
        let find = |change: &Change| endorsements.iter().find(|one| one.change == *change).cloned();
        unknown.map(find).collect()
    }

    /// What endorsements claim; `None` where one cannot be one.
    pub(super) fn claims(&self, endorsements: &[Endorsement]) -> Option<Vec<Claim<Sworn>>> {
        let claims = endorsements.iter().map(|one| self.config.founding.claims(one));
        claims.collect::<Option<Vec<_>>>().map(|claims| claims.into_iter().flatten().collect())
    }

    /// Records changes whose endorsements were checked. False where operators contradict themselves, so that no view could have
    /// all of them: then none is recorded.
    pub(super) fn learn(&mut self, endorsements: Vec<Endorsement>, turn: &mut Turn<'_, Self>) -> bool {
        let view = self.current().view().clone();
        let is_new =
            |one: &Endorsement| !view.contains(&one.change) && !self.endorsed.contains_key(&one.change);
        let fresh: Vec<Endorsement> = endorsements.into_iter().filter(is_new).collect();
        let known = view.changes().chain(self.endorsed.keys()).copied();
        let all = View::of(known.chain(fresh.iter().map(|one| one.change)));
        if !all.is_some_and(|all| Roll::of(&self.config.founding, &all).is_some()) {
            return false;
        }
        for endorsement in fresh {
            turn.persist(Record::Endorsed(endorsement.clone()));
            self.endorsed.insert(endorsement.change, endorsement);
        }
        true
    }

    /// Of all changes of a sequence.
    pub(super) fn endorsements(&self, views: &Sequence) -> Endorsements {
        let known = views.changes().filter_map(|change| self.endorsed.get(change)).cloned();
        known.collect::<Vec<_>>().try_into().unwrap_or_default()
    }

    /// L + {T}, as it stands above the current view.
    pub(super) fn own_list(&self) -> Sequence {
        let view = self.current().view();
        let union = View::of(view.changes().chain(self.endorsed.keys()).copied()).unwrap_or_default();
        let top: &[View] = if union.is_above(view) { std::slice::from_ref(&union) } else { &[] };
        let list = merged(&self.list, top).expect("the union holds all accepted views");
        Sequence::above(view, &list).expect("all of them are above the current view")
    }

    /// Step 2, and step 4 where it may be that the own list is accepted.
    pub(super) fn propose(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.is_active() {
            return;
        }
        let own = self.own_list();
        if own.is_empty() {
            return;
        }
        let is_locked = planted!(A30) && self.mine.0.is_some();
        if self.mine.0.as_ref() != Some(&own) && !is_locked {
            self.numbered += 1;
            self.mine.0 = Some(own.clone());
            let (view, number) = (self.current().id(), self.numbered);
            turn.persist(Record::Proposed { view, number, views: own.clone() });
            turn.applied(Rule::Propose);
            self.sign(view, Step::Proposed.sworn(self.current(), &own), turn);
            self.soon(turn);
        }
        let is_accepted = self.accepted.iter().any(|agreed| agreed.views == own);
        if is_accepted && self.mine.1.as_ref() != Some(&own) {
            self.numbered += 1;
            self.mine.1 = Some(own.clone());
            let (view, number) = (self.current().id(), self.numbered);
            turn.persist(Record::Converged { view, number, views: own.clone() });
            turn.applied(Rule::Converge);
            self.sign(view, Step::Converged.sworn(self.current(), &own), turn);
            self.soon(turn);
        }
    }

    /// A list of this node's own is signed: it goes out, and counts here, unless a later one took its place.
    pub(super) fn on_list_signed(
        &mut self,
        claim: &Verified<Claim<Sworn>>,
        (context, digest): (Context, Hash),
        turn: &mut Turn<'_, Self>,
    ) {
        if context != self.current().context() || !self.is_active() {
            return;
        }
        let is_proposal = matches!(claim.statement, Sworn::Proposed { .. });
        let mine = if is_proposal { &self.mine.0 } else { &self.mine.1 };
        let Some(views) = mine.clone().filter(|views| views.digest() == digest) else { return };
        let (view, number) = (self.current().id(), self.numbered);
        let proposal = Proposal { view, number, views, signature: claim.signature };
        let (me, others) = (self.me(), self.current().members().without(self.config.me));
        if is_proposal {
            let endorsements = self.endorsements(&proposal.views);
            self.proposals.insert(me, proposal.clone());
            turn.send(others, Message::Propose { proposal, endorsements });
            self.count_proposals(turn);
        } else {
            self.converged.insert(me, proposal.clone());
            turn.send(others, Message::Converged(proposal));
            self.count_converged(turn);
        }
    }

    /// Whether a list of a member of the current view is looked at; answers where it is not.
    fn screen(&mut self, from: NodeId, message: &Message, turn: &mut Turn<'_, Self>) -> bool {
        let (Message::Propose { proposal, .. } | Message::Converged(proposal)) = message else {
            return false;
        };
        if proposal.view != self.current().id() {
            self.elsewhere(from, proposal.view, message.clone(), turn);
            return false;
        }
        if !self.current().members().contains(from) {
            turn.blame(from, Fault::NotInView);
            return false;
        }
        if !self.is_active() {
            self.show_newer(from, proposal.view, turn);
            return false;
        }
        let heard =
            if matches!(message, Message::Propose { .. }) { &self.proposals } else { &self.converged };
        let last = from.member().and_then(|member| heard.get(&member)).map_or(0, |last| last.number);
        if proposal.number <= last {
            return false;
        }
        let views = proposal.views.views(self.current().view()).unwrap_or_default();
        let are_views = views.iter().all(|view| Roll::of(&self.config.founding, view).is_some());
        if views.is_empty() || !are_views {
            turn.blame(from, Fault::BadProposal);
            return false;
        }
        true
    }

    /// Step 2, of another member.
    pub(super) fn on_propose(
        &mut self,
        from: NodeId,
        proposal: Proposal,
        endorsements: Endorsements,
        good: Option<&Good>,
        turn: &mut Turn<'_, Self>,
    ) {
        let message = Message::Propose { proposal, endorsements };
        if !self.screen(from, &message, turn) {
            return;
        }
        let Message::Propose { proposal, endorsements } = &message else { return };
        let fresh = self.unknown(proposal.views.changes(), endorsements);
        let claims = fresh.as_ref().and_then(|fresh| self.claims(fresh));
        let sworn = Step::Proposed.sworn(self.current(), &proposal.views);
        let own = self.current().claim(from, sworn, proposal.signature);
        let (Some(fresh), Some(mut claims), Some(own)) = (fresh, claims, own) else {
            return turn.blame(from, Fault::BadProposal);
        };
        if good.is_none() {
            claims.push(own);
            return self.check(from, claims, message, turn);
        }
        if !self.learn(fresh, turn) {
            return;
        }
        let Message::Propose { proposal, .. } = message else { return };
        self.proposals.extend(from.member().map(|member| (member, proposal)));
        self.count_proposals(turn);
        self.propose(turn);
        self.count_converged(turn);
    }

    /// The lists that a quorum of members signed last.
    fn agreed(&self, step: Step) -> Option<Agreed> {
        let heard = if step == Step::Proposed { &self.proposals } else { &self.converged };
        let current = self.current();
        let is_fresh = |one: &&Proposal| step == Step::Converged || !self.is_old(&one.views);
        for proposal in heard.values().filter(is_fresh) {
            let same = heard.iter().filter(|(_, one)| one.views == proposal.views);
            let same: Vec<_> = same.map(|(member, one)| (NodeId::from(*member), one.signature)).collect();
            if current.quorums().intersects(same.iter().map(|(member, _)| *member).collect()) {
                let statement = step.sworn(current, &proposal.views);
                let certificate = Certificate::assemble(statement, same);
                return Some(Agreed { base: current.id(), views: proposal.views.clone(), certificate });
            }
        }
        None
    }

    /// Whether accepting a list would change nothing.
    fn is_old(&self, list: &Sequence) -> bool {
        let views = list.views(self.current().view()).unwrap_or_default();
        let is_in = views.iter().all(|view| self.list.contains(view)) && *list != self.own_list();
        is_in || self.accepted.iter().any(|agreed| agreed.views == *list)
    }

    /// Step 3, by proposals that came here.
    fn count_proposals(&mut self, turn: &mut Turn<'_, Self>) {
        if let Some(agreed) = self.agreed(Step::Proposed) {
            self.accept(agreed, turn);
        }
    }

    /// Step 3, as another member accepted.
    pub(super) fn on_accepted(
        &mut self,
        from: NodeId,
        agreed: Agreed,
        endorsements: Endorsements,
        good: Option<&Good>,
        turn: &mut Turn<'_, Self>,
    ) {
        if agreed.base != self.current().id() {
            let view = agreed.base;
            return self.elsewhere(from, view, Message::Accepted { agreed, endorsements }, turn);
        }
        if !self.is_active() {
            return self.show_newer(from, agreed.base, turn);
        }
        if self.is_old(&agreed.views) {
            return;
        }
        let fresh = self.unknown(agreed.views.changes(), &endorsements);
        let more = fresh.as_ref().and_then(|fresh| self.claims(fresh));
        let claims = claims_of(&agreed, self.current(), Step::Proposed);
        let (Some(fresh), Some(mut claims), Some(more)) = (fresh, claims, more) else {
            return turn.blame(from, Fault::BadCertificate);
        };
        if good.is_none() {
            claims.extend(more);
            return self.check(from, claims, Message::Accepted { agreed, endorsements }, turn);
        }
        if self.learn(fresh, turn) {
            self.accept(agreed, turn);
        }
    }

    /// Step 3: no accepted view is dropped.
    fn accept(&mut self, agreed: Agreed, turn: &mut Turn<'_, Self>) {
        let Some(views) = agreed.views.views(self.current().view()) else { return };
        let Some(list) = merged(&self.list, &views) else {
            // Two quorums share a correct member, whose lists are ordered: over the budget.
            let view = views.into_iter().next().unwrap_or_default();
            return turn.output(Output::Contradiction { view, evidence: agreed.encode() });
        };
        turn.persist(Record::Accepted(agreed.clone()));
        turn.applied(Rule::Accept);
        self.list = list;
        self.keep_accepted(agreed.clone(), &views);
        let endorsements = self.endorsements(&agreed.views);
        let others = self.current().members().without(self.config.me);
        turn.send(others, Message::Accepted { agreed, endorsements });
        self.soon(turn);
        self.propose(turn);
        self.count_converged(turn);
    }

    /// Keeps an accepted list, and lets go of those of which it has every view.
    pub(super) fn keep_accepted(&mut self, agreed: Agreed, views: &[View]) {
        let base = self.current().view().clone();
        let is_covered = |one: &Agreed| {
            one.views.views(&base).is_none_or(|older| older.iter().all(|view| views.contains(view)))
        };
        self.accepted.retain(|one| !is_covered(one));
        self.accepted.push(agreed);
    }

    /// Step 4, of another member.
    pub(super) fn on_converged(
        &mut self,
        from: NodeId,
        proposal: Proposal,
        good: Option<&Good>,
        turn: &mut Turn<'_, Self>,
    ) {
        let message = Message::Converged(proposal);
        if !self.screen(from, &message, turn) {
            return;
        }
        let Message::Converged(proposal) = &message else { return };
        let sworn = Step::Converged.sworn(self.current(), &proposal.views);
        let Some(claim) = self.current().claim(from, sworn, proposal.signature) else { return };
        if good.is_none() {
            return self.check(from, vec![claim], message, turn);
        }
        let Message::Converged(proposal) = message else { return };
        self.converged.extend(from.member().map(|member| (member, proposal)));
        self.count_converged(turn);
    }

    /// Step 5, by converged lists that came here.
    fn count_converged(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(agreed) = self.agreed(Step::Converged) else { return };
        // What it rests on was accepted by a quorum, so by a correct member, who shows it; without the endorsements of its rest nobody
        // could go on.
        if self.unknown(agreed.views.changes(), &Endorsements::default()).is_some() {
            let chain = self.chain.iter().cloned().chain([agreed]).collect();
            self.reach(chain, turn);
        }
    }
}
