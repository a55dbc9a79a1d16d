//! Running again: by token, by scenario file, and smaller.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use synod_machine::Time;
use synod_sim::{Limits, Redraw, Scenario, Subject, Violation, shrink};

use crate::draw;
use crate::report::{Outcome, RunReport};
use crate::run::{Manner, run_scenario};
use crate::token::Token;
use crate::traced::{is_seen, traced};

/// Most runs of one shrink.
const RUNS_MAX: u32 = 20_000;

/// What shrinking made of a failing run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShrinkReport {
    /// Format of this object.
    pub schema: &'static str,
    /// The checker that fires before and after.
    pub checker: String,
    /// What it sees in the small run.
    pub what: String,
    /// Events of the run that was given.
    pub events_before: u64,
    /// What is left of it: the steps that the violation rests on. A step is one thing that reached a node from outside,
    /// with all that followed inside the node.
    pub events_after: u64,
    /// The calls of machines in those steps.
    pub calls_after: u64,
    /// Members of the small run.
    pub nodes: u32,
    /// Faults of the small run.
    pub faults: u64,
    /// Runs it took.
    pub runs: u32,
    /// Real seconds.
    pub wall_s: u64,
    /// The small scenario, as a file of `tests/replays` holds it.
    pub scenario: String,
}

/// The scenario a token or the text of a scenario file stands for, and a name for it.
///
/// # Errors
/// It is neither.
pub fn scenario_of(text: &str) -> Result<(Scenario, String), String> {
    if text.contains('\n') {
        let scenario = Scenario::from_toml(text).map_err(|e| e.to_string())?;
        let name = format!("{}:{:x}:file", scenario.system, scenario.seed);
        return Ok((scenario, name));
    }
    let token: Token = text.trim().parse().map_err(|e: crate::token::BadToken| e.to_string())?;
    Ok((draw::scenario(&token.system, token.seed, &token.options)?, token.to_string()))
}

/// Runs a token or the text of a scenario file again.
///
/// # Errors
/// It is neither, or its system is unknown.
pub fn replay(text: &str, manner: Manner) -> Result<RunReport, String> {
    let (scenario, name) = scenario_of(text)?;
    run_scenario(&scenario, &name, manner)
}

/// The event behind which every future fails, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inevitable {
    /// The run as it was.
    pub report: RunReport,
    /// The first event behind which all futures that were drawn break the same property; `None` for a run that passes.
    pub event: Option<u64>,
}

/// Whether all of `samples` futures behind an event break what the run broke.
fn dooms(
    scenario: &Scenario,
    name: &str,
    checker: &str,
    (after, samples): (u64, u32),
) -> Result<bool, String> {
    for sample in 0..samples {
        let seed = scenario.seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(sample) + 1));
        let manner = Manner { redraw: Some(Redraw { after, seed }), ..Manner::default() };
        if run_scenario(scenario, name, manner)?.checker != checker {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Draws `samples` futures behind events of a failing run, halving the search, and names the first event behind which
/// all of them fail alike.
///
/// # Errors
/// The scenario is not one its system can run.
pub fn inevitable(scenario: &Scenario, name: &str, samples: u32) -> Result<Inevitable, String> {
    let report = run_scenario(scenario, name, Manner::default())?;
    if report.passed() {
        return Ok(Inevitable { report, event: None });
    }
    let event = first_that(report.events, |after| dooms(scenario, name, &report.checker, (after, samples)))?;
    Ok(Inevitable { report, event: Some(event) })
}

/// The first number up to `last` that `holds`, which then holds for all behind it; `last` is taken to hold.
fn first_that(last: u64, mut holds: impl FnMut(u64) -> Result<bool, String>) -> Result<u64, String> {
    let (mut low, mut high) = (1, last.max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(high)
}

/// How far shrinking goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most real time.
    pub time: Duration,
    /// Whether only forks are judged: then checkers that would fire before the fork do not end the run.
    pub forks_only: bool,
    /// Fewest members that are left.
    pub nodes_min: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), forks_only: false, nodes_min: 1 }
    }
}

/// Runs of one scenario's descendants until a time.
struct Runs<'a> {
    name: &'a str,
    end: Instant,
}

impl Subject for Runs<'_> {
    fn fails(&mut self, scenario: &Scenario) -> Option<Violation> {
        if Instant::now() >= self.end {
            return None;
        }
        let report = run_scenario(scenario, self.name, Manner::default()).ok()?;
        let time = Time(report.violated_ns);
        let failed = report.verdict != Outcome::Pass;
        failed.then(|| Violation { time, ..Violation::new(&report.checker, report.what) })
    }

    fn past(&mut self, scenario: &Scenario) -> Option<BTreeSet<u32>> {
        let run = traced(scenario, self.name, Manner::default()).ok()?;
        run.violation.as_ref().filter(|violation| is_seen(violation))?;
        Some(run.past().frames())
    }
}

/// Makes a failing token or scenario small; the same checker keeps firing.
///
/// # Errors
/// It is neither a token nor a scenario, or it does not fail.
pub fn shrunk(text: &str) -> Result<ShrinkReport, String> {
    shrunk_within(text, Budget::default())
}

/// As [`shrunk`], within a budget.
///
/// # Errors
/// As [`shrunk`].
pub fn shrunk_within(text: &str, budget: Budget) -> Result<ShrinkReport, String> {
    let started = Instant::now();
    let (mut scenario, name) = scenario_of(text)?;
    if budget.forks_only {
        scenario.options.insert("forks_only".to_owned(), 1);
    }
    let before = run_scenario(&scenario, &name, Manner::default())?;
    let limits = Limits { runs_max: RUNS_MAX, nodes_min: budget.nodes_min };
    let small = shrink(&scenario, limits, Runs { name: &name, end: started + budget.time })
        .ok_or_else(|| "the run does not fail".to_owned())?;
    let after = run_scenario(&small.scenario, &name, Manner::default())?;
    let past = traced(&small.scenario, &name, Manner::default()).ok();
    let past = past.map(|run| (run.past().rows().len() as u64, run.past().events().len() as u64));
    let (steps, calls) = past.unwrap_or((after.events, after.events));
    Ok(ShrinkReport {
        schema: "synod-sim-shrink/1",
        checker: after.checker,
        what: after.what,
        events_before: before.events,
        events_after: steps,
        calls_after: calls,
        nodes: small.scenario.nodes,
        faults: after.faults,
        runs: small.runs,
        wall_s: started.elapsed().as_secs(),
        scenario: small.scenario.to_toml(),
    })
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
