//! The broadcast as a model: what the liar says, and what comes next.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stateright::{Model, Property};

use super::cast::{Cast, SAYINGS};
use super::run::Instance;
use super::table::{Flight, Local, Outcome, Table, What};
use crate::models::bounded::{Bounded, Limit};

/// The machines, what is on its way, and what was said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    receivers: [Local; 2],
    nodes: Vec<Local>,
    /// Nodes to which something came, the first of them all.
    touched: u8,
    /// In order of their names: which was sent first is no matter.
    flying: Vec<Flight>,
    /// What the liar said, a bit each.
    said: u32,
    /// The number of the breach that ends this run; 0 for none.
    pub(super) breach: u32,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The liar says this.
    Say(u8),
    /// This comes to whom it is for.
    Come(Flight),
}

/// One instance, explored once.
pub(super) struct Broadcast {
    instance: Instance,
    table: Mutex<Table>,
    first: State,
    limit: Limit,
}

impl Broadcast {
    pub(super) fn new(instance: Instance, deadline: Instant) -> Self {
        let (table, receivers, node) = Table::begin(instance.memory, instance.merged);
        let nodes = vec![node; usize::from(instance.memory)];
        let first = State { receivers, nodes, touched: 0, flying: Vec::new(), said: 0, breach: 0 };
        Self { instance, table: Mutex::new(table), first, limit: Limit::new(deadline) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl What {
    /// In a word.
    fn name(&self) -> String {
        match self {
            Self::Said(from, message) => {
                let text = format!("{message:?}");
                let word = text.split([' ', '(']).next().unwrap_or("").to_owned();
                format!("{word} of {}", from.0)
            }
            Self::Op(at, op) => format!("operation {} at node {at}", op.tag()),
            Self::Job(_) => "job".to_owned(),
        }
    }
}

impl State {
    fn send(&mut self, outcome: Outcome) {
        self.flying.extend(outcome.sent);
        self.flying.sort_unstable();
    }

    /// Something comes to a receiver.
    fn hear(&mut self, table: &mut Table, flight: Flight) {
        let at = usize::from(table.flying(flight).of.0 == 2);
        let outcome = table.hear(self.receivers[at], flight);
        if outcome.next == self.receivers[at] && outcome.sent.is_empty() {
            return;
        }
        self.receivers[at] = outcome.next;
        self.send(outcome);
        self.breach = table.judge(self.receivers);
    }

    /// An operation comes to a memory node.
    fn serve(&mut self, table: &mut Table, flight: Flight, at: u8) {
        let Some(node) = self.nodes.get_mut(usize::from(at)) else { return };
        let outcome = table.serve(*node, flight);
        *node = outcome.next;
        self.touched = self.touched.max(at + 1);
        self.send(outcome);
    }

    /// Forgets what nobody waits for any more.
    fn tidy(&mut self, table: &mut Table) {
        let (receivers, first) = (self.receivers, self.nodes.first().copied().unwrap_or(0));
        self.flying.retain(|flight| table.is_awaited(receivers, first, *flight));
    }

    /// Whether the liar may say this next.
    fn may_say(&self, saying: u8, most: u8) -> bool {
        let is_new = self.said >> saying & 1 == 0;
        let first = saying & 1 == 0 && !Cast::is_other(saying);
        is_new && (self.said != 0 || first) && self.said.count_ones() < u32::from(most)
    }
}

impl Bounded for Broadcast {
    const REACHED: &'static str = "what it is about happens";

    fn name(&self) -> String {
        self.instance.name()
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn breach(&self, state: &State) -> Option<(&'static str, String)> {
        self.table().breach(state.breach).map(|breach| (breach.checker, breach.what.clone()))
    }

    fn size(&self) -> (usize, usize) {
        self.table().size()
    }

    fn told(&self, choices: Vec<Choice>) -> Vec<String> {
        let table = self.table();
        let flight = |choice| match choice {
            Choice::Say(saying) => table.saying(saying),
            Choice::Come(flight) => flight,
        };
        let told = |choice: Choice| {
            let flying = table.flying(flight(choice));
            let name = match choice {
                Choice::Say(_) => "says",
                Choice::Come(_) => "comes",
            };
            format!("{name} {:?} {}", flying.of, flying.what.name())
        };
        choices.into_iter().map(told).collect()
    }
}

impl Model for Broadcast {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        vec![self.first.clone()]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        let table = self.table();
        if self.limit.cuts(table.is_full()) || state.breach != 0 {
            return;
        }
        let Instance { numbers, says, .. } = self.instance;
        choices.extend((0..SAYINGS * numbers).filter(|at| state.may_say(*at, says)).map(Choice::Say));
        let mut last = None;
        for flight in &state.flying {
            let is_again = last.replace(*flight) == Some(*flight);
            let is_early = matches!(table.flying(*flight).what, What::Op(at, _) if at > state.touched);
            if !is_again && !is_early {
                choices.push(Choice::Come(*flight));
            }
        }
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        let mut table = self.table();
        match choice {
            Choice::Say(saying) => {
                next.said |= 1 << saying;
                let flight = table.saying(saying);
                next.hear(&mut table, flight);
            }
            Choice::Come(flight) => {
                let at = next.flying.iter().position(|one| *one == flight)?;
                next.flying.remove(at);
                match table.flying(flight).what {
                    What::Op(at, _) => next.serve(&mut table, flight, at),
                    What::Said(..) | What::Job(_) => next.hear(&mut table, flight),
                }
            }
        }
        next.tidy(&mut table);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach == 0),
            Property::sometimes("what it is about happens", |model: &Self, state: &State| {
                let table = model.table();
                if model.instance.merged {
                    table.is_counted(state.receivers)
                } else {
                    table.is_slow(state.receivers)
                }
            }),
        ]
    }
}
