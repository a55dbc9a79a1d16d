//! Rows and header, under the names of `synod bench ubft --json`.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::counts::Counts;
use crate::rig::{Measured, Plan};

/// What was used until a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    messages: u64,
    signs: u64,
    checks: u64,
    /// Nanoseconds of the replicas' poller.
    serving_ns: u64,
    /// Nanoseconds of the client's poller.
    calling_ns: u64,
    /// Ticks of all processors, and those that went to other machines.
    ticks: Option<(u64, u64)>,
}

impl Used {
    /// Asked for by the client's poller: what is not its own is of the replicas.
    pub(crate) fn here(counts: &[Arc<Counts>]) -> Self {
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(|counts| of(counts)).sum();
        let calling_ns = fs::read_to_string("/proc/thread-self/schedstat").map_or(0, |text| first(&text));
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
        let all_ns: u64 = texts.map(|text| first(&text)).sum();
        Self {
            messages: sum(Counts::messages),
            signs: sum(Counts::signs),
            checks: sum(Counts::checks),
            serving_ns: all_ns.saturating_sub(calling_ns),
            calling_ns,
            ticks: fs::read_to_string("/proc/stat").ok().and_then(|text| ticks(&text)),
        }
    }
}

fn first(schedstat: &str) -> u64 {
    schedstat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The first line of `/proc/stat`: eight numbers, of which the last is stolen time.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let all: Result<Vec<u64>, _> = line.split_whitespace().take(8).map(str::parse).collect();
    let all = all.ok()?;
    Some((all.iter().sum(), *all.get(7)?))
}

/// `of` in parts of `by`, to three digits behind the point.
fn part(of: u64, by: u64) -> Value {
    let thousandths = u128::from(of) * 1_000 / u128::from(by.max(1));
    let shown = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    shown.parse::<f64>().map_or(Value::Null, Value::from)
}

/// The value below which so many of a thousand lie.
fn rank(sorted: &[u64], per_mille: usize) -> Option<u64> {
    sorted.get((sorted.len() * per_mille / 1_000).min(sorted.len().saturating_sub(1))).copied()
}

/// A row of the result.
#[must_use]
pub fn row(plan: &Plan, measured: &Measured) -> Value {
    let mut all = measured.waited.clone();
    all.sort_unstable();
    let samples = all.len() as u64;
    let (from, to) = measured.spent.unwrap_or_default();
    let each = |of: fn(&Used) -> u64| part(of(&to).saturating_sub(of(&from)), samples);
    let steal = from.ticks.zip(to.ticks).map(|((total, stolen), (later_total, later_stolen))| {
        part(later_stolen.saturating_sub(stolen) * 100, later_total.saturating_sub(total))
    });
    let nanos = u64::try_from(measured.span.as_nanos()).unwrap_or(u64::MAX);
    json!({
        "system": if plan.each_use.is_zero() { "minbft-raw" } else { "minbft-enclave" },
        "placement": "cooperative",
        "path": "none",
        "app": "flip",
        "size": plan.size,
        "closed": 1,
        "rate": null,
        "batch": 1,
        "enclave_us": part(u64::try_from(plan.each_use.as_nanos()).unwrap_or(u64::MAX), 1_000),
        "samples": samples,
        "p50_ns": rank(&all, 500),
        "p90_ns": rank(&all, 900),
        "p99_ns": rank(&all, 990),
        "p999_ns": rank(&all, 999),
        "max_ns": all.last(),
        "cpu_steal_pct": steal,
        "ops_per_s": part(samples.saturating_mul(1_000_000_000), nanos),
        "cpu_ns_per_op": each(|used| used.serving_ns),
        "cpu_client_ns_per_op": each(|used| used.calling_ns),
        "messages_per_op": each(|used| used.messages),
        "signs_per_op": each(|used| used.signs),
        "checks_per_op": each(|used| used.checks),
        "errors": measured.errors,
    })
}

/// What must be equal before two results may be compared, as far as this program knows it.
#[must_use]
pub fn header() -> Value {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "machine": name.map_or("unknown", |(_, name)| name),
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "kernel": kernel.trim(),
        "build": if cfg!(target_feature = "avx2") { "native" } else { "portable" },
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "transport": "shared memory",
        "placement": "cooperative",
        "poll": "yield",
        "pinning": "client on core 0, the others on core 1, where there are two",
        "auth": "usig 0.11.0, HMAC-SHA256 in software",
        "durability": "none",
        "loop": "closed",
        "processes": 1,
    })
}
