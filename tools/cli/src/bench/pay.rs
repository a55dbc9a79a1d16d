//! `synod bench pay`: what replicas of a payment system cost per payment, all of them in this process.
//!
//! No figure is printed unless every payment settled once at every replica and all books are equal with nothing made or lost.

use super::chop::{float, rounded};
use super::header::common;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::{Session, usage};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use synod_config::{Exit, SynError, code};
use synod_load::pay::{
    Bank, Journals, Ownership, Paid, PayPlan, Prices, Profile, SyncMode, Verify, Workload, Written, model,
    reference, run as run_replicas,
};

/// Payments of the reference ledger.
const REFERENCE: u64 = 300_000;

/// Payments that are signed ahead at most where nobody says how many: they take about half a KiB each.
const AHEAD_MAX: u32 = 1 << 21;

/// Why figures that other benchmarks have are not here.
const UNAVAILABLE: [(&str, &str); 5] = [
    ("offered_per_s", "customers keep a number of payments on their way"),
    ("held", "no rate is offered that could be held"),
    ("latency_us", "no customer waits for an answer"),
    ("bls", "no owner has a key for multi-signatures"),
    ("peer", "no other system is run beside this one"),
];

/// The same, of replicas without journals.
const UNAVAILABLE_VOLATILE: [&str; 3] = ["fsync_us", "disk_bytes_per_payment", "fsyncs_per_s"];

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub(crate) struct PayBench {
    pub(crate) plan: PayPlan,
    /// How promises are kept, if they are.
    pub(crate) sync: Option<SyncMode>,
    /// What results call it.
    pub(crate) durability: &'static str,
    /// Whether so many payments are signed before the clock runs as this machine could settle.
    pub(crate) is_ahead_measured: bool,
    pub(crate) repeat: u32,
    pub(crate) out: Option<PathBuf>,
    /// Tells the audit of a payment that never was.
    pub(crate) planted: bool,
}

/// Measures and prints the result; without figures and with exit code 8 if a payment was lost or a unit made.
///
/// # Errors
/// A plan that means no system; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, bench: &PayBench) -> Done {
    let mut bank = Bank::new(bench.plan).map_err(usage)?;
    session.watched("measuring the ledger alone");
    let alone = reference(&bank, REFERENCE).ok_or_else(|| bug("bench", &"a payment that does not fit"))?;
    session.watched("measuring single signatures");
    let prices = Prices::measure().ok_or_else(|| bug("bench", &"a good signature is found bad"))?;
    let bench = &PayBench { plan: signed_ahead(bench, alone, &prices), ..bench.clone() };
    if bench.plan.ahead > 0 {
        bank = Bank::new(bench.plan).map_err(usage)?;
    }
    let (journals, sync_time) = journals(bench.sync)?;
    if let Some(journals) = &journals {
        bank = bank.keeping(Arc::clone(journals));
    }
    let signed = format!("customers sign {} payments, then the clock runs", bench.plan.ahead);
    let mut all = Vec::new();
    for _ in 0..bench.repeat {
        session.watched(if bench.plan.ahead > 0 { &signed } else { "measuring the replicas" });
        let mut paid = run_replicas(&bank).map_err(|why| bug("bench", &why))?;
        paid.kept.iter_mut().take(1).for_each(|kept| kept.taken += u64::from(bench.planted));
        sound(&paid)?;
        all.push(paid);
    }
    let report = report(bench, (alone, prices, sync_time), &all);
    if let Some(file) = &bench.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// The plan with as many payments signed before the clock runs as could settle while it does, where that was left open.
fn signed_ahead(bench: &PayBench, alone: (u64, Duration), prices: &Prices) -> PayPlan {
    let (plan, is_signed) = (bench.plan, PayPlan { ahead: 1, ..bench.plan });
    if !bench.is_ahead_measured {
        return plan;
    }
    let most = model(&is_signed, per_s(alone.0, alone.1), prices, cores());
    let wanted = (most * (plan.warmup + plan.span).as_secs_f64()).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let ahead = (wanted as u32).min(AHEAD_MAX);
    PayPlan { ahead, ..plan }
}

/// Journals in a folder of their own, and what a sync takes there.
fn journals(sync: Option<SyncMode>) -> Result<(Option<Arc<Journals>>, Option<Duration>), SynError> {
    let Some(mode) = sync else { return Ok((None, None)) };
    let folder = std::env::temp_dir().join(format!("synod-bench-pay-{}", std::process::id()));
    let journals = Journals::new(&folder, mode).map_err(|why| bug("bench", &why))?;
    let sync_time = journals.sync_time().map_err(|why| bug("bench", &why))?;
    Ok((Some(Arc::new(journals)), Some(sync_time)))
}

