//! `synod sim soak`: many fresh seeds.

use super::{fields, marks, options, seed, unknown, violated};
use crate::exit::Done;
use crate::score::record::name;
use crate::session::Session;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use synod_config::Exit;
use synod_trial::soak::{SoakOptions, soak};

/// Seeds of a soak that is told neither their number nor its time.
const SEEDS: u64 = 100;

/// Many seeds, by default such as were not run before.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim soak --system hotstuff/chain2 --seeds 4")]
pub(super) struct Arguments {
    /// The system; a bare `hotstuff`, `chopchop`, `astro` or `ubft` is every system of that protocol, `all` those of these protocols.
    #[arg(long, default_value = "hotstuff")]
    system: String,
    /// Number of seeds; 100 unless there is a time.
    #[arg(long)]
    seeds: Option<u64>,
    /// Stops taking seeds after this many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// The first seed; by default the one behind the last that was run here.
    #[arg(long, value_parser = seed)]
    from: Option<u64>,
    /// Options of every run.
    #[arg(long, default_value = "")]
    options: String,
    /// Stops at the first failure.
    #[arg(long)]
    first: bool,
    /// Threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// The folder that keeps which seeds were run.
    #[arg(long, default_value = marks::FOLDER)]
    out: PathBuf,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let stored = || marks::next(&self.out, "soak", &self.system);
        let seeds = self.seeds.or(self.minutes.map(|_| u64::MAX)).unwrap_or(SEEDS);
        let mut plan = SoakOptions::new(&self.system, self.from.unwrap_or_else(stored), seeds);
        plan.options = options(&self.options)?;
        plan.time_max = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        plan.first = self.first;
        plan.jobs = usize::from(self.jobs);
        session.tell(&format!("seeds of {} from {} on", plan.systems.join(", "), plan.from));
        let (report, columns) = soak(&plan).map_err(|e| unknown(&e))?;
        if self.from.is_none() {
            let next = report.next;
            marks::raise(&self.out, "soak", &self.system, next)
                .map_err(|e| crate::cluster::unwritable(&self.out, &e))?;
        }
        let shown = fields("synod-sim-soak/1", &serde_json::to_value(&report).unwrap_or_default());
        let file =
            if self.system == "all" { "sim-soak-all".to_owned() } else { name("sim-soak", &self.system) };
        session.recorder.record(&self.out, &file, &shown);
        session.output.print(&shown)?;
        match report.failures.first() {
            None => Ok(Exit::Success),
            Some(failure) => {
                let what = format!("{}: {}", failure.checker, failure.what);
                Err(violated(&failure.token, &what, columns.first().map_or("", String::as_str)))
            }
        }
    }
}
