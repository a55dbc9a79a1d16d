//! Back from a log.

use synod_machine::{Condition, Log, QueueSpec, Recover, Unrecoverable};
use synod_wire::List;

use super::chain::follow;
use super::job::Transfer;
use super::reconfig::{Config, Frozen, Reconfig};
use super::roll::Roll;
use super::view::{View, merged};
use super::words::{Agreed, Record, SignedState};

impl<S: Transfer> Recover for Reconfig<S> {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: Config, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable(
                "promises may be missing: this member can only join again as another".into(),
            ));
        }
        if let Some(why) = config.founding.fault() {
            return Err(Unrecoverable(why.into()));
        }
        if config.me.member().is_none() {
            return Err(Unrecoverable("a node that is to join has a member's number".into()));
        }
        let first = Roll::of(&config.founding, &View::default());
        let first = first.ok_or_else(|| Unrecoverable("the genesis has no members".into()))?;
        let mut machine = Self::fresh(config, first);
        for record in log.records {
            machine.replay(record)?;
        }
        Ok(machine)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        let list = |chain: &Vec<Agreed>| List::try_from(chain.clone()).unwrap_or_default();
        if !self.chain.is_empty() {
            put(Record::Installed { chain: list(&self.chain), state: self.merged.0 });
        }
        self.endorsed.values().for_each(|one| put(Record::Endorsed(one.clone())));
        self.accepted.iter().for_each(|agreed| put(Record::Accepted(agreed.clone())));
        let (view, number) = (self.current().id(), self.numbered);
        if let Some(views) = self.mine.0.clone() {
            put(Record::Proposed { view, number, views });
        }
        if let Some(views) = self.mine.1.clone() {
            put(Record::Converged { view, number, views });
        }
        for frozen in self.before.iter().chain(&self.stopped) {
            if frozen.view == view {
                put(Record::Stopped(view));
            }
            if let Some(state) = frozen.state.clone() {
                put(Record::Stated { view: frozen.view, state });
            }
        }
        self.merged.1.values().for_each(|state| put(Record::Held(state.clone())));
        for way in self.ways.values() {
            put(Record::Reached(list(&way.chain)));
            way.states.values().for_each(|state| put(Record::Held(state.clone())));
        }
    }
}

impl<S: Transfer> Reconfig<S> {
    fn replay(&mut self, record: Record) -> Result<(), Unrecoverable> {
        match record {
            Record::Endorsed(endorsement) => {
                if !self.current().view().contains(&endorsement.change) {
                    self.endorsed.insert(endorsement.change, endorsement);
                }
            }
            Record::Proposed { view, number, views } if view == self.current().id() => {
                self.mine.0 = Some(views);
                self.numbered = self.numbered.max(number);
            }
            Record::Converged { view, number, views } if view == self.current().id() => {
                self.mine.1 = Some(views);
                self.numbered = self.numbered.max(number);
            }
            Record::Accepted(agreed) if agreed.base == self.current().id() => self.replay_accepted(agreed)?,
            Record::Reached(chain) => self.replay_reached(chain.into_vec())?,
            Record::Stopped(view) if view == self.current().id() && self.stopped.is_none() => {
                self.stopped = Some(Frozen { view, state: None, signed: None });
            }
            Record::Stated { view, state } => {
                let frozen = Frozen { view, state: Some(state), signed: None };
                if view == self.current().id() {
                    self.stopped = Some(frozen);
                } else {
                    self.before = Some(frozen);
                }
            }
            Record::Held(state) => self.replay_held(state),
            Record::Installed { chain, state } => self.replay_installed(chain.into_vec(), state)?,
            Record::Proposed { .. } | Record::Converged { .. } | Record::Accepted(_) | Record::Stopped(_) => {
            }
        }
        Ok(())
    }

    fn replay_accepted(&mut self, agreed: Agreed) -> Result<(), Unrecoverable> {
        let views = agreed.views.views(self.current().view()).unwrap_or_default();
        let list = merged(&self.list, &views);
        self.list = list.ok_or_else(|| Unrecoverable("accepted views are no chain".into()))?;
        self.keep_accepted(agreed, &views);
        Ok(())
    }

    fn rolls_of(&self, chain: &[Agreed]) -> Result<Vec<std::sync::Arc<Roll>>, Unrecoverable> {
        follow(&self.config.founding, chain)
            .map_err(|why| Unrecoverable(format!("a chain of views in the log: {why:?}")))
    }

    fn replay_reached(&mut self, chain: Vec<Agreed>) -> Result<(), Unrecoverable> {
        let rolls = self.rolls_of(&chain)?;
        if rolls.last().is_some_and(|to| to.view().is_above(self.current().view())) {
            self.know(chain, rolls);
        }
        Ok(())
    }

    fn replay_held(&mut self, state: SignedState) {
        match self.ways.get_mut(&state.view) {
            Some(way) => drop(way.states.insert(state.member, state)),
            None => drop(self.merged.1.insert(state.member, state)),
        }
    }

    fn replay_installed(
        &mut self,
        chain: Vec<Agreed>,
        state: synod_crypto::Hash,
    ) -> Result<(), Unrecoverable> {
        let rolls = self.rolls_of(&chain)?;
        if rolls.last().map(|to| to.id()) == Some(self.current().id()) {
            return self.replay_rest(chain, rolls, state);
        }
        let is_ready = |way: &&super::reconfig::Way| Some(way.to().id()) == rolls.last().map(|to| to.id());
        let states = self.ways.values().filter(is_ready).max_by_key(|way| way.states.len());
        let states = states.map(|way| way.states.clone()).unwrap_or_default();
        self.enter(chain, rolls, (state, states));
        Ok(())
    }

    /// The current view with a smaller rest.
    fn replay_rest(
        &mut self,
        chain: Vec<Agreed>,
        rolls: Vec<std::sync::Arc<Roll>>,
        state: synod_crypto::Hash,
    ) -> Result<(), Unrecoverable> {
        let start = super::install::rest_of(&chain, &rolls);
        self.resumes = start.is_empty();
        (self.start, self.chain, self.rolls, self.merged.0) = (start.clone(), chain, rolls, state);
        self.list = start;
        let accepted: Vec<Agreed> = std::mem::take(&mut self.accepted);
        accepted.into_iter().try_for_each(|agreed| self.replay_accepted(agreed))
    }
}
