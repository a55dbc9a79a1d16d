//! What becomes of an order, and of what was signed before: told as sure as it is, with a receipt that anybody can check.

use super::folder::Folder;
use super::hosted::Hosted;
use super::{ENTRY, System, receipt, shown};
use crate::output::Report;
use crate::proof::Proof;
use crate::session::Session;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Code, SynError, code, format_duration};
use synod_host::pay::wallet::{Input, Output, Refusal, Stop};
use synod_host::pay::{Draft, Entry, Flags, Kind, Level, Line, UserData, digest, known, word};
use synod_machine::Span;

/// The only order of a process.
const TICKET: u64 = 1;
/// How long the wallet's own deadline is before the one of the process.
const MARGIN: Duration = Duration::from_millis(50);

/// A wallet at work for one call.
pub(super) struct Sending<'a> {
    pub(super) system: &'a Arc<System>,
    pub(super) folder: &'a Folder,
    pub(super) hosted: Hosted,
    pub(super) deadline: Instant,
}

/// An order of a wallet's account, under a name and with a reason.
pub(super) fn order(folder: &Folder, kind: Kind, (transfer, code): (u128, u16)) -> Draft {
    Draft {
        spender: folder.account,
        kind,
        transfer,
        ledger: folder.ledger,
        code,
        user_data: UserData::default(),
        flags: Flags::default(),
    }
}

/// An entry that was signed.
pub(super) fn row(line: &Line, level: Level) -> Vec<Value> {
    let known = known(&line.entry);
    let text = |value: Option<String>| value.map_or(Value::Null, Value::from);
    vec![
        json!(known.n.to_string()),
        json!(known.id.to_string()),
        text(known.to.map(|to| to.to_string())),
        text(known.amount.map(|amount| amount.to_string())),
        json!(word(level)),
    ]
}

/// A payment, how sure it is, and where its receipt is kept, with the level that it shows.
fn report(entry: &Entry, level: Level, receipt: Option<(String, Level)>) -> Report {
    let known = known(entry);
    let (file, shows) = receipt
        .map_or((Value::Null, Value::Null), |(file, level)| (Value::from(file), Value::from(word(level))));
    Report::new("synod-pay-transfer/1")
        .field("id", known.id.to_string())
        .field("state", word(level))
        .field("kind", known.kind)
        .field("from", known.from.to_string())
        .field("to", known.to.map(|to| to.to_string()))
        .field("amount", known.amount.map(|amount| amount.to_string()))
        .field("ledger", known.ledger)
        .field("code", known.code)
        .field("n", known.n.to_string())
        .field("digest", digest(entry).to_string())
        .field("receipt", file)
        .field("receipt_shows", shows)
}

/// The name of a payment is taken by another one.
fn different(transfer: u128) -> SynError {
    let id = transfer.to_string();
    SynError::of(code::EXISTS_DIFFERENT, &[("id", &id), ("field", "payee, amount or code"), ("client", "")])
}

/// Another wallet signs with the same key, or did.
pub(super) fn conflicted(folder: &Folder) -> SynError {
    let account = folder.account.to_string();
    SynError::of(code::SEQUENCE_CONFLICT, &[("account", &account), ("client", &account)])
}

/// Too few members said anything.
pub(super) fn no_quorum(hosted: &Hosted) -> SynError {
    let names: Vec<&str> = hosted.silent().map(|(name, _)| name.as_str()).collect();
    let error = SynError::of(code::NO_QUORUM, &[("names", &names.join(", "))]);
    hosted.silent().fold(error, |error, (name, why)| error.because(format!("{name}: {why}")))
}

