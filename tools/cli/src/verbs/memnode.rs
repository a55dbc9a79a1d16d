//! `synod memnode`: one memory node of a cluster of uBFT.

mod run;
mod status;

pub(super) use status::{COLUMNS, row};

use crate::exit::Done;
use crate::session::Session;
use clap::{Args, Subcommand};

/// One memory node of uBFT: run it, look at those of a deployment.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod memnode status")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Arguments),
    Status(status::Arguments),
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::Run(run) => run.run(session),
            Verb::Status(status) => status.run(session),
        }
    }
}
