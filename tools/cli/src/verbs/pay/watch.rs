//! `synod pay watch`: what settles at a node, a line each, as it does.

use super::TRANSFER;
use super::institution::{Institution, System};
use crate::exit::Done;
use crate::session::Session;
use clap::Args;
use serde_json::Value;
use std::time::Duration;
use synod_config::{Exit, SynError};
use synod_host::pay::AccountId;

/// Between two looks at a node where nothing settled.
const LOOK: Duration = Duration::from_millis(200);
/// Between two tries at a node that does not answer.
const PAUSE: Duration = Duration::from_secs(2);
/// Rows of one answer.
const ROWS: u32 = 200;

/// Prints what settles at a node, a line each, in the order in which it settles there, until interrupted. A node that does not answer is
/// tried again: nothing is left out, and nothing is printed twice.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay watch --account 0-0-2 --count 1")]
pub(super) struct Watch {
    /// The node to follow; by default the first registrar's. Each has an order of its own.
    #[arg(long)]
    node: Option<String>,
    /// Begins behind this position; by default with the first payment there ever was.
    #[arg(long, default_value_t = 0, value_name = "CURSOR")]
    from: u64,
    /// Prints what this account pays or is paid alone.
    #[arg(long)]
    account: Option<AccountId>,
    /// Ends behind so many lines.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl Watch {
    pub(super) fn run(self, session: &Session, system: &System) -> Done {
        let at = system.named(self.node.as_deref())?;
        let (mut cursor, mut left) = (self.from.to_string(), self.count.unwrap_or(u64::MAX));
        // A wrong node or one that is not there is told at once.
        let mut page = Ok(read(&at, &cursor)?);
        loop {
            let pause = match &page {
                Ok(page) => {
                    for row in page["changes"].as_array().into_iter().flatten().filter(|row| self.wants(row))
                    {
                        session.output.raw(&line(session, row))?;
                        left -= 1;
                        if left == 0 {
                            return Ok(Exit::Success);
                        }
                    }
                    if let Some(behind) = page["cursor"].as_str() {
                        behind.clone_into(&mut cursor);
                    }
                    if page["more"] == true { Duration::ZERO } else { LOOK }
                }
                Err(error) => {
                    session.watched(&format!(
                        "{} does not answer, behind position {cursor}: {error}",
                        at.name()
                    ));
                    PAUSE
                }
            };
            std::thread::sleep(pause);
            page = read(&at, &cursor);
        }
    }

    fn wants(&self, row: &Value) -> bool {
        let Some(account) = self.account.map(|account| account.to_string()) else { return true };
        let legs = row["legs"].as_array().into_iter().flatten();
        legs.chain([row]).any(|one| one["to"] == account.as_str()) || row["from"] == account.as_str()
    }
}

fn read(at: &Institution<'_>, cursor: &str) -> Result<Value, SynError> {
    at.get(&format!("/v1/changes?from={cursor}&limit={ROWS}"))
}

/// A row: an object of a line, or its columns.
fn line(session: &Session, row: &Value) -> String {
    if session.output.is_json() {
        let mut row = row.clone();
        if let Some(object) = row.as_object_mut() {
            object.insert("schema".to_owned(), "synod-pay-change/1".into());
        }
        return format!("{row}\n");
    }
    let text = |name: &&str| match &row[*name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut line = TRANSFER.iter().map(text).collect::<Vec<_>>().join("  ");
    line.push('\n');
    line
}
