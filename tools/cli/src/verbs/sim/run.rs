//! `synod sim run`: one run of a seed.

use super::{options, seed, told, unknown};
use crate::exit::Done;
use crate::session::Session;
use clap::Args;
use std::path::PathBuf;
use synod_trial::run::{Manner, run, run_twice};

/// One run.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim run --system hotstuff/chain2+order --seed 7")]
pub(super) struct Arguments {
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
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let (system, seed, options) = (self.system.as_str(), self.seed, options(&self.options)?);
        let manner = Manner { trace: self.trace.is_some(), ..Manner::default() };
        let report = if self.twice {
            let scenario = synod_trial::draw::scenario(system, seed, &options).map_err(|e| unknown(&e))?;
            run_twice(&scenario, &format!("{system}:{seed:x}:{options}"))
        } else {
            run(system, seed, &options, manner)
        };
        let report = report.map_err(|e| unknown(&e))?;
        if let Some(file) = self.trace {
            let text = report.lines.join("\n") + "\n";
            std::fs::write(&file, text).map_err(|e| crate::cluster::unwritable(&file, &e))?;
        }
        told(session, &report)
    }
}
