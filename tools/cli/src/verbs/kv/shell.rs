//! `synod kv shell`: commands of the store, line by line.
//!
//! *Bounds.* A line is at most as long as the longest operation; a transaction has at most as many commands as the
//! store takes.

use super::shown::{failed, lines, text};
use super::store::Store;
use super::txn::{results, transact};
use super::words::{command, words};
use super::{COMMANDS_MAX, too_many};
use crate::exit::Done;
use crate::output::{Report, progress};
use crate::session::{Session, usage};
use clap::Args;
use serde_json::Value;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use synod_config::{Exit, SynError};
use synod_kv::{COMMANDS, OPERATION_BYTES_MAX, Reply};
use tokio::sync::mpsc;

/// Commands of the store, one per line of standard input: every verb of the RESP gateway that reads or writes keys,
/// MULTI, EXEC and DISCARD, HELP and QUIT.
///
/// On a terminal an error is shown and the next line is asked for; elsewhere the first error ends the shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod kv shell")]
pub(crate) struct Arguments {}

/// The commands of a transaction that was begun.
type Begun = Option<Vec<Vec<Vec<u8>>>>;

/// What a line came to.
enum Told {
    Nothing,
    Reply(Reply),
    Replies(Vec<Reply>),
    Word(&'static str),
    Help,
    End,
}

impl Arguments {
    pub(super) async fn run(self, session: &Session, store: &Store) -> Done {
        let prompt = std::io::stdin().is_terminal();
        let mut begun: Begun = None;
        let mut typed = read_lines(prompt)?;
        while let Some(line) = typed.recv().await {
            let told = match line {
                Ok(line) => obey(store, &line, &mut begun).await,
                Err(error) => return Err(error),
            };
            match told {
                Ok(Told::End) => break,
                Ok(told) => show(session, &told)?,
                Err(error) if prompt => progress(&format!("error {}: {}", error.code(), error.message())),
                Err(error) => return Err(error),
            }
        }
        match begun {
            Some(_) => {
                Err(usage("the input ended within a transaction").because("nothing of it was changed"))
            }
            None => Ok(Exit::Success),
        }
    }
}

/// Lines of standard input, read by a thread of its own, so that a session with the cluster stays alive meanwhile.
fn read_lines(prompt: bool) -> Result<mpsc::Receiver<Result<String, SynError>>, SynError> {
    let (to, from) = mpsc::channel(1);
    let work = move || {
        let mut input = std::io::stdin().lock();
        loop {
            if prompt {
                // Nobody reads a prompt that cannot be written.
                let _ = write!(std::io::stderr(), "kv> ");
            }
            let mut line = String::new();
            let most = OPERATION_BYTES_MAX as u64;
            let read = match input.by_ref().take(most).read_line(&mut line) {
                Ok(0) => return,
                Ok(read) if read as u64 == most => Err(usage(&format!("a line is longer than {most} bytes"))),
                Ok(_) => Ok(line),
                Err(error) => Err(usage("standard input cannot be read").because(error)),
            };
            let last = read.is_err();
            if to.blocking_send(read).is_err() || last {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("lines".to_owned()).spawn(work);
    thread.map_err(|error| crate::exit::bug("shell", &error))?;
    Ok(from)
}

async fn obey(store: &Store, line: &str, begun: &mut Begun) -> Result<Told, SynError> {
    let words = words(line)?;
    let first = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    match (&first[..], &mut *begun) {
        (b"", _) => Ok(Told::Nothing),
        (b"quit" | b"exit", _) => {
            *begun = None;
            Ok(Told::End)
        }
        (b"help", _) => Ok(Told::Help),
        (b"multi", None) => {
            *begun = Some(Vec::new());
            Ok(Told::Word("begun"))
        }
        (b"multi", Some(_)) => Err(usage("a transaction has begun already")),
        (b"discard" | b"exec", None) => Err(usage("no transaction has begun").because("MULTI begins one")),
        (b"discard", Some(_)) => {
            *begun = None;
            Ok(Told::Word("discarded"))
        }
        (b"exec", Some(_)) => {
            let commands = begun.take().unwrap_or_default();
            transact(store, &[], &commands).await.map(Told::Replies)
        }
        (_, Some(commands)) if commands.len() >= COMMANDS_MAX => Err(too_many()),
        (_, Some(commands)) => {
            // Refused now rather than with the whole transaction.
            command(&words, store.reads)?;
            commands.push(words);
            Ok(Told::Word("queued"))
        }
        (_, None) => {
            let reply = store.ask(command(&words, store.reads)?).await?;
            failed(reply).map(Told::Reply)
        }
    }
}

fn show(session: &Session, told: &Told) -> Result<(), SynError> {
    let (value, page) = match told {
        Told::Nothing | Told::End => return Ok(()),
        Told::Word(word) => (Value::from(*word), vec![(*word).to_owned()]),
        Told::Help => {
            let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
            (Value::from(names.clone()), vec![names.join(" "), "multi exec discard help quit".to_owned()])
        }
        Told::Reply(reply) => (text(reply), lines(reply)),
        Told::Replies(replies) => (results(replies), lines(&Reply::Array(replies.clone()))),
    };
    let report = Report::new("synod-kv/1").field("value", value);
    session.output.print(&report.page(page.join("\n") + "\n"))
}
