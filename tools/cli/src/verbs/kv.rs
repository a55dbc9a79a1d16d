//! `synod kv`: the key-value store of the context's cluster, believing nobody.

use crate::exit::{Done, bug};
use crate::output::Report;
use crate::serve::client;
use crate::session::{Session, no_context};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::time::Duration;
use synod_config::{Exit, SynError, code};
use synod_host::{ClusterClient, Mode, Operation, Outcome};
use synod_kv::operation::{Range, write_command, write_range};
use synod_kv::{Reply, Verb as Command};
use synod_quorum::NodeId;

/// Reads and writes keys; a result is shown only when f + 1 members gave it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod kv scan")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The value of a key.
    #[command(after_help = "Example:\n  synod kv get greeting")]
    Get {
        /// The key.
        key: String,
    },
    /// Sets a key.
    #[command(after_help = "Example:\n  synod kv put greeting hello")]
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Removes keys; prints how many there were.
    #[command(after_help = "Example:\n  synod kv del greeting")]
    Del {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Keys in byte order.
    #[command(after_help = "Example:\n  synod kv scan gree --limit 10")]
    Scan {
        /// Only keys that begin so.
        #[arg(default_value = "")]
        prefix: String,
        /// Only keys behind this one.
        #[arg(long, default_value = "")]
        after: String,
        /// Most keys.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_024))]
        limit: u32,
    },
}

fn command(verb: &str, arguments: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    let verb = Command::find(verb.as_bytes()).expect("the store has the verbs of its command line");
    write_command(verb, arguments.iter().map(|a| a.as_bytes()), &mut body);
    body
}

impl Verb {
    fn operation(&self) -> Operation {
        let (body, mode) = match self {
            Self::Get { key } => (command("GET", &[key]), Mode::Quorum),
            Self::Put { key, value } => (command("SET", &[key, value]), Mode::Ordered),
            Self::Del { keys } => {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                (command("DEL", &keys), Mode::Ordered)
            }
            Self::Scan { prefix, after, limit } => {
                let mut body = Vec::new();
                let range = Range { prefix: prefix.as_bytes(), after: after.as_bytes(), limit: *limit };
                write_range(&range, &mut body);
                (body, Mode::Quorum)
            }
        };
        Operation { body: body.into(), mode }
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let genesis = crate::context::genesis(session)?.ok_or_else(no_context)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        let client = client(&genesis, "verified", NodeId(0), 1)?;
        let deadline = session.timeout.unwrap_or(Duration::from_secs(5));
        let reply = runtime.block_on(ask(&client, self.verb.operation(), deadline))?;
        session.output.print(&shown(&reply)?)?;
        Ok(Exit::Success)
    }
}

async fn ask(client: &ClusterClient, operation: Operation, deadline: Duration) -> Result<Reply, SynError> {
    let outcome = client.ask(vec![operation], deadline).await.pop().unwrap_or(Outcome::Unknown(None));
    match outcome {
        Outcome::Accepted { value, .. } => {
            Reply::decode(&value).ok_or_else(|| bug("reply", &"it does not decode"))
        }
        Outcome::Rejected { code, .. } => Err(SynError::of(synod_config::Code::new(code), &[])),
        Outcome::Unknown(id) => {
            let id = id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            Err(SynError::of(code::DEADLINE_PASSED, &[("id", &id)]))
        }
    }
}

fn text(reply: &Reply) -> Value {
    match reply {
        Reply::Simple(bytes) | Reply::Bulk(bytes) => Value::from(String::from_utf8_lossy(bytes).into_owned()),
        Reply::Integer(number) => Value::from(*number),
        _ => Value::Null,
    }
}

fn shown(reply: &Reply) -> Result<Report, SynError> {
    let report = Report::new("synod-kv/1");
    match reply {
        Reply::Error(why) => {
            let why = String::from_utf8_lossy(why).into_owned();
            let code = why.split_whitespace().find_map(synod_config::Code::parse);
            Err(SynError::with_message(code.unwrap_or(code::MALFORMED), &why))
        }
        Reply::Array(keys) | Reply::Set(keys) => {
            Ok(report.list("keys", &["key"], keys.iter().map(|key| vec![text(key)]).collect()))
        }
        one => Ok(report.field("value", text(one))),
    }
}
