//! Steps 5 to 7: a view is installed, members of the older one stop, those of the new one merge what they kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Verified};
use synod_machine::Turn;
use synod_machine::broadcast::Context;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, List, Wire as _};

use super::chain::{Step, claims_of, follow};
use super::job::Transfer;
use super::propose::Endorsements;
use super::reconfig::{Frozen, Good, Reconfig, WAYS_MAX, Way};
use super::roll::Roll;
use super::trace::{Fault, Rule};
use super::view::{View, ViewId, merged};
use super::words::{Agreed, Message, Output, Record, Refusal, SignedState, Sworn};

/// What is left over behind the last link of a chain.
pub(super) fn rest_of(chain: &[Agreed], rolls: &[Arc<Roll>]) -> Vec<View> {
    let rest = chain.last().zip(rolls.last());
    rest.and_then(|(link, to)| link.views.rest().views(to.view())).unwrap_or_default()
}

/// Whether one rest is smaller than another: fewer of the same views.
fn is_smaller(one: &[View], other: &[View]) -> bool {
    one.len() < other.len() && one.iter().all(|view| other.contains(view))
}

impl<S: Transfer> Reconfig<S> {
    /// Step 5, as another member installed: it stands on a view that is known here, or what led there is asked for.
    pub(super) fn on_install(
        &mut self,
        from: NodeId,
        agreed: Agreed,
        endorsements: Endorsements,
        turn: &mut Turn<'_, Self>,
    ) {
        let at = self.rolls.iter().position(|roll| roll.id() == agreed.base);
        let own = at.map(|at| self.chain.iter().take(at).cloned().collect::<Vec<_>>());
        let found = own.or_else(|| {
            self.ways.values().find(|way| way.to().id() == agreed.base).map(|way| way.chain.clone())
        });
        match found {
            Some(mut chain) => {
                chain.push(agreed);
                self.on_chain(from, chain, endorsements, None, turn);
            }
            None => turn.send(from, Message::AskChain { view: self.current().id() }),
        }
    }

    /// Whether a chain leads to something new: a view above all that is known, another way to the next one, or a smaller rest.
    fn is_news(&self, chain: &[Agreed], rolls: &[Arc<Roll>]) -> bool {
        let (Some(to), Some(link)) = (rolls.last(), chain.last()) else { return false };
        let rest = rest_of(chain, rolls);
        if to.id() == self.current().id() {
            return is_smaller(&rest, &self.start);
        }
        let target = self.ways.values().map(Way::to).max_by_key(|to| to.id().number);
        let is_above = to.view().is_above(self.current().view());
        let is_way = target.is_none_or(|target| target.view().within(to.view()));
        let same = self.ways.get(&link.base).filter(|way| way.to().id() == to.id());
        let is_better = same.is_none_or(|way| is_smaller(&rest, &rest_of(&way.chain, &way.rolls)));
        is_above && is_way && is_better
    }

    /// A chain of views, for whoever is behind.
    pub(super) fn on_chain(
        &mut self,
        from: NodeId,
        chain: Vec<Agreed>,
        endorsements: Endorsements,
        good: Option<&Good>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Ok(rolls) = follow(&self.config.founding, &chain) else {
            return turn.blame(from, Fault::BadCertificate);
        };
        if !self.is_news(&chain, &rolls) {
            return;
        }
        let rest = chain.last().map(|link| link.views.rest()).unwrap_or_default();
        let Some(fresh) = self.unknown(rest.changes(), &endorsements) else {
            return turn.blame(from, Fault::BadProposal);
        };
        if good.is_none() {
            let known = |at: usize, link: &Agreed| {
                let is_same = |chain: &Vec<Agreed>| chain.get(at) == Some(link);
                is_same(&self.chain) || self.ways.values().any(|way| is_same(&way.chain))
            };
            let links = chain.iter().zip(&rolls).enumerate().filter(|(at, (link, _))| !known(*at, link));
            let claims = links.map(|(_, (link, base))| claims_of(link, base, Step::Converged));
            let claims = claims.collect::<Option<Vec<_>>>().zip(self.claims(&fresh));
            let Some((links, more)) = claims else { return turn.blame(from, Fault::BadCertificate) };
            let claims = links.into_iter().flatten().chain(more).collect();
            let Ok(installs) = List::try_from(chain) else { return };
            return self.check(from, claims, Message::Chain { installs, endorsements }, turn);
        }
        // A change that the new view makes needs no endorsement any more.
        if self.learn(fresh, turn) {
            self.reach(chain, turn);
        }
    }

