//! Runs of every system, and what they report.

use std::time::Instant;

use synod_sim::{Scenario, Violation, World};

use super::run::{Played, report};
use super::{ctb, run};
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
    if scenario.system == super::CTB {
        let (trial, violation) = ctb::run::play(scenario, token, manner)?;
        let played = Played { world: &trial.world, counts: &trial.book.borrow().counts, delivered: 0 };
        let report = report(&played, scenario, token, (violation.clone(), started));
        return Ok((trial.world, report, violation));
    }
    let (trial, violation) = run::play(scenario, token, manner)?;
    let book = trial.book.borrow();
    let played = Played { world: &trial.world, counts: &book.counts, delivered: book.highest };
    let report = report(&played, scenario, token, (violation.clone(), started));
    drop(book);
    Ok((trial.world, report, violation))
}
