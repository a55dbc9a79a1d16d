//! `synod node`: one node of a cluster.

use crate::exit::Done;
use crate::session::Session;
use clap::{Args, Subcommand};
use synod_config::Exit;

mod batches;
mod genesis;
mod lanes;
mod recover;
mod run;
mod votes;
mod wal;

pub(crate) use run::{Guarded, give_up_rights, log_to_standard_error};

/// One node: run it, look at what it holds, or say that it lost it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect genesis --data cluster/n0")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Arguments),
    Recover(recover::Arguments),
    /// Reads a node's files offline; nothing is written, and the node may run meanwhile.
    #[command(after_help = "Example:\n  synod node inspect genesis --data cluster/n0")]
    Inspect {
        #[command(subcommand)]
        what: Inspect,
    },
}

#[derive(Debug, Subcommand)]
enum Inspect {
    Genesis(genesis::Arguments),
    Wal(wal::Arguments),
    Votes(votes::Arguments),
    Directory(batches::DirectoryOf),
    Batch(batches::BatchOf),
    Height(batches::HeightOf),
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let report = match self.verb {
            Verb::Run(run) => return run.run(session),
            Verb::Recover(recover) => recover.report()?,
            Verb::Inspect { what: Inspect::Genesis(what) } => what.report()?,
            Verb::Inspect { what: Inspect::Wal(what) } => what.report()?,
            Verb::Inspect { what: Inspect::Votes(what) } => what.report()?,
            Verb::Inspect { what: Inspect::Directory(what) } => what.report()?,
            Verb::Inspect { what: Inspect::Batch(what) } => what.report()?,
            Verb::Inspect { what: Inspect::Height(what) } => what.report()?,
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}
