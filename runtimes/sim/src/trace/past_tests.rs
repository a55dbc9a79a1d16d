//! A past holds every cause and little else.

use super::*;
use crate::trace::{Effect, Said};

/// A call of `node`: (event, cause), with a record when `writes`.
fn step(node: u32, (event, cause): (u64, u64), kind: StepKind, writes: bool) -> Step {
    let effect = |kind| Effect { kind, to: Vec::new(), said: Said::plain("x"), lie: None, lsn: None };
    Step {
        event,
        cause,
        time: event,
        node: NodeId(node),
        twin: 0,
        incarnation: 1,
        honest: true,
        machine: 0,
        kind,
        from: None,
        what: Said::default(),
        lie: None,
        frame: (kind == StepKind::Frame).then(|| u32::try_from(event).unwrap_or(0)),
        effects: if writes { vec![effect(EffectKind::Persist)] } else { vec![effect(EffectKind::Arm)] },
        durable: 0,
        crashed: false,
    }
}

/// Two nodes: 0 times out twice and tells 1, which answers a job about it; 2 hears nothing that matters.
fn talk() -> Vec<Step> {
    vec![
        step(0, (1, 0), StepKind::Start, false),
        step(1, (2, 0), StepKind::Start, false),
        step(0, (3, 1), StepKind::Timer, false),
        step(0, (4, 1), StepKind::Timer, true),
        step(1, (5, 4), StepKind::Frame, false),
        step(2, (6, 4), StepKind::Frame, true),
        step(1, (7, 5), StepKind::Done, true),
        step(1, (8, 0), StepKind::Link, false),
        step(1, (9, 7), StepKind::Durable, false),
        step(0, (10, 9), StepKind::Frame, true),
        step(1, (11, 2), StepKind::Timer, true),
    ]
}

#[test]
fn a_past_is_closed_under_causes_and_knows_nothing_of_the_future() {
    let steps = talk();
    for root in 1..=11 {
        let past = Past::of(steps.iter(), &[root]);
        let events = past.events();
        assert!(events.contains(&root) && events.iter().all(|event| *event <= root), "{root}: {events:?}");
        for step in steps.iter().filter(|step| events.contains(&step.event) && step.cause > 0) {
            assert!(events.contains(&step.cause), "{root}: {} is not there, {} is", step.cause, step.event);
        }
    }
}

#[test]
fn what_nobody_heard_of_and_nothing_rests_on_is_left_out() {
    let steps = talk();
    let past = Past::of(steps.iter(), &[10]);
    assert_eq!(past.events().into_iter().collect::<Vec<_>>(), [1, 4, 5, 7, 9, 10]);
    assert_eq!(past.frames().into_iter().collect::<Vec<_>>(), [5, 10]);
}

#[test]
fn what_follows_inside_a_node_is_one_row() {
    let steps = talk();
    let rows: Vec<Vec<u64>> = Past::of(steps.iter(), &[10])
        .rows()
        .iter()
        .map(|row| row.parts.iter().map(|step| step.event).collect())
        .collect();
    assert_eq!(rows, [vec![1], vec![4], vec![5, 7, 9], vec![10]]);
    assert_eq!(Past::whole(steps.iter()).events().len(), steps.len(), "nothing is left out of the whole");
}

#[test]
fn two_observations_have_one_past() {
    let steps = talk();
    let both = Past::of(steps.iter(), &[6, 11]).events();
    assert_eq!(both.into_iter().collect::<Vec<_>>(), [1, 2, 4, 5, 6, 7, 9, 11]);
}

#[test]
fn of_a_run_that_stalls_what_only_passes_time_or_repeats_is_left_out() {
    let mut steps = talk();
    let mut again = Step { effects: Vec::new(), ..step(1, (12, 4), StepKind::Frame, false) };
    steps.push(again.clone());
    let kept = |steps: &[Step]| Past::stalled(steps.iter()).events().into_iter().collect::<Vec<_>>();
    assert_eq!(kept(&steps), [1, 2, 4, 5, 6, 7, 9, 10, 11], "3 and 8 only pass time, 12 repeats 5");
    again.what = Said::plain("another frame");
    steps[11] = again.clone();
    assert_eq!(kept(&steps).last(), Some(&12), "it says something new");
    again.what = Said::default();
    again.effects = step(1, (12, 4), StepKind::Frame, true).effects;
    steps[11] = again;
    assert_eq!(kept(&steps).last(), Some(&12), "something came of it");
}
