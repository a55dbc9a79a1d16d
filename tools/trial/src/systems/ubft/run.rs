//! One run: safety phase, healing, liveness phase, report.

use std::collections::BTreeMap;
use std::time::Instant;

use synod_crypto::Hash;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Draws, Family, Scenario, Violation, World};

use super::plan::REPLICA;
use super::returning::{found, returns};
use super::world::{Trial, build};
use crate::oracle::ubft::one_correct;
use crate::params::number;
use crate::report::{Coverage, EffectiveReport, Outcome, RunReport, ratio};
use crate::run::Manner;

/// Rules that mark another path than the usual one.
const CHANGES: &[&str] = &["A3.06_seal", "A2.41_decide_slow", "E34_enter"];
/// Between two looks at a world in its liveness phase.
const SLICE: Span = Span::millis(100);
/// Operations that each client is asked for after healing.
const MORE: u64 = 3;
/// The longest a leader is waited for.
const SUSPECT_MAX: Span = Span::secs(10);

/// Plays a scenario to its end, or to the first violation.
///
/// # Errors
/// The scenario is not one the system can run.
pub fn play(scenario: &Scenario, token: &str, manner: Manner) -> Result<(Trial, Option<Violation>), String> {
    let mut trial = build(scenario, token, manner.trace)?;
    if let Some(until) = manner.until {
        trial.world.stop_behind(until);
    }
    if let Some(redraw) = manner.redraw {
        trial.world.redraw_behind(redraw);
    }
    let verdict = phases(&mut trial, scenario).and_then(|()| trial.world.finish());
    let owed = scenario.heard.is_none() || manner.redraw.is_some();
    let counts =
        |violation: &Violation| violation.checker != "until" && (owed || !is_late(&violation.checker));
    Ok((trial, verdict.err().filter(counts)))
}

/// Whether a checker says that something did not happen in time.
#[must_use]
pub fn is_late(checker: &str) -> bool {
    matches!(checker, "U-L1" | "U-L2" | "U-L3" | "U-L4" | "U-S4")
}

fn phases(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    trial.world.run(Time(scenario.horizon.0), &mut trial.workload)?;
    if number(scenario, "safety_only", 0) == 1 {
        return Ok(());
    }
    let Some(core) = core(trial, scenario) else { return Ok(()) };
    trial.world.heal(&core);
    liveness(trial, scenario, &core)
}

/// Draws the legal core: f + 1 honest replicas that an epoch lists or all honest ones, f_m + 1 memory nodes that never stopped or all, and
/// all clients. A replica or memory node that was started again may be there, and is never among those that are needed.
fn core(trial: &Trial, scenario: &Scenario) -> Option<Vec<NodeId>> {
    let roles = trial.roles;
    let book = trial.book.borrow();
    let mut stream = Draws::new(scenario.seed).stream("core", 0);
    let honest = |id: &NodeId| trial.world.honest(*id);
    let (mut listed, others): (Vec<NodeId>, Vec<NodeId>) =
        roles.replicas().filter(honest).partition(|id| book.ready.contains(&id.0) && is_up(trial, *id));
    stream.shuffle(&mut listed);
    let wanted = one_correct(roles.replicas);
    if listed.len() < wanted {
        return None;
    }
    let is_whole = stream.chance(600_000);
    if !is_whole {
        listed.truncate(wanted);
    }
    let (mut kept, emptied): (Vec<NodeId>, Vec<NodeId>) =
        roles.memory().partition(|id| !book.reborn.contains(&id.0) && is_up(trial, *id));
    stream.shuffle(&mut kept);
    if stream.chance(500_000) {
        kept.truncate((roles.memory / 2 + 1) as usize);
    }
    let mut core = listed;
    core.extend(kept);
    if is_whole {
        core.extend(others);
        core.extend(emptied);
    }
    core.extend(roles.clients().filter(honest));
    core.sort_unstable();
    core.iter().any(|id| !id.is_member()).then_some(core)
}

fn is_up(trial: &Trial, id: NodeId) -> bool {
    trial.world.status(id) == synod_sim::Status::Up
}

