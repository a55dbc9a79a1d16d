//! What is kept for later, what is said again, and what whoever is behind is shown.

use std::sync::Arc;

use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, Wire as _};

use super::job::Transfer;
use super::reconfig::{EARLY_BYTES, Reconfig, Way, kind};
use super::trace::Rule;
use super::view::ViewId;
use super::words::{Agreed, Message, Output, Timer};

impl<S: Transfer> Reconfig<S> {
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        self.resume(turn);
        let views: Vec<ViewId> = self.stopped.iter().chain(&self.before).map(|own| own.view).collect();
        for view in views {
            self.sign_state(view, turn);
        }
        if let Some(own) = self.stopped.as_ref().filter(|own| own.state.is_none()) {
            turn.output(Output::Stop(own.view));
        }
        if !self.ways.is_empty() {
            self.stop(turn);
        }
        let bases: Vec<ViewId> = self.ways.keys().copied().collect();
        for base in bases {
            self.merge(base, turn);
        }
        self.sign_lists(turn);
        self.propose(turn);
        let others = self.current().members().without(self.config.me);
        turn.send(others, Message::AskChain { view: self.current().id() });
        self.soon(turn);
    }

    /// Has the last lists of this node's own signed again.
    fn sign_lists(&self, turn: &mut Turn<'_, Self>) {
        use super::chain::Step;
        if self.is_active() {
            let (proposed, converged) = &self.mine;
            let lists = [(proposed, Step::Proposed), (converged, Step::Converged)];
            for (views, step) in lists.into_iter().filter_map(|(views, step)| Some((views.as_ref()?, step))) {
                self.sign(self.current().id(), step.sworn(self.current(), views), turn);
            }
        }
    }

    /// Something new: what is not superseded is said again after the first wait.
    pub(super) fn soon(&mut self, turn: &mut Turn<'_, Self>) {
        self.wait = self.config.resend;
        if self.is_busy() {
            turn.arm(Timer::Resend, self.wait);
        }
    }

    /// Whether something is to be said again.
    fn is_busy(&self) -> bool {
        let given = self.stopped.as_ref().or(self.before.as_ref()).and_then(|own| own.signed.as_ref());
        let is_owed = given.is_some_and(|state| !self.heirs(state.view).is_empty());
        let proposes = self.is_active() && !self.own_list().is_empty();
        self.asking.is_some() || !self.ways.is_empty() || (is_owed && !self.has_left) || proposes
    }

    pub(super) fn on_resend_due(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.is_busy() {
            return;
        }
        self.ask(turn);
        if self.is_active() {
            self.say_lists(turn);
        }
        for way in self.ways.values() {
            let both = way.base().members().or(way.to().members()).without(self.config.me);
            turn.send(both, self.installed(way.link()));
            if way.to().members().contains(self.config.me) {
                turn.send(both, Message::AskStates { view: way.base().id() });
            }
        }
        if let Some(own) = self.before.as_ref().filter(|_| self.stopped.is_none()) {
            let heirs = self.heirs(own.view);
            if let Some(link) = self.chain.last().filter(|_| !heirs.is_empty()) {
                turn.send(heirs, self.installed(link));
            }
        }
        if !self.has_left {
            self.give(turn);
        }
        self.wait = self.config.resend_max.min(self.wait.times(2));
        turn.arm(Timer::Resend, self.wait);
    }

    /// Steps 2 to 4 again.
    fn say_lists(&self, turn: &mut Turn<'_, Self>) {
        let others = self.current().members().without(self.config.me);
        for agreed in &self.accepted {
            let endorsements = self.endorsements(&agreed.views);
            turn.send(others, Message::Accepted { agreed: agreed.clone(), endorsements });
        }
        if let Some(proposal) = self.proposals.get(&self.me()).cloned() {
            let endorsements = self.endorsements(&proposal.views);
            turn.send(others, Message::Propose { proposal, endorsements });
        }
        if let Some(proposal) = self.converged.get(&self.me()).cloned() {
            turn.send(others, Message::Converged(proposal));
        }
    }

    fn installed(&self, link: &Agreed) -> Message {
        let endorsements = self.endorsements(&link.views.rest());
        Message::Install { agreed: link.clone(), endorsements }
    }

    /// A message for another view than the current one: of an older one its sender is shown what followed; of one that is not
    /// installed here it is kept.
    pub(super) fn elsewhere(
        &mut self,
        from: NodeId,
        view: ViewId,
        message: Message,
        turn: &mut Turn<'_, Self>,
    ) {
        let current = self.current().id();
        if view.number < current.number {
            return self.show_newer(from, view, turn);
        }
        let Some(member) = from.member() else { return };
        let place = (member, kind(&message));
        let is_newer = self.early.get(&place).is_none_or(|(kept, _)| kept.number <= view.number);
        if is_newer && message.size_hint() <= EARLY_BYTES {
            self.early.insert(place, (view, message));
        }
        let is_next = self.ways.values().any(|way| way.to().id() == view);
        if !is_next {
            turn.send(from, Message::AskChain { view: current });
        }
    }

    /// Shows a peer what followed its view.
    pub(super) fn show_newer(&self, to: NodeId, since: ViewId, turn: &mut Turn<'_, Self>) {
        let newest = self.ways.values().map(|way: &Way| &way.chain);
        let newest: Vec<&Vec<Agreed>> =
            if self.ways.is_empty() { vec![&self.chain] } else { newest.collect() };
        for chain in newest {
            let Some(link) = chain.last() else { continue };
            if link.base.number.max(since.number) == since.number && link.base != since {
                continue;
            }
            turn.applied(Rule::Older);
            let message = if link.base == since {
                self.installed(link)
            } else {
                let installs = List::try_from(chain.clone()).unwrap_or_default();
                Message::Chain { installs, endorsements: self.endorsements(&link.views.rest()) }
            };
            turn.send(to, message);
        }
    }

    pub(super) fn on_ask_states(&self, from: NodeId, view: ViewId, turn: &mut Turn<'_, Self>) {
        let asked = NodeSet::only(from);
        let own = self.stopped.iter().chain(&self.before).filter_map(|own| own.signed.as_ref());
        let held = self.ways.get(&view).map(|way| &way.states).into_iter().chain([&self.merged.1]);
        let mut told = NodeSet::EMPTY;
        for state in own.chain(held.flat_map(|states| states.values())).filter(|state| state.view == view) {
            if told.insert(NodeId::from(state.member)) && state.member != from.member().unwrap_or(u8::MAX) {
                turn.send(asked, Message::State(state.clone()));
            }
        }
    }

    /// Messages for the view that is now current are looked at; those for older ones are let go of.
    pub(super) fn again_early(&mut self, turn: &mut Turn<'_, Self>) {
        let current = Arc::clone(self.current());
        let early = std::mem::take(&mut self.early);
        for ((member, kind), (view, message)) in early {
            if view == current.id() {
                self.on_early(NodeId::from(member), message, turn);
            } else if view.number > current.id().number {
                self.early.insert((member, kind), (view, message));
            }
        }
    }
}
