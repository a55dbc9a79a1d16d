//! One run: safety phase, healing, liveness phase, report.

use std::time::Instant;

use synod_crypto::Hash;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
pub use synod_sim::{Crypto, Scenario};
use synod_sim::{Draws, Family, Loss, Redraw, Violation};

use crate::book::GUESTS;
use crate::cells;
use crate::draw;
use crate::oracle::{faults, quorum};
use crate::params::{number, timeout_max};
use crate::report::{EffectiveReport, Outcome, RunReport, ratio};
use crate::rules;
use crate::systems::hotstuff::{Trial, build};
use crate::systems::journal;
use crate::systems::{astro, chopchop, ubft};
use crate::token::{RunOptions, Token};
use crate::twins;
use crate::workload::CLIENT;

/// Rules that mark a change of view or path.
const CHANGES: &[&str] = &["M2_complain", "M3_join", "M5_advance_by_tc", "S_range", "S_pull"];
/// The production systems of HotStuff.
pub const SYSTEMS: [&str; 4] =
    ["hotstuff/basic", "hotstuff/chain3", "hotstuff/chain2", "hotstuff/chain2+order"];
/// Differences between wall clocks that no voter minds, in milliseconds.
const SKEW_MAX_MS: u64 = 4_000;
/// Between two looks at a world in its liveness phase.
const SLICE: Span = Span::millis(100);

/// How to run a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Keep every event.
    pub trace: bool,
    /// Stop behind this event.
    pub until: Option<u64>,
    /// Draw everything anew behind an event.
    pub redraw: Option<Redraw>,
}

/// The commit a token names: `SYNOD_COMMIT`, or `worktree`.
#[must_use]
pub fn commit() -> String {
    std::env::var("SYNOD_COMMIT").unwrap_or_else(|_| "worktree".to_owned())
}

/// Runs the scenario of a seed.
///
/// # Errors
/// The system is unknown.
pub fn run(system: &str, seed: u64, options: &RunOptions, manner: Manner) -> Result<RunReport, String> {
    let scenario = draw::scenario(system, seed, options)?;
    let token = Token { system: system.to_owned(), seed, options: options.clone(), commit: commit() };
    run_scenario(&scenario, &token.to_string(), manner)
}

/// Runs a scenario. `token` names it in reports.
///
/// # Errors
/// The scenario is not one the system can run.
pub fn run_scenario(scenario: &Scenario, token: &str, manner: Manner) -> Result<RunReport, String> {
    if scenario.system == journal::SYSTEM {
        return Ok(journal::run(scenario, token));
    }
    if astro::is(&scenario.system) {
        return astro::playing::play(scenario, token, manner).map(|(_, report, _)| report);
    }
    if chopchop::is(&scenario.system) {
        let started = Instant::now();
        let (trial, violation) = chopchop::run::play(scenario, token, manner)?;
        return Ok(chopchop::run::report(&trial, scenario, token, (violation, started)));
    }
    if ubft::is(&scenario.system) {
        return ubft::playing::play(scenario, token, manner).map(|(_, report, _)| report);
    }
    let started = Instant::now();
    let (trial, violation) = play(scenario, token, manner)?;
    Ok(report(&trial, scenario, token, (violation, started)))
}

/// Plays a scenario of HotStuff to its end, or to the first violation.
pub(crate) fn play(
    scenario: &Scenario,
    token: &str,
    manner: Manner,
) -> Result<(Trial, Option<Violation>), String> {
    let mut trial = build(scenario, token, manner.trace)?;
    if let Some(until) = manner.until {
        trial.world.stop_behind(until);
    }
    if let Some(redraw) = manner.redraw {
        trial.world.redraw_behind(redraw);
    }
    let verdict = phases(&mut trial, scenario).and_then(|()| trial.world.finish());
    // Where only some frames are heard nobody owes progress.
    let owed = scenario.heard.is_none() || manner.redraw.is_some();
    let counts = |violation: &Violation| {
        violation.checker != "until" && (owed || !violation.checker.starts_with("H-L"))
    };
    Ok((trial, verdict.err().filter(counts)))
}

