//! `synod sim shrink`: makes a failing run small, or all stored ones.

use super::replay::{View, file, named, write};
use super::{fields, text_of};
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_config::{Exit, SynError, code};
use synod_trial::plants;
use synod_trial::replay::{Budget, ShrinkReport, scenario_of, shrunk_within};
use synod_trial::run::Manner;
use synod_trial::traced::traced;

/// Makes a failing run small: the same checker keeps firing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim shrink --help")]
pub(super) struct Arguments {
    /// A token, or a file.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    what: Option<String>,
    /// Every stored replay of a planted bug; prints medians. Needs a build of `cargo xtask plant`.
    #[arg(long)]
    all: bool,
    /// Most seconds per run that is made small.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    budget_s: u64,
    /// Judges forks alone, so that checkers that fire earlier do not end the run.
    #[arg(long)]
    forks: bool,
    /// Fewest members that are left.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=31))]
    nodes_min: u32,
    /// The planted bug that is on; needs a build of `cargo xtask plant`.
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    plant: Option<String>,
    /// The folder that gets the small scenario with its column text and its page.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where the stored replays of planted bugs are.
    #[arg(long, default_value = "tests/replays/plants")]
    folder: PathBuf,
}

/// Turns a planted bug on, where the build has any.
pub(super) fn planted(id: Option<&str>) -> Result<(), SynError> {
    let Some(id) = id else { return Ok(()) };
    plants::activate(id)
        .map_err(|e| SynError::of(code::FEATURE_MISSING, &[("feature", "--cfg synod_plant")]).because(e))
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        if self.all {
            return self.run_all(session);
        }
        planted(self.plant.as_deref())?;
        let text = text_of(self.what.as_deref().unwrap_or_default())?;
        let (_, token) = scenario_of(&text).map_err(|e| usage(&e))?;
        let (report, kept) = self.one(&text, &named(&token))?;
        let value = serde_json::to_value(&report).unwrap_or_default();
        let mut out = fields("synod-sim-shrink/1", &value);
        match kept {
            Some(file) => out = out.field("file", file.display().to_string()),
            None => crate::output::progress(&report.scenario),
        }
        session.output.print(&out)?;
        Ok(Exit::Success)
    }

    fn budget(&self) -> Budget {
        Budget { time: Duration::from_secs(self.budget_s), forks_only: self.forks, nodes_min: self.nodes_min }
    }

    /// Makes one run small and writes what is left of it.
    fn one(&self, text: &str, name: &str) -> Result<(ShrinkReport, Option<PathBuf>), SynError> {
        let report = shrunk_within(text, self.budget()).map_err(|e| usage(&e))?;
        let Some(folder) = &self.out else { return Ok((report, None)) };
        std::fs::create_dir_all(folder).map_err(|e| crate::cluster::unwritable(folder, &e))?;
        let kept = file(Some(folder), &format!("{name}.toml"));
        write(&kept, &report.scenario)?;
        let shown =
            scenario_of(&report.scenario).and_then(|(s, token)| traced(&s, &token, Manner::default()));
        if let Ok(run) = shown {
            for view in [View::Columns, View::Page] {
                write(&folder.join(format!("{name}.{}", view.extension())), &view.text(&run))?;
            }
        }
        Ok((report, Some(kept)))
    }

    fn run_all(&self, session: &Session) -> Done {
        if !plants::is_plant_build() {
            return Err(SynError::of(code::FEATURE_MISSING, &[("feature", "--cfg synod_plant")]).because(
                "the stored replays fail only with their planted bugs; build with `cargo xtask plant`, then run its `synod sim shrink --all`",
            ));
        }
        let (mut rows, mut done) = (Vec::new(), Vec::new());
        for (id, path) in stored(&self.folder)? {
            let text = text_of(&path.display().to_string())?;
            planted(Some(&id))?;
            let small = self.one(&text, &id);
            planted(Some(""))?;
            match small {
                Ok((report, _)) => {
                    session.watched(&format!(
                        "{id}: {} of {} events",
                        report.events_after, report.events_before
                    ));
                    rows.push(row(&id, &report));
                    done.push(report);
                }
                Err(error) => session.watched(&format!("{id}: {error}")),
            }
        }
        if done.is_empty() {
            return Err(usage("no stored replay fails with its planted bug"));
        }
        let report = summed(&done, rows);
        session.score("sim-shrink-all", &report);
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

/// The stored replays with the ids of their plants, in order.
fn stored(folder: &Path) -> Result<Vec<(String, PathBuf)>, SynError> {
    let entries = std::fs::read_dir(folder).map_err(|e| crate::cluster::unwritable(folder, &e))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<(String, PathBuf)> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path.clone())))
        .collect();
    files.sort();
    Ok(files)
}

fn row(id: &str, report: &ShrinkReport) -> Vec<Value> {
    vec![
        json!(id),
        json!(report.checker),
        json!(report.events_before),
        json!(report.events_after),
        json!(report.calls_after),
        json!(report.nodes),
        json!(report.faults),
        json!(report.runs),
        json!(report.wall_s),
    ]
}

fn median(of: &[ShrinkReport], key: fn(&ShrinkReport) -> u64) -> u64 {
    let mut values: Vec<u64> = of.iter().map(key).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn summed(done: &[ShrinkReport], rows: Vec<Vec<Value>>) -> Report {
    let columns = ["id", "checker", "before", "after", "calls", "nodes", "faults", "runs", "wall_s"];
    Report::new("synod-sim-shrink-all/1")
        .field("shrunk", done.len())
        .field("events_before", median(done, |report| report.events_before))
        .field("events_after", median(done, |report| report.events_after))
        .field("calls_after", median(done, |report| report.calls_after))
        .field("nodes", median(done, |report| u64::from(report.nodes)))
        .field("faults", median(done, |report| report.faults))
        .field("wall_s", median(done, |report| report.wall_s))
        .list("per", &columns, rows)
}
