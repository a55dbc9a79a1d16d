//! Shrinking keeps the failure and little else.

use super::*;
use crate::network::Mode;
use crate::scenario::{Family, Swarm};

fn drawn() -> Scenario {
    let swarm = Swarm {
        system: "toy".to_owned(),
        nodes: 7,
        guests: 3,
        requests: 200,
        faulty_max: 2,
        horizon: Span::secs(30),
        mode: Mode::Connection,
        families: vec![
            Family::NetReset,
            Family::NodePause,
            Family::NetDelay,
            Family::ClockStep,
            Family::NetBand,
        ],
        incidents_max: 20,
    };
    (0..).map(|seed| swarm.scenario(seed)).find(|s| s.incidents.len() > 40).expect("a busy seed")
}

fn fails(checker: &str) -> Option<Violation> {
    Some(Violation { time: synod_machine::Time(Span::secs(29).0), ..Violation::new(checker, "made up") })
}

#[test]
fn the_two_incidents_that_matter_are_what_is_left() {
    let scenario = drawn();
    let (first, last) = (scenario.incidents[3].id, scenario.incidents[scenario.incidents.len() - 2].id);
    let shrunk = shrink(&scenario, 10_000, |s| {
        let has = |id| s.incidents.iter().any(|i| i.id == id);
        if has(first) && has(last) && s.requests >= 13 && s.nodes >= 4 { fails("H-S1") } else { None }
    })
    .expect("it fails");
    let ids: Vec<u32> = shrunk.scenario.incidents.iter().map(|i| i.id).collect();
    assert_eq!(ids, [first, last]);
    assert_eq!((shrunk.scenario.requests, shrunk.scenario.nodes, shrunk.scenario.guests), (13, 4, 0));
    assert_eq!(shrunk.scenario.jitter, Span::ZERO);
}

#[test]
fn another_checker_is_another_failure() {
    let scenario = drawn();
    let shrunk = shrink(&scenario, 10_000, |s| fails(if s.incidents.len() > 5 { "A" } else { "B" }));
    let shrunk = shrunk.expect("it fails");
    assert_eq!((shrunk.violation.checker.as_str(), shrunk.scenario.incidents.len()), ("A", 6));
}

#[test]
fn a_scenario_that_does_not_fail_is_not_shrunk_and_the_budget_is_kept() {
    assert_eq!(shrink(&drawn(), 100, |_| None), None);
    let mut runs = 0;
    let shrunk = shrink(&drawn(), 10, |_| {
        runs += 1;
        fails("A")
    });
    assert_eq!((shrunk.map(|s| s.runs), runs), (Some(10), 10));
}

#[test]
fn a_failure_without_incidents_loses_all_of_them() {
    let shrunk = shrink(&drawn(), 10_000, |_| fails("A")).expect("it fails");
    assert!(shrunk.scenario.incidents.is_empty());
    assert_eq!((shrunk.scenario.requests, shrunk.scenario.nodes), (1, 1));
}
