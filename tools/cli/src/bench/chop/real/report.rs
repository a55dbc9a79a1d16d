//! The result of a run, as JSON.

use super::plan::{Enrol, RealPlan};
use super::run::{Findings, Stretch};
use crate::bench::header::common;
use crate::output::Report;
use serde_json::{Value, json};
use std::time::Duration;

/// Why figures that other benchmarks have are not here.
const UNAVAILABLE: [(&str, &str); 4] = [
    ("offered_per_s", "the loop is closed: a client sends when its last message is delivered"),
    ("bytes_per_op", "datagrams are counted in wire, streams between servers are not"),
    ("fsync_us", "servers tell it on their metrics ports"),
    ("stage_ns", "stages are measured by --part auth"),
];

fn float(n: u64) -> f64 {
    // Counts of a run stay far below 2^53.
    format!("{n}").parse().unwrap_or(f64::NAN)
}

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

/// Nanoseconds of each of `count`.
fn each(time: Duration, count: u64) -> Value {
    if count == 0 { Value::Null } else { rounded(time.as_secs_f64() * 1e9 / float(count)) }
}

fn per_s(stretch: &Stretch) -> f64 {
    if stretch.wall.is_zero() { 0.0 } else { float(stretch.confirmed) / stretch.wall.as_secs_f64() }
}

/// The result of a run of `plan`.
pub(super) fn report(plan: &RealPlan, findings: &Findings) -> Report {
    let mut rates: Vec<f64> = findings.stretches.iter().map(per_s).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    let mut header = common();
    for (key, value) in
        [("transport", "udp and tls"), ("auth", "signed"), ("durability", "fsync"), ("loop", "closed")]
    {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(5 + u32::from(plan.brokers)));
    let confirmed: u64 = findings.stretches.iter().map(|stretch| stretch.confirmed).sum();
    let [servers, brokers, clients] = roles(findings);
    let us = |time: Duration| rounded(time.as_secs_f64() * 1e6 / float(confirmed.max(1)));
    let [server_rss, broker_rss, client_rss] = findings.cpu.rss;
    let stats = &findings.stats;
    let unknown = stats.begun.saturating_sub(stats.confirmed);
    Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("achieved_per_s", rounded(median))
        .field("held", true)
        .field("outcomes", json!({ "accepted": stats.confirmed, "rejected": 0, "unknown": unknown }))
        .field("latency_us", findings.honest.latency.to_json())
        .field(
            "cpu_us_per_op",
            json!({
                "total": us(servers + brokers + clients),
                "by_role": { "servers": us(servers), "brokers": us(brokers), "clients": us(clients) },
            }),
        )
        .field(
            "rss_peak_bytes",
            json!({ "by_role": { "server": server_rss, "broker": broker_rss, "clients": client_rss } }),
        )
        .field("audit", findings.audit.to_json())
        .field("chop", own(plan, findings, &rates))
}

/// CPU of servers, brokers and clients in the measured stretches.
fn roles(findings: &Findings) -> [Duration; 3] {
    let all = findings.stretches.iter().map(|stretch| stretch.cpu);
    all.fold([Duration::ZERO; 3], |[servers, brokers, clients], cpu| {
        [servers + cpu.servers, brokers + cpu.brokers, clients + cpu.clients]
    })
}

/// The keys of this benchmark alone.
fn own(plan: &RealPlan, findings: &Findings, rates: &[f64]) -> Value {
    let confirmed: u64 = findings.stretches.iter().map(|stretch| stretch.confirmed).sum();
    let [servers, brokers, clients] = roles(findings);
    let share = |sealed: super::broker::Sealed| sealed.distilled().map(|part| float(part) / 1_000.0);
    let stretch = |stretch: &Stretch| {
        json!({
            "s": rounded(stretch.wall.as_secs_f64()), "messages": stretch.confirmed,
            "per_s": rounded(per_s(stretch)), "distilled_share": share(stretch.sealed),
            "batches": stretch.sealed.batches,
        })
    };
    let seconds = |time: Option<Duration>| time.map(|time| rounded(time.as_secs_f64()));
    let sealed = findings.sealed;
    let wire = findings.wire;
    json!({
        "part": "real", "n": 4, "f": 1, "ordering": "hotstuff", "size": 8, "quota_work": super::run::QUOTA_WORK,
        "clients": plan.clients, "honest": plan.honest, "brokers": plan.brokers, "sockets": plan.sockets,
        "links": wire.links,
        "silent_share": float(u64::from(plan.silent)) / 1_000.0,
        "invalid_share": float(u64::from(plan.invalid)) / 1_000.0,
        "enrolled_by": match plan.enrol { Enrol::Genesis => "genesis", Enrol::SignUp => "signup" },
        "links_s": rounded(findings.links_took.as_secs_f64()),
        "sign_up_s": seconds(findings.sign_up_took),
        "sign_ups_per_s": findings.sign_up_took.map(|took| {
            rounded(float(u64::from(plan.clients)) / took.as_secs_f64().max(1e-9))
        }),
        "broker_killed_after_s": seconds(findings.killed_after),
        "messages_per_client": plan.messages,
        "per_s_spread": [rates.first().copied().map(rounded), rates.last().copied().map(rounded)],
        "stretches": findings.stretches.iter().map(stretch).collect::<Vec<_>>(),
        "distilled_share": share(sealed), "batches": sealed.batches, "stragglers": sealed.stragglers,
        "bytes_per_message": if sealed.entries == 0 { Value::Null } else {
            rounded(float(sealed.bytes) / float(sealed.entries))
        },
        "cpu_ns_per_msg": {
            "servers": each(servers, confirmed), "broker": each(brokers, confirmed),
            "load and client": each(clients, confirmed),
        },
        "honest_clients": {
            "receipts_verified": findings.honest.receipts, "without_receipt": findings.honest.same,
        },
        "receipts_written": findings.receipts,
        "retransmits": findings.stats.retransmits,
        "crowd": findings.stats.to_json(),
        "wire": {
            "datagrams_sent": wire.sent.0, "bytes_sent": wire.sent.1,
            "datagrams_received": wire.received.0, "bytes_received": wire.received.1, "not_sent": wire.lost,
        },
        "levers": findings.levers,
        "unavailable": UNAVAILABLE.into_iter().map(|(key, why)| (key.to_owned(), json!(why)))
            .collect::<serde_json::Map<_, _>>(),
    })
}
