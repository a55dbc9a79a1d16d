//! `synod pay send --file`: many payments of a file, each once however often the file is sent.
//!
//! A file is CSV with a head (`id,from,to,amount`, and `ledger` and `code` where they are not the usual ones) or JSON, an object a line.
//! Ids stand in the file: who was interrupted sends it again, and what was paid before is answered and not paid again. Payments go to
//! the institutions of their payers, many in one request; what an institution is too busy for, or tells no outcome of, is sent again
//! until the time is up.
//!
//! *Bounds.* A line has [`LINE_BYTES_MAX`] bytes; of the file so many lines are in memory as fit one request per institution.

use super::Until;
use super::institution::{Institution, System};
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::{Session, usage};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};
use synod_config::{Exit, SynError, code};
use synod_host::pay::{AccountId, GROUP_MAX, Seat};

/// Longest line.
const LINE_BYTES_MAX: u64 = 4 << 10;
/// Longest body of a request: below the usual limit of nodes, which is 768 KiB.
const BODY_BYTES_MAX: usize = 700 << 10;
/// How long a busy institution is left alone.
const PAUSE: Duration = Duration::from_millis(50);
/// Refusals that are shown.
const SHOWN_MAX: usize = 10;
/// Width of the bar.
const BAR: u64 = 30;

/// A payment of the file.
struct Row {
    line: u64,
    payment: Value,
    /// Whether it was sent and not answered: nothing that a later try is told says that it did not happen, but that it did.
    may_have_happened: bool,
}

impl Row {
    /// What a last answer says of it.
    fn last(&self, result: Value) -> Value {
        let is_busy = result["code"] == "SYN-3402";
        if self.may_have_happened && is_busy { Value::Null } else { result }
    }
}

/// Payments on their way to one institution.
#[derive(Default)]
struct Parcel {
    payments: Vec<Row>,
    bytes: usize,
}

/// What became of the payments so far.
#[derive(Default)]
struct Tally {
    paid: u64,
    unknown: u64,
    refused: BTreeMap<String, u64>,
    /// Line, code and reason of the first that were refused or whose outcome is unknown.
    shown: Vec<Vec<Value>>,
}

impl Tally {
    fn count(&self) -> u64 {
        self.paid + self.unknown + self.refused.values().sum::<u64>()
    }

    fn fail(&mut self, line: u64, result: &Value) {
        let code = result["code"].as_str().unwrap_or("SYN-3502");
        if result["outcome"] == "unknown" || result["code"].is_null() {
            self.unknown += 1;
        } else {
            *self.refused.entry(code.to_owned()).or_default() += 1;
        }
        if self.shown.len() < SHOWN_MAX {
            let reason = result["detail"].as_str().unwrap_or("no answer");
            self.shown.push(vec![json!(line), result["id"].clone(), json!(code), json!(reason)]);
        }
    }
}

/// A bar on standard error, for whoever sits there.
struct Bar {
    bytes: u64,
    shown: Option<Instant>,
    begun: Instant,
}

impl Bar {
    /// Shows how far the file is read and how many payments have an outcome, ten times a second.
    fn show(&mut self, read: u64, tally: &Tally) {
        let is_due = self.shown.is_none_or(|at| at.elapsed() > Duration::from_millis(100));
        if !is_due || !std::io::stderr().is_terminal() {
            return;
        }
        self.shown = Some(Instant::now());
        let done = (read * BAR).checked_div(self.bytes).unwrap_or(BAR).min(BAR);
        let (full, empty) = (usize::try_from(done).unwrap_or(0), usize::try_from(BAR - done).unwrap_or(0));
        let per_s = u128::from(tally.paid) * 1_000 / self.begun.elapsed().as_millis().max(1);
        let failed = tally.count() - tally.paid;
        let mut out = std::io::stderr();
        // Nobody is told if nobody listens.
        let _ = write!(
            out,
            "\r[{}{}] {} paid, {failed} not, {per_s}/s ",
            "#".repeat(full),
            "-".repeat(empty),
            tally.paid
        );
        let _ = out.flush();
    }

    fn end(&self) {
        if self.shown.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// The columns of a CSV file, by their head.
struct Columns(Vec<String>);

impl Columns {
    fn of(head: &str) -> Result<Self, SynError> {
        let names: Vec<String> = head.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
        let known = ["id", "from", "to", "amount", "ledger", "code"];
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(usage(&format!("{name:?} is no column: they are {}", known.join(", "))));
        }
        match known.iter().take(4).find(|name| !names.iter().any(|own| own == *name)) {
            Some(name) => Err(usage(&format!("the first line names no column {name}"))),
            None => Ok(Self(names)),
        }
    }

    fn read(&self, line: &str) -> Result<Value, String> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != self.0.len() {
            return Err(format!("it has {} columns and the first line {}", cells.len(), self.0.len()));
        }
        let cell = |(name, cell): (&String, &str)| {
            let value = match name.as_str() {
                "ledger" => {
                    cell.parse::<u32>().map(Value::from).map_err(|_| "ledger is no number of 32 bits")?
                }
                "code" => cell.parse::<u16>().map(Value::from).map_err(|_| "code is no number of 16 bits")?,
                _ => Value::from(cell),
            };
            Ok((name.clone(), value))
        };
        let cells: Result<Map<_, _>, &str> = self.0.iter().zip(cells).map(cell).collect();
        Ok(Value::Object(cells?))
    }
}

