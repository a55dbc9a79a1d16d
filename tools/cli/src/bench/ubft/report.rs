//! The result of a run, as JSON.

use super::plan::{Placement, System, UbftBench};
use super::run::Row;
use crate::bench::chop::{float, rounded};
use crate::bench::header::common;
use crate::output::Report;
use serde_json::{Value, json};

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

/// The result of a run of `plan`.
pub(super) fn report(plan: &UbftBench, rows: &[Row]) -> Report {
    let mut header = common();
    let (pinning, processes) = match plan.placement {
        Placement::Cooperative => ("client on core 0, the others on core 1, where there are two", 1),
        Placement::Isolated => {
            ("client and leader on core 0, followers on core 1; a core each where there are four", 7)
        }
    };
    for (key, value) in [
        ("transport", "shared memory"),
        ("placement", plan.placement.word()),
        ("poll", "yield"),
        ("pinning", pinning),
        ("auth", "none on the fast path"),
        ("durability", "none"),
        ("loop", "closed"),
    ] {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(processes));
    let rows: Vec<Value> = rows.iter().map(|row| shown(plan, row, rows)).collect();
    Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("held", true)
        .field("ubft", json!({ "rows": rows, "unavailable": {
            "breakdown": "phases are not timed",
            "gates": "budgets are for a quiet machine and the release profile; `score` does not judge them yet",
            "log, minbft-raw, minbft-enclave": "these systems are not built",
        } }))
}

fn shown(plan: &UbftBench, row: &Row, rows: &[Row]) -> Value {
    let all = sorted(row);
    let p50 = rank(&all, 500);
    let alone = rows.iter().find(|other| other.system == System::Unreplicated && other.app == row.app);
    let base = alone.map(|alone| rank(&sorted(alone), 500)).filter(|base| *base > 0);
    let samples = u64::try_from(all.len()).unwrap_or(u64::MAX);
    let span = row.measured.taken.span.as_secs_f64();
    json!({
        "system": row.system.word(),
        "placement": plan.placement.word(),
        "path": if row.system == System::Unreplicated { "none" } else if plan.fast_path { "fast" } else { "slow" },
        "app": row.app.word(),
        "size": plan.size,
        "closed": 1,
        "batch": 1,
        "tail": plan.tail,
        "window": plan.window,
        "samples": samples,
        "p50_ns": p50,
        "p90_ns": rank(&all, 900),
        "p99_ns": rank(&all, 990),
        "p999_ns": rank(&all, 999),
        "max_ns": all.last(),
        "ops_per_s": if span > 0.0 { rounded(float(samples) / span) } else { Value::Null },
        "signed_slots": row.measured.signed_slots,
        "rss_bytes": row.measured.resident,
        "disaggregated_bytes": row.measured.disaggregated,
        "errors": row.measured.taken.wrong + row.measured.taken.unknown,
        "ratio_unreplicated": base.map(|base| rounded(float(p50) / float(base))),
    })
}
