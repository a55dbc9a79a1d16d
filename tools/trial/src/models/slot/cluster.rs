//! The replicas as a model: who hears what when, and who suspects its leader.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stateright::{Model, Property};
use synod_crypto::Hash as Digest;
use synod_machine::Message as _;
use synod_ubft::replica::Word;
use synod_wire::Wire as _;

use super::run::Instance;
use super::seat::{Cast, LIAR, N, SLOTS, Said, Seat, is_carried, judge};
use crate::oracle::Breach;

/// No replica has anything to hear.
const QUIET: u8 = u8::MAX;
/// Every replica, as a bit set.
const ALL: u8 = 0b111;
/// How often all timers fire before what has not happened never will.
const ROUNDS: u8 = 12;
/// A run is over for whoever comes to this view.
const VIEWS: u64 = 3;

/// A replica, and what stands for it.
#[derive(Clone)]
struct Held {
    seat: Arc<Seat>,
    digest: Digest,
}

/// A word on its way.
#[derive(Clone)]
struct Flying {
    to: u8,
    from: u8,
    word: Arc<Word>,
    digest: Digest,
}

/// What states are compared by: the machines, what is on its way, and all numbers.
type Key = (Vec<Digest>, Vec<(u8, u8, Digest)>, ([u8; 3], [u8; 3], bool));

/// The machines, what is on its way, who hears whom, and whose turn it is.
#[derive(Clone)]
pub(super) struct State {
    seats: Vec<Held>,
    /// By receiver, then sender, then in the order sent: what else differs commutes.
    flight: Vec<Flying>,
    ears: [u8; N as usize],
    turn: u8,
    left: u8,
    rounds: u8,
    pub(super) breach: Option<Arc<Breach>>,
}

impl State {
    fn key(&self) -> Key {
        (
            self.seats.iter().map(|held| held.digest).collect(),
            self.flight.iter().map(|one| (one.to, one.from, one.digest)).collect(),
            (self.ears, [self.turn, self.left, self.rounds], self.breach.is_some()),
        )
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.key().fmt(f)
    }
}

/// What the adversary chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The replica whose turn it is hears what is on its way to it.
    Hear,
    /// It misses its turn.
    Pass,
    /// From now on it hears these alone, until nothing is on its way.
    Hears(u8),
    /// This replica suspects its leader.
    Suspect(u8),
    /// All hear all, and every timer fires.
    Again,
}

/// One instance, explored once.
pub(super) struct Cluster {
    instance: Instance,
    cast: Cast,
    first: State,
    deadline: Instant,
    cut: AtomicBool,
    over: AtomicBool,
    steps: AtomicU64,
    machines: Mutex<BTreeSet<Digest>>,
}

impl Cluster {
    pub(super) fn new(instance: Instance, deadline: Instant) -> Self {
        let cast = Cast::new();
        let mut first = State {
            seats: Vec::new(),
            flight: Vec::new(),
            ears: [ALL; N as usize],
            turn: QUIET,
            left: instance.deviations,
            rounds: 0,
            breach: None,
        };
        for own in 0..N {
            let mut seat = Seat::new(&cast, own, instance.liar && own == LIAR);
            let said = seat.begin(&cast, instance.slow);
            let digest = seat.digest();
            first.seats.push(Held { seat: Arc::new(seat), digest });
            first.send(own, said);
        }
        first.turn_from(0);
        Self {
            instance,
            cast,
            first,
            deadline,
            cut: AtomicBool::new(false),
            over: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            machines: Mutex::new(BTreeSet::new()),
        }
    }

    /// Whether the deadline came before the frontier was empty.
    pub(super) fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// The exploration is over: what is asked from now on retraces it, and no deadline holds.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Different machine states, and machine steps taken.
    pub(super) fn size(&self) -> (u64, u64) {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        (machines.len() as u64, self.steps.load(Ordering::Relaxed))
    }

