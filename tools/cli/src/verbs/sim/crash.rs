//! `synod sim crash`: a crash at every boundary between two effects.

use super::violated;
use crate::exit::Done;
use crate::output::Report;
use crate::score::record::name;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::{Value, json};
use synod_config::{Exit, SynError};
use synod_trial::crash::{CrashReport, Order, Point, SYSTEMS, SystemReport, again, enumerate};

/// Crashes each member at every boundary between two effects, with every outcome of its disk, and tempts it afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim crash --system journal --blocks")]
pub(super) struct Arguments {
    /// The system; a bare `hotstuff` is its four packs, `chopchop` its two ordering layers, `all` those and the
    /// journal; `astro` its three profiles, which take longer: every outcome is a run of its own.
    #[arg(long, default_value = "all")]
    system: String,
    /// Journals are the real one on a disk of blocks: every subset of up to four un-synced writes, and torn ones.
    #[arg(long)]
    blocks: bool,
    /// Threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Takes one boundary of so many.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    stride: u32,
    /// Repeats the crash that this token names, and no other.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["system", "blocks", "stride"])]
    point: Option<String>,
    /// The planted bug that is on; needs a build of `cargo xtask plant`.
    #[arg(long, value_name = "ID")]
    plant: Option<String>,
}

fn chosen(system: &str) -> Result<Vec<String>, SynError> {
    let of = |known: &&str| match system {
        "all" => !known.starts_with("astro/"),
        "hotstuff" => known.starts_with("hotstuff/"),
        "chopchop" => known.starts_with("chopchop/"),
        "astro" => known.starts_with("astro/"),
        one => one == *known,
    };
    let systems: Vec<String> = SYSTEMS.iter().filter(|s| of(s)).map(|s| (*s).to_owned()).collect();
    if systems.is_empty() {
        let systems = format!("systems are all, hotstuff, chopchop, astro, {}", SYSTEMS.join(", "));
        return Err(usage(&format!("no system is called {system}")).because(systems));
    }
    Ok(systems)
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        super::shrink::planted(self.plant.as_deref())?;
        if let Some(text) = &self.point {
            return repeated(session, text);
        }
        let mut reports: Vec<CrashReport> = Vec::new();
        for system in chosen(&self.system)? {
            session.tell(&format!("crashes of {system}"));
            let order = Order {
                systems: vec![system],
                blocks: self.blocks,
                jobs: usize::from(self.jobs),
                stride: self.stride,
            };
            reports.push(enumerate(&order).map_err(|e| usage(&e))?);
        }
        let report = shown(&reports, self.blocks);
        if self.stride == 1 && self.plant.is_none() {
            let disk = if self.blocks { "-blocks" } else { "" };
            session.score(&format!("{}{disk}", name("sim-crash", &self.system)), &report);
        }
        session.output.print(&report)?;
        match reports.iter().find_map(CrashReport::first) {
            None => Ok(Exit::Success),
            Some(failure) => {
                Err(violated(&failure.token, &format!("{}: {}", failure.checker, failure.what), ""))
            }
        }
    }
}

fn repeated(session: &Session, text: &str) -> Done {
    let point: Point = text.parse().map_err(|e: synod_trial::crash::BadPoint| usage(&e.to_string()))?;
    let one = again(&point).map_err(|e| usage(&e))?;
    let report = listed(Report::new("synod-sim-crash/1"), &[&one]);
    session.output.print(&report)?;
    match one.failures.first() {
        None => Ok(Exit::Success),
        Some(failure) => Err(violated(&failure.token, &format!("{}: {}", failure.checker, failure.what), "")),
    }
}

fn shown(reports: &[CrashReport], blocks: bool) -> Report {
    let wall_ms: u64 = reports.iter().map(|report| report.wall_ms).sum();
    let per: Vec<&SystemReport> = reports.iter().flat_map(|report| &report.per).collect();
    let disk = if blocks { "blocks" } else { "records" };
    listed(Report::new("synod-sim-crash/1").field("disk", disk).field("wall_ms", wall_ms), &per)
}

/// The sums, then a row per system.
fn listed(report: Report, per: &[&SystemReport]) -> Report {
    let sum = |of: fn(&SystemReport) -> u64| per.iter().map(|system| of(system)).sum::<u64>();
    let failures: Vec<Value> =
        per.iter().flat_map(|system| &system.failures).map(|failure| json!(failure)).collect();
    let rows = per.iter().map(|s| {
        vec![
            json!(s.system),
            json!(s.points),
            json!(s.outcomes),
            json!(s.statements),
            json!(s.conflicts),
            json!(s.gate_violations),
            json!(s.panics),
        ]
    });
    let columns = ["system", "points", "outcomes", "statements", "conflicts", "gate_violations", "panics"];
    report
        .field("points", sum(|s| s.points))
        .field("outcomes", sum(|s| s.outcomes))
        .field("conflicts", sum(|s| s.conflicts))
        .field("gate_violations", sum(|s| s.gate_violations))
        .field("panics", sum(|s| s.panics))
        .field("failures", failures)
        .list("per", &columns, rows.collect())
}