fn sound(paid: &Paid) -> Result<(), SynError> {
    if paid.sound() {
        return Ok(());
    }
    let (lost, duplicated) = (paid.lost().to_string(), paid.duplicated().to_string());
    let values = [("lost", lost.as_str()), ("duplicated", duplicated.as_str())];
    Err(SynError::of(code::AUDIT_FAILED, &values).because(format!("{paid:?}")))
}

fn per_s(count: u64, wall: Duration) -> f64 {
    if wall.is_zero() { 0.0 } else { float(count) / wall.as_secs_f64() }
}

fn rate(paid: &Paid) -> f64 {
    per_s(paid.payments, paid.wall)
}

/// Of each payment; nothing where there was none.
fn each(amount: f64, payments: u64) -> Value {
    if payments == 0 { Value::Null } else { rounded(amount / float(payments)) }
}

fn one(paid: &Paid) -> Value {
    let written = paid.written.unwrap_or_default();
    let cpu: Duration = paid.cpu.iter().sum::<Duration>() + written.cpu;
    let stored = |value: Value| if paid.written.is_some() { value } else { Value::Null };
    json!({
        "pps": rounded(rate(paid)),
        "by_level": {
            "accepted": rounded(per_s(paid.accepted, paid.wall)),
            "certified": rounded(per_s(paid.certified, paid.wall)),
            "settled": rounded(per_s(paid.settled, paid.wall)),
            "stable": rounded(per_s(paid.stable, paid.wall)),
        },
        // With the threads that write journals, whose part stands beside it.
        "cpu_us_per_payment": each(cpu.as_secs_f64() * 1e6, paid.payments),
        "journals_cpu_us_per_payment": stored(each(written.cpu.as_secs_f64() * 1e6, paid.payments)),
        "disk_bytes_per_payment": stored(each(float(written.bytes), paid.payments)),
        "fsyncs_per_s": stored(rounded(per_s(written.syncs, paid.wall))),
        "write_and_sync_ms": stored(syncing(&written)),
        // Of customers who sign: the load's, which replicas have no part in.
        "owners_cpu_us_per_payment": each(paid.owners.as_secs_f64() * 1e6, paid.payments),
        "signatures_per_payment": each(float(paid.signed), paid.payments),
        "verifications_per_payment": each(float(paid.checked), paid.payments),
        "bytes_per_payment": each(float(paid.bytes), paid.payments),
        // Of the transactions that were begun, those that pay somebody in another shard.
        "cross_shard_share": each(float(paid.crossing), paid.transactions),
        "crossing": paid.crossing,
        // Of the whole run: as many units left for other shards as came.
        "crossed_units": u64::try_from(paid.crossed).unwrap_or(u64::MAX),
        "transactions": paid.transactions,
        "poor": paid.poor,
        "measured_s": rounded(paid.wall.as_secs_f64()),
        "accepted": paid.accepted,
        "busy": paid.busy,
    })
}

/// What a group took from the first byte to the last of its sync, the mean of all.
fn syncing(written: &Written) -> Value {
    each(written.syncing.as_secs_f64() * 1e3, written.syncs)
}

/// The word of who signs.
const fn ownership(plan: &PayPlan) -> &'static str {
    match plan.ownership {
        Ownership::Custodial => "custodial",
        Ownership::SelfSigned => "self",
        Ownership::Distilled => "distilled",
    }
}

fn micros(span: Duration) -> Value {
    rounded(span.as_secs_f64() * 1e6)
}

/// The word of who checks, and how many members that are: with witnesses f of them and the representative.
fn verify(plan: &PayPlan) -> (&'static str, u8) {
    match plan.verify {
        Verify::All => ("all", plan.nodes),
        Verify::Witness { margin } => {
            ("witness", (plan.nodes.saturating_sub(1) / 3).saturating_add(margin) + 1)
        }
    }
}

/// The word of what replicas are of.
const fn profile(plan: &PayPlan) -> &'static str {
    match plan.profile {
        Profile::I => "I",
        Profile::II => "II",
        Profile::Funded => "II-F",
    }
}

const fn workload(plan: &PayPlan) -> &'static str {
    match plan.workload {
        Workload::Pay => "pay",
        Workload::Smallbank => "smallbank",
    }
}