/// Runs a scenario twice; a difference is the verdict `nondeterminism`.
///
/// # Errors
/// The scenario is not one the system can run.
pub fn run_twice(scenario: &Scenario, token: &str) -> Result<RunReport, String> {
    let first = run_scenario(scenario, token, Manner::default())?;
    let mut second = run_scenario(scenario, token, Manner::default())?;
    if first.audit != second.audit {
        second.verdict = Outcome::Nondeterminism;
        "X5".clone_into(&mut second.checker);
        second.what = format!("two runs have audits {} and {}", first.audit, second.audit);
    }
    Ok(second)
}

fn phases(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    if twins::is_script(scenario) {
        return twins::play(trial, scenario);
    }
    let dead = number(scenario, "dead", 0);
    if dead > 0 {
        trial.world.run(Time(Span::millis(3).0), &mut trial.workload)?;
        for id in (0..scenario.nodes).filter(|id| dead >> id & 1 == 1) {
            trial.world.crash(NodeId(id), Loss::Nothing, None);
        }
    }
    for (half, until) in [scenario.horizon.0 / 2, scenario.horizon.0].into_iter().enumerate() {
        trial.world.run(Time(until), &mut trial.workload)?;
        trial.book.borrow_mut().bytes[half] = trial.world.bytes();
    }
    if number(scenario, "safety_only", 0) == 1 {
        return Ok(());
    }
    let Some(core) = core(trial, scenario, dead) else { return Ok(()) };
    let guests = (0..scenario.guests).map(|id| NodeId(GUESTS + id));
    let whole: Vec<NodeId> = core.iter().copied().chain(guests).collect();
    trial.world.heal(&whole);
    liveness(trial, scenario, &core)
}

/// Draws the legal core: n - f honest members; none when the run is over its budget.
fn core(trial: &Trial, scenario: &Scenario, dead: u64) -> Option<Vec<NodeId>> {
    let alive = |id: &NodeId| trial.world.honest(*id) && dead >> id.0 & 1 == 0;
    let mut honest: Vec<NodeId> = (0..scenario.nodes).map(NodeId).filter(alive).collect();
    let wanted = quorum(scenario.nodes) as usize;
    if honest.len() < wanted {
        return None;
    }
    let mut stream = Draws::new(scenario.seed).stream("core", 0);
    stream.shuffle(&mut honest);
    // Sometimes everybody honest is well, sometimes no more than must be.
    if stream.chance(700_000) {
        honest.truncate(wanted);
    }
    honest.sort_unstable();
    Some(honest)
}

/// The longest one-way delay that frames usually have.
fn delay(scenario: &Scenario) -> u64 {
    scenario.latency.largest().0 + 8 * scenario.jitter.0
}

/// H-L1: how long the next commit may take once the core is whole. What was under way keeps its length: a slow sync, a
/// job, a frame.
pub(crate) fn commit_bound(scenario: &Scenario) -> Span {
    let views = u64::from(scenario.nodes) + 4 + u64::from(faults(scenario.nodes));
    let turns = 40 * delay(scenario) + 200 * disk(scenario);
    let longest = |family: Family| {
        let amounts =
            scenario.incidents.iter().filter(|i| i.family == family).map(|i| i.amount.unsigned_abs());
        Span::micros(amounts.max().unwrap_or(0)).0
    };
    let under_way =
        2 * longest(Family::DiskSlow) + 20 * longest(Family::JobDelay) + 20 * longest(Family::NetDelay);
    Span((views + 4) * timeout_max(scenario).0 + turns + under_way + Span::secs(2).0)
}

/// Whether wall clocks may differ by more than voters tolerate, for ever: whoever is behind then votes rarely.
fn is_skewed(scenario: &Scenario) -> bool {
    let clock = |family| matches!(family, Family::ClockStep | Family::ClockOffset);
    let moved = scenario.incidents.iter().filter(|i| clock(i.family)).map(|i| i.amount.unsigned_abs());
    moved.sum::<u64>() > SKEW_MAX_MS
}

