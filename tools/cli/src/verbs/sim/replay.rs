//! `synod sim replay`: exactly the run of a token or scenario file again, and what it shows.

use super::{fields, text_of, unknown, violated};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use synod_config::{Exit, SynError};
use synod_trial::replay::{inevitable, scenario_of};
use synod_trial::report::RunReport;
use synod_trial::run::{Manner, run_scenario};
use synod_trial::traced::{Traced, traced};

/// Exactly the run of a token or scenario file again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim replay hotstuff/chain2:7:@any")]
pub(super) struct Arguments {
    /// A token, or a file.
    what: String,
    /// Shows the events that the violation rests on; of a run that passes, all of them.
    #[arg(long, value_enum)]
    view: Option<View>,
    /// Stops behind this event and shows where each node stands.
    #[arg(long, value_name = "EVENT")]
    until: Option<u64>,
    /// Names the event behind which no future drawn anew escapes the violation.
    #[arg(long)]
    inevitable: bool,
    /// Futures drawn behind each event that is tried.
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    samples: u32,
    /// The planted bug that is on; needs a build of `cargo xtask plant`.
    #[arg(long, value_name = "ID")]
    plant: Option<String>,
    /// The file of the view, or a folder for it; without it a page has a name of its own and other views are printed.
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum View {
    /// One line per step, one column per node.
    Columns,
    /// One JSON object per event.
    Jsonl,
    /// A space-time diagram in one HTML file.
    Page,
}

impl View {
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Columns => "txt",
            Self::Jsonl => "jsonl",
            Self::Page => "html",
        }
    }

    pub(super) fn text(self, of: &Traced) -> String {
        match self {
            Self::Columns => of.columns(),
            Self::Jsonl => of.jsonl(),
            Self::Page => of.page(),
        }
    }
}

/// A file name made of a run's name.
pub(super) fn named(token: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = token.split('@').next().unwrap_or_default().chars().map(plain).collect();
    format!("synod-{}", name.trim_end_matches('-'))
}

/// The file to write to: `out`, or `name` inside the folder `out`.
pub(super) fn file(out: Option<&Path>, name: &str) -> PathBuf {
    match out {
        Some(out) if out.is_dir() => out.join(name),
        Some(out) => out.to_owned(),
        None => PathBuf::from(name),
    }
}

/// Writes a file, making its folder.
pub(super) fn write(file: &Path, text: &str) -> Result<(), SynError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(file, text)).map_err(|e| crate::cluster::unwritable(file, &e))
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        super::shrink::planted(self.plant.as_deref())?;
        let (scenario, token) = scenario_of(&text_of(&self.what)?).map_err(|e| unknown(&e))?;
        if self.inevitable {
            let at = inevitable(&scenario, &token, self.samples).map_err(|e| usage(&e))?;
            return ended(session, &at.report, Shown { inevitable_at: at.event, ..Shown::default() });
        }
        let manner = Manner { until: self.until, ..Manner::default() };
        if self.view.is_none() && self.until.is_none() {
            let report = run_scenario(&scenario, &token, manner).map_err(|e| unknown(&e))?;
            return ended(session, &report, Shown::default());
        }
        let run = traced(&scenario, &token, manner).map_err(|e| usage(&e))?;
        let mut shown = Shown::default();
        if let Some(view) = self.view {
            let text = view.text(&run);
            if view == View::Page || self.out.is_some() {
                let file = file(self.out.as_deref(), &format!("{}.{}", named(&token), view.extension()));
                write(&file, &text)?;
                shown.file = Some(file);
            } else {
                shown.text = text;
            }
        }
        if self.until.is_some() {
            shown.text.push_str(&run.state());
        }
        ended(session, &run.report, shown)
    }
}

/// What a replay shows besides its report.
#[derive(Default)]
struct Shown {
    text: String,
    file: Option<PathBuf>,
    inevitable_at: Option<u64>,
}

fn ended(session: &Session, report: &RunReport, shown: Shown) -> Done {
    let value = serde_json::to_value(report).unwrap_or_default();
    let mut out = fields("synod-sim-run/1", &value);
    if let Some(event) = shown.inevitable_at {
        out = out.field("inevitable_at", event);
    }
    if let Some(file) = &shown.file {
        out = out.field("file", file.display().to_string());
    }
    if !shown.text.is_empty() {
        out = out.page(shown.text.clone());
    }
    session.output.print(&out)?;
    if report.passed() {
        return Ok(Exit::Success);
    }
    let columns = if shown.text.is_empty() && shown.file.is_none() { report.columns.as_str() } else { "" };
    Err(violated(&report.token, &format!("{}: {}", report.checker, report.what), columns))
}