    /// A view is installed, as its chain proves, which was checked or made here.
    pub(super) fn reach(&mut self, chain: Vec<Agreed>, turn: &mut Turn<'_, Self>) {
        let Ok(rolls) = follow(&self.config.founding, &chain) else { return };
        let (Some(to), Some(link)) = (rolls.last().cloned(), chain.last().cloned()) else { return };
        if !self.is_news(&chain, &rolls) {
            let is_ordered = |known: &Roll| known.view().within(to.view()) || to.view().within(known.view());
            let mut known = self.ways.values().map(Way::to).chain([self.current()]);
            if !known.all(|known| is_ordered(known)) {
                let (view, evidence) = (to.view().clone(), link.encode());
                turn.output(Output::Contradiction { view, evidence });
            }
            return;
        }
        if to.id() == self.current().id() {
            return self.start_over(chain, &rolls, turn);
        }
        let me = self.config.me;
        let is_member = |roll: &Arc<Roll>| roll.members().contains(me);
        let is_behind = |roll: &&Arc<Roll>| roll.view().is_above(self.current().view());
        if !is_member(self.current()) && !rolls.iter().filter(is_behind).any(is_member) {
            return self.look_on(chain, rolls, turn);
        }
        if !self.has_place(link.base) {
            return;
        }
        let installs = List::try_from(chain.clone()).unwrap_or_default();
        turn.persist(Record::Reached(installs));
        turn.applied(Rule::Install);
        self.know(chain, rolls);
        self.stop(turn);
        let endorsements = self.endorsements(&link.views.rest());
        let base = self.ways.get(&link.base).map_or(NodeSet::EMPTY, |way| way.base().members());
        let others = base.or(to.members()).without(self.config.me);
        turn.send(others, Message::Install { agreed: link.clone(), endorsements });
        self.give(turn);
        self.soon(turn);
        self.merge_ways(turn);
    }

    /// Whether a way from a view is known, or there is place for one more.
    fn has_place(&self, base: ViewId) -> bool {
        self.ways.len() < WAYS_MAX || self.ways.contains_key(&base)
    }

    /// Keeps the way to the last view of a chain, and to those on the way of which this node is a member: their others may need its
    /// state, so it enters each of them as long as it can, and none has to.
    pub(super) fn know(&mut self, chain: Vec<Agreed>, rolls: Vec<Arc<Roll>>) {
        let Some(to) = rolls.last().cloned() else { return };
        let (me, current) = (self.config.me, self.current().view().clone());
        self.ways.retain(|_, way| {
            let is_mine = way.to().members().contains(me) && to.view().is_above(way.to().view());
            is_mine || way.to().id() == to.id()
        });
        for links in 1..chain.len() {
            let (chain, rolls) = (chain.iter().take(links), rolls.iter().take(links.saturating_add(1)));
            let (chain, rolls): (Vec<_>, Vec<_>) = (chain.cloned().collect(), rolls.cloned().collect());
            let Some((at, base)) = rolls.last().zip(chain.last().map(|link| link.base)) else { continue };
            let is_mine = at.members().contains(me) && at.view().is_above(&current);
            if is_mine && !self.ways.contains_key(&base) && self.has_place(base) {
                self.add_way(chain, rolls);
            }
        }
        self.add_way(chain, rolls);
    }

    /// Has the user merge for every view for which there are states.
    fn merge_ways(&mut self, turn: &mut Turn<'_, Self>) {
        let bases: Vec<ViewId> = self.ways.keys().copied().collect();
        for base in bases {
            self.merge(base, turn);
        }
    }

