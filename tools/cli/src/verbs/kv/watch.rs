//! `synod kv watch`: a key as it changes.

use super::shown::text;
use super::store::Store;
use crate::exit::Done;
use crate::output::Report;
use crate::session::Session;
use crate::signals::Signals;
use clap::Args;
use std::time::Duration;
use synod_config::{Exit, SynError, parse_duration};

/// A key as it is and each time it has changed, until interrupted; changes between two looks are seen as one.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod kv watch greeting --count 1")]
pub(crate) struct Arguments {
    /// The key.
    key: String,
    /// Ends after so many states, the present one included.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Pause between two looks.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = pause)]
    every: Duration,
}

fn pause(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).ok_or_else(|| "not a duration such as 500ms or 5s".to_owned())?;
    if span < Duration::from_millis(1) { Err("at least 1ms".to_owned()) } else { Ok(span) }
}

impl Arguments {
    pub(super) async fn run(self, session: &Session, store: &Store) -> Done {
        let mut signals = Signals::listen()?;
        tokio::select! {
            told = self.look(session, store) => told.map(|()| Exit::Success),
            exit = signals.next() => Ok(exit),
        }
    }

    async fn look(&self, session: &Session, store: &Store) -> Result<(), SynError> {
        let (mut told, mut last) = (0, None);
        while self.count.is_none_or(|count| told < count) {
            let (value, version) = store.fetch(self.key.as_bytes()).await?;
            if last != Some(version) {
                last = Some(version);
                told += 1;
                let report = Report::new("synod-kv-watch/1").field("key", self.key.clone());
                let report = report.field("value", text(&value)).field("version", version);
                let line = format!("{version}  {}\n", super::shown::lines(&value).join(" "));
                session.output.print(&report.page(line))?;
            } else {
                tokio::time::sleep(self.every).await;
            }
        }
        Ok(())
    }
}
