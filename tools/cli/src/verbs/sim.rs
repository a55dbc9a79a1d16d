//! `synod sim`: runs of the simulator, each a function of system, seed, options and commit.

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use serde_json::Value;
use synod_config::{Exit, SynError, code};
use synod_trial::report::RunReport;
use synod_trial::run::SYSTEMS;
use synod_trial::systems::{astro, chopchop, ubft};
use synod_trial::token::RunOptions;

mod amnesia;
mod crash;
mod explore;
mod marks;
mod plant;
mod replay;
mod run;
mod shrink;
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
    Run(run::Arguments),
    Soak(soak::Arguments),
    Twins(twins::Arguments),
    Crash(crash::Arguments),
    Amnesia(amnesia::Arguments),
    Replay(replay::Arguments),
    Shrink(shrink::Arguments),
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
    let systems: Vec<&str> = SYSTEMS
        .iter()
        .chain(&chopchop::SYSTEMS)
        .chain(&astro::SYSTEMS)
        .chain(&ubft::SYSTEMS)
        .copied()
        .collect();
    usage(why).because(format!("systems are {}", systems.join(", ")))
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
            Verb::Run(run) => run.run(session),
            Verb::Soak(soak) => soak.run(session),
            Verb::Twins(twins) => twins.run(session),
            Verb::Crash(crash) => crash.run(session),
            Verb::Amnesia(amnesia) => amnesia.run(session),
            Verb::Replay(replay) => replay.run(session),
            Verb::Shrink(shrink) => shrink.run(session),
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

fn told(session: &Session, report: &RunReport) -> Done {
    let value = serde_json::to_value(report).unwrap_or_default();
    session.output.print(&fields("synod-sim-run/1", &value))?;
    if report.passed() {
        return Ok(Exit::Success);
    }
    Err(violated(&report.token, &format!("{}: {}", report.checker, report.what), &report.columns))
}
