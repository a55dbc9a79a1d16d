//! Nothing goes wrong: every pack commits in its first views and every client is answered.

use synod_scenarios::{SYSTEMS, passes, quiet};

#[test]
fn every_pack_commits_what_is_asked_without_a_view_change() {
    for system in SYSTEMS {
        for nodes in [4, 7] {
            let report = passes(&quiet(system, nodes));
            assert!(
                !report.effective.view_change,
                "{system} n={nodes}: nobody was late, yet a view was given up"
            );
            assert!(report.applied.contains(&"R7_deliver"));
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for system in SYSTEMS {
        assert_eq!(passes(&quiet(system, 4)).audit, passes(&quiet(system, 4)).audit, "{system}");
    }
}
