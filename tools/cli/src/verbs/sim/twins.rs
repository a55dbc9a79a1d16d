//! `synod sim twins`: two machines with one key, script by script.

use super::{fields, marks, seed, unknown, violated};
use crate::exit::Done;
use crate::output::Report;
use crate::score::record::name;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use synod_config::{Exit, SynError, code};
use synod_trial::plants::is_plant_build;
use synod_trial::run::SYSTEMS;
use synod_trial::systems::chopchop;
use synod_trial::twins::{HuntReport, Order, enumerate, hunt};

/// Scripts of an enumeration that is told neither their number nor its time.
const COUNT: u64 = 1_000;

/// Enumerates scripts of twins: per round a leader and who hears which twin, up to symmetry.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim twins --system hotstuff/chain2 --count 8")]
pub(super) struct Arguments {
    /// The system; a bare `hotstuff`, or `all`, is every production pack, `chopchop` both of its orderings, one after the other.
    #[arg(long, default_value = "hotstuff/chain2+order")]
    system: String,
    /// Number of scripts per system; 1000 unless there is a time.
    #[arg(long)]
    count: Option<u64>,
    /// Stops taking scripts of a system after this many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// The first index; by default the one behind the last that was run here.
    #[arg(long, value_parser = seed)]
    from: Option<u64>,
    /// Threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Looks for these planted bugs among the scripts instead, in builds that hold them: exit 8 when one is not found.
    #[arg(long, value_delimiter = ',', conflicts_with = "minutes")]
    plants: Vec<String>,
    /// The folder that keeps which scripts were run.
    #[arg(long, default_value = marks::FOLDER)]
    out: PathBuf,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let systems: Vec<String> = match self.system.as_str() {
            "all" | "hotstuff" => names(&SYSTEMS),
            "chopchop" => names(&chopchop::SYSTEMS),
            one => vec![one.to_owned()],
        };
        if !self.plants.is_empty() {
            return self.hunted(session, &systems);
        }
        let (mut reports, mut first) = (Vec::new(), None);
        for system in systems {
            let stored = || marks::next(&self.out, "twins", &system);
            let order = Order {
                from: self.from.unwrap_or_else(stored),
                count: self.count.or(self.minutes.map(|_| u64::MAX)).unwrap_or(COUNT),
                time_max: self.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
                jobs: usize::from(self.jobs),
                system,
            };
            session.tell(&format!("scripts of {} from {} on", order.system, order.from));
            let report = enumerate(&order).map_err(|e| unknown(&e))?;
            if self.from.is_none() {
                marks::raise(&self.out, "twins", &order.system, report.next)
                    .map_err(|e| crate::cluster::unwritable(&self.out, &e))?;
            }
            first = first.or_else(|| report.violations.first().cloned());
            reports.push(report);
        }
        let report = shown(&reports);
        session.recorder.record(&self.out, &name("sim-twins", &self.system), &report);
        session.output.print(&report)?;
        match first {
            None => Ok(Exit::Success),
            Some(failure) => {
                Err(violated(&failure.token, &format!("{}: {}", failure.checker, failure.what), ""))
            }
        }
    }

    fn hunted(&self, session: &Session, systems: &[String]) -> Done {
        if !is_plant_build() {
            return Err(SynError::of(code::FEATURE_MISSING, &[("feature", "--cfg synod_plant")])
                .because("only builds of `cargo xtask plant` hold planted bugs"));
        }
        let (from, count) = (self.from.unwrap_or(0), self.count.unwrap_or(COUNT));
        let mut per = Vec::new();
        for id in &self.plants {
            let report = hunt(id, systems, from, count).map_err(|e| usage(&e))?;
            session.tell(&format!("{id} {}", if report.found { &report.token } else { "missed" }));
            per.push(report);
        }
        session.output.print(&found(&per))?;
        let missed: Vec<&str> = per.iter().filter(|r| !r.found).map(|r| r.id.as_str()).collect();
        if missed.is_empty() {
            return Ok(Exit::Success);
        }
        let why = format!("not found: {}", missed.join(", "));
        Err(SynError::of(code::PROPERTY_VIOLATED, &[("token", "twins")]).because(why))
    }
}

fn names(systems: &[&str]) -> Vec<String> {
    systems.iter().map(|system| (*system).to_owned()).collect()
}

/// The report of one system as it is; of several their sums and a row for each.
fn shown(reports: &[synod_trial::twins::TwinsReport]) -> Report {
    if let [one] = reports {
        return fields("synod-sim-twins/1", &serde_json::to_value(one).unwrap_or_default());
    }
    let sum = |of: fn(&synod_trial::twins::TwinsReport) -> u64| reports.iter().map(of).sum::<u64>();
    let violations: Vec<_> = reports.iter().flat_map(|report| report.violations.clone()).collect();
    let wall_ms = sum(|r| r.wall_ms).max(1);
    let rows = reports.iter().map(|r| {
        vec![
            json!(r.system),
            json!(r.from),
            json!(r.executed),
            json!(r.unique),
            json!(r.complete),
            json!(r.per_s),
        ]
    });
    Report::new("synod-sim-twins/1")
        .field("executed", sum(|r| r.executed))
        .field("unique", sum(|r| r.unique))
        .field("complete", sum(|r| r.complete))
        .field("per_s", sum(|r| r.executed) * 1_000 / wall_ms)
        .field("violations", json!(violations))
        .list("per", &["system", "from", "executed", "unique", "complete", "per_s"], rows.collect())
}

fn found(per: &[HuntReport]) -> Report {
    let row =
        |r: &HuntReport| vec![json!(r.id), json!(r.found), json!(r.executed), json!(r.fired), json!(r.token)];
    Report::new("synod-sim-twins-plants/1")
        .field("planted", per.len() as u64)
        .field("found", per.iter().filter(|report| report.found).count() as u64)
        .list("per", &["id", "found", "executed", "fired", "token"], per.iter().map(row).collect())
}
