//! `synod pay wallet`: accounts whose owner signs. The key stays here, every entry is kept before it leaves, and any member carries it.

mod folder;
mod hosted;
mod links;
mod ordering;
mod sending;

use super::institution::{self, System};
use super::receipt;
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand, ValueEnum};
use folder::{Begun, Folder};
use hosted::{Hosted, LockRisk};
use sending::{Sending, conflicted, row};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Exit, Genesis, Retry, SynError, hex};
use synod_host::pay::wallet::{Output, Record, Stop};
use synod_host::pay::{AccountId, Kind, LOOKED_MAX, Leg, Level, Units};

/// How long a payment may take when nothing is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// Columns of what was signed.
const ENTRY: [&str; 5] = ["n", "id", "to", "amount", "state"];

/// Accounts whose owner signs each payment. No institution can pay from them, or keep them from paying.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay wallet show alice")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    New(New),
    /// Shows whose account a wallet is of and what it signed, without asking anybody.
    #[command(after_help = "Example:\n  synod pay wallet show alice")]
    Show {
        /// The wallet.
        wallet: PathBuf,
    },
    Send(Send),
    #[command(flatten)]
    Order(ordering::Order),
    /// Gives members again what was signed and has not settled, the same bytes, and tells how sure it is.
    #[command(after_help = "Example:\n  synod pay wallet status alice")]
    Status {
        /// The wallet.
        wallet: PathBuf,
        /// How sure everything has to be.
        #[arg(long, value_enum, default_value_t = Until::Settled)]
        until: Until,
    },
    Recover(Recover),
}

/// Draws a key, opens an account whose payments it signs, and keeps both in a new directory of mode 0700. Interrupted, it goes on.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay wallet new alice")]
struct New {
    /// The directory.
    wallet: PathBuf,
    /// The institution that opens the account; by default the first.
    #[arg(long)]
    node: Option<String>,
    /// The ledger, a currency or another unit, for good; by default that of the institution's money.
    #[arg(long)]
    ledger: Option<u32>,
    /// The institution's reason, as a number.
    #[arg(long, default_value_t = 0)]
    code: u16,
}

/// Pays from a wallet's account: the entry is checked by f + 1 members, signed, kept, and given to members until it settles.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay wallet send alice --to 0-1-1 --amount 5")]
struct Send {
    /// The wallet.
    wallet: PathBuf,
    /// Whom it pays.
    #[arg(long, value_name = "ACCOUNT")]
    to: AccountId,
    /// How much, in the smallest unit of the ledger.
    #[arg(long)]
    amount: u128,
    /// The payment's name; sent twice, it happens once. By default a new one is drawn.
    #[arg(long)]
    id: Option<u128>,
    /// How sure it has to be.
    #[arg(long, value_enum, default_value_t = Until::Settled)]
    until: Until,
    /// Your reason, as a number.
    #[arg(long, default_value_t = 0)]
    code: u16,
}

/// Takes an account over with its key alone, where the log of what was signed is lost or old: by what a quorum of members shows.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay wallet recover alice --accept-lock-risk")]
struct Recover {
    /// The wallet.
    wallet: PathBuf,
    /// An entry that was signed and that members do not know yet may contradict the next one, and lock the account.
    #[arg(long)]
    accept_lock_risk: bool,
}

/// How sure a payment has to be. A wallet reads what members settled, so it is told no earlier level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Until {
    /// A correct node settled it.
    Settled,
    /// It survives any f faults.
    Stable,
}

impl Until {
    const fn level(self) -> Level {
        match self {
            Self::Settled => Level::Settled,
            Self::Stable => Level::Stable,
        }
    }
}

