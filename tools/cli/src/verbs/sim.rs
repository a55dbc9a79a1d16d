//! `synod sim`: runs of the simulator, each a function of system, seed, options and commit.

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::PathBuf;
use synod_config::{Exit, SynError, code};
use synod_trial::replay;
use synod_trial::report::RunReport;
use synod_trial::run::{Manner, SYSTEMS, run, run_twice};
use synod_trial::token::RunOptions;

mod explore;
mod marks;
mod plant;
mod soak;
mod twins;

/// Random worlds of crashes, partitions, lost disks and liars; a violation is exit 8 with its token.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim run --system hotstuff/chain2+order --seed 7")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// One run.
    #[command(after_help = "Example:\n  synod sim run --system hotstuff/chain2+order --seed 7")]
    Run {
        /// The system: hotstuff/ and a rule pack.
        #[arg(long, default_value = "hotstuff/chain2+order")]
        system: String,
        /// The seed, decimal or 0x-hexadecimal.
        #[arg(long, value_parser = seed)]
        seed: u64,
        /// Options as in a token, such as n=7,crypto=real.
        #[arg(long, default_value = "")]
        options: String,
        /// Runs twice and compares every event and effect.
        #[arg(long)]
        twice: bool,
        /// Writes every event as a JSON line to this file.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    Soak(soak::Arguments),
    Twins(twins::Arguments),
    /// Exactly the run of a token or scenario file again.
    #[command(after_help = "Example:\n  synod sim replay hotstuff/chain2:7:@any")]
    Replay {
        /// A token, or a file.
        what: String,
        /// Shows the last events, one column per node, also of a run that passes.
        #[arg(long)]
        columns: bool,
    },
    /// Makes a failing run small.
    #[command(after_help = "Example:\n  synod sim shrink --help")]
    Shrink {
        /// A token, or a file.
        what: String,
    },
    Plant(plant::Arguments),
    Explore(explore::Arguments),
}

fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "not a number".to_owned())
}

fn options(text: &str) -> Result<RunOptions, SynError> {
    text.parse().map_err(|_| usage(&format!("`{text}` are no options such as n=7,crypto=real")))
}

fn unknown(why: &str) -> SynError {
    usage(why).because(format!("systems are {}", SYSTEMS.join(", ")))
}

fn fields(schema: &'static str, value: &Value) -> Report {
    let mut report = Report::new(schema);
    for (key, value) in value.as_object().into_iter().flatten() {
        if key != "schema" {
            report = report.field(key.clone(), value.clone());
        }
    }
    report
}

fn violated(token: &str, what: &str, columns: &str) -> SynError {
    if !columns.is_empty() {
        crate::output::progress(columns);
    }
    SynError::of(code::PROPERTY_VIOLATED, &[("token", token)]).because(what)
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::Run { system, seed, options: text, twice, trace } => {
                one(session, (&system, seed), &options(&text)?, (twice, trace))
            }
            Verb::Soak(soak) => soak.run(session),
            Verb::Twins(twins) => twins.run(session),
            Verb::Replay { what, columns } => {
                let report = replay::replay(&text_of(&what)?, Manner::default()).map_err(|e| unknown(&e))?;
                if columns && report.passed() {
                    crate::output::progress(&report.columns);
                }
                told(session, &report)
            }
            Verb::Shrink { what } => {
                let report = replay::shrunk(&text_of(&what)?).map_err(|e| usage(&e))?;
                crate::output::progress(&report.scenario);
                let value = serde_json::to_value(&report).unwrap_or_default();
                session.output.print(&fields("synod-sim-shrink/1", &value))?;
                Ok(Exit::Success)
            }
            Verb::Plant(plant) => plant.run(session),
            Verb::Explore(explore) => explore.run(session),
        }
    }
}

/// A token as it stands, or the text of a scenario file.
fn text_of(what: &str) -> Result<String, SynError> {
    let path = std::path::Path::new(what);
    if !path.is_file() {
        return Ok(what.to_owned());
    }
    std::fs::read_to_string(path).map_err(|e| crate::cluster::unwritable(path, &e))
}

fn one(
    session: &Session,
    (system, seed): (&str, u64),
    options: &RunOptions,
    how: (bool, Option<PathBuf>),
) -> Done {
    let (twice, trace) = how;
    let manner = Manner { trace: trace.is_some() };
    let report = if twice {
        let scenario = synod_trial::draw::scenario(system, seed, options).map_err(|e| unknown(&e))?;
        run_twice(&scenario, &format!("{system}:{seed:x}:{options}"))
    } else {
        run(system, seed, options, manner)
    };
    let report = report.map_err(|e| unknown(&e))?;
    if let Some(file) = trace {
        let text = report.lines.join("\n") + "\n";
        std::fs::write(&file, text).map_err(|e| crate::cluster::unwritable(&file, &e))?;
    }
    told(session, &report)
}

fn told(session: &Session, report: &RunReport) -> Done {
    let value = serde_json::to_value(report).unwrap_or_default();
    session.output.print(&fields("synod-sim-run/1", &value))?;
    if report.passed() {
        return Ok(Exit::Success);
    }
    Err(violated(&report.token, &format!("{}: {}", report.checker, report.what), &report.columns))
}
