//! Valid histories are accepted, broken ones refuted, and small ones judged as brute force judges them.

use super::{Action, Answer, Held, History, Operation, Tally, Verdict, check};
use crate::Draw;

/// Puts write multiples of this, so that increments never make one put's value out of another's.
const APART: u64 = 1_000_000;

fn history(operations: Vec<Operation>) -> History {
    History { key: "k".to_owned(), operations }
}

fn told(client: u32, action: Action, times: (u64, u64), answer: Answer) -> Operation {
    Operation { client, action, called: times.0, answered: Some((times.1, answer)) }
}

fn unknown(action: Action, called: u64) -> Operation {
    Operation { client: 9, action, called, answered: None }
}

fn value(value: u64) -> Answer {
    Answer::Value(Some(value))
}

fn is_fine(operations: &[Operation]) -> bool {
    check(&history(operations.to_vec())) == Verdict::Linearizable
}

fn is_refuted(operations: &[Operation]) -> bool {
    matches!(check(&history(operations.to_vec())), Verdict::Refuted(_))
}

fn drawn(draw: &mut Draw, number: u64, held: Held) -> Action {
    match draw.below(8) {
        0..=2 => Action::Get,
        3 | 4 => Action::Put(number * APART),
        5 => Action::Delete,
        6 => Action::Increment,
        _ => Action::Swap { expected: if draw.coin() { held } else { None }, new: number * APART },
    }
}

/// What clients see of a sequential run whose operations take effect every 10 ns, called and answered up to 45 ns
/// around that. Of `forget` in a hundred the outcome stays unknown; half of these never take effect.
fn run(draw: &mut Draw, count: u64, forget: usize) -> Vec<Operation> {
    let mut held = None;
    let mut seen = Vec::new();
    for number in 1..=count {
        let moment = 100 + number * 10;
        let action = drawn(draw, number, held);
        let (before, after) = (draw.below(45) as u64, draw.below(45) as u64);
        let client = u32::try_from(number % 7).expect("small");
        let called = moment - before;
        if draw.below(100) < forget {
            if draw.coin() {
                held = action.on(held).1;
            }
            seen.push(Operation { client, action, called, answered: None });
            continue;
        }
        let (answer, then) = action.on(held);
        held = then;
        seen.push(told(client, action, (called, moment + after), answer));
    }
    seen
}

/// The time after everything that was seen.
fn end(seen: &[Operation]) -> u64 {
    let times = seen.iter().map(|seen| seen.answered.map_or(seen.called, |(at, _)| at));
    times.max().unwrap_or(0) + 1
}

#[test]
fn what_a_sequential_run_shows_is_linearizable_however_its_operations_overlap() {
    for seed in 0..300 {
        let mut draw = Draw::new(seed);
        let count = 1 + draw.below(120) as u64;
        let seen = run(&mut draw, count, 0);
        assert!(is_fine(&seen), "seed {seed}: {}", history(seen));
    }
}

#[test]
fn operations_of_unknown_outcome_may_take_effect_or_not() {
    for seed in 0..300 {
        let mut draw = Draw::new(1_000 + seed);
        let count = 1 + draw.below(60) as u64;
        let seen = run(&mut draw, count, 8);
        assert!(is_fine(&seen), "seed {seed}: {}", history(seen));
    }
    let put = unknown(Action::Put(5), 0);
    let get = |from: u64, held: Held| told(1, Action::Get, (from, from + 5), Answer::Value(held));
    assert!(is_fine(&[put, get(10, None), get(20, None)]), "never");
    assert!(is_fine(&[put, get(10, None), get(20, Some(5))]), "late");
    assert!(is_refuted(&[put, get(10, Some(5)), get(20, None)]), "not undone");
    assert!(is_refuted(&[unknown(Action::Put(5), 30), get(10, Some(5))]), "not before it was called");
    let add = unknown(Action::Increment, 0);
    assert!(is_fine(&[add, get(10, Some(1))]));
    assert!(is_refuted(&[add, get(10, Some(2))]), "once");
}

