//! Twins: two machines with one key, and every way to join them to the others, round by round (B5).
//!
//! In each round each other member hears the first twin, the second, or both: three to the power of n - 1 ways, and
//! exchanging the twins changes nothing. Indices enumerate the ways of the first rounds exhaustively, then repeat with
//! other draws for longer scripts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use synod_machine::Span;
use synod_sim::{Draws, Scenario};

use crate::report::{Failure, Outcome};
use crate::run::{Manner, commit, run_scenario};

/// Most rounds of a script.
pub const ROUNDS_MAX: u64 = 12;
/// Length of a round.
const ROUND_MS: u64 = 150;

/// How an enumeration went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TwinsReport {
    /// Format of this object.
    pub schema: &'static str,
    /// Scripts run.
    pub executed: u64,
    /// Different ones among them.
    pub unique: u64,
    /// Scripts per real second.
    pub per_s: u64,
    /// Scripts that broke something.
    pub violations: Vec<Failure>,
}

/// The scenario of script number `index`.
#[must_use]
pub fn script(system: &str, index: u64) -> Scenario {
    let mut scenario = Scenario::quiet(system, index);
    let mut stream = Draws::new(index).stream("twins", 0);
    let others = 3;
    let ways = 3_u64.pow(others);
    let rounds = if index < ways * ways { 2 } else { stream.between(3, ROUNDS_MAX) };
    scenario.requests = 30;
    scenario.horizon = Span::millis(ROUND_MS * (rounds + 1));
    let mut set = |key: String, value: u64| {
        scenario.options.insert(key, i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("twin".to_owned(), 1 + stream.below(4));
    set("twin_round_ms".to_owned(), ROUND_MS);
    set("twin_rounds".to_owned(), rounds);
    set("timeout_base_ms".to_owned(), stream.between(30, 120));
    set("timeout_max_ms".to_owned(), 400);
    set("term_views".to_owned(), if system.contains("chain2") { stream.between(1, 3) } else { 1 });
    let mut code = index % (ways * ways);
    for round in 0..rounds {
        let way = if round < 2 { code % ways } else { stream.below(ways) };
        code /= ways;
        set(format!("twin_{round:02}"), way);
    }
    scenario
}

/// Runs `count` scripts from number `from` on, or until `time_max` has passed.
///
/// # Errors
/// The system is unknown.
pub fn enumerate(
    system: &str,
    from: u64,
    count: u64,
    time_max: Option<Duration>,
) -> Result<TwinsReport, String> {
    let started = Instant::now();
    let mut report = TwinsReport { schema: "synod-sim-twins/1", ..TwinsReport::default() };
    let mut seen = BTreeSet::new();
    for index in from..from.saturating_add(count) {
        if time_max.is_some_and(|most| started.elapsed() >= most) {
            break;
        }
        let scenario = script(system, index);
        let token = format!("{system}:{index:x}:twins@{}", commit());
        let run = run_scenario(&scenario, &token, Manner::default())?;
        report.executed += 1;
        seen.insert(
            scenario.options.iter().map(|(key, value)| format!("{key}={value},")).collect::<String>(),
        );
        if run.verdict != Outcome::Pass {
            report.violations.push(Failure { token, checker: run.checker, what: run.what });
        }
    }
    let wall_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    report.unique = seen.len() as u64;
    report.per_s = report.executed * 1_000 / wall_ms;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_equal_scripts_and_the_first_ones_differ() {
        let text = |index| script("hotstuff/chain3", index).options;
        assert_eq!(text(5), text(5));
        let ways: BTreeSet<_> =
            (0..27 * 27).map(|index| (text(index)["twin_00"], text(index)["twin_01"])).collect();
        assert_eq!(ways.len(), 27 * 27, "two rounds are enumerated exhaustively");
    }
}