    /// Whoever is a member of neither view has nothing to stop or to merge, and only knows of the newer one.
    fn look_on(&mut self, chain: Vec<Agreed>, rolls: Vec<Arc<Roll>>, turn: &mut Turn<'_, Self>) {
        let installs = List::try_from(chain.clone()).unwrap_or_default();
        turn.persist(Record::Installed { chain: installs, state: Hash::ZERO });
        self.enter(chain, rolls, (Hash::ZERO, BTreeMap::new()));
        self.again_early(turn);
        self.ask(turn);
        self.soon(turn);
    }

    /// Another way to the next view, or a smaller rest behind one that is known. States that are here count for it.
    pub(super) fn add_way(&mut self, chain: Vec<Agreed>, rolls: Vec<Arc<Roll>>) {
        let Some(base) = chain.last().map(|link| link.base) else { return };
        let before = self.ways.remove(&base).map(|way| way.states);
        let is_of = |states: &&BTreeMap<u8, SignedState>| states.values().all(|state| state.view == base);
        let mut states = before.or_else(|| Some(&self.merged.1).filter(is_of).cloned()).unwrap_or_default();
        for own in self.stopped.iter().chain(&self.before).filter_map(|own| own.signed.as_ref()) {
            if own.view == base {
                states.insert(own.member, own.clone());
            }
        }
        self.ways.insert(base, Way { chain, rolls, states, is_merging: false });
    }

    /// Step 6.
    pub(super) fn stop(&mut self, turn: &mut Turn<'_, Self>) {
        let current = Arc::clone(self.current());
        if self.stopped.is_none() && current.members().contains(self.config.me) {
            turn.persist(Record::Stopped(current.id()));
            turn.applied(Rule::Stop);
            self.stopped = Some(Frozen { view: current.id(), state: None, signed: None });
            self.have = NodeSet::EMPTY;
            turn.output(Output::Stop(current.id()));
        }
    }

    /// The user stopped, and says what it keeps.
    pub(super) fn on_stopped(&mut self, view: ViewId, state: Bytes, turn: &mut Turn<'_, Self>) {
        let Some(frozen) = self.stopped.as_mut().filter(|own| own.view == view && own.state.is_none()) else {
            return;
        };
        let Ok(state) = Blob::try_from(state) else {
            return turn.output(Output::Refused { change: None, why: Refusal::StateTooLong });
        };
        frozen.state = Some(state.clone());
        turn.persist(Record::Stated { view, state });
        self.sign_state(view, turn);
    }

    /// Has this node's own state signed, again after a restart.
    pub(super) fn sign_state(&self, view: ViewId, turn: &mut Turn<'_, Self>) {
        let own = self.stopped.iter().chain(&self.before).find(|own| own.view == view);
        let Some(state) = own.and_then(|own| own.state.as_ref()) else { return };
        let (context, state) = (self.place(view).1, SignedState::digest(state));
        self.sign(view, Sworn::Stated { context, state }, turn);
    }

    pub(super) fn on_state_signed(
        &mut self,
        claim: &Verified<Claim<Sworn>>,
        (context, digest): (Context, Hash),
        turn: &mut Turn<'_, Self>,
    ) {
        let member = self.me();
        let frozen = self.stopped.iter_mut().chain(&mut self.before);
        let Some(frozen) = frozen.into_iter().find(|own| own.view.digest == context.view) else { return };
        let Some(state) = frozen.state.clone().filter(|state| SignedState::digest(state) == digest) else {
            return;
        };
        let view = frozen.view;
        let signed = SignedState { view, member, state, signature: claim.signature };
        frozen.signed = Some(signed.clone());
        if let Some(way) = self.ways.get_mut(&view) {
            way.states.insert(member, signed);
        }
        self.give(turn);
        self.merge(view, turn);
    }