    /// A replica takes a step.
    fn step(&self, state: &mut State, own: u8, act: impl FnOnce(&mut Seat, &Cast) -> Vec<Said>) {
        let Some(held) = state.seats.get_mut(usize::from(own)) else { return };
        let mut seat = Seat::clone(&held.seat);
        let said = act(&mut seat, &self.cast);
        held.digest = seat.digest();
        held.seat = Arc::new(seat);
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).insert(held.digest);
        state.send(own, said);
    }

    fn judge(&self, state: &mut State) {
        let honest = |own: &u8| !(self.instance.liar && *own == LIAR);
        let seats: Vec<&Seat> = (0..N)
            .filter(honest)
            .filter_map(|own| state.seats.get(usize::from(own)))
            .map(|held| &*held.seat)
            .collect();
        state.breach = judge(&seats).map(Arc::new);
    }

    fn hear(&self, state: &mut State) {
        let node = state.turn;
        let flight = std::mem::take(&mut state.flight);
        let (heard, kept): (Vec<Flying>, Vec<Flying>) =
            flight.into_iter().partition(|flying| flying.to == node && state.hears(flying));
        state.flight = kept;
        self.step(state, node, |seat, cast| {
            heard.iter().flat_map(|one| seat.hear(cast, one.from, Word::clone(&one.word))).collect()
        });
        self.judge(state);
    }

    /// All hear all, and every timer fires; when that happened often enough, what has not come will not come.
    fn again(&self, state: &mut State) {
        state.ears = [ALL; N as usize];
        state.rounds += 1;
        for own in 0..N {
            self.step(state, own, Seat::expire);
        }
        self.judge(state);
        if state.rounds > ROUNDS && state.breach.is_none() {
            let is_late = |own: &u8| {
                let seat = &state.seats[usize::from(*own)].seat;
                seat.is_sealing() && !(self.instance.liar && *own == LIAR)
            };
            if let Some(own) = (0..N).find(is_late) {
                let what = format!("replica {own} is still leaving its view");
                state.breach = Some(Arc::new(Breach { checker: "sealing ends", what }));
            }
        }
    }
}

impl State {
    fn hears(&self, flying: &Flying) -> bool {
        self.ears[usize::from(flying.to)] >> flying.from & 1 == 1
    }

    fn turn_from(&mut self, node: u8) {
        let due = self.flight.iter().filter(|flying| self.hears(flying));
        let due = due.fold(0_u32, |due, flying| due | 1 << flying.to);
        let later = due >> node << node;
        let of = if later == 0 { due } else { later };
        self.turn = if of == 0 { QUIET } else { u8::try_from(of.trailing_zeros()).unwrap_or(QUIET) };
    }

    fn send(&mut self, from: u8, said: Vec<Said>) {
        for (to, word) in said.into_iter().filter(|(_, word)| is_carried(word)) {
            let digest = Digest::of(&[vec![word.queue().0], word.encode().to_vec()].concat());
            self.flight.push(Flying { to, from, word: Arc::new(word), digest });
        }
        self.flight.sort_by_key(|flying| (flying.to, flying.from));
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().map(|held| &*held.seat)
    }

    /// Whether all have executed all slots, or somebody left the views that the model is about.
    fn is_over(&self) -> bool {
        self.seats().any(|seat| seat.view() >= VIEWS) || self.rounds > ROUNDS
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        vec![self.first.clone()]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        if !self.over.load(Ordering::Relaxed) && Instant::now() >= self.deadline {
            return self.cut.store(true, Ordering::Relaxed);
        }
        if state.breach.is_some() || state.is_over() {
            return;
        }
        let is_done = state.seats().all(|seat| seat.executed() >= SLOTS && !seat.is_sealing());
        if state.turn == QUIET {
            if !is_done {
                choices.push(Choice::Again);
            }
            return;
        }
        choices.push(Choice::Hear);
        if state.left == 0 {
            return;
        }
        choices.push(Choice::Pass);
        let heard = state.ears[usize::from(state.turn)];
        let due = state.flight.iter().filter(|flying| flying.to == state.turn && state.hears(flying));
        let speakers = due.fold(0_u8, |set, flying| set | 1 << flying.from);
        let one = (0..N).filter(|from| speakers >> from & 1 == 1);
        choices.extend(one.map(|from| Choice::Hears(heard & !(1 << from))));
        let suspects = (0..N).zip(state.seats()).filter(|(_, seat)| seat.may_suspect());
        choices.extend(suspects.map(|(own, _)| Choice::Suspect(own)));
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        let turn = state.turn;
        match choice {
            Choice::Hear => {
                self.hear(&mut next);
                next.turn_from(turn + 1);
            }
            Choice::Pass => next.turn_from(turn + 1),
            Choice::Hears(ears) => {
                next.ears[usize::from(turn)] = ears;
                next.turn_from(turn);
            }
            Choice::Suspect(own) => {
                self.step(&mut next, own, Seat::suspect);
                self.judge(&mut next);
                next.turn_from(turn);
            }
            Choice::Again => {
                self.again(&mut next);
                next.turn_from(0);
            }
        }
        next.left -= u8::from(!matches!(choice, Choice::Hear | Choice::Again));
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach.is_none()),
            Property::sometimes("all is executed in a later view", |_: &Self, state: &State| {
                state.seats().all(|seat| seat.executed() >= SLOTS && seat.view() > 0)
            }),
            Property::sometimes("a view is left behind a promise", |cluster: &Self, state: &State| {
                cluster.instance.slow || state.seats().any(Seat::is_tried)
            }),
        ]
    }
}
