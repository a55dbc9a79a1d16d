//! The result of a run, as JSON.

use super::baseline::{Beside, WANTED};
use super::cooperative::Breakdown;
use super::gates::{Figures, Gate, judge};
use super::plan::{App, Placement, System, UbftBench};
use super::run::Row;
use super::{apps, rig};
use crate::bench::chop::{float, rounded};
use crate::bench::header::common;
use crate::output::Report as Printed;
use serde_json::{Map, Value, json};

/// An open loop is held where so much of what was offered was achieved.
const HELD: f64 = 0.95;

/// The result, and the gates in it.
pub(super) struct Report {
    pub(super) report: Printed,
    pub(super) gates: Vec<Gate>,
}

/// The value below which so many of a thousand lie.
fn rank(sorted: &[u64], per_mille: usize) -> u64 {
    let at = (sorted.len() * per_mille / 1_000).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0)
}

fn sorted(row: &Row) -> Vec<u64> {
    let mut all = row.measured.taken.waited.clone();
    all.sort_unstable();
    all
}

/// Words of what differs between rows of one run, each once.
fn words(rows: &[Row], word: impl Fn(&UbftBench) -> &'static str) -> String {
    let mut all: Vec<&str> = rows.iter().map(|row| word(&row.plan)).collect();
    all.dedup();
    all.join(", ")
}

fn header(rows: &[Row]) -> Map<String, Value> {
    let mut header = common();
    let pinning = |placement| match placement {
        Placement::Cooperative => "client on core 0, the others on core 1, where there are two",
        Placement::Isolated => {
            "client and leader on core 0, followers on core 1; a core each where there are four"
        }
    };
    let is_isolated = rows.iter().any(|row| row.plan.placement == Placement::Isolated);
    let processes = if is_isolated { rig::REPLICAS + rig::MEMORY + 1 } else { 1 };
    let looped = |plan: &UbftBench| if plan.rate.is_some() { "open" } else { "closed" };
    for (key, value) in [
        ("transport", "shared memory".to_owned()),
        ("placement", words(rows, |plan| plan.placement.word())),
        ("poll", "yield".to_owned()),
        ("pinning", words(rows, |plan| pinning(plan.placement))),
        ("auth", "none on the fast path".to_owned()),
        ("durability", "none".to_owned()),
        ("loop", words(rows, looped)),
    ] {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(processes));
    header
}

/// The result of a run with these rows.
pub(super) fn report(rows: &[Row], beside: &[Beside], breakdown: Option<&Breakdown>) -> Report {
    let figures: Vec<Figures<'_>> = rows.iter().map(|row| figures(row, rows)).collect();
    let gates = judge(&figures, beside);
    let mut shown: Vec<Value> = rows.iter().zip(&figures).map(|(row, figures)| shown(row, figures)).collect();
    shown.extend(beside.iter().map(|row| row.shown.clone()));
    let held = rows.iter().zip(&figures).all(|(row, figures)| is_held(&row.plan, figures));
    let mut unavailable = Map::from_iter([
        ("fences_per_op".to_owned(), json!("no fence is counted")),
        ("log".to_owned(), json!("this system is not built")),
    ]);
    if beside.is_empty() {
        unavailable.insert("minbft-raw, minbft-enclave".to_owned(), json!(WANTED));
    }
    if breakdown.is_none_or(|breakdown| breakdown.phases.is_empty()) {
        let why =
            "phases are told of one request in flight on the fast path, placement cooperative, of synod";
        unavailable.insert("breakdown".to_owned(), json!(why));
    } else {
        let why = "no part of the fast path: there is no signature and no register in it";
        unavailable.insert("breakdown of crypto and registers".to_owned(), json!(why));
    }
    let mut object = json!({
        "rows": shown,
        "breakdown": breakdown.map_or(&[][..], |breakdown| &breakdown.phases),
        "gates": gates.iter().map(Gate::shown).collect::<Vec<_>>(),
        "unavailable": unavailable,
    });
    if let Some(Breakdown { requests, of, .. }) = breakdown {
        object["breakdown_requests"] = json!({ "told": requests, "of": of });
    }
    let report = Printed::new("synod-bench/1")
        .field("header", Value::Object(header(rows)))
        .field("held", held)
        .field("ubft", object);
    Report { report, gates }
}

