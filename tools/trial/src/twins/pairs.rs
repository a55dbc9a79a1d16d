//! Pairs of twins in drawn scenarios.

use synod_sim::Scenario;

use crate::params::number;

/// The numbers of a drawn scenario that name its pairs, each one more than the member's: one within the budget, more beyond it.
pub(crate) const PAIRS: [&str; 3] = ["twin", "twin_b", "twin_c"];

/// The number that says whom a pair of a drawn scenario reaches in a round.
pub(crate) fn way(pair: &str, round: u64) -> String {
    format!("{pair}_{round:02}")
}

/// The pairs of a scenario: the number that names each, and the member.
pub(crate) fn pairs(of: &Scenario) -> impl Iterator<Item = (&'static str, u32)> {
    PAIRS.into_iter().filter_map(|pair| {
        let named = number(of, pair, 0);
        Some((pair, u32::try_from(named).ok()?.checked_sub(1)?))
    })
}
