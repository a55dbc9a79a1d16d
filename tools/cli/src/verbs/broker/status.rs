//! `synod broker status`: what the brokers of a deployment say about themselves.

use crate::deployment::broker_names;
use crate::exit::Done;
use crate::health::{self, Brokering, metrics_address};
use crate::layout::PORTS_FILE;
use crate::output::Report;
use crate::session::{Session, no_context, usage};
use clap::Args;
use serde_json::Value;
use std::time::Duration;
use synod_config::{Exit, Genesis, Ports, SynError};

/// How long a broker may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// Fill, share that signed together, stragglers, bytes per message and credit of each broker.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod broker status")]
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
        let names = broker_names(&genesis);
        if names.is_empty() {
            return Err(usage(&format!("the cluster of context {} has no brokers", context.name)));
        }
        let Some(directory) = &context.directory else {
            return Err(usage(&format!("context {} names no deployment on this machine", context.name)));
        };
        let ports = Ports::read(&directory.join(PORTS_FILE))?;
        loop {
            session.tell(&format!("asking the brokers of context {}", context.name));
            let ask = |name: &String| health::brokering(&metrics_address(&ports, name)?, patience);
            let rows = names.iter().map(|name| row(name, ask(name))).collect();
            let columns = [
                "broker",
                "state",
                "servers",
                "height",
                "directory",
                "pool",
                "batches",
                "messages",
                "fill",
                "distilled",
                "stragglers",
                "bytes_per_message",
                "credit",
            ];
            let report = Report::new("synod-brokers/1")
                .field("context", context.name.clone())
                .field("cluster", genesis.cluster().name.clone())
                .list("brokers", &columns, rows);
            session.output.print(&report)?;
            if !self.watch {
                return Ok(Exit::Success);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn row(name: &str, asked: Result<Brokering, SynError>) -> Vec<Value> {
    let name = Value::from(name);
    let Ok(seen) = asked else {
        let mut row = vec![name, Value::from("unreachable")];
        row.resize(13, Value::Null);
        return row;
    };
    let per = |part: u64, whole: u64| (whole > 0).then(|| ratio(part, whole));
    let messages = seen.messages;
    vec![
        name,
        Value::from(if seen.ready { "ready" } else { "not ready" }),
        Value::from(seen.servers),
        Value::from(seen.height),
        Value::from(seen.directory),
        Value::from(seen.pool),
        Value::from(seen.batches),
        Value::from(messages),
        Value::from(per(messages, seen.batches.saturating_mul(seen.batch_max))),
        Value::from(per(messages.saturating_sub(seen.stragglers), messages)),
        Value::from(seen.stragglers),
        Value::from(per(seen.bytes, messages)),
        Value::from(seen.credit),
    ]
}

/// Three digits behind the point, for people.
fn ratio(part: u64, whole: u64) -> f64 {
    let thousandths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    f64::from(u32::try_from(thousandths).unwrap_or(u32::MAX)) / 1_000.0
}