/// What a figure of this plan is of: faults, checks, order, durability.
fn semantics(plan: &PayPlan, sync: Option<SyncMode>) -> String {
    let kept = match sync {
        None => "nothing is kept",
        Some(SyncMode::Group | SyncMode::Always) => {
            "each replica syncs what it promises before it speaks, no index, no HTTP"
        }
        Some(SyncMode::NoneUnsafe | SyncMode::VolatileUnsafe) => {
            "each replica writes what it promises before it speaks and syncs nothing, no index, no HTTP"
        }
    };
    let liars = match (plan.shards, plan.profile) {
        (1, Profile::I) => "f liars of 3f + 1, nothing is signed and nobody else can be shown anything",
        (1, _) => "f liars of 3f + 1",
        _ => "f liars of the 3f + 1 of each shard, what crosses a border is shown by a certificate",
    };
    let money = match plan.profile {
        Profile::I => "what is not funded waits",
        Profile::II => "what f + 1 members vouch for is spent, and what is not funded is rejected",
        Profile::Funded => "an endorsement promises that it is funded",
    };
    let pairs = match plan.workload {
        Workload::Pay => "",
        Workload::Smallbank => ", what empties two accounts is two payments and not atomic",
    };
    let by = verify(plan).1;
    format!(
        "{liars}, {money}, owners' signatures checked by {by} members, all others by all, no total order, {kept}{pairs}"
    )
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

type Alone = ((u64, Duration), Prices, Option<Duration>);

fn report(bench: &PayBench, (alone, prices, sync_time): Alone, all: &[Paid]) -> Report {
    let mut sorted: Vec<&Paid> = all.iter().collect();
    sorted.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let middle = sorted.get(sorted.len() / 2).map(|one| (*one).clone()).unwrap_or_default();
    let spread = [sorted.first(), sorted.last()].map(|one| rounded(one.map_or(0.0, |one| rate(one))));
    let mut header = common();
    for (key, value) in [
        ("transport", "none: in one process"),
        ("auth", ownership(&bench.plan)),
        ("durability", bench.durability),
        ("loop", "closed"),
    ] {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(1));
    let sum = |of: fn(&Paid) -> u64| all.iter().map(of).sum::<u64>();
    let audit = json!({
        "ok": all.iter().all(Paid::sound), "lost": sum(Paid::lost), "duplicated": sum(Paid::duplicated),
        "books_equal": all.iter().all(|one| one.equal), "conserved": all.iter().all(|one| one.conserved),
    });
    let reference = per_s(alone.0, alone.1);
    let plan = bench.plan;
    let (achieved, model) = (rate(&middle), model(&plan, reference, &prices, cores()));
    let over = |whole: f64| rounded(if whole > 0.0 { achieved / whole } else { 0.0 });
    let costs = json!({
        "sign_us": micros(prices.sign), "verify_us": micros(prices.verify),
        "batch_verify_us": micros(prices.batch_verify), "hash64_us": micros(prices.hash64),
        "fsync_us": sync_time.map_or(Value::Null, micros),
    });
    let mut reasons: Map<String, Value> =
        UNAVAILABLE.iter().map(|(key, why)| ((*key).to_owned(), json!(why))).collect();
    if bench.sync.is_none() {
        reasons.extend(UNAVAILABLE_VOLATILE.map(|key| (key.to_owned(), json!("nothing is stored"))));
    }
    let process =
        if bench.sync.is_some() { "one: no socket, a journal each" } else { "one: no socket, no disk" };
    Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("achieved_per_s", rounded(rate(&middle)))
        .field("held", Value::Null)
        // While the clocks ran. What was taken had settled at the end, or there were no figures.
        .field(
            "outcomes",
            json!({ "accepted": sum(|one| one.accepted), "rejected": sum(|one| one.busy + one.poor), "unknown": sum(Paid::lost) }),
        )
        .field("audit", audit)
        .field(
            "pay",
            json!({
                "part": "replicas", "process": process,
                "config": {
                    "profile": profile(&plan), "ownership": ownership(&plan), "verify": verify(&plan).0,
                    "nodes": plan.nodes, "shards": plan.shards,
                    "accounts": plan.accounts, "signed_ahead": plan.ahead, "batch": plan.batch, "inflight": plan.inflight,
                    "dist": "uniform", "workload": workload(&plan),
                    "cross_shard": plan.cross.map(|share| float(u64::from(share.0)) / 1e4),
                },
                "runs": all.iter().map(one).collect::<Vec<_>>(),
                "pps_spread": spread,
                "reference_pps": rounded(reference),
                "unit_costs": costs,
                "model_pps": rounded(model),
                "ratio": { "reference": over(reference), "model": over(model) },
                "semantics": semantics(&plan, bench.sync),
                "unavailable": reasons,
            }),
        )
}
