//! One run: safety phase, healing, liveness phase, report.

use std::time::Instant;

use synod_crypto::Hash;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Draws, Family, Scenario, Violation};

use super::plan::{CLIENT, ORDERER, Ordering};
use super::world::{Trial, build};
use crate::oracle::quorum;
use crate::params::{number, timeout_max};
use crate::report::{Coverage, EffectiveReport, Outcome, RunReport, ratio};
use crate::run::Manner;

/// Rules that mark another path than the usual one.
const CHANGES: &[&str] = &["other_broker", "witness_extend", "retrieve", "fallback"];
/// Between two looks at a world in its liveness phase.
const SLICE: Span = Span::millis(100);
/// Broadcasts that each client is asked for after healing.
const MORE: u64 = 2;

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

/// Whether a checker says that something did not happen in time. C-L2 does not: what an honest store calls unsound stays so.
#[must_use]
pub fn is_late(checker: &str) -> bool {
    checker == "C-L1"
}

fn phases(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    trial.world.run(Time(scenario.horizon.0), &mut trial.workload)?;
    if number(scenario, "safety_only", 0) == 1 {
        return Ok(());
    }
    settle(trial, scenario)
}

/// Heals the core and demands that everything due is delivered.
pub(crate) fn settle(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    let Some(core) = core(trial, scenario) else { return Ok(()) };
    trial.world.heal(&core);
    liveness(trial, scenario, &core)
}

/// Draws the legal core: n - f honest servers, one honest broker or all, all honest clients.
fn core(trial: &Trial, scenario: &Scenario) -> Option<Vec<NodeId>> {
    let honest = |id: &NodeId| trial.world.honest(*id);
    let mut stream = Draws::new(scenario.seed).stream("core", 0);
    let mut servers: Vec<NodeId> = (0..trial.roles.servers).map(NodeId).filter(honest).collect();
    let wanted = quorum(trial.roles.servers) as usize;
    if servers.len() < wanted {
        return None;
    }
    stream.shuffle(&mut servers);
    // Over uBFT some may wait for the epoch that lists them, and are none of those that are needed.
    if stream.chance(600_000) && trial.ordering != Ordering::Ubft {
        servers.truncate(wanted);
    }
    let mut brokers: Vec<NodeId> = trial.roles.brokers().filter(honest).collect();
    stream.shuffle(&mut brokers);
    if stream.chance(600_000) {
        brokers.truncate(1);
    }
    let clients = trial.roles.clients.iter().copied().filter(honest);
    let orderer = (trial.ordering == Ordering::Ideal).then_some(ORDERER);
    let mut core: Vec<NodeId> = servers;
    core.extend(brokers);
    core.extend(clients);
    core.extend(orderer);
    core.sort_unstable();
    core.extend(trial.roles.memory());
    (!core.iter().all(|id| id.is_member())).then_some(core)
}

/// C-L1: how long a client that has something in flight may wait once the core is whole.
fn bound(scenario: &Scenario) -> Span {
    let ms = |key: &str, default: u64| Span::millis(number(scenario, key, default)).0;
    let delay = scenario.latency.largest().0 + 8 * scenario.jitter.0;
    let brokers = number(scenario, "brokers", 2);
    let silence = ms("submit_max_ms", 6_000);
    let round = ms("window_max_ms", 200) + ms("distil_max_ms", 300) + Span::secs(2).0 + 40 * delay;
    let views = if scenario.system == "chopchop/hotstuff" {
        (u64::from(scenario.nodes) + 8) * timeout_max(scenario).0
    } else if scenario.system == super::OVER_UBFT {
        // A replica that was started again waits ten seconds, and twice as long the next time.
        Span::secs(60).0
    } else {
        0
    };
    let longest = |family: Family| {
        let amounts =
            scenario.incidents.iter().filter(|i| i.family == family).map(|i| i.amount.unsigned_abs());
        Span::micros(amounts.max().unwrap_or(0)).0
    };
    let under_way =
        4 * longest(Family::DiskSlow) + 20 * longest(Family::JobDelay) + 20 * longest(Family::NetDelay);
    Span((brokers + 2) * (silence + round) + 2 * views + under_way + Span::secs(20).0)
}

