//! `synod sim shrink`: makes a failing run small.

use super::{fields, text_of};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::Args;
use synod_config::Exit;
use synod_trial::replay;

/// Makes a failing run small.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim shrink --help")]
pub(super) struct Arguments {
    /// A token, or a file.
    what: String,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let report = replay::shrunk(&text_of(&self.what)?).map_err(|e| usage(&e))?;
        crate::output::progress(&report.scenario);
        let value = serde_json::to_value(&report).unwrap_or_default();
        session.output.print(&fields("synod-sim-shrink/1", &value))?;
        Ok(Exit::Success)
    }
}
