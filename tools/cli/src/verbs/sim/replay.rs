//! `synod sim replay`: exactly the run of a token or scenario file again.

use super::{text_of, told, unknown};
use crate::exit::Done;
use crate::session::Session;
use clap::Args;
use synod_trial::replay;
use synod_trial::run::Manner;

/// Exactly the run of a token or scenario file again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim replay hotstuff/chain2:7:@any")]
pub(super) struct Arguments {
    /// A token, or a file.
    what: String,
    /// Shows the last events, one column per node, also of a run that passes.
    #[arg(long)]
    columns: bool,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let report = replay::replay(&text_of(&self.what)?, Manner::default()).map_err(|e| unknown(&e))?;
        if self.columns && report.passed() {
            crate::output::progress(&report.columns);
        }
        told(session, &report)
    }
}
