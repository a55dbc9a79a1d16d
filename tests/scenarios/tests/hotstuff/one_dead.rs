//! TL1: one of four members is dead from the start. Every production pack commits, whoever it is.

use synod_scenarios::{SYSTEMS, passes, quiet, with};

#[test]
fn four_members_commit_with_one_of_them_dead() {
    for system in SYSTEMS {
        for dead in 0..4 {
            let report = passes(&with(quiet(system, 4), &[("dead", 1 << dead)]));
            assert!(report.delivered > 10, "{system} without {dead} delivered {}", report.delivered);
        }
    }
}

#[test]
fn seven_members_commit_with_two_adjacent_or_spread_ones_dead() {
    for system in SYSTEMS {
        for dead in [0b110_0000, 0b10_0100] {
            let _report = passes(&with(quiet(system, 7), &[("dead", dead)]));
        }
    }
}
