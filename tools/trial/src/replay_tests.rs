//! Searches over events, and what shrinking does to runs of real machines.

use super::*;

#[test]
fn the_search_finds_the_first_event_that_dooms_the_run() {
    for doom in [1, 2, 37, 99, 100] {
        let mut asked = 0;
        let found = first_that(100, |after| {
            asked += 1;
            Ok(after >= doom)
        });
        assert_eq!(found, Ok(doom));
        assert!(asked <= 7, "{asked} questions for a hundred events");
    }
    assert_eq!(first_that(100, |_| Err("no".to_owned())), Err("no".to_owned()));
}

#[test]
fn a_run_that_passes_is_neither_inevitable_nor_small() {
    let mut scenario = Scenario::quiet("hotstuff/chain2+order", 7);
    (scenario.horizon, scenario.requests) = (synod_machine::Span::millis(300), 4);
    let found = inevitable(&scenario, "test", 2).expect("the system exists");
    assert_eq!((found.report.passed(), found.event), (true, None));
    assert_eq!(
        shrunk(&scenario.to_toml()).map(|report| report.checker),
        Err("the run does not fail".to_owned())
    );
}
