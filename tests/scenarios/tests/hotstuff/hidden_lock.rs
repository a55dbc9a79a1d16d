//! TL6: certificates that reach a few members only. Production packs commit after healing.

use synod_machine::Span;
use synod_scenarios::{SYSTEMS, passes, quiet, suffering};
use synod_sim::{Family, Scenario};

/// Member 1 shows what moves the chain to one, f, or just too few others, for ever.
fn hiding(system: &str, seed: u64, amount: i64) -> Scenario {
    let mut scenario = suffering(quiet(system, 4), Family::ByzShave, &[1], (Span::ZERO, Span::ZERO), amount);
    scenario.seed = seed;
    scenario
}

#[test]
fn hidden_certificates_stop_no_production_pack() {
    for system in SYSTEMS {
        for amount in [0, 6, 12] {
            let _report = passes(&hiding(system, 7, amount));
        }
    }
}