/// A mutation of a valid history: what it adds makes it wrong.
type Mutation = (&'static str, fn(&mut Vec<Operation>, u64));

const MUTATIONS: [Mutation; 8] = [
    ("a stale read", |seen, at| {
        seen.push(told(1, Action::Put(7), (at, at + 5), Answer::Done));
        seen.push(told(2, Action::Put(8), (at + 10, at + 15), Answer::Done));
        seen.push(told(3, Action::Get, (at + 20, at + 25), value(7)));
    }),
    ("a lost update", |seen, at| {
        seen.push(told(0, Action::Put(7), (at, at + 5), Answer::Done));
        seen.push(told(1, Action::Increment, (at + 10, at + 30), value(8)));
        seen.push(told(2, Action::Increment, (at + 12, at + 28), value(8)));
    }),
    ("a read from the future", |seen, at| {
        seen.push(told(1, Action::Get, (at, at + 5), value(7)));
        seen.push(told(2, Action::Put(7), (at + 10, at + 15), Answer::Done));
    }),
    ("a value that nobody wrote", |seen, at| {
        seen.push(told(1, Action::Get, (at, at + 5), value(3)));
    }),
    ("reads that go back after an acknowledged write", |seen, at| {
        seen.push(told(1, Action::Put(7), (at, at + 100), Answer::Done));
        seen.push(told(2, Action::Put(8), (at, at + 5), Answer::Done));
        seen.push(told(2, Action::Get, (at + 10, at + 15), value(7)));
        seen.push(told(2, Action::Get, (at + 20, at + 25), value(8)));
    }),
    ("a write that is gone", |seen, at| {
        seen.push(told(1, Action::Put(7), (at, at + 5), Answer::Done));
        seen.push(told(2, Action::Get, (at + 10, at + 15), Answer::Value(None)));
    }),
    ("a key removed twice", |seen, at| {
        seen.push(told(1, Action::Put(7), (at, at + 5), Answer::Done));
        seen.push(told(1, Action::Delete, (at + 10, at + 30), Answer::Was(true)));
        seen.push(told(2, Action::Delete, (at + 10, at + 30), Answer::Was(true)));
    }),
    ("two swaps that both won", |seen, at| {
        let swap = |new| Action::Swap { expected: Some(7), new };
        seen.push(told(1, Action::Put(7), (at, at + 5), Answer::Done));
        seen.push(told(1, swap(8), (at + 10, at + 30), Answer::Was(true)));
        seen.push(told(2, swap(9), (at + 10, at + 30), Answer::Was(true)));
    }),
];

#[test]
fn every_mutation_is_refuted_wherever_it_stands() {
    for (what, mutate) in MUTATIONS {
        for seed in 0..60 {
            let mut draw = Draw::new(seed);
            let count = draw.below(40) as u64;
            let mut seen = run(&mut draw, count, 0);
            let at = end(&seen);
            mutate(&mut seen, at);
            // What goes on afterwards, and everybody's order in the list, change nothing.
            let (then, Verdict::Refuted(prefix)) = (seen.clone(), check(&history(seen.clone()))) else {
                panic!("{what} was accepted, seed {seed}: {}", history(seen));
            };
            assert!(prefix.operations.len() <= then.len() && is_refuted(&prefix.operations), "{what}");
            let later = end(&seen) + 200;
            seen.extend(run(&mut draw, 10, 0).into_iter().map(|operation| Operation {
                called: operation.called + later,
                answered: operation.answered.map(|(time, answer)| (time + later, answer)),
                ..operation
            }));
            seen.reverse();
            assert!(is_refuted(&seen), "{what}, followed by more, seed {seed}");
        }
    }
}

#[test]
fn a_refutation_is_the_shortest_prefix() {
    let mut seen = vec![told(1, Action::Put(7), (0, 5), Answer::Done)];
    seen.push(told(1, Action::Get, (10, 15), value(6)));
    seen.extend(
        (2..30).map(|number| told(2, Action::Put(number), (number * 10, number * 10 + 5), Answer::Done)),
    );
    let Verdict::Refuted(prefix) = check(&history(seen)) else { panic!("nobody wrote 6") };
    assert_eq!(prefix.operations.len(), 2);
    let text = prefix.to_string();
    assert!(text.contains("client 1 Get called 0 us, answered 0 us: Value(Some(6))"), "{text}");
}

#[test]
fn many_unknown_outcomes_leave_a_history_undecided_and_say_so() {
    let mut seen: Vec<Operation> = (0..40).map(|number| unknown(Action::Put(number), 0)).collect();
    seen.push(told(1, Action::Get, (10, 15), value(1_000)));
    assert_eq!(check(&history(seen.clone())), Verdict::Undecided);
    let mut tally = Tally::default();
    tally.add(&history(seen));
    tally.add(&history(vec![told(1, Action::Put(1), (0, 5), Answer::Done)]));
    assert_eq!((tally.word(), tally.histories, tally.operations, tally.unknown), ("undecided", 2, 42, 40));
    let mut other = Tally::default();
    other.add(&history(vec![told(1, Action::Get, (0, 5), value(1))]));
    tally.join(other);
    assert_eq!((tally.word(), tally.refuted, tally.offence.is_some()), ("false", 1, true));
}

/// All orders, by brute force: which operation may come next, and each of unknown outcome may be left out.
fn by_force(left: &[Operation], held: Held) -> bool {
    if left.iter().all(|operation| operation.answered.is_none()) {
        return true;
    }
    let first_answer = left.iter().filter_map(|operation| operation.answered.map(|(at, _)| at)).min();
    left.iter().enumerate().any(|(at, next)| {
        let (answer, then) = next.action.on(held);
        let in_time = first_answer.is_none_or(|first| next.called <= first);
        let fits = next.answered.is_none_or(|(_, told)| told == answer);
        let mut rest = left.to_vec();
        rest.remove(at);
        in_time && fits && by_force(&rest, then)
    })
}

#[test]
fn the_search_agrees_with_brute_force_on_small_histories() {
    let mut verdicts = [0, 0];
    for seed in 0..4_000 {
        let mut draw = Draw::new(seed);
        let count = 1 + draw.below(6) as u64;
        let seen: Vec<Operation> = (0..count)
            .map(|_| {
                let held = [None, Some(1), Some(2)][draw.below(3)];
                let action = [
                    Action::Get,
                    Action::Put(1),
                    Action::Put(2),
                    Action::Delete,
                    Action::Increment,
                    Action::Swap { expected: held, new: 2 },
                ][draw.below(6)];
                let called = draw.below(20) as u64;
                let answer = action.on([None, Some(1), Some(2)][draw.below(3)]).0;
                let answered = (draw.below(6) > 0).then_some((called + 1 + draw.below(12) as u64, answer));
                Operation { client: 0, action, called, answered }
            })
            .collect();
        let expected = by_force(&seen, None);
        assert_eq!(is_fine(&seen), expected, "seed {seed}: {}", history(seen));
        verdicts[usize::from(expected)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 400), "both verdicts come up: {verdicts:?}");
}
