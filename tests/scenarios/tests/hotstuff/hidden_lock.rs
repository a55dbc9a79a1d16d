//! TL6: certificates that reach a few members only. Production packs commit after healing; `naive2` is the control.

use synod_machine::Span;
use synod_scenarios::{SYSTEMS, outcome, passes, quiet, suffering};
use synod_sim::{Family, Scenario};
use synod_trial::report::Outcome;

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

#[test]
fn hidden_certificates_stall_the_control() {
    let stalls = (0..24).filter(|seed| {
        let report = outcome(&hiding("hotstuff/naive2", *seed, i64::try_from(seed % 4).unwrap_or(0) * 6));
        report.verdict == Outcome::Stall
    });
    assert!(stalls.count() > 0, "naive2 never stalled: the adversary is too weak");
}