/// A closed loop offers what it gets.
fn is_held(plan: &UbftBench, figures: &Figures<'_>) -> bool {
    plan.rate.is_none_or(|rate| figures.ops_per_s >= HELD * f64::from(rate))
}

fn figures<'a>(row: &'a Row, rows: &[Row]) -> Figures<'a> {
    let p50_ns = rank(&sorted(row), 500);
    // The server that was measured in the same run: only the system differs.
    let is_base = |other: &&Row| {
        let (own, other_plan) = (&row.plan, &other.plan);
        other.system == System::Unreplicated
            && other.app == row.app
            && (own.placement, own.size, own.closed, own.rate)
                == (other_plan.placement, other_plan.size, other_plan.closed, other_plan.rate)
    };
    let base = rows.iter().find(is_base).map(|alone| rank(&sorted(alone), 500)).filter(|base| *base > 0);
    let span = row.measured.taken.span.as_secs_f64();
    let samples = row.measured.taken.waited.len() as u64;
    Figures {
        plan: &row.plan,
        system: row.system,
        is_flip: row.app == App::Flip,
        p50_ns,
        ops_per_s: if span > 0.0 { float(samples) / span } else { 0.0 },
        ratio: base.map(|base| float(p50_ns) / float(base)),
        rss_bytes: row.measured.resident,
        disaggregated_bytes: row.measured.disaggregated,
    }
}

fn shown(row: &Row, figures: &Figures<'_>) -> Value {
    let (all, plan, taken) = (sorted(row), &row.plan, &row.measured.taken);
    let (samples, counts) = (all.len() as u64, taken.spent.counts);
    let each = |count: u64| if samples == 0 { Value::Null } else { rounded(float(count) / float(samples)) };
    let is_alone = row.system == System::Unreplicated;
    let of_slots =
        |value: f64| if counts.slots == 0 { Value::Null } else { rounded(value / float(counts.slots)) };
    json!({
        "system": row.system.word(),
        "placement": plan.placement.word(),
        "path": if is_alone { "none" } else if plan.fast_path { "fast" } else { "slow" },
        "merge": if is_alone { "none" } else { plan.merge() },
        "app": row.app.word(),
        "size": apps::bytes(row.app, plan.size),
        "closed": plan.rate.is_none().then_some(plan.closed),
        "rate": plan.rate,
        "batch": if is_alone { 1 } else { plan.batch },
        "tail": plan.tail,
        "window": plan.window,
        "samples": samples,
        "p50_ns": figures.p50_ns,
        "p90_ns": rank(&all, 900),
        "p99_ns": rank(&all, 990),
        "p999_ns": rank(&all, 999),
        "max_ns": all.last(),
        "cpu_steal_pct": taken.spent.steal_per_million.map(|parts| rounded(float(parts) / 10_000.0)),
        "ops_per_s": rounded(figures.ops_per_s),
        "cpu_ns_per_op": each(taken.spent.serving_ns),
        "cpu_client_ns_per_op": each(taken.spent.calling_ns),
        "messages_per_op": each(counts.messages),
        "signs_per_op": each(counts.signs),
        "checks_per_op": each(counts.checks),
        "ops_per_slot": of_slots(float(samples)),
        "slow_per_1000": of_slots(1_000.0 * float(counts.signed_slots)),
        "signed_slots": counts.signed_slots,
        "views_left": counts.views,
        "rss_bytes": row.measured.resident,
        "disaggregated_bytes": row.measured.disaggregated,
        "errors": taken.wrong + taken.unknown,
        "ratio_unreplicated": figures.ratio.map(rounded),
    })
}