fn disk(scenario: &Scenario) -> u64 {
    1_000 * (number(scenario, "sync_floor_us", 1_500) + number(scenario, "sync_mean_us", 700))
}

pub(crate) fn liveness(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let healed = trial.world.now();
    // The workload hears of the guests that healing started before they are asked anything.
    trial.world.run(healed, &mut trial.workload)?;
    ask(trial, scenario);
    let before = trial.book.borrow().highest.0;
    let bound = commit_bound(scenario);
    let committed = |trial: &Trial| trial.book.borrow().highest.0 > before;
    wait(trial, healed + bound, committed, |trial| {
        let view = trial.book.borrow().view;
        format!("no commit within {} ms after healing; position {before}, view {view}", bound.0 / 1_000_000)
    })
    .map_err(|what| named("H-L1", what))?;
    // Clients retry with pauses of up to 12.5 s; a member that lay low for long catches up by ranges.
    let bound = Span(3 * bound.0 + Span::secs(60).0 + 40 * delay(scenario) * u64::from(scenario.requests));
    answered(trial, bound)?;
    rejoined(trial, scenario, core, bound)
}

/// H-L2: every command has its outcome within `bound` of being asked for, or of now if that was earlier. In a closed loop
/// one command is asked for when the one before has its outcome.
fn answered(trial: &mut Trial, bound: Span) -> Result<(), Violation> {
    let begin = trial.world.now();
    let oldest = |trial: &Trial| trial.book.borrow().oldest();
    while let Some(asked) = oldest(trial) {
        let deadline = asked.max(begin) + bound;
        if trial.world.now() >= deadline {
            let (open, late) = (trial.book.borrow().open(), bound.0 / 1_000_000);
            let what = format!("{open} commands of correct clients have no outcome {late} ms after healing");
            return Err(Violation::new("H-L2", what));
        }
        wait_quietly(trial, deadline, &|trial| oldest(trial) != Some(asked))?;
    }
    Ok(())
}

/// H-L4: every member of the core executes and votes like the others. One that has all that was committed when the bound
/// began to run, and votes, has as long again for what was committed since: nothing more is asked for then.
fn rejoined(trial: &mut Trial, scenario: &Scenario, core: &[NodeId], bound: Span) -> Result<(), Violation> {
    let since = if is_skewed(scenario) { 0 } else { trial.world.now().0 };
    let begin = trial.book.borrow().highest.0;
    let deadline = trial.world.now() + bound;
    let have = |trial: &Trial, position: u64| {
        let book = trial.book.borrow();
        core.iter().all(|id| {
            let reach = book.reach.get(&id.0).copied().unwrap_or_default();
            reach.voted >= since && reach.applied >= position
        })
    };
    let together = |trial: &Trial| {
        let highest = trial.book.borrow().highest.0;
        have(trial, highest)
    };
    // Commands keep the chain moving while the last members come back.
    while !together(trial) && trial.world.now() < deadline {
        ask(trial, scenario);
        let until = trial.world.now() + Span(4 * SLICE.0 + 20 * delay(scenario));
        wait_quietly(trial, until, &together)?;
    }
    if !together(trial) && have(trial, begin) {
        let until = trial.world.now() + bound;
        wait_quietly(trial, until, &together)?;
    }
    if together(trial) { Ok(()) } else { Err(named("H-L4", Err(behind(trial, core, since)))) }
}

/// How far each member of the core is.
fn behind(trial: &Trial, core: &[NodeId], since: u64) -> String {
    let book = trial.book.borrow();
    let member = |id: &NodeId| {
        let reach = book.reach.get(&id.0).copied().unwrap_or_default();
        let voted = reach.voted >= since;
        format!("n{} applied {} of {} voted {voted}", id.0, reach.applied, book.highest.0)
    };
    core.iter().map(member).collect::<Vec<String>>().join(", ")
}

/// A broken safety property as it is; a passed bound under the name of its liveness property.
pub(crate) fn named(checker: &str, what: Result<Violation, String>) -> Violation {
    what.unwrap_or_else(|what| Violation::new(checker, what))
}