/// U-L1: how long a client that has something in flight may wait once the core is whole. What was under way keeps its length.
fn bound(scenario: &Scenario) -> Span {
    let delay = scenario.latency.largest().0 + 8 * scenario.jitter.0;
    let views = u64::from(scenario.nodes) + 3;
    let longest = |family: Family| {
        let amounts =
            scenario.incidents.iter().filter(|i| i.family == family).map(|i| i.amount.unsigned_abs());
        Span::micros(amounts.max().unwrap_or(0)).0
    };
    let under_way =
        4 * longest(Family::DiskSlow) + 20 * longest(Family::JobDelay) + 20 * longest(Family::NetDelay);
    Span(views * SUSPECT_MAX.0 + 200 * delay + under_way + Span::secs(20).0)
}

fn liveness(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let healed = trial.world.now();
    trial.world.run(healed, &mut trial.workload)?;
    let clients: Vec<NodeId> = trial.roles.clients().filter(|id| core.contains(id)).collect();
    for round in 0..MORE {
        for client in &clients {
            let input = trial.workload.more(*client, trial.world.now());
            trial.world.input(*client, REPLICA, Span::millis(200 * round), Box::new(input));
        }
    }
    let bound = bound(scenario);
    answered(trial, &clients, healed, bound)?;
    together(trial, scenario, (core, &clients), bound)?;
    found(trial, core);
    returns(trial, scenario, (core, &clients), bound)
}

/// The oldest thing a client waits for: since when, counted from when it was done with something last.
fn waits(trial: &Trial, client: NodeId) -> Option<Time> {
    let book = trial.book.borrow();
    let since = book.oldest(client.0)?.at;
    Some(since.max(book.done.get(&client.0).copied().unwrap_or(Time::ZERO)))
}

/// U-L1: every client's requests have results, one after the other, each within its bound.
fn answered(trial: &mut Trial, clients: &[NodeId], healed: Time, bound: Span) -> Result<(), Violation> {
    loop {
        let open: Vec<(NodeId, Time)> =
            clients.iter().filter_map(|id| Some((*id, waits(trial, *id)?.max(healed)))).collect();
        if open.is_empty() {
            return Ok(());
        }
        if let Some((client, since)) = open.iter().find(|(_, since)| trial.world.now() > *since + bound) {
            let what = format!(
                "client node {} waits since {since}, {} ms and more; {} clients wait",
                client.0,
                bound.0 / 1_000_000,
                open.len()
            );
            return Err(Violation::new("U-L1", what));
        }
        let until = trial.world.now() + SLICE;
        trial.world.run(until, &mut trial.workload)?;
    }
}

/// Replicas of the core that are behind, and those that no epoch lists.
fn behind(trial: &Trial, core: &[NodeId]) -> (Vec<String>, Vec<u32>) {
    let book = trial.book.borrow();
    let replicas = || core.iter().filter(|id| trial.roles.is_replica(**id));
    let executed = |id: &NodeId| book.executed.get(&id.0).copied().unwrap_or(0);
    let late = replicas().filter(|id| executed(id) < book.highest);
    let late = late.map(|id| format!("replica {} has {} of {}", id.0, executed(id), book.highest)).collect();
    let out = replicas().filter(|id| !book.ready.contains(&id.0)).map(|id| id.0).collect();
    (late, out)
}

/// Every replica of the core takes part again (U-L4), and executes what the furthest one did (U-L1). Clients go on asking until all take part, for an
/// epoch ends with the slots that follow; then nobody asks for anything, and who is behind must find that out in silence.
fn together(
    trial: &mut Trial,
    scenario: &Scenario,
    (core, clients): (&[NodeId], &[NodeId]),
    bound: Span,
) -> Result<(), Violation> {
    // One that was readmitted just before waits for as long again, and twice as long each time.
    let crashes = scenario.incidents.iter().filter(|i| i.family == Family::NodeCrash).count();
    let wait = Span::secs(10 << crashes.min(6));
    let deadline = trial.world.now() + Span(2 * bound.0 + 2 * wait.0);
    let mut asked = trial.world.now();
    loop {
        let (late, out) = behind(trial, core);
        if late.is_empty() && out.is_empty() {
            return Ok(());
        }
        let now = trial.world.now();
        if now >= deadline {
            return Err(match out[..] {
                [] => super::returning::late(trial, core, late.join(", ")),
                _ => Violation::new("U-L4", format!("no epoch lists replicas {out:?}")),
            });
        }
        if !out.is_empty() && now >= asked + Span::secs(1) {
            asked = now;
            for client in clients {
                let input = trial.workload.more(*client, now);
                trial.world.input(*client, REPLICA, Span::ZERO, Box::new(input));
            }
        }
        trial.world.run(now + SLICE, &mut trial.workload)?;
    }
}

