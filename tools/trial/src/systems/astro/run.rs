//! One run: safety phase, healing, liveness phase, report.

use std::collections::BTreeSet;
use std::time::Instant;

use synod_astro::Profile;
use synod_crypto::Hash;
use synod_ledger::{EntryId, Kind};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Draws, Family, Scenario, Violation, World};
use synod_wire::Bytes;

use super::book::{Book, Stage};
use super::names;
use super::plan::REPLICA;
use super::sight;
use super::world::{Trial, build};
use crate::oracle::astro::{Reckoning, legs};
use crate::oracle::{Breach, quorum};
use crate::params::number;
use crate::report::{Coverage, EffectiveReport, Outcome, RunReport, ratio};
use crate::run::Manner;

/// Rules that mark another path than the usual one.
const CHANGES: &[&str] = &["fuller", "rescue", "pull", "catch_up", "exclude", "again", "ancestor"];
/// Between two looks at a world in its liveness phase.
pub(super) const SLICE: Span = Span::millis(100);
/// Looks at all books in the safety phase.
pub(super) const LOOKS: u64 = 8;
/// Payments that each institution of the core is asked for after healing.
pub(super) const MORE: usize = 2;

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
    matches!(checker, "A-L1" | "A-L2" | "A-L3" | "A-L5")
}

fn phases(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    for look in 1..=LOOKS {
        let until = scenario.horizon.0 / LOOKS * look;
        trial.world.run(Time(until), &mut trial.workload)?;
        let members: Vec<NodeId> = (0..scenario.nodes).map(NodeId).collect();
        compare(trial, &members)?;
    }
    if number(scenario, "safety_only", 0) == 1 || number(scenario, "over", 0) == 1 {
        return Ok(());
    }
    settle(trial, scenario)
}

/// Heals a core, and waits until all that is due has happened there.
pub(crate) fn settle(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    let Some(core) = core(trial, scenario) else { return Ok(()) };
    trial.world.heal(&core);
    liveness(trial, scenario, &core)
}

/// Compares the books of members that run and never lied with what was told of them, and asks whether a wallet broke a promise.
fn compare(trial: &mut Trial, members: &[NodeId]) -> Result<(), Violation> {
    let now = trial.world.now();
    let told = |breach: Breach| Violation { time: now, ..Violation::new(breach.checker, breach.what) };
    trial.workload.broken().map_err(told)?;
    for member in members.iter().filter(|member| trial.world.honest(**member)) {
        if let Some(snapshot) = trial.world.snapshot(*member, REPLICA) {
            let now = trial.world.now();
            let judged = trial.watch.borrow_mut().compare(*member, &snapshot);
            judged.map_err(|violation| Violation { time: now, node: Some(*member), ..violation })?;
        }
    }
    Ok(())
}

/// Draws the legal core: n - f members that never lied, or all of them.
fn core(trial: &Trial, scenario: &Scenario) -> Option<Vec<NodeId>> {
    let mut members: Vec<NodeId> =
        (0..scenario.nodes).map(NodeId).filter(|id| trial.world.honest(*id)).collect();
    let wanted = quorum(scenario.nodes) as usize;
    if members.len() < wanted {
        return None;
    }
    let mut stream = Draws::new(scenario.seed).stream("core", 0);
    stream.shuffle(&mut members);
    if stream.chance(600_000) {
        members.truncate(wanted);
    }
    members.sort_unstable();
    Some(members)
}

/// How long everything due may take once the core is whole.
pub(super) fn bound(scenario: &Scenario) -> Span {
    let ms = |key: &str, default: u64| Span::millis(number(scenario, key, default)).0;
    let delay = scenario.latency.largest().0 + 8 * scenario.jitter.0;
    let longest = |family: Family| {
        let amounts =
            scenario.incidents.iter().filter(|i| i.family == family).map(|i| i.amount.unsigned_abs());
        Span::micros(amounts.max().unwrap_or(0)).0
    };
    let under_way =
        4 * longest(Family::DiskSlow) + 20 * longest(Family::JobDelay) + 20 * longest(Family::NetDelay);
    let rounds = u64::from(scenario.nodes) + 4;
    let round = ms("resend_max_ms", 2_000) + ms("pull_max_ms", 1_000) + ms("frontier_ms", 50) + 20 * delay;
    Span(rounds * 4 * round + under_way + Span::secs(60).0)
}

