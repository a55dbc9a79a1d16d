//! `--part e2e`: four servers over HotStuff, or three over uBFT, under a load broker.

use super::plan::LoadPlan;
use super::report::{self, bytes, common_fields, cpu, middle, of_batches, spread, unavailable};
use super::rig::{Rig, Stretch, members};
use crate::bench::chop::report::{float, rounded};
use crate::exit::bug;
use crate::output::Report;
use crate::session::Session;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use synod_config::SynError;
use synod_load::chop::Members;
use synod_load::chop::broker::{Books, Pace};

/// Why figures that other parts have are not here.
const UNAVAILABLE: [(&str, &str); 2] = [
    ("stage_ns", "stages are measured by --part auth and --part server"),
    ("cohort_hit", "servers do not count the sums of cohorts that they find"),
];

/// What a cluster gave.
pub(super) struct Measured {
    pub(super) stretches: Vec<Stretch>,
    /// At a tenth of what the middle one gave, an open loop.
    pub(super) light: Option<Light>,
    pub(super) books: Books,
    pub(super) audit: super::audit::Audit,
    pub(super) pool: usize,
}

/// A stretch of an open loop.
pub(super) struct Light {
    offered: f64,
    stretch: Stretch,
}

impl Light {
    fn to_json(&self) -> Value {
        json!({
            "offered_per_s": rounded(self.offered), "achieved_per_s": rounded(self.stretch.per_s()),
            "held": self.stretch.per_s() >= 0.95 * self.offered, "batches": self.stretch.batches,
            "latency_us": self.stretch.latency.to_json(),
        })
    }
}

/// Measures one cluster: a closed loop or the open one that was asked for, and a light open one if `light`.
///
/// # Errors
/// What could not be started; SYN-6009 if the audit fails.
pub(super) fn cluster(
    session: &Session,
    plan: &LoadPlan,
    (members, repeat, light): (&Arc<Members>, u32, bool),
) -> Result<Measured, SynError> {
    let rig = Rig::start(session, plan, members)?;
    rig.warm_up(session, plan)?;
    if let Some(rate) = plan.rate {
        rig.driver.pace(paced(f64::from(rate), plan.batch));
    }
    let mut stretches = Vec::new();
    for repetition in 1..=repeat {
        session.watched(&format!("measuring, {repetition} of {repeat}"));
        stretches.push(rig.stretch(|| {
            std::thread::sleep(plan.span);
            Ok(())
        })?);
    }
    let peak = middle(&stretches).map_or(0.0, |(stretch, _)| stretch.per_s());
    let light = if light && peak > 0.0 {
        session.watched("measuring at a tenth of that");
        rig.driver.pace(Pace::Paused);
        let _ = rig.driver.drain(Duration::from_secs(30));
        rig.driver.pace(paced(peak / 10.0, plan.batch));
        // Ten batches at least: what a quantile means anything of.
        let ten = Duration::from_secs_f64((10.0 * f64::from(plan.batch) / (peak / 10.0)).min(60.0));
        let span = plan.span.max(ten);
        let stretch = rig.stretch(|| {
            std::thread::sleep(span);
            Ok(())
        })?;
        Some(Light { offered: peak / 10.0, stretch })
    } else {
        None
    };
    let pool = rig.driver.pool();
    let (books, audit) = rig.close(session, plan)?;
    Ok(Measured { stretches, light, books, audit, pool })
}

/// An open loop of so many messages per second.
pub(super) fn paced(per_s: f64, batch: u32) -> Pace {
    Pace::Rate { batches: 1, every: Duration::from_secs_f64(f64::from(batch) / per_s.max(1e-3)) }
}

