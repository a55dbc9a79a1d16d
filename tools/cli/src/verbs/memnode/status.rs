//! `synod memnode status`: what the memory nodes of a deployment say about themselves.

use crate::deployment::memory_names;
use crate::exit::Done;
use crate::health::{self, Holding, metrics_address};
use crate::layout::PORTS_FILE;
use crate::output::Report;
use crate::session::{Session, no_context, usage};
use clap::Args;
use serde_json::Value;
use std::time::Duration;
use synod_config::{Exit, Genesis, Ports, SynError};
use synod_host::ubft::FIRST_BOOT;

/// How long a memory node may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// State, boot number, linked replicas and bytes of each memory node.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod memnode status")]
pub(crate) struct Arguments {
    /// Prints again every second until interrupted.
    #[arg(short, long)]
    watch: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let context = session.chosen()?.ok_or_else(no_context)?;
        let patience = session.timeout.unwrap_or(PATIENCE);
        let genesis = Genesis::read(&context.genesis)?;
        let names = memory_names(&genesis);
        if names.is_empty() {
            return Err(usage(&format!("the cluster of context {} has no memory nodes", context.name)));
        }
        let Some(directory) = &context.directory else {
            return Err(usage(&format!("context {} names no deployment on this machine", context.name)));
        };
        let ports = Ports::read(&directory.join(PORTS_FILE))?;
        loop {
            session.tell(&format!("asking the memory nodes of context {}", context.name));
            let ask = |name: &String| health::holding(&metrics_address(&ports, name)?, patience);
            let rows = names.iter().map(|name| row(name, &ask(name))).collect();
            let report = Report::new("synod-memory-nodes/1")
                .field("context", context.name.clone())
                .field("cluster", genesis.cluster().name.clone())
                .list("memory_nodes", &COLUMNS, rows);
            session.output.print(&report)?;
            if !self.watch {
                return Ok(Exit::Success);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// The columns of [`row`].
pub(in crate::verbs) const COLUMNS: [&str; 5] = ["memory_node", "state", "boot", "replicas", "bytes"];

/// One memory node as people read it. One that was started again was empty: replicas believe it from
/// the epoch on that lists its boot.
pub(in crate::verbs) fn row(name: &str, asked: &Result<Holding, SynError>) -> Vec<Value> {
    let name = Value::from(name);
    match asked {
        Ok(seen) => {
            let state = match (seen.boot == FIRST_BOOT, seen.ready) {
                (false, _) => "restarted",
                (true, true) => "ready",
                (true, false) => "not ready",
            };
            vec![
                name,
                Value::from(state),
                Value::from(seen.boot),
                Value::from(seen.replicas),
                Value::from(seen.bytes),
            ]
        }
        Err(_) => vec![name, Value::from("unreachable"), Value::Null, Value::Null, Value::Null],
    }
}