fn liveness(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let healed = trial.world.now();
    trial.world.run(healed, &mut trial.workload)?;
    for round in 0..MORE {
        for (node, input) in trial.workload.more(core, healed) {
            trial.world.input(node, REPLICA, Span::millis(200 * round as u64), Box::new(input));
        }
    }
    let deadline = trial.world.now() + bound(scenario);
    loop {
        let late = waits(trial, core);
        match late {
            None => return compare(trial, core),
            Some((checker, what)) if trial.world.now() >= deadline => {
                let late = bound(scenario).0 / 1_000_000;
                return Err(Violation::new(checker, format!("{late} ms after healing: {what}")));
            }
            Some(_) => {}
        }
        let until = trial.world.now() + SLICE;
        trial.world.run(until, &mut trial.workload)?;
    }
}

/// What is due and has not happened.
fn waits(trial: &Trial, core: &[NodeId]) -> Option<(&'static str, String)> {
    let watch = trial.watch.borrow();
    unsettled(trial, core)
        .map(|what| ("A-L1", what))
        .or_else(|| core.iter().find_map(|member| watch.stuck(member.0)))
        .or_else(|| apart(trial, core))
        .or_else(|| uncollected(trial, core))
}

/// A-L1: an order that an institution of the core took, or an entry of an owner who keeps to the rules, that has not settled.
fn unsettled(trial: &Trial, core: &[NodeId]) -> Option<String> {
    let book = trial.book.borrow();
    let served = |node: u32| core.contains(&NodeId(node));
    let due = |order: &super::book::Order| {
        !order.settled
            && order.stage != Stage::Dropped
            && served(order.node)
            && !waits_for_money(trial, core, order)
    };
    if let Some((ticket, order)) = (1..).zip(&book.orders).find(|(_, order)| due(order)) {
        let lacks = |member: &&NodeId| match (order.stage, book.delivered.get(&member.0)) {
            (Stage::Accepted(id, _), Some(delivered)) => !delivered.contains_key(&id),
            _ => true,
        };
        let lack: Vec<u32> = core.iter().filter(lacks).map(|member| member.0).collect();
        let what = format!("order {ticket} of {} is {:?}", order.spender, order.stage);
        return Some(format!("{what}, not certified at members {lack:?} of the core"));
    }
    if let Some((registrar, opening)) = book.opening.iter().find(|(registrar, _)| served(**registrar)) {
        return Some(format!("member {registrar} has not opened {}", opening.id));
    }
    let pinned = book.pinned.iter().flat_map(|(id, lines)| lines.keys().map(move |n| (*id, *n)));
    let mut open = pinned.filter(|(spender, n)| {
        // Nobody else may carry it.
        let carried = !trial.people.registers() || served(spender.registrar);
        carried && !book.agreed.contains_key(&synod_ledger::EntryId { spender: *spender, n: *n })
    });
    open.next().map(|(id, n)| format!("entry {n} of {id}, which signs one per place, has not settled"))
}

/// Whether an order waits in its log, or for its log, until money comes (profile I): all members of the core have it, or its
/// institution has no room for what is not paid for while others wait there, or one before it in its log does.
fn waits_for_money(trial: &Trial, core: &[NodeId], order: &super::book::Order) -> bool {
    if trial.people.profile != Profile::I {
        return false;
    }
    let book = trial.book.borrow();
    match order.stage {
        Stage::Accepted(id, _) => {
            let has = |member: &NodeId| {
                book.delivered.get(&member.0).is_some_and(|delivered| delivered.contains_key(&id))
            };
            core.iter().all(has)
        }
        Stage::Open => {
            let waiting = |other: &&super::book::Order| {
                !other.settled && matches!(other.stage, Stage::Accepted(..)) && other.node == order.node
            };
            let mut waiting = book.orders.iter().filter(waiting);
            let is_paid = book.reckonings.get(&order.node).is_some_and(|own| could_settle(own, order));
            waiting.any(|other| !is_paid || other.spender == order.spender)
        }
        Stage::Dropped => true,
    }
}