    /// Who may need what this node kept of its last view: whoever is a member of a view behind that.
    pub(super) fn heirs(&self, of: ViewId) -> NodeSet {
        let chains = self.ways.values().map(|way| &way.rolls).chain([&self.rolls]);
        let behind = chains.flatten().filter(|roll| roll.id().number > of.number);
        let members = behind.fold(NodeSet::EMPTY, |all, roll| all.or(roll.members()));
        members.minus(self.have).without(self.config.me)
    }

    /// Step 6: what this node kept goes to whoever needs it.
    pub(super) fn give(&self, turn: &mut Turn<'_, Self>) {
        let own = self.stopped.as_ref().or(self.before.as_ref());
        if let Some(state) = own.and_then(|own| own.signed.as_ref()) {
            turn.send(self.heirs(state.view), Message::State(state.clone()));
        }
    }

    /// Step 7: what a member kept, from itself or from another who has it.
    pub(super) fn on_state(
        &mut self,
        from: NodeId,
        state: SignedState,
        good: Option<&Good>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (view, member) = (state.view, state.member);
        let Some(way) = self.ways.get(&view) else {
            if view.number < self.current().id().number {
                turn.send(from, Message::Have { view });
            } else {
                turn.send(from, Message::AskChain { view: self.current().id() });
            }
            return;
        };
        if way.states.contains_key(&member) {
            // Whoever passes it on has no word about its own.
            return turn.send(NodeId::from(member), Message::Have { view });
        }
        if !way.to().members().contains(self.config.me) {
            return;
        }
        let (context, digest) = (way.base().context(), SignedState::digest(&state.state));
        let sworn = Sworn::Stated { context, state: digest };
        let Some(claim) = way.base().claim(NodeId::from(member), sworn, state.signature) else {
            return turn.blame(from, Fault::NotInView);
        };
        if good.is_none() {
            return self.check(from, vec![claim], Message::State(state), turn);
        }
        turn.persist(Record::Held(state.clone()));
        if let Some(way) = self.ways.get_mut(&view) {
            way.states.insert(member, state);
        }
        turn.send(NodeId::from(member), Message::Have { view });
        self.merge(view, turn);
    }

    /// Step 7: with the states of a quorum, and this node's own if it was a member and stopped there, the user merges.
    pub(super) fn merge(&mut self, base: ViewId, turn: &mut Turn<'_, Self>) {
        let (me, node) = (self.me(), self.config.me);
        let needs_own = self.stopped.as_ref().is_some_and(|own| own.view == base);
        let Some(way) = self.ways.get_mut(&base) else { return };
        let members = way.states.keys().map(|member| NodeId::from(*member)).collect();
        let is_ready = way.base().quorums().intersects(members) && way.to().members().contains(node);
        if way.is_merging || !is_ready || (needs_own && !way.states.contains_key(&me)) {
            return;
        }
        way.is_merging = true;
        let (view, from) = (Arc::clone(way.to()), Arc::clone(way.base()));
        let (rolls, states) = (way.rolls.clone(), way.states.values().cloned().collect());
        turn.output(Output::Merge { view, from, rolls, states });
    }

    /// Step 7: the user merged.
    pub(super) fn on_merged(&mut self, view: ViewId, state: Hash, turn: &mut Turn<'_, Self>) {
        let is_it = |way: &&Way| way.is_merging && way.to().id() == view;
        let Some(base) = self.ways.values().find(is_it).map(|way| way.base().id()) else { return };
        // Of all ways the smallest rest counts, in whose place another would start over.
        let Some(way) = self.ways.remove(&base) else { return };
        let same = self.ways.values().filter(|other| other.to().id() == view);
        let other = same.min_by_key(|other| other.link().views.len());
        let shortest = other.filter(|other| other.link().views.len() < way.link().views.len());
        let (chain, rolls) = shortest.map_or((&way.chain, &way.rolls), |other| (&other.chain, &other.rolls));
        let installs = List::try_from(chain.clone()).unwrap_or_default();
        turn.persist(Record::Installed { chain: installs, state });
        turn.applied(Rule::Merge);
        self.enter(chain.clone(), rolls.clone(), (state, way.states));
        turn.output(Output::Installed(Arc::clone(self.current())));
        self.resume(turn);
        if !self.ways.is_empty() {
            // It is over already: others wait for what this member keeps of it.
            self.stop(turn);
        }
        self.again_early(turn);
        turn.compact();
        self.ask(turn);
        self.propose(turn);
        self.soon(turn);
    }

