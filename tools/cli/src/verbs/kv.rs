//! `synod kv`: the key-value store of the context's cluster, believing nobody.

mod shell;
mod shown;
mod store;
mod txn;
mod watch;
mod words;

use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand, ValueEnum};
use shown::{failed, text};
use store::Store;
pub(crate) use store::runs_keys;
use synod_config::{Exit, SynError, code};
use synod_host::{Mode, Operation};
use synod_kv::operation::{Range, write_range};
use synod_kv::{COMMANDS_MAX, Reply};
use words::command;

/// Reads and writes keys; a result is shown only when f + 1 members gave it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod kv scan")]
pub(crate) struct Arguments {
    /// How reads are carried out.
    #[arg(long, global = true, value_enum, default_value = "linearizable", hide_possible_values = true)]
    #[arg(value_name = "linearizable|ordered")]
    read: Read,
    /// A proof of the answer, once nodes give proofs.
    #[arg(long, global = true, hide = true)]
    proof: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Read {
    /// By a quorum without ordering; ordered when the quorum does not agree.
    Linearizable,
    /// Ordered like a write.
    Ordered,
    /// From one node, which needs a proof.
    Stale,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The value of a key and its version.
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
    Watch(watch::Arguments),
    Txn(txn::Arguments),
    Shell(shell::Arguments),
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        if self.proof || self.read == Read::Stale {
            let what = if self.proof { "--proof" } else { "--read stale" };
            return Err(SynError::of(code::UNSUPPORTED, &[("what", what)]).because(
                "nodes give no checkpoint proofs, and without one a single node would be believed",
            ));
        }
        let reads = if self.read == Read::Ordered { Mode::Ordered } else { Mode::Quorum };
        let store = Store::open(session, reads)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        runtime.block_on(async {
            match self.verb {
                Verb::Get { key } => get(session, &store, &key).await,
                Verb::Put { key, value } => one(session, &store, &["SET", &key, &value]).await,
                Verb::Del { keys } => {
                    let words: Vec<&str> =
                        ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
                    one(session, &store, &words).await
                }
                Verb::Scan { prefix, after, limit } => {
                    let mut body = Vec::new();
                    let (prefix, after) = (prefix.as_bytes(), after.as_bytes());
                    write_range(&Range { prefix, after, limit }, &mut body);
                    scan(session, &store, body).await
                }
                Verb::Watch(watch) => watch.run(session, &store).await,
                Verb::Txn(txn) => txn.run(session, &store).await,
                Verb::Shell(shell) => shell.run(session, &store).await,
            }
        })
    }
}

async fn get(session: &Session, store: &Store, key: &str) -> Done {
    let (value, version) = store.fetch(key.as_bytes()).await?;
    let report = Report::new("synod-kv/1").field("value", text(&value)).field("version", version);
    session.output.print(&report)?;
    Ok(Exit::Success)
}

async fn one(session: &Session, store: &Store, words: &[&str]) -> Done {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let reply = failed(store.ask(command(&words, store.reads)?).await?)?;
    session.output.print(&Report::new("synod-kv/1").field("value", text(&reply)))?;
    Ok(Exit::Success)
}

async fn scan(session: &Session, store: &Store, body: Vec<u8>) -> Done {
    let reply = failed(store.ask(Operation { body: body.into(), mode: store.reads }).await?)?;
    let (Reply::Array(keys) | Reply::Set(keys)) = reply else { return Err(bug("reply", &"it is no list")) };
    let rows = keys.iter().map(|key| vec![text(key)]).collect();
    session.output.print(&Report::new("synod-kv/1").list("keys", &["key"], rows))?;
    Ok(Exit::Success)
}

/// The refusal of too many commands in one transaction.
fn too_many() -> SynError {
    usage(&format!("a transaction has at most {COMMANDS_MAX} commands"))
}
