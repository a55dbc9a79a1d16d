//! The search for an order.

use super::action::{Answer, Held};
use super::history::{History, Operation};
use std::collections::HashSet;

/// Configurations that one search looks at, and remembers, at most.
pub const STEPS_MAX: usize = 400_000;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains everything.
    Linearizable,
    /// No order explains this prefix; all shorter ones have one, as far as that could be decided.
    Refuted(History),
    /// The search was given up at its bound.
    Undecided,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Yes,
    No,
    GaveUp,
}

/// Whether one order of the operations explains all answers.
#[must_use]
pub fn check(history: &History) -> Verdict {
    match explained(&history.operations) {
        Found::Yes => Verdict::Linearizable,
        Found::GaveUp => Verdict::Undecided,
        Found::No => Verdict::Refuted(shortest(history)),
    }
}

/// The shortest refuted prefix of a refuted history: an order for a history is one for all its prefixes.
fn shortest(history: &History) -> History {
    let mut moments: Vec<u64> =
        history.operations.iter().filter_map(|seen| seen.answered.map(|(at, _)| at)).collect();
    moments.sort_unstable();
    let is_fine = |moment: &u64| explained(&history.until(*moment).operations) != Found::No;
    let first = moments.partition_point(is_fine);
    moments.get(first).map_or_else(|| history.clone(), |moment| history.until(*moment))
}

/// Without the operations of unknown outcome first: that they never take effect is allowed.
fn explained(operations: &[Operation]) -> Found {
    let known: Vec<Operation> =
        operations.iter().filter(|operation| operation.answered.is_some()).copied().collect();
    let first = Search::new(&known).run();
    if first == Found::Yes || known.len() == operations.len() {
        return first;
    }
    // A read of unknown outcome says nothing and changes nothing.
    let all: Vec<Operation> = operations
        .iter()
        .filter(|operation| operation.answered.is_some() || !operation.action.is_read())
        .copied()
        .collect();
    if all.len() == known.len() { first } else { Search::new(&all).run() }
}

/// An event of the history: a call, or the answer to it.
#[derive(Clone, Copy, Debug)]
struct Event {
    operation: usize,
    is_call: bool,
}

/// Place in the list of events; the sentinel is 0.
type Place = usize;

/// The search of Wing and Gong: events in a linked list, from which an operation that was put into the order is lifted.
struct Search<'a> {
    operations: &'a [Operation],
    events: Vec<Event>,
    next: Vec<Place>,
    previous: Vec<Place>,
    /// Where the answer to an operation stands; the sentinel if it has none.
    answer_at: Vec<Place>,
    /// Operations with an answer that are not in the order yet.
    open: usize,
    /// Which operations are in the order, one bit each.
    taken: Vec<u64>,
    visited: HashSet<(Box<[u64]>, Held)>,
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Operation]) -> Self {
        let mut timed = Vec::with_capacity(operations.len() * 2);
        for (at, operation) in operations.iter().enumerate() {
            // Of equal times the call comes first: then the two overlap, which forbids less.
            timed.push((operation.called, false, Event { operation: at, is_call: true }));
            if let Some((answered, _)) = operation.answered {
                timed.push((answered, true, Event { operation: at, is_call: false }));
            }
        }
        timed.sort_unstable_by_key(|(time, is_answer, event)| (*time, *is_answer, event.operation));
        let sentinel = Event { operation: 0, is_call: false };
        let events: Vec<Event> =
            std::iter::once(sentinel).chain(timed.into_iter().map(|(_, _, event)| event)).collect();
        let count = events.len();
        let mut answer_at = vec![0; operations.len()];
        for (place, event) in events.iter().enumerate().skip(1).filter(|(_, event)| !event.is_call) {
            answer_at[event.operation] = place;
        }
        Self {
            operations,
            next: (0..count).map(|place| if place + 1 == count { 0 } else { place + 1 }).collect(),
            previous: (0..count).map(|place| if place == 0 { count - 1 } else { place - 1 }).collect(),
            events,
            answer_at,
            open: operations.iter().filter(|operation| operation.answered.is_some()).count(),
            taken: vec![0; operations.len().div_ceil(64)],
            visited: HashSet::new(),
        }
    }

    fn unlink(&mut self, place: Place) {
        let (previous, next) = (self.previous[place], self.next[place]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn relink(&mut self, place: Place) {
        let (previous, next) = (self.previous[place], self.next[place]);
        self.next[previous] = place;
        self.previous[next] = place;
    }

    /// Takes the operation called at `place` out of the list.
    fn lift(&mut self, place: Place) {
        let operation = self.events[place].operation;
        self.unlink(place);
        let answer = self.answer_at[operation];
        if answer != 0 {
            self.unlink(answer);
            self.open -= 1;
        }
    }

    /// Undoes the last [`Self::lift`].
    fn lower(&mut self, place: Place) {
        let operation = self.events[place].operation;
        let answer = self.answer_at[operation];
        if answer != 0 {
            self.relink(answer);
            self.open += 1;
        }
        self.relink(place);
    }

    fn flip(&mut self, operation: usize) {
        self.taken[operation / 64] ^= 1 << (operation % 64);
    }

    fn run(mut self) -> Found {
        let mut held: Held = None;
        let mut order: Vec<(Place, Held)> = Vec::new();
        let mut place = self.next[0];
        let mut steps = 0_usize;
        while self.open > 0 {
            steps += 1;
            if steps > STEPS_MAX.saturating_mul(8) || self.visited.len() >= STEPS_MAX {
                return Found::GaveUp;
            }
            let event = self.events[place];
            if place != 0 && event.is_call {
                match self.take(event.operation, held) {
                    Some(then) => {
                        order.push((place, held));
                        held = then;
                        self.lift(place);
                        place = self.next[0];
                    }
                    None => place = self.next[place],
                }
                continue;
            }
            // An operation was answered before any that could come first: the last choice was wrong.
            let Some((last, before)) = order.pop() else { return Found::No };
            held = before;
            self.flip(self.events[last].operation);
            self.lower(last);
            place = self.next[last];
        }
        Found::Yes
    }

    /// What the key holds if this operation comes next, unless its answer says otherwise or that was tried before.
    fn take(&mut self, operation: usize, held: Held) -> Option<Held> {
        let Operation { action, answered, .. } = self.operations[operation];
        let (answer, then): (Answer, Held) = action.on(held);
        if answered.is_some_and(|(_, told)| told != answer) {
            return None;
        }
        self.flip(operation);
        if self.visited.insert((self.taken.clone().into_boxed_slice(), then)) {
            return Some(then);
        }
        self.flip(operation);
        None
    }
}
