//! Each case comes out as it must, and none passes when nothing happened.

use super::{CASES, PROTOCOLS, cells};

/// The case under HotStuff; cases with sockets count as failed here.
fn hotstuff(case: &'static str) {
    let cells = cells(&["hotstuff"], &[case], |_| Err("needs sockets".to_owned()));
    assert_eq!(cells.len(), 1);
    assert!(cells[0].passed, "{case}: {}", cells[0].why);
    assert!(!cells[0].why.is_empty());
}

#[test]
fn forgotten_promises_are_shown_by_peers_and_end_the_member() {
    hotstuff("M1");
    hotstuff("M2");
}

#[test]
fn a_member_without_a_disk_listens_and_rejoins() {
    hotstuff("M5");
}

#[test]
fn a_crash_between_effects_costs_nobody_else_anything() {
    hotstuff("M6");
    hotstuff("M7");
}

#[test]
fn what_a_start_finds_wrong_is_refused_or_listened_over() {
    hotstuff("M4");
    hotstuff("M8");
    hotstuff("M9");
}

#[test]
fn protocols_that_do_not_exist_pass_nothing() {
    let all: Vec<&'static str> = CASES.iter().map(|(case, ..)| *case).collect();
    let cells = cells(&PROTOCOLS[1..], &all, |_| Ok(String::new()));
    assert_eq!(cells.len(), 36);
    assert!(cells.iter().all(|cell| !cell.passed && cell.outcome == "not built"));
}
