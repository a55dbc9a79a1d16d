//! `--part server`: what a server costs per message, witnessing its share of the batches.
//!
//! Both machines of a server and all their jobs run in this process beside a load broker, without sockets and disk: figures are
//! of the server's own work, not of a server process, and the result says so. Batches are genuine, and no figure is printed
//! unless each of their messages was delivered once and forgeries of the first batch were refused.

use super::ChopPlan;
use super::audit::Audit;
use super::plan::ServerPart;
use super::report::{each, float, rounded};
use crate::bench::header::common;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::{Session, usage as wrong_usage};
use serde_json::{Map, Value, json};
use std::time::Duration;
use synod_config::{Exit, SynError, code};
use synod_crypto::Seed;
use synod_load::chop::node::{QUOTA_WORK, ROLES, Replay, Served, ServerPlan, serve};
use synod_load::chop::{KeyFamily, Unfit, Witness, cluster};

/// Why figures that other benchmarks have are not here.
const UNAVAILABLE: [(&str, &str); 6] = [
    ("offered_per_s", "the load broker keeps a window of batches on their way"),
    ("latency_us", "no client is answered"),
    ("bytes_per_op", "nothing is sent"),
    ("fsync_us", "nothing is stored"),
    (
        "cooldown_ok",
        "clients of a batch on its way may be in another one; the broker orders them by their numbers",
    ),
    ("executor", "the application counts and does nothing"),
];

/// One way to run the server, and what it gave.
struct Way {
    name: &'static str,
    served: Vec<Served>,
}

/// Runs `plan` and prints its result; without figures and with exit code 8 if a message was lost or delivered twice.
///
/// # Errors
/// A plan that means no batch; SYN-6009 if the audit fails.
pub(super) fn run(session: &Session, plan: &ChopPlan, part: ServerPart) -> Done {
    session.watched("measuring without huge pages and without kept memory");
    let without = [
        ("without huge pages", super::children::without_huge_pages("server", plan)?),
        ("without kept memory", super::children::without_kept_memory("server", plan)?),
    ];
    session.watched("making keys");
    let cluster = cluster();
    let members = KeyFamily::new(&Seed::new(super::auth::FAMILY)).members(plan.clients, plan.id_space);
    let members = members.ok_or_else(|| bug("bench", &"a directory that cuts a chunk"))?;
    session.watched("making batches");
    let unfit = |why: Unfit| wrong_usage(&why.to_string());
    let replay = Replay::new(&cluster, &members, plan.batches(), plan.pool).map_err(unfit)?;
    session.watched("auditing");
    let first = replay.first().map(std::slice::from_ref).unwrap_or_default();
    // The audit is told of a forgery that is none where stragglers sign, else of a batch that never was.
    let signed_alone = plan.batches().stragglers() > 0;
    let witness = Witness::new(&cluster, &members);
    let audit = Audit::of(&witness, &cluster, first, plan.planted && signed_alone);
    audit.passed()?;
    let (mut measured, planted) = (Vec::new(), plan.planted);
    for (name, plan, repeat) in ways(plan, part) {
        let mut served = Vec::new();
        for _ in 0..repeat {
            session.watched(&format!("measuring {name}"));
            let mut one = serve(&cluster, &members, &replay, &plan).map_err(|why| bug("bench", &why))?;
            one.sent += u64::from(planted);
            sound(&one)?;
            served.push(one);
        }
        measured.push(Way { name, served });
    }
    let report = report(plan, part, (&measured, &audit), &without);
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// The ways to run the server, each with its name and how often.
fn ways(plan: &ChopPlan, part: ServerPart) -> Vec<(&'static str, ServerPlan, u32)> {
    let usual = ServerPlan {
        window: part.window,
        share: part.share,
        cohorts: true,
        vectors: true,
        together: 4,
        warmup: plan.warmup,
        span: plan.span,
    };
    let aside = ServerPlan { span: plan.aside(), ..usual };
    let mut ways = vec![("as servers do", usual, plan.repeat)];
    if plan.ablations {
        ways.push(("every batch witnessed", ServerPlan { share: (1, 1), ..aside }, 1));
        ways.push(("no batch witnessed", ServerPlan { share: (0, 1), ..aside }, 1));
    }
    // Without multi-signatures no keys are added and nothing is paired.
    if plan.ablations && plan.batches().stragglers() < plan.batch {
        ways.push(("no sums of cohorts", ServerPlan { cohorts: false, ..aside }, 1));
        ways.push(("keys added by the curve library", ServerPlan { vectors: false, ..aside }, 1));
        ways.push(("one check at a time", ServerPlan { together: 1, ..aside }, 1));
    }
    ways
}

/// How the batches of `plan` were made.
fn generated(plan: &ChopPlan) -> &'static str {
    if plan.batches().stragglers() == 0 {
        "bodies of a pool under rising numbers, each with an aggregate made while the clock runs"
    } else {
        "before the clock ran, one for each number, every straggler with a signature by its key of the family; none is sent twice \
         to one server"
    }
}