/// Each guest asks for one more command.
pub(crate) fn ask(trial: &mut Trial, scenario: &Scenario) {
    for id in 0..scenario.guests {
        let guest = NodeId(GUESTS + id);
        trial.book.borrow_mut().clock = trial.world.now();
        let body = vec![format!("more {}", trial.world.now().0).into_bytes().into()];
        let input = trial.book.borrow_mut().ask(guest, body, None);
        trial.world.input(guest, CLIENT, Span::ZERO, Box::new(input));
    }
}

pub(crate) fn wait(
    trial: &mut Trial,
    deadline: Time,
    done: impl Fn(&Trial) -> bool,
    late: impl Fn(&Trial) -> String,
) -> Result<(), Result<Violation, String>> {
    wait_quietly(trial, deadline, &done).map_err(Ok)?;
    if done(trial) { Ok(()) } else { Err(Err(late(trial))) }
}

fn wait_quietly(trial: &mut Trial, deadline: Time, done: &impl Fn(&Trial) -> bool) -> Result<(), Violation> {
    while !done(trial) && trial.world.now() < deadline {
        let until = Time((trial.world.now() + SLICE).0.min(deadline.0));
        trial.world.run(until, &mut trial.workload)?;
    }
    Ok(())
}

fn outcome(violation: Option<&Violation>) -> Outcome {
    match violation.map(|violation| violation.checker.as_str()) {
        None => Outcome::Pass,
        Some("X1") => Outcome::Panic,
        Some("X5") => Outcome::Nondeterminism,
        Some(checker) if checker.starts_with("H-L") => Outcome::Stall,
        Some(_) => Outcome::Violation,
    }
}

fn growth([half, end]: [u64; 2]) -> i64 {
    let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    size(end) - size(half)
}

pub(crate) fn report(
    trial: &Trial,
    scenario: &Scenario,
    token: &str,
    (violation, started): (Option<Violation>, Instant),
) -> RunReport {
    let (world, book) = (&trial.world, trial.book.borrow());
    let stats = world.stats();
    let effective = stats.effective(CHANGES);
    let applied: Vec<&'static str> =
        stats.rules.keys().filter(|rule| rule.protocol == "hotstuff").map(|rule| rule.name).collect();
    RunReport {
        schema: "synod-sim-run/1",
        verdict: outcome(violation.as_ref()),
        checker: violation.as_ref().map(|v| v.checker.clone()).unwrap_or_default(),
        what: violation.as_ref().map(ToString::to_string).unwrap_or_default(),
        token: token.to_owned(),
        scenario_hash: Hash::of(scenario.to_toml().as_bytes()).to_string(),
        audit: world.digest().to_string(),
        events: stats.events,
        virtual_ms: world.now().0 / 1_000_000,
        virtual_s: world.now().0 / 1_000_000_000,
        wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        families: stats.families.iter().map(|family| family.name().to_owned()).collect(),
        faults: stats.incidents,
        effective: EffectiveReport {
            view_change: effective.view_change,
            lost_suffix: effective.lost_suffix,
            byzantine: effective.byzantine,
        },
        cells: cells::reached(&scenario.system, stats.cells.keys()),
        rules: rules::coverage(core::slice::from_ref(&scenario.system), &applied),
        bytes_permille_max: stats.bytes_permille_max,
        bytes_ratio_max: ratio(stats.bytes_permille_max),
        bytes_growth: growth(book.bytes),
        nodes: scenario.nodes,
        wan: scenario.latency.largest() >= Span::millis(1),
        complete: book.complete,
        views: book.view,
        blocks: book.blocks,
        delivered: book.highest.0,
        executed: book.executed,
        accepted: book.accepted,
        counts: std::collections::BTreeMap::new(),
        violated_ns: violation.as_ref().map_or(0, |v| v.time.0),
        columns: if violation.is_some() { world.trace().columns() } else { String::new() },
        lines: world.trace().steps().map(synod_sim::Step::json).collect(),
        applied,
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
