//! Running scripts by index, with and without planted bugs.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use synod_sim::Scenario;

use super::{scenario, script};
use crate::plants::with;
use crate::report::{Failure, Outcome, RunReport};
use crate::run::{Manner, commit, run_scenario};
use crate::systems::chopchop;
use crate::token::{RunOptions, Token};

/// What to enumerate.
#[derive(Clone, Debug)]
pub struct Order {
    /// The system.
    pub system: String,
    /// The first index.
    pub from: u64,
    /// How many indices.
    pub count: u64,
    /// Stop taking indices after this long.
    pub time_max: Option<Duration>,
    /// Threads.
    pub jobs: usize,
}

/// How an enumeration went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TwinsReport {
    /// Format of this object.
    pub schema: &'static str,
    /// The system.
    pub system: String,
    /// The first index.
    pub from: u64,
    /// The index behind the last.
    pub next: u64,
    /// Scripts run.
    pub executed: u64,
    /// Different ones among them.
    pub unique: u64,
    /// Those that are part of the exhaustive enumeration.
    pub enumerated: u64,
    /// Scripts whose last round was played before their time was over.
    pub complete: u64,
    /// Scripts per real second.
    pub per_s: u64,
    /// Real milliseconds.
    pub wall_ms: u64,
    /// Scripts that broke something.
    pub violations: Vec<Failure>,
}

struct Pile<'a> {
    order: &'a Order,
    next: AtomicU64,
    broken: AtomicBool,
    started: Instant,
    sums: Mutex<(TwinsReport, BTreeSet<Vec<u8>>)>,
}

fn token(system: &str, index: u64) -> String {
    let options = RunOptions { twins: true, ..RunOptions::default() };
    Token { system: system.to_owned(), seed: index, options, commit: commit() }.to_string()
}

fn one(system: &str, index: u64) -> Result<RunReport, String> {
    run_scenario(&played(system, index), &token(system, index), Manner::default())
}

/// The scenario of an index of any system.
fn played(system: &str, index: u64) -> Scenario {
    if chopchop::is(system) { chopchop::twins::scenario(system, index) } else { scenario(system, index) }
}

/// Runs the scripts of `order`.
///
/// # Errors
/// The system is unknown.
pub fn enumerate(order: &Order) -> Result<TwinsReport, String> {
    let report = TwinsReport {
        schema: "synod-sim-twins/1",
        system: order.system.clone(),
        from: order.from,
        ..TwinsReport::default()
    };
    let pile = Pile {
        order,
        next: AtomicU64::new(order.from),
        broken: AtomicBool::new(
            crate::params::pack_of(&order.system).is_none() && !chopchop::is(&order.system),
        ),
        started: Instant::now(),
        sums: Mutex::new((report, BTreeSet::new())),
    };
    std::thread::scope(|scope| {
        for _ in 0..order.jobs.max(1) {
            scope.spawn(|| work(&pile));
        }
    });
    if pile.broken.into_inner() {
        return Err(format!("no system is called {}", order.system));
    }
    let wall_ms = u64::try_from(pile.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let (mut report, seen) = pile.sums.into_inner().map_err(|_| "a thread panicked".to_owned())?;
    report.violations.sort_by(|a, b| a.token.cmp(&b.token));
    report.next = report.next.max(order.from);
    Ok(TwinsReport { unique: seen.len() as u64, per_s: report.executed * 1_000 / wall_ms, wall_ms, ..report })
}

fn work(pile: &Pile<'_>) {
    let order = pile.order;
    loop {
        let late = order.time_max.is_some_and(|most| pile.started.elapsed() >= most);
        if late || pile.broken.load(Ordering::Relaxed) {
            return;
        }
        let index = pile.next.fetch_add(1, Ordering::Relaxed);
        if index - order.from >= order.count {
            return;
        }
        let Ok(run) = one(&order.system, index) else {
            return pile.broken.store(true, Ordering::Relaxed);
        };
        let of_chop = chopchop::is(&order.system);
        let script = if of_chop { chopchop::twins::script(&order.system, index) } else { script(index) };
        let Ok(mut sums) = pile.sums.lock() else { return };
        let (report, seen) = &mut *sums;
        report.next = report.next.max(index + 1);
        report.executed += 1;
        report.enumerated += u64::from(script.enumerated);
        report.complete += u64::from(run.complete);
        seen.insert(script.rounds);
        if run.verdict != Outcome::Pass {
            report.violations.push(Failure { token: run.token, checker: run.checker, what: run.what });
        }
    }
}

/// How the search for one planted bug went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HuntReport {
    /// The plant.
    pub id: String,
    /// Whether a script fails with it and passes without.
    pub found: bool,
    /// Scripts run.
    pub executed: u64,
    /// The checker that fired.
    pub fired: String,
    /// The script.
    pub token: String,
}

/// Looks for a planted bug among scripts; systems take turns.
///
/// # Errors
/// This build holds no plants, or a system is unknown.
pub fn hunt(id: &str, systems: &[String], from: u64, count: u64) -> Result<HuntReport, String> {
    let mut report = HuntReport { id: id.to_owned(), ..HuntReport::default() };
    for index in from..from.saturating_add(count) {
        for system in systems {
            let run = with(id, || one(system, index))??;
            report.executed += 1;
            if run.verdict != Outcome::Pass && one(system, index)?.passed() {
                return Ok(HuntReport { found: true, fired: run.checker, token: run.token, ..report });
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::SYSTEMS;

    #[test]
    fn the_first_scripts_are_clean_on_every_production_pack() {
        for system in SYSTEMS {
            let system = system.to_owned();
            let order = Order { system, from: 0, count: 24, time_max: None, jobs: 1 };
            let report = enumerate(&order).expect("a system");
            assert_eq!(report.violations, []);
            assert_eq!((report.executed, report.unique, report.next), (24, 24, 24));
            assert!(report.complete >= 20, "{} of 24 scripts were played to their end", report.complete);
        }
    }

    #[test]
    fn the_first_scripts_of_twin_servers_are_clean_over_both_orderings() {
        for system in chopchop::SYSTEMS {
            let system = system.to_owned();
            let order = Order { system, from: 0, count: 12, time_max: None, jobs: 1 };
            let report = enumerate(&order).expect("a system");
            assert_eq!(report.violations, []);
            assert_eq!((report.executed, report.unique, report.complete), (12, 12, 12));
        }
    }

    #[test]
    fn an_unknown_system_is_refused() {
        let system = "hotstuff/chain9".to_owned();
        let order = Order { system, from: 0, count: 1, time_max: None, jobs: 1 };
        assert!(enumerate(&order).is_err());
    }

    #[test]
    fn a_script_is_run_again_by_its_token() {
        for system in ["hotstuff/chain2", "chopchop/ideal"] {
            let first = one(system, 5).expect("a system");
            let again = crate::replay::replay(&first.token, Manner::default()).expect("a token");
            assert_eq!((first.audit, first.events), (again.audit, again.events));
        }
    }
}