/// Whether money, payees and holds are there for an order, as far as a member settled them.
fn could_settle(own: &Reckoning, order: &super::book::Order) -> bool {
    let purse = own.purse(order.spender);
    let is_held = |hold: &EntryId| own.holds().any(|(id, _)| id == *hold);
    let are_there = match &order.kind {
        Kind::Resolve { holds, .. } => holds.iter().all(is_held),
        Kind::Hold { to, .. } => own.purse(*to).is_some(),
        kind => legs(kind).iter().all(|leg| own.purse(leg.to).is_some()),
    };
    are_there && purse.is_some_and(|purse| Reckoning::taken(&order.kind) <= purse.available())
}

/// A-L3: what was paid to an account can be spent by it: its representative has the proof; and what was spent has settled.
fn uncollected(trial: &Trial, core: &[NodeId]) -> Option<(&'static str, String)> {
    if trial.people.profile != Profile::II {
        return None;
    }
    let book = trial.book.borrow();
    let late = |what: String| Some(("A-L3", what));
    for member in core {
        let (reckoning, snapshot) =
            (book.reckonings.get(&member.0)?, trial.world.snapshot(*member, REPLICA)?);
        if let Some((to, id)) = reckoning.ahead() {
            return late(format!("{to} spent {id:?}, which has not settled at member {}", member.0));
        }
        let provable = sight::provable(Profile::II, &snapshot);
        let mut owed = reckoning.owed().filter(|((to, _), _)| to.registrar == member.0);
        if let Some(((to, id), _)) = owed.find(|((_, id), _)| !provable.contains(id)) {
            return late(format!("{to} cannot spend {id:?}: its representative cannot prove it"));
        }
    }
    None
}

/// A-L2: what settled at a member that is honest settles at all members of the core, and their books are equal. One that lies since may
/// have been the only one with the certificate.
fn apart(trial: &Trial, core: &[NodeId]) -> Option<(&'static str, String)> {
    let late = |what: String| Some(("A-L2", what));
    {
        let book = trial.book.borrow();
        let honest: Vec<u32> =
            (0..trial.people.members).filter(|id| trial.world.honest(NodeId(*id))).collect();
        let is_owed = |tellers: &BTreeSet<u32>| honest.iter().any(|member| tellers.contains(member));
        for member in core {
            let Some(reckoning) = book.reckonings.get(&member.0) else { continue };
            let behind = book.settled_at(&honest).find(|id| !book.has_settled(member.0, *id));
            if let Some(id) = behind {
                return late(format!("member {} has not settled {id:?}", member.0));
            }
            let mut owed = book.opened.iter().filter(|(_, tellers)| is_owed(tellers));
            if let Some((id, _)) = owed.find(|(id, _)| reckoning.purse(**id).is_none()) {
                return late(format!("member {} has not opened {id}", member.0));
            }
        }
    }
    let mut books = core.iter().filter_map(|member| {
        let snapshot: Vec<Bytes> = trial.world.snapshot(*member, REPLICA)?;
        Some((member.0, sight::book(trial.people.profile, &snapshot)))
    });
    let (first, one) = books.next()?;
    let other = books.find(|(_, other)| *other != one);
    other.and_then(|(other, _)| late(format!("the books of members {first} and {other} differ")))
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

/// The name under which a rule of one of the two crates is counted; `None` for those of others, and of Bracha's broadcast.
fn rule(protocol: &str, name: &'static str) -> Option<&'static str> {
    match (protocol, name) {
        ("astro", "pull") => Some("pull_entry"),
        ("broadcast", "pull") => Some("pull_payload"),
        ("astro" | "broadcast", name) => Some(name),
        _ => None,
    }
}

/// Whether members of a system ever apply a rule.
fn is_of(system: &str, name: &str) -> bool {
    let profile = names::profile(system);
    match name {
        "export" | "import" => system == names::SHARDS,
        "rely" | "check_alone" => system == "astro/ii-f",
        "carry" | "decide" => system == names::VIEWS,
        // Wallets run beside the world: what they apply is not counted.
        "L1_check" | "L1_sign" | "elsewhere" | "take_over" => false,
        "hold" | "queue" | "successor" => profile == Profile::I,
        "L9.49_reject" | "L9.57_credit" | "L10.72_depend" => profile == Profile::II,
        "exclude" | "again" | "fuller" | "rescue" => profile != Profile::I,
        "ancestor" | "pull_entry" => profile == Profile::Funded,
        name if name.starts_with("L5") => profile == Profile::I,
        name if name.starts_with("L6") => profile != Profile::I,
        name if name.starts_with("cut_") => system == "astro/ii-f",
        _ => true,
    }
}

/// A run at its end.
pub struct Played<'a> {
    /// The world.
    pub world: &'a World,
    /// What is known.
    pub book: &'a Book,
    /// Entries that can be certified.
    pub certified: u64,
}

/// The report of a run.
#[must_use]
pub fn report(
    Played { world, book, certified }: &Played<'_>,
    scenario: &Scenario,
    token: &str,
    (violation, started): (Option<Violation>, Instant),
) -> RunReport {
    let stats = world.stats();
    let effective = stats.effective(CHANGES);
    let applied: Vec<&'static str> =
        stats.rules.keys().filter_map(|applied| rule(applied.protocol, applied.name)).collect();
    let mut counts = book.counts.clone();
    counts.insert("crashes", stats.crashes);
    counts.insert("certified", *certified);
    let settled = book.agreed.len() as u64;
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
        rules: coverage(&[&scenario.system], &applied),
        bytes_permille_max: stats.bytes_permille_max,
        bytes_ratio_max: ratio(stats.bytes_permille_max),
        bytes_growth: 0,
        nodes: scenario.nodes,
        wan: scenario.latency.largest() >= Span::millis(1),
        complete: false,
        views: 0,
        blocks: counts.get("batches").copied().unwrap_or(0),
        delivered: settled,
        executed: settled,
        accepted: book.orders.iter().filter(|order| order.settled).count() as u64,
        violated_ns: violation.as_ref().map_or(0, |v| v.time.0),
        columns: if violation.is_some() { world.trace().columns() } else { String::new() },
        lines: world.trace().steps().map(synod_sim::Step::json).collect(),
        applied,
        counts,
    }
}