fn liveness(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let healed = trial.world.now();
    trial.world.run(healed, &mut trial.workload)?;
    let honest = |id: &NodeId| core.contains(id) && trial.world.honest(*id);
    let clients: Vec<NodeId> = trial.roles.clients.iter().copied().filter(honest).collect();
    for round in 0..MORE {
        for client in &clients {
            let enrolled =
                trial.roles.id_of(*client).is_some() || trial.book.borrow().enrolled.contains_key(&client.0);
            if enrolled {
                let input = trial.workload.more(*client, trial.world.now());
                trial.world.input(*client, CLIENT, Span::millis(200 * round), Box::new(input));
            }
        }
    }
    let bound = bound(scenario);
    answered(trial, &clients, healed, bound)?;
    together(trial, core, bound)
}

/// The oldest thing a client waits for: since when, counted from when it was done with something last.
fn waits(trial: &Trial, client: NodeId) -> Option<Time> {
    let book = trial.book.borrow();
    let asked = book.asked.iter().find(|asked| asked.open && asked.node == client.0);
    let entering = book.entering.get(&client.0).copied();
    let since = asked.map(|asked| asked.at).or(entering)?;
    Some(since.max(book.done.get(&client.0).copied().unwrap_or(Time::ZERO)))
}

/// C-L1: every honest client's broadcasts are delivered, one after the other, each within its bound.
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
            return Err(Violation::new("C-L1", what));
        }
        let until = trial.world.now() + SLICE;
        trial.world.run(until, &mut trial.workload)?;
    }
}

/// Every server of the core delivers what the furthest one delivered.
fn together(trial: &mut Trial, core: &[NodeId], bound: Span) -> Result<(), Violation> {
    let deadline = trial.world.now() + bound;
    let wanted = trial.book.borrow().highest;
    loop {
        let behind: Vec<String> = {
            let book = trial.book.borrow();
            let reached = |id: &NodeId| book.heights.get(&id.0).copied().unwrap_or(0);
            let late = core.iter().filter(|id| id.0 < trial.roles.servers && reached(id) < wanted);
            late.map(|id| format!("server {} has {}", id.0, reached(id))).collect()
        };
        if behind.is_empty() {
            return Ok(());
        }
        let waits = |id: &NodeId| trial.book.borrow().gone.contains(&id.0);
        if trial.world.now() >= deadline && core.iter().any(waits) {
            trial.book.borrow_mut().add("left_behind", 1);
            return Ok(());
        }
        if trial.world.now() >= deadline {
            let what = format!("of {wanted} batches: {}", behind.join(", "));
            return Err(Violation::new("C-L1", what));
        }
        let until = trial.world.now() + SLICE;
        trial.world.run(until, &mut trial.workload)?;
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

/// The report of a run.
#[must_use]
pub fn report(
    trial: &Trial,
    scenario: &Scenario,
    token: &str,
    (violation, started): (Option<Violation>, Instant),
) -> RunReport {
    let (world, book) = (&trial.world, trial.book.borrow());
    let stats = world.stats();
    let effective = stats.effective(CHANGES);
    let applied: Vec<&'static str> =
        stats.rules.keys().filter(|rule| rule.protocol == "chopchop").map(|rule| rule.name).collect();
    let mut counts = book.counts.clone();
    let of = |name: &str| {
        stats.rules.iter().filter(|(rule, _)| rule.name == name).map(|(_, count)| *count).sum::<u64>()
    };
    for (key, rule) in [("witness_extended", "witness_extend"), ("retrievals", "retrieve")] {
        counts.insert(key, of(rule));
    }
    counts.insert("crashes", stats.crashes);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
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
        complete: super::twins::is_script(scenario) && world.now().0 >= scenario.horizon.0,
        views: 0,
        blocks: count("batches"),
        delivered: book.highest,
        executed: count("messages"),
        accepted: book.asked.iter().filter(|asked| asked.told.is_some()).count() as u64,
        violated_ns: violation.as_ref().map_or(0, |v| v.time.0),
        columns: if violation.is_some() { world.trace().columns() } else { String::new() },
        lines: world.trace().steps().map(synod_sim::Step::json).collect(),
        applied,
        counts: counts.clone(),
    }
}

/// How many of the rules were applied. Payloads are packed in classes that trials do not have.
#[must_use]
pub fn coverage(applied: &[&str]) -> Coverage {
    let all: Vec<&str> = synod_chopchop::trace::Rule::ALL.iter().map(|rule| rule.name()).collect();
    let all: Vec<&str> = all.into_iter().filter(|name| *name != "burst").collect();
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
        assert_eq!(of("C-L1"), Outcome::Stall);
        for checker in ["C-L2", "C-L3", "C-S1"] {
            assert_eq!(of(checker), Outcome::Violation, "{checker}");
        }
    }
}
