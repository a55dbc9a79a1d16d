//! The leader of the first views dies in the middle of the load and never comes back.

use synod_machine::Span;
use synod_scenarios::{SYSTEMS, passes, quiet, suffering};
use synod_sim::Family;

#[test]
fn commits_go_on_when_a_leader_dies_for_good() {
    for system in SYSTEMS {
        for victim in [0, 1] {
            let forever = (Span::secs(1), Span::secs(100_000));
            let report = passes(&suffering(quiet(system, 4), Family::NodeCrash, &[victim], forever, 1));
            assert!(report.effective.view_change, "{system}: nobody missed {victim}");
        }
    }
}