fn payer(payment: &Value) -> Result<AccountId, String> {
    let object = payment.as_object().ok_or("it is no object")?;
    if object.get("id").and_then(Value::as_str).is_none() {
        return Err("it has no id, and ids are what makes sending again safe".to_owned());
    }
    let from = object.get("from").or_else(|| object.get("debit_account_id"));
    let from = from.and_then(Value::as_str).ok_or("it has no payer")?;
    from.parse().map_err(|why| format!("{from:?}: {why}"))
}

/// Everything that is sent, and where.
struct Sending<'a> {
    system: &'a System,
    until: &'static str,
    deadline: Option<Instant>,
    parcels: BTreeMap<Seat, Parcel>,
    tally: Tally,
    bar: Bar,
    read: u64,
}

impl Sending<'_> {
    /// Takes a payment; sends those of its institution where no more fit.
    fn put(&mut self, line: u64, payment: Value, bytes: usize) -> Result<(), SynError> {
        let from = payer(&payment).map_err(|why| usage(&format!("line {line}: {why}")))?;
        let seat = Seat::over(from);
        let parcel = self.parcels.entry(seat).or_default();
        parcel.payments.push(Row { line, payment, may_have_happened: false });
        parcel.bytes += bytes + 1;
        if parcel.payments.len() == GROUP_MAX || parcel.bytes + 4_096 > BODY_BYTES_MAX {
            self.send(seat)?;
        }
        Ok(())
    }

    fn send(&mut self, seat: Seat) -> Result<(), SynError> {
        let mut parcel = self.parcels.remove(&seat).unwrap_or_default();
        let at = self.system.of(seat.issuer(), None)?;
        while !parcel.payments.is_empty() {
            parcel.payments = self.once(at, parcel.payments)?;
            self.bar.show(self.read, &self.tally);
            if !parcel.payments.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Sends payments once; gives those that are to be sent again.
    fn once(&mut self, at: Institution<'_>, mut payments: Vec<Row>) -> Result<Vec<Row>, SynError> {
        let body = Value::from(payments.iter().map(|row| row.payment.clone()).collect::<Vec<_>>());
        let path = format!("/v1/pay/create_transfers?until={}", self.until);
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let was_sent = payments.iter().any(|row| row.may_have_happened);
        let results = match at.post(&path, (&body, &format!("{} payments", payments.len()))) {
            Ok(told) => told["results"].as_array().cloned().unwrap_or_default(),
            Err(error) if may_come(&error) && !is_late => {
                let is_unknown = error.exit_code() == Exit::Unknown;
                payments.iter_mut().for_each(|row| row.may_have_happened |= is_unknown);
                return Ok(payments);
            }
            Err(error) if error.exit_code() == Exit::Unknown => vec![Value::Null; payments.len()],
            // This try did nothing; one before may have.
            Err(error) if may_come(&error) && was_sent => {
                let busy = json!({ "code": "SYN-3402", "detail": error.message() });
                vec![busy; payments.len()]
            }
            Err(error) => return Err(self.stopped(error)),
        };
        if results.len() != payments.len() {
            return Err(bug("pay send", &"a node answered another number of payments"));
        }
        let mut again = Vec::new();
        for (mut row, result) in payments.into_iter().zip(results) {
            let is_unknown = result["outcome"] == "unknown";
            let is_temporary = result["code"] == "SYN-3402" || is_unknown;
            if result["state"].is_string() {
                self.tally.paid += 1;
            } else if is_temporary && !is_late {
                row.may_have_happened |= is_unknown;
                again.push(row);
            } else {
                self.tally.fail(row.line, &row.last(result));
            }
        }
        Ok(again)
    }

    /// An error that ends the sending, with what was done before.
    fn stopped(&self, error: SynError) -> SynError {
        let Tally { paid, unknown, .. } = self.tally;
        let before = format!("{paid} payments of the file are paid, the outcome of {unknown} is unknown");
        error.because(before).because("what was sent before may be sent again: its ids stand")
    }
}

/// Whether a request that failed as a whole may be answered when it is sent again.
fn may_come(error: &SynError) -> bool {
    error.exit_code() == Exit::Unknown
        || error.code() == code::BUSY
        || error.code() == code::REFUSED
        || error.code() == code::NO_ANSWER
}

/// Sends every payment of a file.
///
/// # Errors
/// Those of the file, SYN-1001 with the line for one that is no payment, and those of reaching the nodes.
pub(super) fn send(session: &Session, system: &System, file: &Path, until: Until) -> Done {
    let unreadable = |error: std::io::Error| {
        SynError::of(code::CONFIG_UNREADABLE, &[("file", &file.display().to_string())]).because(error)
    };
    let opened = File::open(file).map_err(unreadable)?;
    let bytes = opened.metadata().map_err(unreadable)?.len();
    let begun = Instant::now();
    let mut sending = Sending {
        system,
        until: until.word(),
        // Without a time of its own it is sent until it has an outcome.
        deadline: session.timeout.map(|timeout| begun + timeout),
        parcels: BTreeMap::new(),
        tally: Tally::default(),
        bar: Bar { bytes, shown: None, begun },
        read: 0,
    };
    let (mut reader, mut columns, mut line) = (BufReader::new(opened), None, 0);
    loop {
        let mut text = String::new();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut text).map_err(unreadable)? as u64;
        if read == 0 {
            break;
        }
        (line, sending.read) = (line + 1, sending.read + read);
        let row = text.trim();
        if read == LINE_BYTES_MAX && !text.ends_with('\n') {
            return Err(usage(&format!("line {line} has more than {LINE_BYTES_MAX} bytes")));
        }
        if row.is_empty() {
            continue;
        }
        let payment = match &columns {
            _ if row.starts_with('{') => serde_json::from_str(row).map_err(|error| error.to_string()),
            None => {
                columns = Some(Columns::of(row)?);
                continue;
            }
            Some(columns) => columns.read(row),
        };
        let payment = payment.map_err(|why| usage(&format!("line {line}: {why}")))?;
        // As JSON a row has the names of its columns as well.
        sending.put(line, payment, row.len() + 64)?;
    }
    let left: Vec<Seat> = sending.parcels.keys().copied().collect();
    for seat in left {
        sending.send(seat)?;
    }
    sending.bar.end();
    report(session, &sending.tally, begun.elapsed())
}