fn sound(served: &Served) -> Result<(), SynError> {
    if served.sound() {
        return Ok(());
    }
    let lost = (served.sent.saturating_sub(served.delivered) + served.exceptions).to_string();
    let values = [("lost", lost.as_str()), ("duplicated", "0")];
    Err(SynError::of(code::AUDIT_FAILED, &values).because(format!("{served:?}")))
}

fn per_s(served: &Served) -> f64 {
    if served.wall.is_zero() { 0.0 } else { float(served.messages) / served.wall.as_secs_f64() }
}

/// The run in the middle, by messages per second.
fn middle(served: &[Served]) -> Served {
    let mut all: Vec<&Served> = served.iter().collect();
    all.sort_by(|a, b| per_s(a).total_cmp(&per_s(b)));
    all.get(all.len() / 2).map(|one| (*one).clone()).unwrap_or_default()
}

/// Processor time per message by role, and of all roles of the server.
fn cpu(served: &Served) -> Map<String, Value> {
    let roles = ROLES.iter().zip(served.cpu);
    let own: Duration = roles.clone().filter(|((role, _), _)| *role != "load").map(|(_, time)| time).sum();
    let mut out: Map<String, Value> =
        roles.map(|((role, _), time)| ((*role).to_owned(), each(time, served.messages))).collect();
    out.insert("of_the_server".to_owned(), each(own, served.messages));
    out
}

fn way(one: &Way) -> Value {
    let served = middle(&one.served);
    json!({
        "path": one.name, "messages_per_s": rounded(per_s(&served)),
        "witnessed": served.witnessed, "batches": served.batches, "cpu_ns_per_msg": cpu(&served),
        "measured_s": rounded(served.wall.as_secs_f64()), "used_up": served.used_up,
    })
}

/// A way that another process went, where one did.
type Apart = (&'static str, Option<Value>);

fn apart((name, told): &Apart) -> Option<Value> {
    let told = told.as_ref()?;
    Some(json!({
        "path": name, "messages_per_s": told["messages_per_s"],
        "measured_s": told["measured_s"], "used_up": told["used_up"],
        "cpu_ns_per_msg": told["cpu_ns_per_msg"],
    }))
}

fn report(plan: &ChopPlan, part: ServerPart, (ways, audit): (&[Way], &Audit), without: &[Apart]) -> Report {
    let usual = ways.first().map(|way| middle(&way.served)).unwrap_or_default();
    let mut header = common();
    for (key, value) in [
        ("transport", "none: in one process"),
        ("auth", "signed"),
        ("durability", "none"),
        ("loop", "closed"),
    ] {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(1));
    Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("achieved_per_s", rounded(per_s(&usual)))
        .field("held", true)
        .field("outcomes", json!({ "accepted": usual.messages, "rejected": 0, "unknown": 0 }))
        .field("audit", audited(audit, &usual))
        .field("chop", own(plan, part, (ways, &usual), without))
}

/// What the audit found, of the batches sent and of the forgeries.
fn audited(audit: &Audit, usual: &Served) -> Value {
    let mut out = audit.to_json();
    if let Value::Object(out) = &mut out {
        out.extend([
            ("sent".to_owned(), json!(usual.sent)),
            ("delivered".to_owned(), json!(usual.delivered)),
            ("exceptions".to_owned(), json!(usual.exceptions)),
        ]);
    }
    out
}

/// The keys of this benchmark alone.
fn own(plan: &ChopPlan, part: ServerPart, (ways, usual): (&[Way], &Served), without: &[Apart]) -> Value {
    let (asked, of) = part.share;
    let mut spread: Vec<f64> = ways.iter().take(1).flat_map(|way| way.served.iter().map(per_s)).collect();
    spread.sort_by(f64::total_cmp);
    let spread = [spread.first(), spread.last()].map(|rate| rounded(rate.copied().unwrap_or(0.0)));
    let reasons: Map<String, Value> =
        UNAVAILABLE.iter().map(|(key, why)| ((*key).to_owned(), json!(why))).collect();
    json!({
        "part": "server", "process": "the load broker's: no socket, no disk",
        "n": 4, "f": 1, "share": format!("{asked}/{of}"), "ordering": "solo",
        "ids": plan.ids.to_string(), "clients": plan.clients, "id_space": plan.id_space,
        "batch": plan.batch, "size": plan.size, "distilled": f64::from(plan.distilled) / 1_000.0,
        "stragglers_per_batch": plan.batches().stragglers(), "generated": generated(plan),
        "pool": plan.pool, "window": part.window, "quota_work": QUOTA_WORK,
        "messages_per_s": rounded(per_s(usual)), "messages_per_s_spread": spread,
        "measured_s": rounded(usual.wall.as_secs_f64()), "used_up": usual.used_up,
        "cpu_ns_per_msg": cpu(usual),
        "huge_page_bytes": crate::huge::held(),
        "paths": ways.iter().map(way).chain(without.iter().filter_map(apart)).collect::<Vec<_>>(),
        "unavailable": reasons,
    })
}
