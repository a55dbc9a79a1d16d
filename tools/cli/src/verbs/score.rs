//! `synod score`: what was found at this commit, held against what a release needs.

use crate::cluster::unwritable;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::score::board::{Board, Gate};
use crate::score::files::Files;
use crate::score::{history, plot, record, stamp};
use crate::session::{Session, usage};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use synod_config::{Exit, SynError, code};

/// Holds what was found at the current commit against the bars of a gate; exit 8 when a row fails.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod score --help")]
pub(crate) struct Arguments {
    /// Whose bars decide.
    #[arg(long, value_enum, default_value_t = Bars::Full)]
    gate: Bars,
    /// Adds the score as a line to docs/score/history.jsonl.
    #[arg(long)]
    append: bool,
    /// Draws seeds, plants found and hours of chaos over the history into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The folder that holds what was found.
    #[arg(long, value_name = "DIR", default_value = stamp::FOLDER)]
    from: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Bars {
    /// What every commit must meet.
    Commit,
    /// The first gate.
    Full,
    /// A release.
    Release,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let here = Path::new(".");
        let root = record::checkout(here).ok_or_else(|| {
            usage("no checkout at or above this folder").because("scores are kept per checkout")
        })?;
        let commit = stamp::head(&root).unwrap_or_else(|| env!("SYNOD_BUILD_COMMIT").to_owned());
        let gate = match self.gate {
            Bars::Commit => Gate::Commit,
            Bars::Full => Gate::Full,
            Bars::Release => Gate::Release,
        };
        let file = root.join(history::FILE);
        let mut past = history::read(&file).map_err(|e| unwritable(&file, &e))?;
        let files = Files::read(&root.join(&self.from), &commit);
        let board = Board::of(&files, &past, gate);
        let score = score(&board, &commit, gate, &files.other);
        if self.append {
            history::append(&file, &Value::Object(score.clone())).map_err(|e| unwritable(&file, &e))?;
            past.push(score.clone());
        }
        if let Some(picture) = &self.plot {
            let text = plot::svg(&past).map_err(|e| bug("plot", &e))?;
            std::fs::write(picture, text).map_err(|e| unwritable(picture, &e))?;
        }
        session.output.print(&shown(&score, &board))?;
        if board.passes() { Ok(Exit::Success) } else { Err(failed(&board, gate)) }
    }
}

fn score(board: &Board, commit: &str, gate: Gate, other: &[String]) -> Map<String, Value> {
    let facts = json!({
        "schema": "synod-score/1",
        "commit": commit,
        "date": stamp::date(stamp::now()),
        "machine": stamp::machine(),
        "gate": gate.as_str(),
        "rows": board.rows(),
        "pass": board.passes(),
        "failing": board.failing(),
        "left_out": board.left_out(),
        "other_commits": other,
    });
    facts.as_object().cloned().unwrap_or_default()
}

fn shown(score: &Map<String, Value>, board: &Board) -> Report {
    let mut report = Report::new("synod-score/1");
    for (key, value) in score.iter().filter(|(key, _)| *key != "schema") {
        report = report.field(key.clone(), value.clone());
    }
    let text = |key: &str| score.get(key).and_then(Value::as_str).unwrap_or_default();
    let list = |key: &str| {
        let names = score.get(key).and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let mut page = format!("commit {}, {}, {}\n\n", text("commit"), text("date"), text("machine"));
    page += &board.page();
    page += &format!("\ngate {}: {}\n", text("gate"), if board.passes() { "passed" } else { "not passed" });
    for (what, key) in [
        ("fails", "failing"),
        ("not built, left out", "left_out"),
        ("files of other commits", "other_commits"),
    ] {
        let names = list(key);
        if !names.is_empty() {
            page += &format!("{what}: {names}\n");
        }
    }
    report.page(page)
}

fn failed(board: &Board, gate: Gate) -> SynError {
    let failing = board.failing();
    let problem = format!("{} rows of the score fail", failing.len());
    let check = format!("gate {}", gate.as_str());
    let values = [("check", check.as_str()), ("problem", problem.as_str())];
    SynError::of(code::EXPECTATION_FAILED, &values).because(failing.join(", "))
}
