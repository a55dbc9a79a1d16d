//! The planted fork that docs/testing/traces.md tells of is what its scenario shows.

use synod_trial::replay::scenario_of;
use synod_trial::run::Manner;

const SCENARIO: &str = include_str!("../../../docs/testing/fork.toml");
const DOCS: &str = include_str!("../../../docs/testing/traces.md");
/// Most steps of a small run.
const STEPS_MAX: usize = 60;

/// The column text that the documentation prints.
fn printed() -> &'static str {
    let blocks = DOCS.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut tables = blocks.filter(|block| block.trim_start().starts_with("ms   event"));
    tables.next().expect("the documentation prints a run")
}

// A planted bug is on in the whole process, so where there are any this would see the one of the other test.
#[test]
#[cfg(not(synod_plant))]
fn correct_code_does_not_fork_where_the_planted_bug_does() {
    let (scenario, name) = scenario_of(SCENARIO).expect("it is a scenario");
    let report =
        synod_trial::run::run_scenario(&scenario, &name, Manner::default()).expect("its system exists");
    assert!(report.passed() && report.events > 50, "{}", report.what);
}

#[test]
fn the_printed_run_is_small_and_has_the_numbers_the_text_says() {
    let (scenario, _) = scenario_of(SCENARIO).expect("it is a scenario");
    let steps = printed().lines().count() - 1;
    assert!((10..=STEPS_MAX).contains(&steps), "{steps} steps");
    let heard = scenario.heard.map_or(0, |heard| heard.len());
    let said = format!("{heard} frames that are heard, {steps} steps");
    assert!(DOCS.replace('\n', " ").contains(&said), "the text does not say {said:?}");
    assert_eq!(printed().matches("!!").count(), 2, "both observations are marked");
}

#[test]
#[cfg(synod_plant)]
fn the_planted_fork_is_printed_as_it_is() {
    synod_machine::planted::activate("H1");
    let (scenario, name) = scenario_of(SCENARIO).expect("it is a scenario");
    let run =
        synod_trial::traced::traced(&scenario, &name, Manner::default()).expect("its system keeps a trace");
    synod_machine::planted::activate("");
    assert_eq!(run.report.checker, "H-S1");
    assert!(run.past().events().len() <= STEPS_MAX, "{} events", run.past().events().len());
    assert_eq!(run.columns(), printed());
}
