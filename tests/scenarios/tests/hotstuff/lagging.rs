//! TL16, TC6: a member is away while the others pass several checkpoints and drop what lies below. It installs a
//! snapshot and votes again.

use synod_machine::Span;
use synod_scenarios::{SYSTEMS, passes, quiet, suffering, with};
use synod_sim::Family;

#[test]
fn a_member_far_behind_installs_a_snapshot_and_votes_again() {
    for system in SYSTEMS {
        let small = with(quiet(system, 4), &[("checkpoint_every", 16), ("retain_blocks", 4)]);
        let away = (Span::millis(300), Span::millis(2_600));
        let report = passes(&suffering(small, Family::NodeCrash, &[3], away, 1));
        assert!(report.applied.contains(&"C_jump"), "{system}: the member caught up without a snapshot");
    }
}
