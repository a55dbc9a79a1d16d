//! `synod kv txn`: several commands as one.

use super::shown::text;
use super::store::Store;
use super::words::{member, words};
use super::{failed, too_many};
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::Value;
use std::io::Read as _;
use synod_config::{Exit, SynError, code};
use synod_host::{Mode, Operation};
use synod_kv::operation::{Watched, write_transaction};
use synod_kv::{COMMANDS_MAX, OPERATION_BYTES_MAX, Reply, WATCHED_MAX};

/// Several commands in one step that nothing comes between: all of them, or none.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod kv txn \"set greeting hello\" \"append greeting !\"")]
pub(crate) struct Arguments {
    /// Only if this key still has this version, as `get` shows it; 0 for a key that must not be there.
    #[arg(long = "if", value_name = "KEY=VERSION", value_parser = condition)]
    conditions: Vec<(String, u64)>,
    /// The commands, each as one word; without any, the lines of standard input.
    #[arg(value_name = "COMMAND")]
    commands: Vec<String>,
}

fn condition(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once('=');
    let parsed = parts.and_then(|(key, version)| Some((key.to_owned(), version.parse().ok()?)));
    parsed.ok_or_else(|| "not of the form KEY=VERSION".to_owned())
}

impl Arguments {
    pub(super) async fn run(self, session: &Session, store: &Store) -> Done {
        let commands = if self.commands.is_empty() { from_standard_input()? } else { self.commands };
        if self.conditions.len() > WATCHED_MAX {
            return Err(usage(&format!("a transaction has at most {WATCHED_MAX} conditions")));
        }
        let commands = commands.iter().map(|line| words(line)).collect::<Result<Vec<_>, _>>()?;
        let replies = transact(store, &self.conditions, &commands).await?;
        let rows = replies.iter().map(|reply| vec![text(reply)]).collect();
        session.output.print(&Report::new("synod-kv-txn/1").list("results", &["result"], rows))?;
        Ok(Exit::Success)
    }
}

fn from_standard_input() -> Result<Vec<String>, SynError> {
    let mut text = String::new();
    let read = std::io::stdin().take(OPERATION_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| usage("standard input cannot be read").because(error))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// Runs commands in one step under conditions.
///
/// # Errors
/// SYN-1001 without commands or with too many; SYN-3005 if a key has another version; the first error of a command,
/// after which nothing was changed where the store could tell beforehand.
pub(super) async fn transact(
    store: &Store,
    conditions: &[(String, u64)],
    commands: &[Vec<Vec<u8>>],
) -> Result<Vec<Reply>, SynError> {
    if commands.is_empty() {
        return Err(usage("a transaction without commands"));
    }
    if commands.len() > COMMANDS_MAX {
        return Err(too_many());
    }
    let mut bodies = Vec::new();
    for words in commands {
        member(words, &mut bodies)?;
    }
    let watched = conditions.iter().map(|(key, version)| Watched { key: key.as_bytes(), version: *version });
    let mut body = Vec::new();
    write_transaction(watched, commands.len(), &bodies, &mut body);
    match failed(store.ask(Operation { body: body.into(), mode: Mode::Ordered }).await?)? {
        Reply::Array(replies) => Ok(replies),
        Reply::NullArray => {
            let keys: Vec<&str> = conditions.iter().map(|(key, _)| key.as_str()).collect();
            Err(SynError::of(code::CONDITION_FAILED, &[("key", &keys.join(", "))])
                .because("one of them has another version; nothing was changed"))
        }
        other => Ok(vec![other]),
    }
}

/// How a transaction's results stand in JSON.
pub(super) fn results(replies: &[Reply]) -> Value {
    replies.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn a_condition_names_a_key_and_a_version() {
        assert_eq!(condition("a=7"), Ok(("a".to_owned(), 7)));
        assert_eq!(condition("a=b=0"), Ok(("a=b".to_owned(), 0)));
        for wrong in ["a", "a=", "a=-1", "a=x"] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }
}