impl Sending<'_> {
    /// Pays, unless a payment of this name is signed already, and waits until it is as sure as wanted.
    ///
    /// # Errors
    /// What members say against it, SYN-3116 where the name is taken by another payment, SYN-3401 where too few say anything: nothing
    /// was signed then. SYN-3501 where it is signed and not so sure yet, SYN-3112 where another wallet has this key.
    pub(super) fn send(mut self, session: &Session, draft: Draft, until: Level) -> Result<Report, SynError> {
        let transfer = draft.transfer;
        if let Some(paid) = self.paid_before(session, &draft, until)? {
            return Ok(paid);
        }
        let mut signed = self.hosted.open_entries().into_iter().find(|line| line.entry.transfer == transfer);
        match &signed {
            Some(line) if line.entry.kind != draft.kind || line.entry.code != draft.code => {
                return Err(different(transfer).because("the wallet signed another payment of that name"));
            }
            Some(_) => {}
            None => {
                let within = self.deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
                let within = Span(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
                self.hosted.ask(Input::Pay { ticket: TICKET, draft: draft.clone(), until, within })?;
            }
        }
        loop {
            match self.hosted.next(self.deadline)? {
                Some(Output::Signed { line, .. }) => {
                    session.tell(&format!("entry {} is signed and kept", line.entry.id.n));
                    signed = Some(line);
                }
                Some(Output::Progress { transfer: of, level, .. }) if of == transfer && level >= until => {
                    let line = signed.ok_or_else(|| crate::exit::bug("wallet", &"progress of nothing"))?;
                    return Ok(self.paid(session, &line, level));
                }
                Some(Output::Refused { why, .. }) => return Err(self.refused(&draft, why)),
                Some(Output::Stopped(why)) if signed.is_some() => {
                    let (unknown, stopped) = (self.unknown(transfer), self.stopped(why));
                    let unknown = unknown.because(stopped.message());
                    return Err(stopped.causes().iter().fold(unknown, SynError::because));
                }
                Some(Output::Unknown { why, .. }) => {
                    let error = self.unknown(transfer);
                    return Err(match why {
                        Some(why) => {
                            error.because(format!("a member does not take it yet: {}", Code::new(why)))
                        }
                        None => error,
                    });
                }
                Some(Output::Ready(_) | Output::Progress { .. } | Output::Stopped(_)) => {}
                None if signed.is_some() => return Err(self.unknown(transfer)),
                None => return Err(no_quorum(&self.hosted).because("nothing was signed")),
            }
        }
    }

    /// Waits until all that was signed is as sure as wanted.
    ///
    /// # Errors
    /// SYN-3501 where something is not, SYN-3401 where no quorum says how far the log is, SYN-3112 where another wallet has this key.
    pub(super) fn settle(mut self, session: &Session, until: Level) -> Result<Report, SynError> {
        let lines = self.hosted.open_entries();
        let mut levels: BTreeMap<u64, Level> =
            lines.iter().map(|line| (line.entry.id.n, Level::Accepted)).collect();
        let mut is_ready = false;
        while !is_ready || levels.values().any(|level| *level < until) {
            match self.hosted.next(self.deadline)? {
                Some(Output::Ready(_)) => is_ready = true,
                Some(Output::Progress { id, level, .. }) => drop(levels.insert(id.n, level)),
                Some(Output::Stopped(why)) => return Err(self.stopped(why)),
                Some(_) => {}
                None if is_ready => {
                    let late = lines.iter().find(|line| levels.get(&line.entry.id.n) < Some(&until));
                    let id = late.map_or(0, |line| line.entry.transfer);
                    return Err(self.unknown(id));
                }
                None => return Err(no_quorum(&self.hosted).because("no quorum states how far the log is")),
            }
        }
        for line in &lines {
            drop(self.receipt(session, &line.entry));
        }
        let level = |line: &Line| levels.get(&line.entry.id.n).copied().unwrap_or(Level::Accepted);
        let rows = lines.iter().map(|line| row(line, level(line))).collect();
        Ok(shown(self.folder).list("entries", &ENTRY, rows))
    }

    /// The payment of this name, where its receipt is kept here: nobody needs to be asked, unless it shows too little.
    fn paid_before(
        &self,
        session: &Session,
        draft: &Draft,
        until: Level,
    ) -> Result<Option<Report>, SynError> {
        let path = self.folder.receipt(draft.transfer)?;
        if !path.exists() {
            return Ok(None);
        }
        let genesis = self.system.genesis();
        let proved = receipt::payment(&Proof::read(&path)?, genesis)?;
        let Entry { id, kind, code, transfer, .. } = &proved.entry;
        if (id.spender, *transfer) != (draft.spender, draft.transfer) {
            let why = format!("{} is of another payment", path.display());
            return Err(crate::proof::invalid(&why));
        }
        if (kind, *code) != (&draft.kind, draft.code) {
            return Err(different(draft.transfer).because("its receipt is kept here"));
        }
        let kept = (path.display().to_string(), proved.level);
        if proved.level >= until {
            return Ok(Some(report(&proved.entry, proved.level, Some(kept))));
        }
        if self.hosted.open_entries().iter().any(|line| *line.entry == proved.entry) {
            return Ok(None);
        }
        match self.receipt(session, &proved.entry) {
            Some((file, level)) if level >= until => {
                Ok(Some(report(&proved.entry, level, Some((file, level)))))
            }
            _ => Err(self.unknown(draft.transfer)),
        }
    }

    fn paid(&self, session: &Session, line: &Line, level: Level) -> Report {
        report(&line.entry, level, self.receipt(session, &line.entry))
    }
    /// Keeps the receipt of highest level that a member gives, and says where; none is no failure of the payment.
    fn receipt(&self, session: &Session, entry: &Entry) -> Option<(String, Level)> {
        let take = || {
            let (proof, level) = receipt::of_entry(self.system, entry)?;
            let path = self.folder.receipt(entry.transfer)?;
            super::folder::replace(&path, (proof.to_line() + "\n").as_bytes())?;
            Ok((path.display().to_string(), level))
        };
        let taken: Result<_, SynError> = take();
        taken.map_err(|why| session.watched(&format!("no receipt of {} is kept: {why}", entry.transfer))).ok()
    }

    /// Nothing was signed for an order.
    fn refused(&self, draft: &Draft, why: Refusal) -> SynError {
        match why {
            Refusal::Denied(number) => {
                let (of, id) = (draft.spender.to_string(), draft.transfer.to_string());
                let (to, amount) = match &draft.kind {
                    Kind::Pay(leg) => (leg.to.to_string(), leg.amount.0.to_string()),
                    _ => Default::default(),
                };
                let number = Code::new(number);
                let client = if number == code::UNKNOWN_BENEFICIARY { &to } else { &of };
                let values = [
                    ("client", &**client),
                    ("account", &of),
                    ("amount", &amount),
                    ("id", &id),
                    ("field", "content"),
                ];
                let error = SynError::of(number, &values).because("nothing was signed");
                if number != code::EXISTS_DIFFERENT {
                    return error;
                }
                error.because(format!("`synod pay status {id} --from {of}` shows the payment of that name"))
            }
            Refusal::Unanswered => no_quorum(&self.hosted).because("nothing was signed"),
            Refusal::Busy => SynError::of(code::BUSY, &[("retry_ms", "1000")])
                .because(format!("as much is signed and open as may be: {}", self.again())),
            Refusal::Rekeyed => SynError::of(code::UNAUTHORIZED, &[("account", &draft.spender.to_string())])
                .because("the last entry names another key"),
            Refusal::Stopped(why) => self.stopped(why),
        }
    }

    fn stopped(&self, why: Stop) -> SynError {
        let recover = format!("synod pay wallet recover {} --accept-lock-risk", self.folder.path().display());
        match why {
            Stop::NoFile => self.folder.lost("it is empty: taking the account over was interrupted"),
            Stop::Foreign(n) => conflicted(self.folder).because(format!(
                "entry {n} of the account was signed by another wallet with this key: this log is an old copy, and signs nothing \
                 any more. Use the newest one; where it is lost, `{recover}`"
            )),
            Stop::Conflicted(n) => conflicted(self.folder)
                .because(format!("members show two entries that were signed for place {n}: the account may be locked")),
        }
    }

    /// It is signed and not as sure as wanted.
    fn unknown(&self, id: u128) -> SynError {
        let id = format!("transfer {id}");
        let values = [("id", &*id), ("deadline", &*format_duration(self.system.patience()))];
        let error = SynError::of(code::DEADLINE_PASSED, &values);
        let error =
            self.hosted.silent().fold(error, |error, (name, why)| error.because(format!("{name}: {why}")));
        error.because(format!("it is signed and kept, and settles once or never: {}", self.again()))
    }

    fn again(&self) -> String {
        let path: &Path = self.folder.path();
        format!("`synod pay wallet status {}` gives it to members again", path.display())
    }
}
