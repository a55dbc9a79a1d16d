//! Scenarios: named simulator runs, one file each.
//!
//! A file of `tests/hotstuff` holds one situation and what must, or must not, come of it. The runs themselves, their
//! oracles and their liveness bounds are those of `synod-trial`.

use synod_machine::Span;
use synod_sim::{Family, Incident, Scenario};
use synod_trial::report::RunReport;
use synod_trial::run::{Manner, run_scenario};
use synod_trial::stage::Stage;

/// The production packs of HotStuff, as systems.
pub use synod_trial::run::SYSTEMS;

/// A quiet run of `system` with `nodes` members: one data centre, small checkpoints, 60 groups of commands in 3 s.
#[must_use]
pub fn quiet(system: &str, nodes: u32) -> Scenario {
    let mut scenario = Scenario::quiet(system, 7);
    scenario.nodes = nodes;
    scenario.guests = 2;
    scenario.requests = 60;
    scenario.horizon = Span::secs(3);
    with(scenario, &[("checkpoint_every", 64), ("timeout_max_ms", 2_000)])
}

/// The scenario with these numbers set.
#[must_use]
pub fn with(mut scenario: Scenario, numbers: &[(&str, i64)]) -> Scenario {
    scenario.options.extend(numbers.iter().map(|(key, value)| ((*key).to_owned(), *value)));
    scenario
}

/// The scenario with one fault more.
#[must_use]
pub fn suffering(
    mut scenario: Scenario,
    family: Family,
    nodes: &[u32],
    span: (Span, Span),
    amount: i64,
) -> Scenario {
    let id = u32::try_from(scenario.incidents.len()).unwrap_or(0) + 1;
    let (at, lasts) = span;
    scenario.incidents.push(Incident { id, family, at, lasts, nodes: nodes.to_vec(), amount });
    scenario
}

/// Runs a scenario under its own name.
///
/// # Panics
/// When the system cannot run it: the scenario is wrong.
#[must_use]
pub fn outcome(scenario: &Scenario) -> RunReport {
    let name = format!("{}:{:x}:named", scenario.system, scenario.seed);
    run_scenario(scenario, &name, Manner::default()).expect("a named scenario is one its system can run")
}

/// Runs a scenario that must pass, with commands executed and accepted.
///
/// # Panics
/// When a checker fires, or nothing happened.
#[must_use]
pub fn passes(scenario: &Scenario) -> RunReport {
    let report = outcome(scenario);
    assert!(report.passed(), "{}\n{}\n{}", report.token, report.what, report.columns);
    assert!(report.executed > 0 && report.accepted > 0, "{}: nothing happened", report.token);
    report
}

/// A run of `system` under direction: as [`quiet`], but nobody asks for anything before the test does.
///
/// # Panics
/// When the system cannot run it: the scenario is wrong.
#[must_use]
pub fn stage(system: &str, nodes: u32, numbers: &[(&str, i64)]) -> Stage {
    let mut scenario = with(quiet(system, nodes), numbers);
    scenario.requests = 0;
    Stage::new(&scenario).expect("a directed scenario is one its system can run")
}

/// A stage on which two clients have sessions, one command each was answered, and all are idle.
///
/// # Panics
/// When they were not answered within a second.
#[must_use]
pub fn warm(system: &str, nodes: u32, numbers: &[(&str, i64)]) -> Stage {
    let mut stage = stage(system, nodes, numbers);
    stage.run(Span::millis(20));
    stage.ask(0);
    stage.ask(1);
    assert!(stage.answered(Span::secs(1)), "{system}: a cluster in which all is well answers");
    // Chained packs move their last block to its commit with empty ones.
    stage.run(Span::millis(60));
    stage
}

/// Heals a stage and demands what every scenario demands.
///
/// # Panics
/// When a checker fires, or nothing happened.
pub fn settles(stage: Stage) -> RunReport {
    let report = stage.settle();
    assert!(report.passed(), "{}\n{}\n{}", report.token, report.what, report.columns);
    assert!(report.executed > 0 && report.accepted > 0, "{}: nothing happened", report.token);
    report
}