/// How many of the rules of these systems were applied.
#[must_use]
pub fn coverage(systems: &[&str], applied: &[&str]) -> Coverage {
    let ledger = synod_astro::Rule::ALL.iter().filter_map(|of| rule("astro", of.name()));
    let broadcast = synod_broadcast::Rule::ALL.iter().filter_map(|of| rule("broadcast", of.name()));
    let can = |name: &&str| systems.iter().any(|system| is_of(system, name));
    let all: Vec<&str> = ledger.chain(broadcast).filter(can).collect();
    let missed: Vec<String> =
        all.iter().filter(|name| !applied.contains(name)).map(|name| (*name).to_owned()).collect();
    let of = all.len() as u64;
    Coverage { hit: of - missed.len() as u64, of, missed }
}

#[cfg(test)]
mod tests {
    use super::{coverage, outcome};
    use crate::report::Outcome;
    use synod_sim::Violation;

    #[test]
    fn only_what_time_could_mend_is_called_a_stall() {
        let of = |checker: &str| outcome(Some(&Violation::new(checker, String::new())));
        assert_eq!((of("A-L1"), of("A-L2")), (Outcome::Stall, Outcome::Stall));
        for checker in ["A-S1", "A-S6", "A-L4", "X3", "X9"] {
            assert_eq!(of(checker), Outcome::Violation, "{checker}");
        }
    }

    #[test]
    fn rules_of_both_crates_are_counted_under_names_of_their_own() {
        let all = coverage(&["astro/ii-f"], &[]);
        assert!(all.missed.iter().any(|rule| rule == "pull_entry"));
        assert!(all.missed.iter().any(|rule| rule == "pull_payload"));
        assert!(!all.missed.iter().any(|rule| rule.starts_with("L5")), "{:?}", all.missed);
        assert_eq!(coverage(&["astro/ii-f"], &["fund", "L6.10_ack"]).hit, 2);
        assert_eq!(coverage(&["astro/i"], &["fund", "L6.10_ack"]).hit, 1);
        assert!(coverage(&["astro/i", "astro/ii"], &[]).missed.iter().any(|rule| rule == "L10.72_depend"));
    }
}
