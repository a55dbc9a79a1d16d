//! TL1: which packs commit with one-view terms when f members are dead from the start, side by side or spread. A
//! three-chain whose votes go to the next leader alone needs a run of live leaders that spread deaths never leave.

use synod_scenarios::{SYSTEMS, outcome, passes, quiet, with};
use synod_sim::Scenario;
use synod_trial::report::Outcome;

/// Members as a bit mask.
fn mask(dead: &[u32]) -> i64 {
    dead.iter().fold(0, |mask, id| mask | 1 << id)
}

/// A short run with one-view terms and these members dead.
fn without(system: &str, nodes: u32, dead: &[u32]) -> Scenario {
    let mut scenario = with(quiet(system, nodes), &[("term_views", 1), ("dead", mask(dead))]);
    scenario.requests = 24;
    scenario
}

/// Per size, f members side by side, and f members spread.
const DEAD: [(u32, [&[u32]; 2]); 4] = [
    (4, [&[3], &[1]]),
    (7, [&[5, 6], &[2, 5]]),
    (10, [&[7, 8, 9], &[1, 4, 7]]),
    (13, [&[9, 10, 11, 12], &[2, 5, 8, 11]]),
];

fn all_commit(system: &str) {
    for (nodes, places) in DEAD {
        for dead in places {
            let report = passes(&without(system, nodes, dead));
            assert!(report.delivered > 10, "{system} n={nodes} without {dead:?}: {}", report.delivered);
            assert!(report.effective.view_change, "{system} n={nodes}: nobody missed {dead:?}");
        }
    }
}

#[test]
fn three_phases_of_one_view_commit_without_f_leaders() {
    all_commit(SYSTEMS[0]);
}

#[test]
fn a_three_chain_with_broadcast_votes_commits_without_f_leaders() {
    all_commit(SYSTEMS[1]);
}

#[test]
fn a_two_chain_commits_without_f_leaders() {
    all_commit(SYSTEMS[2]);
}

#[test]
fn order_votes_commit_without_f_leaders() {
    all_commit(SYSTEMS[3]);
}

#[test]
fn the_three_chain_as_printed_never_commits_when_every_third_leader_is_dead() {
    for (nodes, dead) in [(7, &[6][..]), (7, &[5, 6])] {
        let report = outcome(&without("hotstuff/paper", nodes, dead));
        assert!(report.delivered > 0, "n={nodes} without {dead:?} delivered nothing: {}", report.what);
    }
    for (nodes, dead) in [(4, &[3][..]), (7, &[2, 5]), (10, &[1, 4, 7])] {
        let report = outcome(&without("hotstuff/paper", nodes, dead));
        assert_eq!((report.verdict, report.checker.as_str()), (Outcome::Stall, "H-L1"), "{}", report.what);
        assert_eq!(report.delivered, 0, "n={nodes} without {dead:?} commits, against the paper's own rules");
        assert!(report.views > 0 && report.blocks > 0, "n={nodes}: nothing was proposed");
    }
}
