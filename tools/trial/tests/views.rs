//! Runs as people see them: every event once, in the words of the field, and the same past for another future.

use std::collections::BTreeSet;

use synod_machine::Span;
use synod_sim::{Past, Redraw, Scenario, Step};
use synod_trial::run::Manner;
use synod_trial::traced::{Traced, traced};

fn scenario() -> Scenario {
    let mut scenario = Scenario::quiet("hotstuff/chain2+order", 7);
    (scenario.horizon, scenario.requests) = (Span::millis(400), 6);
    scenario.options.insert("safety_only".to_owned(), 1);
    scenario
}

fn run(manner: Manner) -> Traced {
    traced(&scenario(), "test", manner).expect("the system exists")
}

#[test]
fn a_real_run_is_told_in_the_words_of_the_field() {
    let run = run(Manner::default());
    assert!(run.report.passed() && run.report.executed >= 6, "{}", run.report.what);
    let text = run.columns();
    for words in [
        "proposal v=1 h=1 block",
        "vote v=1 block",
        "writes QC v=",
        "Safety",
        "delivers position 1",
        "-> sends",
    ] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    for dump in ["Some(", "View(", "Hash(", "Bytes", "{ ", "NodeId", "None"] {
        assert!(!text.contains(dump), "{dump} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 160));
}

#[test]
fn every_event_is_in_the_lines_and_on_the_page_once() {
    let run = run(Manner::default());
    assert_eq!(run.steps.len() as u64, run.report.events);
    let (lines, page) = (run.jsonl(), run.page());
    let mut seen = BTreeSet::new();
    for line in lines.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("each line is an object");
        assert!(seen.insert(event["event"].as_u64().expect("a number")), "{line}");
        assert!(
            event["cause"].as_u64().expect("a number") < event["event"].as_u64().expect("a number"),
            "{line}"
        );
    }
    for event in &seen {
        assert_eq!(page.matches(&format!("id=\"e{event}\"")).count(), 1, "event {event}");
    }
    for outside in ["http:", "https:", "src=", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_a_delivery_rests_on_is_a_part_of_the_run_closed_under_causes() {
    let run = run(Manner::default());
    let delivers =
        |step: &&Step| step.effects.iter().any(|effect| effect.said.text.starts_with("delivers position 1 "));
    let first = run.steps.iter().find(delivers).expect("something is delivered").event;
    let past = Past::of(run.steps.iter(), &[first]).events();
    assert!(
        past.contains(&first) && past.len() < run.steps.len() / 2,
        "{} of {}",
        past.len(),
        run.steps.len()
    );
    for step in run.steps.iter().filter(|step| past.contains(&step.event) && step.cause > 0) {
        assert!(past.contains(&step.cause), "{} lacks its cause {}", step.event, step.cause);
    }
    let proposed = run.steps.iter().filter(|step| past.contains(&step.event));
    assert!(
        proposed.clone().any(|step| step.effects.iter().any(|e| e.said.text.starts_with("proposal v=1")))
    );
}

#[test]
fn another_future_has_the_same_past() {
    let (as_it_was, after) = (run(Manner::default()), 60);
    let other = run(Manner { redraw: Some(Redraw { after, seed: 99 }), ..Manner::default() });
    let split = usize::try_from(after).expect("small");
    assert_eq!(as_it_was.steps[..split], other.steps[..split]);
    assert_ne!(as_it_was.report.audit, other.report.audit);
    assert!(other.report.passed() && other.report.executed >= 6, "{}", other.report.what);
}

#[test]
fn a_run_stops_where_it_is_asked_to_and_says_where_everybody_stands() {
    let run = run(Manner { until: Some(80), ..Manner::default() });
    assert_eq!((run.steps.last().map(|step| step.event), run.report.passed()), (Some(80), true));
    let state = run.state();
    assert_eq!(state.lines().count(), 5, "four members and a client:\n{state}");
    assert!(state.contains("n0  life 1") && state.contains("view "), "{state}");
}

#[test]
fn frames_that_are_not_heard_reach_nobody() {
    let deaf = Scenario { heard: Some(Vec::new()), ..scenario() };
    let run = traced(&deaf, "test", Manner::default()).expect("the system exists");
    assert!(run.report.passed() && run.report.executed == 0, "nobody owes progress: {}", run.report.what);
    assert!(run.steps.iter().all(|step| step.from.is_none()) && run.steps.len() > 10);
    let text = deaf.to_toml();
    assert_eq!(Scenario::from_toml(&text), Ok(deaf), "{text}");
}
