//! Runs of every system, and what they report.

use std::time::Instant;

use synod_sim::{Scenario, Violation, World};

use super::run::{Played, report};
use super::{run, shards, views};
use crate::report::RunReport;
use crate::run::Manner;

/// Plays a scenario: its world at the end, what it reports, and what it broke.
///
/// # Errors
/// The scenario is not one the system can run.
pub fn play(
    scenario: &Scenario,
    token: &str,
    manner: Manner,
) -> Result<(World, RunReport, Option<Violation>), String> {
    let started = Instant::now();
    if scenario.system == super::SHARDS {
        let (trial, violation) = shards::run::play(scenario, token, manner)?;
        let played = Played { world: &trial.world, book: &trial.book.borrow(), certified: 0 };
        let report = report(&played, scenario, token, (violation.clone(), started));
        return Ok((trial.world, report, violation));
    }
    if scenario.system == super::VIEWS {
        let (trial, violation) = views::run::play(scenario, token, manner)?;
        let played = Played { world: &trial.world, book: &trial.book.borrow(), certified: 0 };
        let report = report(&played, scenario, token, (violation.clone(), started));
        return Ok((trial.world, report, violation));
    }
    let (trial, violation) = run::play(scenario, token, manner)?;
    let certified = trial.watch.borrow().certificates();
    let played = Played { world: &trial.world, book: &trial.book.borrow(), certified };
    let report = report(&played, scenario, token, (violation.clone(), started));
    Ok((trial.world, report, violation))
}
