//! The phase behind healing, on runs whose faults are not healed.

use super::*;
use synod_sim::Incident;

/// Frames from and to a slow member are this many microseconds late, the middle one of them; negative for a log-normal delay.
const SLOW: i64 = -500_000;
/// The bound of these tests: several times the longest of these delays.
const BOUND: Span = Span::secs(20);

/// A run behind its safety phase, with these faults.
fn unhealed(incidents: Vec<Incident>) -> (Trial, Scenario) {
    let mut scenario = Scenario::quiet("hotstuff/chain2+order", 7);
    (scenario.horizon, scenario.requests, scenario.incidents) = (Span::secs(4), 6, incidents);
    let mut trial = build(&scenario, "test", false).expect("the system exists");
    trial.world.run(Time(scenario.horizon.0), &mut trial.workload).expect("no property is broken");
    (trial, scenario)
}

fn members() -> Vec<NodeId> {
    (0..4).map(NodeId).collect()
}

#[test]
fn a_slow_member_that_votes_catches_up_behind_the_bound_once_nothing_more_is_asked_for() {
    let (family, lasts) = (Family::NetDelay, Span::secs(900));
    let slow = Incident { id: 0, family, at: Span::ZERO, lasts, nodes: vec![3], amount: SLOW };
    let (mut trial, scenario) = unhealed(vec![slow]);
    let (begin, deadline) = (trial.book.borrow().highest.0, trial.world.now() + BOUND);
    let verdict = rejoined(&mut trial, &scenario, &members(), BOUND);
    let (now, book) = (trial.world.now(), trial.book.borrow());
    assert!(verdict.is_ok(), "from {begin}: {verdict:?}");
    assert!(now > deadline && now < deadline + BOUND, "it was waited for: {now:?}, {deadline:?}");
    assert!(
        book.clock < deadline && book.highest.0 > begin + 10,
        "work went on to the bound, and no further"
    );
    let reach = book.reach.get(&3).copied().unwrap_or_default();
    assert_eq!(reach.applied, book.highest.0);
}

#[test]
fn a_member_that_does_not_vote_within_the_bound_is_not_waited_for() {
    let (mut trial, scenario) = unhealed(Vec::new());
    trial.world.crash(NodeId(3), Loss::Nothing, None);
    let deadline = trial.world.now() + BOUND;
    let verdict = rejoined(&mut trial, &scenario, &members(), BOUND);
    assert_eq!(verdict.expect_err("it is down").checker, "H-L4");
    assert!(trial.world.now() < deadline + Span::secs(1), "no second bound: {:?}", trial.world.now());
}
