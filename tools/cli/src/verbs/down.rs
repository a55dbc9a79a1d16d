//! `synod down`: the end of a deployment.

use crate::deployment::directory_of;
use crate::exit::Done;
use crate::output::Report;
use crate::session::Session;
use crate::verbs::up::take_down;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use synod_config::Exit;

/// Ends the processes that `up` started, and no others: SIGTERM, after 5 s SIGKILL. Data stays.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod down")]
pub(crate) struct Arguments {
    /// The directory of the deployment; by default that of the context.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let directory = directory_of(session, self.dir.as_deref())?;
        let ended = take_down(&directory)?;
        let rows = ended.into_iter().map(|(name, how)| vec![Value::from(name), Value::from(how)]);
        let report = Report::new("synod-down/1").field("directory", directory.display().to_string());
        session.output.print(&report.list("nodes", &["node", "end"], rows.collect()))?;
        Ok(Exit::Success)
    }
}