fn report(session: &Session, tally: &Tally, took: Duration) -> Done {
    let per_s = u128::from(tally.paid) * 1_000 / took.as_millis().max(1);
    let refused: u64 = tally.refused.values().sum();
    let report = Report::new("synod-pay-file/1")
        .field("paid", tally.paid)
        .field("refused", refused)
        .field("unknown", tally.unknown)
        .field("per_s", u64::try_from(per_s).unwrap_or(u64::MAX))
        .field("by_code", json!(tally.refused))
        .list("failed", &["line", "id", "code", "reason"], tally.shown.clone());
    session.output.print(&report)?;
    Ok(match (tally.unknown, refused) {
        (0, 0) => Exit::Success,
        (0, _) => Exit::Rejected,
        _ => Exit::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_by_the_names_of_its_columns() {
        let columns = Columns::of("amount, id,from,to,code").map_err(|error| error.message().to_owned());
        let columns = columns.expect("columns");
        let payment = columns.read("5, 7, 0-0-2, 0-1-2, 3").expect("a payment");
        assert_eq!(payment, json!({ "amount": "5", "id": "7", "from": "0-0-2", "to": "0-1-2", "code": 3 }));
        assert_eq!(payer(&payment), Ok(AccountId { shard: 0, registrar: 0, local: 2 }));
        assert!(columns.read("5,7,0-0-2,0-1-2").is_err());
        for code in ["three", "65536", "-1", ""] {
            let wrong = columns.read(&format!("5,7,0-0-2,0-1-2,{code}"));
            assert_eq!(wrong, Err("code is no number of 16 bits".to_owned()), "{code}");
        }
        for head in ["id,from,to", "id,from,to,amount,fee", ""] {
            assert!(Columns::of(head).is_err(), "{head}");
        }
    }

    #[test]
    fn a_payment_that_was_sent_without_an_answer_is_not_called_refused_for_a_busy_node() {
        let busy = json!({ "code": "SYN-3402", "detail": "busy" });
        let short = json!({ "code": "SYN-3115", "detail": "no money" });
        for (may_have_happened, result, unknown) in
            [(false, &busy, 0), (true, &busy, 1), (false, &short, 0), (true, &short, 0)]
        {
            let (row, mut tally) = (Row { line: 1, payment: json!({}), may_have_happened }, Tally::default());
            tally.fail(row.line, &row.last(result.clone()));
            let refused: u64 = tally.refused.values().sum();
            assert_eq!((tally.unknown, refused), (unknown, 1 - unknown), "{may_have_happened} {result}");
        }
    }

    #[test]
    fn a_payment_of_a_file_has_an_id_and_a_payer() {
        for wrong in
            [json!([]), json!({ "from": "0-0-2" }), json!({ "id": 7, "from": "0-0-2" }), json!({ "id": "7" })]
        {
            assert!(payer(&wrong).is_err(), "{wrong}");
        }
        assert!(payer(&json!({ "id": "7", "debit_account_id": "0-0-2" })).is_ok());
        assert!(payer(&json!({ "id": "7", "from": "0-2" })).is_err());
    }
}
