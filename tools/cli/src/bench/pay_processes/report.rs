//! The result.

use super::plan::{Fault, ProcessPlan};
use super::run::{Findings, Phase};
use crate::bench::chop::{float, rounded};
use crate::bench::header::common;
use crate::output::Report;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Why figures that other benchmarks have are not here.
const UNAVAILABLE: [(&str, &str); 4] = [
    ("offered_per_s", "customers keep a number of requests on their way"),
    ("held", "no rate is offered that could be held"),
    ("latency_us", "requests of many are answered at once"),
    ("peer", "no other system is run beside this one"),
];

fn per_s(count: u64, span: Duration) -> f64 {
    if span.is_zero() { 0.0 } else { float(count) / span.as_secs_f64() }
}

fn others(phase: &Phase, victim: usize) -> u64 {
    let own = phase.payments.get(victim).copied().unwrap_or(0);
    phase.payments.iter().sum::<u64>() - own
}

fn phase(phase: &Phase, plan: &ProcessPlan, before: f64) -> Value {
    let span = phase.ended.duration_since(phase.begun);
    let payments: u64 = phase.payments.iter().sum();
    let others = per_s(others(phase, plan.victim()), span);
    let each = |cpu: Duration| {
        if payments == 0 { Value::Null } else { rounded(cpu.as_secs_f64() * 1e6 / float(payments)) }
    };
    json!({
        "phase": phase.name,
        "seconds": rounded(span.as_secs_f64()),
        "payments": payments,
        "pps": rounded(per_s(payments, span)),
        "pps_others": rounded(others),
        "others_kept": rounded(if before > 0.0 { others / before } else { 0.0 }),
        "slowest_second": phase.slowest,
        "slowest_second_others": phase.slowest_others,
        "cpu_us_per_payment": { "nodes": each(phase.cpu[0]), "load": each(phase.cpu[1]) },
    })
}

/// What a run gave, for people and programs.
pub(super) fn report(plan: &ProcessPlan, found: &Findings) -> Report {
    let mut header = common();
    for (key, value) in [
        ("transport", "tls"),
        ("auth", "custodial"),
        ("durability", plan.durability),
        ("loop", "closed"),
        ("access", "http, many payments a request"),
    ] {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(u16::from(plan.nodes) + 1));
    let all: u64 = found.phases.iter().flat_map(|phase| &phase.payments).sum();
    let cpu: [Duration; 2] = [0, 1].map(|at| found.phases.iter().map(|phase| phase.cpu[at]).sum());
    let each = |cpu: Duration| rounded(cpu.as_secs_f64() * 1e6 / float(all.max(1)));
    let before = found
        .phases
        .first()
        .map_or(0.0, |first| per_s(others(first, plan.victim()), first.ended.duration_since(first.begun)));
    let mut reasons: Map<String, Value> =
        UNAVAILABLE.iter().map(|(key, why)| ((*key).to_owned(), json!(why))).collect();
    if found.back_after.is_none() {
        let why = if plan.faults.contains(&Fault::Kill) {
            "no payment of its customers was left when it was back"
        } else {
            "nobody was killed"
        };
        reasons.insert("back_after_s".to_owned(), json!(why));
    }
    let victim = format!("n{}", plan.victim());
    Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("achieved_per_s", rounded(per_s(plan.payments, found.took)))
        .field("held", Value::Null)
        .field("outcomes", json!({ "accepted": plan.payments, "rejected": 0, "unknown": 0 }))
        .field(
            "cpu_us_per_op",
            json!({ "total": each(cpu.iter().sum()), "by_role": { "node": each(cpu[0]), "load": each(cpu[1]) } }),
        )
        .field("rss_peak_bytes", json!({ "by_role": { "node": found.rss } }))
        .field("audit", found.audit.to_json())
        .field(
            "pay",
            json!({
                "part": "processes",
                "config": {
                    "profile": "II-F", "ownership": "custodial", "nodes": plan.nodes, "shards": 1,
                    "accounts": plan.accounts, "payments": plan.payments, "chunk": plan.chunk,
                    "requests": plan.requests, "dist": "uniform", "workload": "pay",
                },
                "victim": if plan.faults.is_empty() { json!("nobody") } else { json!(victim) },
                "phases": found.phases.iter().map(|one| phase(one, plan, before)).collect::<Vec<_>>(),
                "opened_s": rounded(found.opened.as_secs_f64()),
                "sent_again": found.again,
                "back_after_s": found.back_after.map(|back| rounded(back.as_secs_f64())),
                "semantics": "f liars of 3f + 1, every signature checked, no total order, answers when settled",
                "unavailable": reasons,
            }),
        )
}