    /// The last view of a chain is the current one.
    pub(super) fn enter(
        &mut self,
        chain: Vec<Agreed>,
        rolls: Vec<Arc<Roll>>,
        merged_of: (Hash, BTreeMap<u8, SignedState>),
    ) {
        self.start = rest_of(&chain, &rolls);
        self.resumes = self.start.is_empty();
        (self.chain, self.rolls, self.merged) = (chain, rolls, merged_of);
        self.list = self.start.clone();
        self.accepted.clear();
        self.proposals.clear();
        self.converged.clear();
        (self.numbered, self.mine) = (0, (None, None));
        let current = self.current().view().clone();
        self.ways.retain(|_, way| way.to().view().is_above(&current));
        if let Some(frozen) = self.stopped.take() {
            self.before = Some(frozen);
        }
        let view = self.current().view().clone();
        self.endorsed.retain(|change, _| !view.contains(change));
        if let Some(asking) = &mut self.asking {
            (asking.confirmed, asking.is_told) = (NodeSet::EMPTY, false);
        }
        self.asking = self.asking.take().filter(|asking| !view.contains(&asking.endorsement.change));
    }

    /// Step 7: with nothing left over members of the current view go on in it.
    pub(super) fn resume(&self, turn: &mut Turn<'_, Self>) {
        let is_next = self.stopped.is_none() && self.ways.is_empty();
        if self.resumes && is_next && self.current().members().contains(self.config.me) {
            turn.applied(Rule::Resume);
            turn.output(Output::Resume(Arc::clone(self.current())));
        }
    }

    /// Step 7: the current view was installed with a smaller rest as well, which takes the place of the other.
    fn start_over(&mut self, chain: Vec<Agreed>, rolls: &[Arc<Roll>], turn: &mut Turn<'_, Self>) {
        let start = rest_of(&chain, rolls);
        let mut accepted = self.accepted.iter().filter_map(|one| one.views.views(self.current().view()));
        let list = accepted.try_fold(start.clone(), |all, views| merged(&all, &views));
        let Some(list) = list else { return };
        let installs = List::try_from(chain.clone()).unwrap_or_default();
        turn.persist(Record::Installed { chain: installs, state: self.merged.0 });
        turn.applied(Rule::Rest);
        let did_resume = self.resumes;
        self.resumes = start.is_empty();
        (self.start, self.list) = (start, list);
        (self.chain, self.rolls) = (chain, rolls.to_vec());
        if let Some(link) = self.chain.last().cloned() {
            let endorsements = self.endorsements(&link.views.rest());
            let others = self.current().members().without(self.config.me);
            turn.send(others, Message::Install { agreed: link, endorsements });
        }
        if !did_resume {
            self.resume(turn);
        }
        self.propose(turn);
    }

    pub(super) fn on_have(&mut self, from: NodeId, view: ViewId, turn: &mut Turn<'_, Self>) {
        let own = self.stopped.as_ref().or(self.before.as_ref());
        if own.is_some_and(|own| own.view == view && own.signed.is_some()) {
            self.have.insert(from);
        }
        self.leave(turn);
    }

    /// Step 7: a member that is none of the new view's stops once a quorum of that one's has its state.
    fn leave(&mut self, turn: &mut Turn<'_, Self>) {
        let (me, have) = (self.config.me, self.have);
        let has_heirs = |way: &&Way| {
            let to = way.to();
            !to.members().contains(me) && to.quorums().intersects(have.and(to.members()))
        };
        let is_over = self.stopped.as_ref().is_some_and(|own| own.signed.is_some());
        if let Some(to) = self.ways.values().find(has_heirs).map(|way| way.to().id())
            && is_over
            && !self.has_left
        {
            self.has_left = true;
            turn.output(Output::Left(to));
        }
    }
}
