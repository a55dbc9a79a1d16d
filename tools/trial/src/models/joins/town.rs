//! All nodes as a model: who hears what when, and what the liar says.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stateright::{Model, Property};

use super::cast::{FOUNDERS, LIAR, Lie, NODES};
use super::run::Instance;
use super::table::{Frame, Local, Outcome, Stimulus, Table};
use crate::models::bounded::{Bounded, Limit};

/// Every node, as a bit set.
const ALL: u8 = 0b11_1111;
/// No node has anything to hear.
const QUIET: u8 = u8::MAX;
/// How often all timers fire before what has not happened never will.
const ROUNDS: u8 = 12;

/// A frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flying {
    to: u8,
    from: u8,
    frame: Frame,
}

/// The machines, the frames on their way, who hears whom, and whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    seats: [Local; NODES as usize],
    /// By receiver, then sender, then in the order sent: what else differs commutes.
    flight: Vec<Flying>,
    /// Whom each node hears.
    ears: [u8; NODES as usize],
    turn: u8,
    left: u8,
    rounds: u8,
    /// The number of the breach that ends this run; 0 for none.
    pub(super) breach: u32,
}

/// What the adversary chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The node whose turn it is hears what is on its way to it.
    Hear,
    /// It misses its turn.
    Pass,
    /// From now on it hears these nodes only, until nothing is on its way.
    Hears(u8),
    /// The liar says this to these nodes.
    Say(Lie, u8),
    /// All hear all, and every timer fires.
    Again,
}

/// One instance, explored once.
pub(super) struct Town {
    instance: Instance,
    table: Mutex<Table>,
    first: State,
    limit: Limit,
}

impl Town {
    pub(super) fn new(instance: Instance, deadline: Instant) -> Self {
        let (table, outcomes) = Table::begin(instance.liar);
        let mut first = State {
            seats: [0; NODES as usize],
            flight: Vec::new(),
            ears: [ALL; NODES as usize],
            turn: QUIET,
            left: instance.deviations,
            rounds: 0,
            breach: 0,
        };
        for (node, outcome) in (0..).zip(&outcomes) {
            first.take(node, outcome);
        }
        first.turn_from(0);
        Self { instance, table: Mutex::new(table), first, limit: Limit::new(deadline) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the liar can say now, to one founder or to all of them.
    fn lies(&self, table: &Table, choices: &mut Vec<Choice>) {
        if !self.instance.liar {
            return;
        }
        let founders = (1 << FOUNDERS) - 1 - (1 << LIAR);
        let whom = (0..FOUNDERS).filter(|node| *node != LIAR).map(|node| 1 << node).chain([founders]);
        let whom: Vec<u8> = whom.collect();
        choices.extend(table.lies().flat_map(|lie| whom.iter().map(move |to| Choice::Say(lie, *to))));
    }
}

impl State {
    fn local(&self, node: u8) -> Local {
        self.seats[usize::from(node)]
    }

    fn hears(&self, flying: &Flying) -> bool {
        self.ears[usize::from(flying.to)] >> flying.from & 1 == 1
    }

    /// The turn of the first node from this one on that has something to hear.
    fn turn_from(&mut self, node: u8) {
        let heard = self.flight.iter().filter(|flying| self.hears(flying));
        let due = heard.fold(0_u32, |due, flying| due | 1 << flying.to);
        let later = due >> node << node;
        let of = if later == 0 { due } else { later };
        self.turn = if of == 0 { QUIET } else { u8::try_from(of.trailing_zeros()).unwrap_or(QUIET) };
    }

    fn send(&mut self, from: u8, (nodes, frame): (u8, Frame)) {
        let receivers = (0..NODES).filter(|to| nodes >> to & 1 == 1);
        self.flight.extend(receivers.map(|to| Flying { to, from, frame }));
        self.flight.sort_by_key(|flying| (flying.to, flying.from));
    }

    /// A node took a step.
    fn take(&mut self, node: u8, outcome: &Outcome) {
        self.seats[usize::from(node)] = outcome.next;
        outcome.said.iter().for_each(|said| self.send(node, *said));
    }

    fn hear(&mut self, table: &mut Table) {
        let node = self.turn;
        let (heard, kept): (Vec<Flying>, Vec<Flying>) =
            self.flight.iter().partition(|flying| flying.to == node && self.hears(flying));
        self.flight = kept;
        for flying in heard {
            let outcome = table.step(node, self.local(node), Stimulus::Frame(flying.frame));
            self.take(node, &outcome);
        }
        self.breach = self.breach.max(table.judge(&self.seats));
    }

    /// All hear all, and every timer fires; when that happened often enough, what has not come will not come.
    fn again(&mut self, table: &mut Table) {
        self.ears = [ALL; NODES as usize];
        self.rounds += 1;
        if self.rounds > ROUNDS {
            self.breach = self.breach.max(table.stuck(&self.seats));
            return;
        }
        for node in 0..NODES {
            if table.may_expire(node, self.local(node)) {
                let outcome = table.step(node, self.local(node), Stimulus::Expire);
                self.take(node, &outcome);
            }
        }
        self.breach = self.breach.max(table.judge(&self.seats));
    }
}

impl Bounded for Town {
    const REACHED: &'static str = "both have joined";

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
}

impl Model for Town {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        vec![self.first.clone()]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        let table = self.table();
        if self.limit.cuts(table.is_full()) {
            return;
        }
        // Whoever goes on after all have joined only repeats itself.
        if state.breach != 0 || table.is_complete(&state.seats) && state.turn == QUIET {
            return;
        }
        if state.turn == QUIET {
            return choices.push(Choice::Again);
        }
        choices.push(Choice::Hear);
        if state.left == 0 {
            return;
        }
        choices.push(Choice::Pass);
        let heard = state.ears[usize::from(state.turn)];
        let due = state.flight.iter().filter(|flying| flying.to == state.turn && state.hears(flying));
        let speakers = due.fold(0_u8, |set, flying| set | 1 << flying.from);
        let one = (0..NODES).filter(|from| speakers >> from & 1 == 1);
        choices.extend(one.map(|from| Choice::Hears(heard & !(1 << from))));
        if speakers.count_ones() > 1 {
            choices.push(Choice::Hears(0));
        }
        self.lies(&table, choices);
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        let mut table = self.table();
        let turn = state.turn;
        match choice {
            Choice::Hear => {
                next.hear(&mut table);
                next.turn_from(turn + 1);
            }
            Choice::Pass => next.turn_from(turn + 1),
            Choice::Hears(ears) => {
                next.ears[usize::from(turn)] = ears;
                next.turn_from(turn);
            }
            Choice::Say(lie, to) => {
                let number = u64::from(self.instance.deviations - state.left) + 1;
                let frame = table.lie(lie, number);
                next.send(LIAR, (to, frame));
                next.turn_from(turn);
            }
            Choice::Again => {
                next.again(&mut table);
                next.turn_from(0);
            }
        }
        let is_free = matches!(choice, Choice::Hear | Choice::Again);
        next.left -= u8::from(!is_free);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach == 0),
            Property::sometimes("both have joined", |town: &Self, state: &State| {
                town.table().is_complete(&state.seats)
            }),
        ]
    }
}
