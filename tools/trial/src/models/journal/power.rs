//! The journal as a model: what is asked of it, when the power goes, and what the disk made of it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use stateright::{Model, Property};

use super::instance::Instance;
use super::life::{Act, KINDS, Wreck, operations, wreck};
use crate::models::bounded::{Bounded, Limit};
use crate::oracle::Breach;

/// What happened so far.
#[derive(Clone)]
pub(super) struct State {
    acts: Vec<Act>,
    fates: Vec<u8>,
    /// What is left once the power is gone; follows from `acts`.
    wreck: Option<Arc<Wreck>>,
    /// What was broken; follows from the rest.
    pub(super) breach: Option<Arc<Breach>>,
    /// Whether a start after the power went kept every property.
    recovered: bool,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (&self.acts, &self.fates) == (&other.acts, &other.fates)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.acts.hash(hasher);
        self.fates.hash(hasher);
    }
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} {:?}", self.acts, self.fates)
    }
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// What happens next.
    Act(Act),
    /// What became of the next write or directory entry that was not synced.
    Fate(u8),
}

/// One instance, explored once.
pub(super) struct Power {
    instance: Instance,
    limit: Limit,
}

impl Power {
    pub(super) const fn new(instance: Instance, deadline: Instant) -> Self {
        Self { instance, limit: Limit::new(deadline) }
    }

    fn lives(&self, acts: &[Act], choices: &mut Vec<Choice>) {
        let count = |of: fn(&Act) -> bool| acts.iter().filter(|act| of(act)).count();
        let appended = count(|act| matches!(act, Act::Append(_)));
        let synced = count(|act| matches!(act, Act::Sync));
        if appended < usize::from(self.instance.writes) {
            choices.extend((0..KINDS).map(|kind| Choice::Act(Act::Append(kind))));
        }
        // A sync with nothing to write does nothing.
        if synced < usize::from(self.instance.syncs) && matches!(acts.last(), Some(Act::Append(_))) {
            choices.push(Choice::Act(Act::Sync));
            let operations = operations(&self.instance, acts);
            choices.extend((0..operations).map(|nth| Choice::Act(Act::Stop(nth))));
            choices.extend((0..operations).map(|nth| Choice::Act(Act::Fail(nth))));
        }
        choices.push(Choice::Act(Act::Off));
        // The group of the last sync looks like a torn tail when it rots; what a later one followed does not.
        let groups = acts.iter().enumerate().filter(|(_, act)| matches!(act, Act::Sync)).map(|(at, _)| at);
        let last_but_one = groups.rev().nth(1).unwrap_or(0);
        let durable = acts.iter().take(last_but_one).filter(|act| matches!(act, Act::Append(_))).count();
        choices.extend((0..).take(durable).map(|record| Choice::Act(Act::Rot(record))));
    }

    fn settled(&self, state: &mut State) {
        let Some(wreck) = &state.wreck else { return };
        if state.fates.len() < wreck.choices.len() {
            return;
        }
        match wreck.recover(&self.instance, &state.fates) {
            Ok(()) => state.recovered = true,
            Err(breach) => state.breach = Some(Arc::new(breach)),
        }
    }
}

impl Bounded for Power {
    const REACHED: &'static str = "a torn disk recovers";

    fn name(&self) -> String {
        self.instance.name()
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn breach(&self, state: &State) -> Option<(&'static str, String)> {
        state.breach.as_ref().map(|breach| (breach.checker, breach.what.clone()))
    }
}

impl Model for Power {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        let (acts, fates) = (Vec::new(), Vec::new());
        vec![State { acts, fates, wreck: None, breach: None, recovered: false }]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        if state.breach.is_some() {
            return;
        }
        if self.limit.cuts(false) {
            return;
        }
        match &state.wreck {
            None => self.lives(&state.acts, choices),
            Some(wreck) => {
                let fates = wreck.choices.get(state.fates.len()).copied().unwrap_or(0);
                choices.extend((0..fates).map(Choice::Fate));
            }
        }
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        match choice {
            Choice::Act(act) => {
                next.acts.push(act);
                if !matches!(act, Act::Append(_) | Act::Sync) {
                    match wreck(&self.instance, &next.acts) {
                        Ok(wreck) => next.wreck = Some(Arc::new(wreck)),
                        Err(breach) => next.breach = Some(Arc::new(breach)),
                    }
                }
            }
            Choice::Fate(fate) => next.fates.push(fate),
        }
        self.settled(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach.is_none()),
            Property::sometimes("a torn disk recovers", |_: &Self, state: &State| {
                state.recovered && state.fates.iter().any(|fate| *fate > 0)
            }),
        ]
    }
}
