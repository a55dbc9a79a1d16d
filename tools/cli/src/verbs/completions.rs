//! `synod completions`: the tree as a shell reads it.

use crate::exit::Done;
use crate::session::Session;
use crate::tree;
use clap::Args;
use clap_complete::Shell;
use synod_config::Exit;

/// Completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod completions bash")]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut tree::command(), "synod", &mut script);
        session.output.raw(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Success)
    }
}
