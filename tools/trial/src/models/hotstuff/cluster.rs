//! The cluster as a model: who hears what when.
//!
//! The base schedule is lock-step: seats take turns, and at its turn a seat hears all that is on its way to it, link by
//! link, in the order sent. When nothing is on its way, any view timer may fire and any cut may heal. Everything else is
//! a *deviation*, of which an instance allows a number: a seat misses its turn, goes deaf to one machine or to all, its
//! timer fires early, or the cluster splits in two. What a deaf seat does not hear waits for the cut to heal, or for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stateright::{Model, Property};

use super::instance::{Instance, SEATS};
use super::table::{Frame, Local, Outcome, Stimulus, Table};
use crate::models::bounded::{Bounded, Limit};

/// Every seat, as a bit set.
const ALL: u8 = 0b1_1111;
/// No seat has anything to hear.
const QUIET: u8 = u8::MAX;

/// A frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flying {
    to: u8,
    from: u8,
    frame: Frame,
}

/// The machines, the frames in flight, who is cut off from whom, and whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    seats: [Local; SEATS],
    /// By receiver, then sender, then in the order sent: what else differs commutes.
    flight: Vec<Flying>,
    /// Whom each seat hears.
    ears: [u8; SEATS],
    turn: u8,
    /// Whether this is the first turn of a round.
    first: bool,
    left: u8,
    /// The number of the breach that ends this run; 0 for none.
    pub(super) breach: u32,
}

/// What the adversary chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The seat whose turn it is hears what is on its way to it.
    Hear,
    /// It misses its turn.
    Pass,
    /// From now on it hears these seats only.
    Hears(u8),
    /// The view timer of a seat fires.
    Expire(u8),
    /// From now on these seats and the others do not hear each other.
    Split(u8),
    /// All hear all.
    Heal,
}

/// One instance, explored once.
pub(super) struct Cluster {
    instance: Instance,
    table: Mutex<Table>,
    first: State,
    limit: Limit,
}

impl Cluster {
    pub(super) fn new(instance: Instance, deadline: Instant) -> Self {
        let (mut table, outcomes) = Table::begin(instance);
        let mut first = State {
            seats: [0; SEATS],
            flight: Vec::new(),
            ears: [ALL; SEATS],
            turn: QUIET,
            first: true,
            left: instance.deviations,
            breach: 0,
        };
        for (seat, outcome) in (0..).zip(outcomes) {
            first.take(seat, &outcome);
        }
        first.judge(&mut table, true);
        first.turn_from(0);
        Self { instance, table: Mutex::new(table), first, limit: Limit::new(deadline) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn local(&self, seat: u8) -> Local {
        self.seats[usize::from(seat)]
    }

    fn hears(&self, flying: &Flying) -> bool {
        self.ears[usize::from(flying.to)] >> flying.from & 1 == 1
    }

    /// The seats with something to hear.
    fn due(&self) -> u8 {
        self.flight.iter().filter(|flying| self.hears(flying)).fold(0, |due, flying| due | 1 << flying.to)
    }

    /// The turn of the first seat from `seat` on that has something to hear.
    fn turn_from(&mut self, seat: u8) {
        let due = self.due();
        let later = u32::from(due) >> seat << seat;
        self.first = later == 0 || seat == 0;
        let of = if later == 0 { u32::from(due) } else { later };
        self.turn = if of == 0 { QUIET } else { u8::try_from(of.trailing_zeros()).unwrap_or(QUIET) };
        self.first |= self.turn == QUIET;
    }

    /// A seat took a step.
    fn take(&mut self, seat: u8, outcome: &Outcome) {
        self.seats[usize::from(seat)] = outcome.next;
        for (seats, frame) in &outcome.said {
            let receivers = (0..).take(SEATS).filter(|to| seats >> to & 1 == 1);
            self.flight.extend(receivers.map(|to| Flying { to, from: seat, frame: *frame }));
        }
        self.flight.sort_by_key(|flying| (flying.to, flying.from));
        self.breach = self.breach.max(outcome.breach);
    }

    fn judge(&mut self, table: &mut Table, moved: bool) {
        if moved && self.breach == 0 {
            self.breach = table.compared(self.seats);
        }
    }

    fn hear(&mut self, table: &mut Table) {
        let seat = self.turn;
        let (heard, kept) = self.flight.iter().partition(|flying| flying.to == seat && self.hears(flying));
        self.flight = kept;
        let heard: Vec<Flying> = heard;
        let mut moved = false;
        for flying in heard {
            let outcome = table.step(seat, self.local(seat), Stimulus::Frame(flying.frame));
            self.take(seat, &outcome);
            moved |= outcome.moved;
        }
        self.judge(table, moved);
    }

    fn split(&mut self, side: u8) {
        for (seat, ears) in (0..).zip(&mut self.ears) {
            *ears &= if side >> seat & 1 == 1 { side } else { !side & ALL };
        }
    }
}

impl Bounded for Cluster {
    const REACHED: &'static str = "the command is delivered";

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

impl Model for Cluster {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        vec![self.first.clone()]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        if state.breach != 0 {
            return;
        }
        let table = self.table();
        if self.limit.cuts(table.is_full()) {
            return;
        }
        let may_expire = |seat: &u8| table.may_expire(state.local(*seat));
        let turn = state.turn;
        if turn == QUIET {
            choices.extend((0..).take(SEATS).filter(may_expire).map(Choice::Expire));
            if state.ears != [ALL; SEATS] {
                choices.push(Choice::Heal);
            }
            return;
        }
        choices.push(Choice::Hear);
        if state.left == 0 {
            return;
        }
        choices.push(Choice::Pass);
        if may_expire(&turn) {
            choices.push(Choice::Expire(turn));
        }
        let heard = state.ears[usize::from(turn)];
        let due = state.flight.iter().filter(|flying| flying.to == turn && state.hears(flying));
        let speakers = due.fold(0_u8, |set, flying| set | 1 << flying.from);
        let one = (0..).take(SEATS).filter(|from| speakers >> from & 1 == 1);
        choices.extend(one.map(|from| Choice::Hears(heard & !(1 << from))));
        if speakers.count_ones() > 1 {
            choices.push(Choice::Hears(0));
        }
        if state.first {
            // Sides that hold seat 0; the other half names the same splits.
            choices.extend((1..ALL).filter(|side| side & 1 == 1).map(Choice::Split));
        }
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
            Choice::Pass => {
                next.turn_from(turn + 1);
            }
            Choice::Hears(ears) => {
                next.ears[usize::from(turn)] = ears;
                next.turn_from(turn);
            }
            Choice::Expire(seat) => {
                let outcome = table.step(seat, state.local(seat), Stimulus::Expire);
                next.take(seat, &outcome);
                next.judge(&mut table, outcome.moved);
                next.turn_from(if turn == QUIET { 0 } else { turn });
            }
            Choice::Split(side) => {
                next.split(side);
                next.turn_from(turn);
            }
            Choice::Heal => {
                next.ears = [ALL; SEATS];
                next.turn_from(0);
            }
        }
        let free = choice == Choice::Hear || turn == QUIET;
        next.left -= u8::from(!free);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach == 0),
            Property::sometimes("the command is delivered", |cluster: &Self, state: &State| {
                cluster.table().delivers(state.seats)
            }),
        ]
    }
}
