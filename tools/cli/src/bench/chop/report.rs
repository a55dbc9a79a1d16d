//! The result of a run, as JSON.

use super::ChopPlan;
use super::auth::{Findings, Path, Rate};
use crate::bench::header::common;
use crate::output::Report;
use serde_json::{Map, Value, json};
use std::time::Duration;
use synod_load::chop::{STAGES, Stage, Stages};

/// Why figures that other benchmarks have are not here.
const UNAVAILABLE: [(&str, &str); 10] = [
    ("offered_per_s", "nobody offers: the next batch is there when the last one is done"),
    ("latency_us", "no operation is answered"),
    ("bytes_per_op", "nothing is sent"),
    ("fsync_us", "nothing is stored"),
    ("n", "one witness alone"),
    ("f", "one witness alone"),
    ("share", "every batch is witnessed"),
    ("ordering", "nothing is ordered"),
    ("cohort_hit", "this witness keeps no sums of cohorts, as servers do; `paths` shows what one saves"),
    ("cooldown_ok", "no batch is in flight"),
];

pub(in crate::bench) fn float(n: u64) -> f64 {
    // Counts of a run stay far below 2^53.
    format!("{n}").parse().unwrap_or(f64::NAN)
}

pub(in crate::bench) fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

/// Nanoseconds of each of `count`.
pub(super) fn each(time: Duration, count: u64) -> Value {
    if count == 0 { Value::Null } else { rounded(time.as_secs_f64() * 1e9 / float(count)) }
}

/// The middle one, the smallest, the largest.
fn spread(rates: &[Rate], of: impl Fn(&Rate) -> f64) -> [f64; 3] {
    let mut all: Vec<f64> = rates.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    let at = |index: usize| all.get(index).copied().unwrap_or(0.0);
    [at(all.len() / 2), at(0), at(all.len().saturating_sub(1))]
}

fn stage_ns(stages: &Stages) -> Value {
    let stage = |(stage, name): (Stage, &str)| (name.to_owned(), each(stages.spent(stage), stages.messages));
    Value::Object(STAGES.into_iter().map(stage).collect())
}

fn path(path: &Path, batch: u32) -> Value {
    let mut out = Map::new();
    out.insert("path".to_owned(), json!(path.name));
    out.insert("batches_per_s".to_owned(), rounded(path.rate.per_s()));
    let messages = path.rate.batches * u64::from(batch);
    out.insert("ns_per_msg".to_owned(), each(path.rate.wall, messages));
    if let Some(stages) = &path.stages {
        let keysum = stages.spent(Stage::Keysum);
        out.insert("keysum_ns_per_msg".to_owned(), each(keysum, stages.messages));
    }
    Value::Object(out)
}

/// The result of a run of `plan`.
pub(super) fn report(plan: &ChopPlan, findings: &Findings) -> Report {
    let total = Total::of(plan, findings);
    let [per_s, ..] = spread(&findings.rates, Rate::per_s);
    let rss = synod_load::usage(std::process::id()).map(|used| used.rss_peak_bytes);
    let mut header = common();
    for (key, value) in
        [("transport", "none"), ("auth", "signed"), ("durability", "none"), ("loop", "closed")]
    {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(1));
    let cpu = total.cpu_us();
    let mut report = Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("achieved_per_s", rounded(per_s * float(u64::from(plan.batch))))
        .field("held", true)
        .field("outcomes", json!({ "accepted": total.messages, "rejected": 0, "unknown": 0 }))
        .field("cpu_us_per_op", json!({ "total": cpu, "by_role": { "store": cpu } }))
        .field("rss_peak_bytes", json!({ "by_role": { "store and load": rss } }));
    for key in ["offered_per_s", "latency_us", "bytes_per_op", "fsync_us"] {
        report = report.field(key, Value::Null);
    }
    report.field("audit", findings.audit.to_json()).field("chop", own(plan, findings, &total))
}

/// The way of a process without huge pages.
fn without_huge_pages(told: &Value) -> Value {
    json!({
        "path": "without huge pages", "batches_per_s": told["batches_per_s"],
        "ns_per_msg": told["cpu_ns_per_msg"]["store"], "keysum_ns_per_msg": told["stage_ns"]["keysum"],
    })
}

/// All repetitions together.
struct Total {
    wall: Duration,
    cpu: Duration,
    batches: u64,
    messages: u64,
}

impl Total {
    fn of(plan: &ChopPlan, findings: &Findings) -> Self {
        let batches = findings.rates.iter().map(|rate| rate.batches).sum();
        Self {
            wall: findings.rates.iter().map(|rate| rate.wall).sum(),
            cpu: findings.rates.iter().map(|rate| rate.cpu).sum(),
            batches,
            messages: batches * u64::from(plan.batch),
        }
    }

    fn cpu_us(&self) -> Value {
        json!(self.cpu.as_secs_f64() * 1e6 / float(self.messages.max(1)))
    }
}

/// The keys of this benchmark alone.
fn own(plan: &ChopPlan, findings: &Findings, total: &Total) -> Value {
    let [per_s, least, most] = spread(&findings.rates, Rate::per_s);
    let paths = findings.paths.iter().map(|one| path(one, plan.batch));
    let mut own = json!({
        "part": "auth",
        "ids": plan.ids.to_string(), "clients": plan.clients, "id_space": plan.id_space,
        "batch": plan.batch, "size": plan.size, "distilled": f64::from(plan.distilled) / 1_000.0,
        "pool": plan.pool,
        "batches_per_s": rounded(per_s),
        "batches_per_s_spread": [rounded(least), rounded(most)],
        "batches_per_cpu_s": rounded(spread(&findings.rates, Rate::per_cpu_s)[0]),
        "batches": total.batches, "measured_s": rounded(total.wall.as_secs_f64()),
        "cpu_ns_per_msg": { "store": each(total.cpu, total.messages) },
        "stage_ns": stage_ns(&findings.stages),
        "ingress_bytes_per_msg": rounded(float(findings.bytes) / float(findings.messages.max(1))),
        "load_ns": {
            "per_client": each(findings.keys_took, u64::from(plan.clients.min(plan.id_space))),
            "per_msg": each(findings.batches_took, findings.messages),
        },
        "huge_page_bytes": crate::huge::held(),
        "paths": paths.chain(findings.plain.iter().map(without_huge_pages)).collect::<Vec<_>>(),
    });
    if let Value::Object(own) = &mut own {
        let reasons = UNAVAILABLE.iter().map(|(key, why)| ((*key).to_owned(), json!(why))).collect();
        own.insert("unavailable".to_owned(), Value::Object(reasons));
        for key in ["n", "f", "share", "ordering", "cohort_hit", "cooldown_ok"] {
            own.insert(key.to_owned(), Value::Null);
        }
    }
    own
}