fn outcome(violation: Option<&Violation>) -> Outcome {
    match violation.map(|violation| violation.checker.as_str()) {
        None => Outcome::Pass,
        Some("X1") => Outcome::Panic,
        Some("X5") => Outcome::Nondeterminism,
        Some(checker) if is_late(checker) => Outcome::Stall,
        Some(_) => Outcome::Violation,
    }
}

/// What happened, by the rules that say so.
const COUNTED: [(&str, &str); 12] = [
    ("decided_fast", "A2.31_decide_fast"),
    ("decided_slow", "A2.41_decide_slow"),
    ("delivered_fast", "A1.22_deliver_fast"),
    ("delivered_slow", "A1.37_deliver_slow"),
    ("register_quorums", "S6.1_register_quorum"),
    ("checkpoints", "A2.52_adopt"),
    ("summaries", "A4.09_summary"),
    ("gaps_closed", "A4.14_restore"),
    ("views_sealed", "A3.06_seal"),
    ("epochs_entered", "E34_enter"),
    ("streams_halted", "A5_halt"),
    ("equivocations", "A1.33_two_messages"),
];

/// What a run was, for its report.
pub struct Played<'a> {
    /// Its world at the end.
    pub world: &'a World,
    /// What it counted.
    pub counts: &'a BTreeMap<&'static str, u64>,
    /// Operations that were executed.
    pub delivered: u64,
}

/// The report of a run.
#[must_use]
pub fn report(
    played: &Played<'_>,
    scenario: &Scenario,
    token: &str,
    (violation, started): (Option<Violation>, Instant),
) -> RunReport {
    let world = played.world;
    let stats = world.stats();
    let effective = stats.effective(CHANGES);
    let applied: Vec<&'static str> =
        stats.rules.keys().filter(|rule| rule.protocol == "ubft").map(|rule| rule.name).collect();
    let mut counts = played.counts.clone();
    let of = |name: &str| {
        stats.rules.iter().filter(|(rule, _)| rule.name == name).map(|(_, count)| *count).sum::<u64>()
    };
    for (key, rule) in COUNTED {
        counts.insert(key, of(rule));
    }
    counts.insert("crashes", stats.crashes);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let views = count("views_sealed");
    let blocks = count("decided_fast") + count("decided_slow");
    let (executed, accepted) = (count("requests"), count("accepted"));
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
        cells: crate::cells::reached(&scenario.system, stats.cells.keys()),
        rules: coverage(&applied),
        bytes_permille_max: stats.bytes_permille_max,
        bytes_ratio_max: ratio(stats.bytes_permille_max),
        bytes_growth: 0,
        nodes: scenario.nodes,
        wan: scenario.latency.largest() >= Span::millis(1),
        complete: false,
        views,
        blocks,
        delivered: played.delivered,
        executed,
        accepted,
        violated_ns: violation.as_ref().map_or(0, |v| v.time.0),
        columns: if violation.is_some() { world.trace().columns() } else { String::new() },
        lines: world.trace().steps().map(synod_sim::Step::json).collect(),
        applied,
        counts,
    }
}

/// How many of the rules were applied.
#[must_use]
pub fn coverage(applied: &[&str]) -> Coverage {
    let all: Vec<&str> = synod_ubft::Rule::ALL.iter().map(|rule| rule.name()).collect();
    let missed: Vec<String> =
        all.iter().filter(|name| !applied.contains(name)).map(|name| (*name).to_owned()).collect();
    let of = all.len() as u64;
    Coverage { hit: of - missed.len() as u64, of, missed }
}

#[cfg(test)]
mod tests {
    use super::outcome;
    use crate::report::Outcome;
    use synod_sim::Violation;

    #[test]
    fn only_what_time_could_mend_is_called_a_stall() {
        let of = |checker: &str| outcome(Some(&Violation::new(checker, String::new())));
        for checker in ["U-L1", "U-L2", "U-L3", "U-L4", "U-S4"] {
            assert_eq!(of(checker), Outcome::Stall, "{checker}");
        }
        for checker in ["U-S7", "U-S10", "X6"] {
            assert_eq!(of(checker), Outcome::Violation, "{checker}");
        }
    }
}
