//! Shrinking keeps the failure and little else.

use std::collections::BTreeSet;

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

fn at_most(runs_max: u32) -> Limits {
    Limits { runs_max, nodes_min: 1 }
}

fn fails(checker: &str) -> Option<Violation> {
    Some(Violation { time: synod_machine::Time(Span::secs(29).0), ..Violation::new(checker, "made up") })
}

#[test]
fn the_two_incidents_that_matter_are_what_is_left() {
    let scenario = drawn();
    let (first, last) = (scenario.incidents[3].id, scenario.incidents[scenario.incidents.len() - 2].id);
    let shrunk = shrink(&scenario, at_most(10_000), |s: &Scenario| {
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
    let shrunk = shrink(&scenario, at_most(10_000), |s: &Scenario| {
        fails(if s.incidents.len() > 5 { "A" } else { "B" })
    });
    let shrunk = shrunk.expect("it fails");
    assert_eq!((shrunk.violation.checker.as_str(), shrunk.scenario.incidents.len()), ("A", 6));
}

#[test]
fn a_scenario_that_does_not_fail_is_not_shrunk_and_the_budget_is_kept() {
    assert_eq!(shrink(&drawn(), at_most(100), |_: &Scenario| None), None);
    let mut runs = 0;
    let shrunk = shrink(&drawn(), at_most(5), |_: &Scenario| {
        runs += 1;
        fails("A")
    });
    assert_eq!((shrunk.map(|s| s.runs), runs), (Some(5), 5));
}

#[test]
fn a_failure_without_incidents_loses_all_of_them() {
    let shrunk = shrink(&drawn(), at_most(10_000), |_: &Scenario| fails("A")).expect("it fails");
    assert!(shrunk.scenario.incidents.is_empty());
    assert_eq!((shrunk.scenario.requests, shrunk.scenario.nodes), (1, 1));
}

/// A run that fails while three frames are heard; its past holds them and what a look at more frames adds.
struct Talk {
    needed: [u32; 3],
    looks: u32,
}

impl Subject for Talk {
    fn fails(&mut self, scenario: &Scenario) -> Option<Violation> {
        let heard = |frame: &u32| scenario.heard.as_ref().is_none_or(|heard| heard.contains(frame));
        self.needed.iter().all(heard).then(|| Violation::new("H-S1", "a fork"))
    }

    fn past(&mut self, scenario: &Scenario) -> Option<BTreeSet<u32>> {
        self.looks += 1;
        Some(scenario.heard.clone().unwrap_or_else(|| (0..500).collect()).into_iter().take(400).collect())
    }
}

#[test]
fn only_frames_are_heard_without_which_the_checker_would_not_fire() {
    let mut talk = Talk { needed: [3, 77, 390], looks: 0 };
    let shrunk =
        shrink(&Scenario::quiet("toy", 1), at_most(10_000), |scenario: &Scenario| talk.fails(scenario));
    assert_eq!(shrunk.expect("it fails").scenario.heard, None, "whoever knows no past drops no frame");
    let shrunk = shrink(&Scenario::quiet("toy", 1), at_most(10_000), Talk { needed: [3, 77, 390], looks: 0 });
    let shrunk = shrunk.expect("it fails");
    assert_eq!((shrunk.violation.checker.as_str(), shrunk.scenario.heard), ("H-S1", Some(vec![3, 77, 390])));
}

#[test]
fn options_that_do_not_matter_go_back_to_their_defaults_and_incidents_get_weak() {
    let mut scenario = drawn();
    scenario.options = [("needed".to_owned(), 1), ("idle".to_owned(), 9)].into();
    let id = scenario.incidents[3].id;
    scenario.incidents[3].amount = 1_000;
    let shrunk = shrink(&scenario, at_most(10_000), |s: &Scenario| {
        let strong = s.incidents.iter().any(|i| i.id == id && i.amount >= 100);
        if strong && s.options.contains_key("needed") { fails("H-S1") } else { None }
    })
    .expect("it fails");
    assert_eq!(shrunk.scenario.options.keys().collect::<Vec<_>>(), ["needed"]);
    assert_eq!(shrunk.scenario.incidents.iter().map(|i| i.amount).collect::<Vec<_>>(), [125]);
}

#[test]
fn members_that_must_stay_do() {
    let limits = Limits { runs_max: 10_000, nodes_min: 4 };
    let shrunk = shrink(&drawn(), limits, |_: &Scenario| fails("A")).expect("it fails");
    assert_eq!((shrunk.scenario.nodes, shrunk.scenario.requests), (4, 1));
}

#[test]
fn before_a_failure_of_liveness_little_of_the_safety_phase_is_left() {
    let late = |least: Span| {
        move |s: &Scenario| {
            let time = synod_machine::Time(s.horizon.0 + Span::secs(9).0);
            (s.horizon >= least).then(|| Violation { time, ..Violation::new("H-L1", "no commit") })
        }
    };
    let shrunk = shrink(&drawn(), at_most(10_000), late(Span::ZERO)).expect("it fails");
    assert_eq!(shrunk.scenario.horizon, Span::ZERO);
    let needed = Span::millis(1_700);
    let shrunk = shrink(&drawn(), at_most(10_000), late(needed)).expect("it fails");
    assert!(shrunk.scenario.horizon >= needed && shrunk.scenario.horizon.0 < needed.0 + 2_000_000);
}
