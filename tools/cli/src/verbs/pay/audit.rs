//! `synod pay export` and `synod pay audit`: all that settled at a node with what proves it, as a file, and a check of such files that
//! believes no node.

use super::institution::{Institution, System};
use crate::cluster::unwritable;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::Session;
use clap::Args;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal as _};
use std::path::{Path, PathBuf};
use synod_config::{Exit, SynError, code, hex, unhex};
use synod_host::pay::{self, Findings, Format, Head, Total, Violation, Write};

/// Writes all that settled at a node to a file, with the batches, certificates and members' words that prove it.
///
/// `synod pay audit` checks it with the genesis alone.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay export --out n0.log")]
pub(super) struct Export {
    /// A new file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The node to ask; by default the first registrar's.
    #[arg(long)]
    node: Option<String>,
}

/// Checks logs that nodes exported, without network, with the genesis alone.
///
/// Each payment has to be endorsed by a quorum, ordered by the account's owner or institution, and paid with money that was there; batches
/// of a lane name one another; sums and money have to come out, also behind each cut that a quorum signed; no two logs may differ. What is wrong is listed with the signed objects that show it, and
/// the exit code is 8.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay audit n0.log n1.log")]
pub(super) struct Audit {
    /// Logs of one cluster.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The genesis of the cluster; by default that of the context.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
}

/// Columns of a violation.
const VIOLATION: [&str; 7] = ["what", "log", "record", "batch", "entry", "says", "shown"];

impl Export {
    pub(super) fn report(self, system: &System) -> Result<Report, SynError> {
        let at = system.named(self.node.as_deref())?;
        let seat = at.seat();
        let member = u8::try_from(seat.number).unwrap_or(u8::MAX);
        let head = Head { format: Format::First, cluster: system.genesis().id(), shard: seat.shard, member };
        let failed = |error| unwritable(&self.out, &error);
        let file = File::create_new(&self.out).map_err(failed)?;
        let written = copy(&at, (&self.out, file), &head).and_then(|(file, records, position)| {
            file.sync_all().map_err(failed)?;
            Ok((records, position))
        });
        let (records, position) = written.inspect_err(|_| {
            // Half a log is of no use; that it could not be removed changes nothing about the error.
            drop(std::fs::remove_file(&self.out));
        })?;
        Ok(Report::new("synod-pay-export/1")
            .field("node", at.name())
            .field("file", self.out.display().to_string())
            .field("payments", position)
            .field("records", records))
    }
}

/// Copies the log of a node, as far as it was when the first page came.
fn copy(at: &Institution<'_>, (out, file): (&Path, File), head: &Head) -> Result<(File, u64, u64), SynError> {
    let failed = |error: std::io::Error| unwritable(out, &error);
    let mut log = Write::begin(BufWriter::new(file), head).map_err(failed)?;
    let (mut from, mut until): (Option<String>, Option<u64>) = (None, None);
    let mut count = 0_u64;
    loop {
        let query: Vec<String> = from
            .iter()
            .map(|from| format!("from={from}"))
            .chain(until.iter().map(|until| format!("until={until}")))
            .collect();
        let page = at.get(&format!("/v1/pay/log?{}", query.join("&")))?;
        let strange = || bug("export", &"the node gave no page of a log");
        let position = page["position"].as_str().and_then(|text| text.parse().ok()).ok_or_else(strange)?;
        let until = *until.get_or_insert(position);
        for record in page["records"].as_array().ok_or_else(strange)? {
            let bytes = record.as_str().and_then(unhex).ok_or_else(strange)?;
            log.record(&bytes).map_err(failed)?;
            count += 1;
        }
        tell(count, "records", false);
        match page["next"].as_str() {
            // It would be asked for ever.
            Some(_) if page["records"].as_array().is_some_and(Vec::is_empty) => return Err(strange()),
            Some(next) => from = Some(next.to_owned()),
            None => {
                tell(count, "records", true);
                let (buffer, records) = log.end().map_err(failed)?;
                let file = buffer.into_inner().map_err(|error| failed(error.into_error()))?;
                return Ok((file, records, until));
            }
        }
    }
}

/// How far it is, on a terminal.
fn tell(count: u64, what: &str, is_last: bool) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{count} {what}{}", if is_last { "\n" } else { "" });
    }
}

impl Audit {
    pub(super) fn run(self, session: &Session) -> Done {
        let genesis = crate::context::genesis_of(session, self.genesis.as_deref())?;
        let mut all: Vec<Findings> = Vec::new();
        for file in &self.logs {
            let name = file.display().to_string();
            let opened = File::open(file).map_err(|error| unwritable(file, &error))?;
            let mut done = |records| tell(records, &format!("records of {name}"), false);
            all.push(pay::audit(&name, BufReader::new(opened), &genesis, &mut done)?);
        }
        let between = pay::compare(&all);
        let count = all.iter().map(|found| found.violations_count).sum::<u64>() + between.len() as u64;
        session.output.print(&self.report(&all, &between, count))?;
        if count == 0 {
            return Ok(Exit::Success);
        }
        let message = format!("the audit found {count} violations");
        Err(SynError::with_message(code::AUDIT_FAILED, &message)
            .because("each is listed above, with the signed objects that show it in the JSON form"))
    }

    fn report(&self, all: &[Findings], between: &[Violation], count: u64) -> Report {
        let names = self.logs.iter().map(|file| file.display().to_string());
        let of_logs = names.zip(all).flat_map(|(name, found)| {
            found.violations.iter().map(move |violation| columns(&name, violation)).collect::<Vec<_>>()
        });
        let rows = of_logs.chain(between.iter().map(|violation| columns("", violation))).collect();
        let sum = |of: fn(&Findings) -> u64| all.iter().map(of).sum::<u64>();
        let money = all.first().into_iter().flat_map(|found| &found.money).map(|(ledger, money)| {
            let text = |sum: Total| sum.to_string();
            json!({
                "ledger": ledger,
                "accounts": money.accounts,
                "credits": text(money.credits),
                "debits": text(money.debits),
                "liabilities": text(money.liabilities),
                "issued": text(money.issued),
            })
        });
        Report::new("synod-pay-audit/1")
            .field("ok", count == 0)
            .field("violations_count", count)
            .field("logs", self.logs.len())
            .field("payments", sum(|found| found.entries))
            .field("certified", sum(|found| found.certified))
            .field("certified_by_later", sum(|found| found.entries - found.certified))
            .field("unseen_orders", sum(|found| found.unseen))
            .field("batches", sum(|found| found.batches))
            .field("certificates", sum(|found| found.certificates))
            .field("words", sum(|found| found.words))
            .field("beyond", sum(|found| found.beyond))
            .field("imports", sum(Findings::imports))
            .field("cuts", sum(|found| found.cuts().0))
            .field(
                "newest_cut",
                all.iter().filter_map(|found| found.cuts().1).max().map(|cut| cut.to_string()),
            )
            .field("money", money.collect::<Vec<Value>>())
            .list("violations", &VIOLATION, rows)
    }
}

fn columns(log: &str, violation: &Violation) -> Vec<Value> {
    let lot = violation.lot.map(|lot| format!("{}/{}", lot.source, lot.sequence));
    let entry = violation.entry.map(|id| format!("{}/{}", id.spender, id.n));
    let shown = violation.shown.iter().map(|one| format!("{} {}", one.what, hex(&one.bytes)));
    vec![
        json!(violation.what.name()),
        json!(log),
        json!(violation.record),
        json!(lot),
        json!(entry),
        json!(violation.to_string()),
        json!(shown.collect::<Vec<_>>().join("; ")),
    ]
}
