//! TL18, TL22: all members restart within a second, losing what was not yet durable.

use synod_machine::Span;
use synod_scenarios::{SYSTEMS, passes, quiet, suffering};
use synod_sim::Family;

#[test]
fn the_chain_goes_on_after_all_members_restarted_at_once() {
    for system in SYSTEMS {
        let scenario = suffering(quiet(system, 4), Family::DiskUnsynced, &[], (Span::ZERO, Span::secs(3)), 1);
        let storm = (Span::secs(1), Span::millis(200));
        let report = passes(&suffering(scenario, Family::NodeStorm, &[], storm, 1));
        assert!(report.delivered > 10, "{system} delivered {}", report.delivered);
    }
}