impl Arguments {
    pub(super) fn run(self, session: &Session, system: &Arc<System>) -> Done {
        let deadline = Instant::now() + session.timeout.unwrap_or(PATIENCE);
        let report = match self.verb {
            Verb::New(new) => new.run(system)?,
            Verb::Show { wallet } => show(&Folder::read(&wallet, system.genesis())?, system.genesis())?,
            Verb::Send(send) => send.run(session, system, deadline)?,
            Verb::Order(order) => order.run(session, system, deadline)?,
            Verb::Status { wallet, until } => {
                let folder = Folder::read(&wallet, system.genesis())?;
                let hosted = Hosted::open(&folder, system, LockRisk::Refused)?;
                Sending { system, folder: &folder, hosted, deadline }.settle(session, until.level())?
            }
            Verb::Recover(recover) => recover.run(session, system, deadline)?,
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

impl New {
    fn run(self, system: &System) -> Result<Report, SynError> {
        let at = system.named(self.node.as_deref())?;
        let ledger = self.ledger.or_else(|| at.ledger()).unwrap_or(1);
        let begun = Begun::new(&self.wallet)?;
        let key = hex(&begun.key.public().0);
        let known = if begun.is_continued { opened_before(&at, &key)? } else { None };
        let (account, ledger) = match known {
            Some(known) => known,
            None => (self.open(&at, ledger, &key)?, ledger),
        };
        let folder = begun.of(system.genesis(), account, ledger)?;
        Ok(shown(&folder).field("node", at.name()))
    }

    fn open(&self, at: &institution::Institution<'_>, ledger: u32, key: &str) -> Result<AccountId, SynError> {
        let body = json!({ "ledger": ledger, "code": self.code, "ed25519": key });
        let opened = at.post("/v1/pay/accounts", (&body, "the opening")).map_err(|error| {
            if error.retry() != Retry::Unknown {
                return error;
            }
            let path = self.wallet.display();
            error.because(format!("`synod pay wallet new {path}` looks first whether the account was opened"))
        })?;
        let id = opened["id"].as_str().and_then(|id| id.parse().ok());
        id.ok_or_else(|| crate::exit::bug("wallet", &"a node opened an account and did not name it"))
    }
}

/// The account that this key owns at an institution, and its ledger: an earlier call may have opened it.
fn opened_before(at: &institution::Institution<'_>, key: &str) -> Result<Option<(AccountId, u32)>, SynError> {
    let seat = at.seat();
    let mut after = seat.issuer();
    loop {
        let found = at.get(&format!("/v1/pay/accounts?limit={LOOKED_MAX}&after={after}"))?;
        let rows = found["accounts"].as_array().cloned().unwrap_or_default();
        let id = |row: &Value| row["id"].as_str().and_then(|id| id.parse::<AccountId>().ok());
        let own = rows.iter().find(|row| row["owner"]["ed25519"] == key);
        if let Some((row, account)) = own.and_then(|row| Some((row, id(row)?))) {
            let ledger = row["ledger"].as_u64().and_then(|ledger| u32::try_from(ledger).ok());
            return Ok(Some((account, ledger.unwrap_or(1))));
        }
        match rows.last().and_then(id) {
            Some(last) if seat.owns(last) && last > after => after = last,
            _ => return Ok(None),
        }
    }
}

impl Send {
    fn run(self, session: &Session, system: &Arc<System>, deadline: Instant) -> Result<Report, SynError> {
        let folder = Folder::read(&self.wallet, system.genesis())?;
        let hosted = Hosted::open(&folder, system, LockRisk::Refused)?;
        let id = self.id.unwrap_or_else(institution::draw_id);
        let kind = Kind::Pay(Leg { to: self.to, amount: Units(self.amount) });
        let draft = sending::order(&folder, kind, (id, self.code));
        Sending { system, folder: &folder, hosted, deadline }.send(session, draft, self.until.level())
    }
}

impl Recover {
    fn run(self, session: &Session, system: &Arc<System>, deadline: Instant) -> Result<Report, SynError> {
        if !self.accept_lock_risk {
            let why = "an entry that was signed and that members do not know yet may contradict the next one, and lock the account";
            return Err(usage("say --accept-lock-risk, or put the newest copy of the log back").because(why));
        }
        let folder = Folder::read(&self.wallet, system.genesis())?;
        folder.renew_log(system.genesis())?;
        let mut hosted = Hosted::open(&folder, system, LockRisk::Accepted)?;
        loop {
            match hosted.next(deadline)? {
                Some(Output::Ready(n)) => {
                    session.tell(&format!("the log of {} ends at {n}", folder.account));
                    let open = hosted.open_entries();
                    let rows = open.iter().map(|line| row(line, Level::Accepted)).collect();
                    return Ok(shown(&folder).field("n", n.to_string()).list("open", &ENTRY, rows));
                }
                Some(Output::Stopped(Stop::Conflicted(n))) => {
                    let why = format!(
                        "members show two entries that were signed for place {n}: the account may be locked"
                    );
                    return Err(conflicted(&folder).because(why));
                }
                Some(_) => {}
                None => {
                    let again = format!(
                        "`synod pay wallet recover {} --accept-lock-risk` again",
                        self.wallet.display()
                    );
                    return Err(sending::no_quorum(&hosted)
                        .because("no quorum states one end of the log")
                        .because(again));
                }
            }
        }
    }
}

/// What a wallet's directory says.
fn show(folder: &Folder, of: &Genesis) -> Result<Report, SynError> {
    let records = folder.open_log(of)?.records;
    let base = records.iter().rev().find_map(|record| match record {
        Record::Based { n, .. } => Some(*n),
        Record::Signed(_) => None,
    });
    let base = base.ok_or_else(|| folder.lost("it does not say where the account's log begins"))?;
    let open = records.iter().filter_map(|record| match record {
        Record::Signed(line) if line.entry.id.n > base => Some(row(line, Level::Accepted)),
        Record::Signed(_) | Record::Based { .. } => None,
    });
    Ok(shown(folder).field("n", base.to_string()).list("open", &ENTRY, open.collect()))
}

fn shown(folder: &Folder) -> Report {
    Report::new("synod-pay-wallet/1")
        .field("wallet", folder.path().display().to_string())
        .field("account", folder.account.to_string())
        .field("ledger", folder.ledger)
        .field("ed25519", hex(&folder.key.public().0))
}
