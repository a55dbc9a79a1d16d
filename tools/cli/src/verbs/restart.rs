//! `synod restart`: one node of a deployment again.

use crate::deployment::{GRACE, READY, Record, await_ready, directory_of, node_names, start, stop};
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use std::path::{Path, PathBuf};
use synod_config::Exit;

/// Ends the process of a node, if it runs, starts it again and waits until it is ready.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod restart n0")]
pub(crate) struct Arguments {
    /// Name of the node.
    node: String,
    /// The directory of the deployment; by default that of the context.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let directory = directory_of(session, self.dir.as_deref())?;
        let Some(mut record) = Record::read(&directory)? else {
            return Err(usage("the deployment is down").because("`synod up` starts it"));
        };
        let names = node_names(&directory)?;
        if !names.contains(&self.node) {
            return Err(
                usage(&format!("{:?} is no node", self.node)).because(format!("one of {}", names.join(", ")))
            );
        }
        let before = record.node(&self.node).cloned();
        let ended = stop(before.as_slice(), GRACE)?;
        let program = std::env::current_exe()
            .map_err(|error| crate::cluster::unwritable(Path::new("synod"), &error))?;
        let supervisor = record.supervisor.as_ref().filter(|supervisor| supervisor.is_alive());
        let (_, running) = start(&program, &directory, &self.node, supervisor)?;
        record.nodes.retain(|node| node.name != self.node);
        record.nodes.push(running.clone());
        record.write(&directory)?;
        await_ready(&directory, std::slice::from_ref(&running), session.timeout.unwrap_or(READY))?;
        let report = Report::new("synod-restart/1")
            .field("node", self.node)
            .field("before", ended.first().map(|end| end.as_str()))
            .field("pid", running.pid);
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}