/// Measures and gives the result.
///
/// # Errors
/// What could not be started; SYN-6009 if the audit fails.
pub(super) fn measure(session: &Session, plan: &LoadPlan) -> Result<Report, SynError> {
    let members = members(session, plan.clients)?;
    let measured = cluster(session, plan, (&members, plan.repeat, plan.ablations && plan.rate.is_none()))?;
    let nothing = || bug("bench", &"nothing was measured");
    let (stretch, range) = middle(&measured.stretches).ok_or_else(nothing)?;
    let mut own = of_batches(plan, "e2e", measured.pool);
    for (key, value) in figures(stretch, &measured.books) {
        own.insert(key.to_owned(), value);
    }
    own.insert("messages_per_s_spread".to_owned(), range.map(rounded).to_vec().into());
    let mut reasons = UNAVAILABLE.to_vec();
    match &measured.light {
        Some(light) => drop(own.insert("at_a_tenth".to_owned(), light.to_json())),
        None => reasons.push(("at_a_tenth", "left out by --no-ablations or --rate")),
    }
    if plan.ablations {
        own.insert("paths".to_owned(), others(session, plan, &members)?.into());
    } else {
        reasons.push(("paths", "left out by --no-ablations"));
    }
    match spread(stretch, "synod_server_witness_seconds") {
        Ok(times) => drop(own.insert("witness_us".to_owned(), times)),
        Err(_) => reasons.push(("witness_us", "no batch was witnessed in the measured time")),
    }
    unavailable(&reasons, &mut own);
    let report = common_fields(plan, plan.durability(), stretch, &measured.books, &measured.audit);
    Ok(report.field("chop", own))
}

/// Figures of a stretch.
pub(super) fn figures(stretch: &Stretch, books: &Books) -> Vec<(&'static str, Value)> {
    let [ingress, wire] = bytes(stretch);
    let sent = float(books.sent.1.max(1));
    vec![
        ("messages_per_s", rounded(stretch.per_s())),
        ("batches_per_s", rounded(report::per_s(stretch.batches, stretch.wall))),
        ("batches", stretch.batches.into()),
        ("measured_s", rounded(stretch.wall.as_secs_f64())),
        ("cooldown_ok", books.cooldown_ok().into()),
        ("cooldown_waits", books.cooldown_waits.into()),
        ("keysum_path", report::keysum_path(&stretch.pages)),
        ("cpu_ns_per_msg", cpu(stretch)),
        ("batch_bytes_per_msg", rounded(float(books.bytes) / sent)),
        ("ingress_bytes_per_msg", ingress),
        ("wire_bytes_per_msg", wire),
    ]
}

/// The other ways: the other durability, and cohorts instead of uniform ids.
fn others(session: &Session, plan: &LoadPlan, members: &Arc<Members>) -> Result<Vec<Value>, SynError> {
    let other_sync = if plan.durability() == "fsync" { "volatile-UNSAFE" } else { "group" };
    let aside = LoadPlan { span: plan.aside(), warmup: plan.warmup / 2, ..plan.clone() };
    let mut ways = vec![("the other durability", LoadPlan { sync: other_sync, ..aside.clone() })];
    if plan.source().is_replayed() && plan.ids == synod_load::chop::IdDraw::Uniform {
        ways.push(("cohorts, 5 % exchanged", LoadPlan { ids: synod_load::chop::IdDraw::Cohort(5), ..aside }));
    }
    let mut all = Vec::new();
    for (name, other) in ways {
        session.watched(name);
        let measured = cluster(session, &other, (members, 1, false))?;
        let Some((stretch, _)) = middle(&measured.stretches) else { continue };
        let mut way = Map::from_iter([("path".to_owned(), json!(name))]);
        way.insert("durability".to_owned(), json!(other.durability()));
        way.insert("ids".to_owned(), json!(other.ids.to_string()));
        way.insert("latency_us".to_owned(), stretch.latency.to_json());
        way.extend(figures(stretch, &measured.books).into_iter().map(|(key, value)| (key.to_owned(), value)));
        all.push(Value::Object(way));
    }
    Ok(all)
}
