//! `synod pay`: accounts and payments of a payment system, through the node of the institution that carries the account.

mod agree;
mod audit;
mod behind;
mod bundles;
mod evidence;
mod file;
pub(in crate::verbs) mod institution;
mod lanes;
mod orders;
pub(in crate::verbs) mod reach;
mod receipt;
mod refused;
mod terms;
mod wallet;
mod watch;

use crate::exit::Done;
use crate::output::Report;
use crate::session::Session;
use clap::{Args, Subcommand, ValueEnum};
use institution::System;
use reach::Reach;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use synod_config::{Exit, Retry, SynError};
use synod_host::pay::AccountId;

/// Accounts and payments without an order, of a cluster of kind astro.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay send --from 0-0-2 --to 0-1-2 --amount 5")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Opens accounts, lists them, shows how one stands, and changes what is agreed of one.
    #[command(after_help = "Example:\n  synod pay account show 0-0-1")]
    Account {
        #[command(subcommand)]
        verb: AccountVerb,
    },
    Wallet(wallet::Arguments),
    Send(orders::Pay),
    Multi(orders::Multi),
    Hold(orders::Hold),
    /// Pays what a hold set aside, or a part of it, and frees the rest.
    #[command(after_help = "Example:\n  synod pay post 8 --amount 3")]
    Post {
        #[command(flatten)]
        decide: orders::Decide,
        /// How much of it; by default all.
        #[arg(long)]
        amount: Option<u128>,
    },
    /// Frees what a hold set aside.
    #[command(after_help = "Example:\n  synod pay void 9")]
    Void {
        #[command(flatten)]
        decide: orders::Decide,
    },
    Limit(terms::Limit),
    /// Shows a payment by its id, and how sure it is.
    #[command(after_help = "Example:\n  synod pay status 7")]
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Takes the receipt of a payment: what proves its level to anybody who has the genesis. It is checked first.
    #[command(after_help = "Example:\n  synod pay receipt 7 --out 7.receipt")]
    Receipt {
        #[command(flatten)]
        which: Which,
        /// Writes it to a new file, for `synod client verify`; by default it is printed.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Lists what settled of an account, in the order in which it settled at its institution.
    #[command(after_help = "Example:\n  synod pay history 0-0-1")]
    History {
        /// The account.
        account: AccountId,
        /// Begins behind this position.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Rows at most.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
        /// The node to ask; by default that of the account's institution.
        #[arg(long)]
        node: Option<String>,
    },
    /// Lists what settled at a node behind a cursor, in the order in which it settled there, and gives the cursor behind it.
    #[command(after_help = "Example:\n  synod pay changes --node n0")]
    Changes {
        /// The node to follow; by default the first registrar's. Each has an order of its own.
        #[arg(long)]
        node: Option<String>,
        /// Begins behind this position.
        #[arg(long, default_value_t = 0, value_name = "CURSOR")]
        from: u64,
        /// Rows at most.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    Watch(watch::Watch),
    Statement(behind::Statement),
    #[command(name = "proof")]
    Prove(behind::Prove),
    Cuts(behind::Cuts),
    Lanes(lanes::Lanes),
    Bundles(bundles::Bundles),
    Resolve(refused::Resolve),
    Freeze(refused::Freeze),
    Export(audit::Export),
    Audit(audit::Audit),
    /// Gives an account money of its institution's issuer; in drills only.
    #[command(after_help = "Example:\n  synod pay faucet 0-0-2 --amount 1000")]
    Faucet {
        /// Who is paid.
        account: AccountId,
        /// How much.
        #[arg(long, default_value_t = 1_000)]
        amount: u128,
        /// The payment's name; sent twice, it happens once. By default a new one is drawn.
        #[arg(long)]
        id: Option<u128>,
    },
}

/// Which payment, and who is asked for it.
#[derive(Debug, Args)]
struct Which {
    /// The payment's name.
    id: u128,
    /// Who paid; needed where several payers gave a payment that name.
    #[arg(long, value_name = "ACCOUNT")]
    from: Option<AccountId>,
    /// The node to ask; by default that of the payer's institution if --from names the payer, else all.
    #[arg(long)]
    node: Option<String>,
}

#[derive(Debug, Subcommand)]
enum AccountVerb {
    /// Opens an account at an institution.
    #[command(after_help = "Example:\n  synod pay account new --node n0")]
    New {
        /// The institution: a member that is a registrar; by default the first.
        #[arg(long)]
        node: Option<String>,
        /// The ledger, a currency or another unit, for good; by default that of the institution's money.
        #[arg(long)]
        ledger: Option<u32>,
        /// The institution's reason, as a number.
        #[arg(long, default_value_t = 0)]
        code: u16,
        /// An Ed25519 key as 64 hex digits: its holder signs each payment; without it the institution does.
        #[arg(long, value_name = "HEX")]
        key: Option<String>,
    },
    /// Lists accounts, as they stand at one node.
    #[command(after_help = "Example:\n  synod pay account ls")]
    Ls {
        /// The node to ask; by default the first registrar's.
        #[arg(long)]
        node: Option<String>,
        /// Begins behind this account.
        #[arg(long, value_name = "ACCOUNT")]
        after: Option<AccountId>,
        /// Rows at most.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_024))]
        limit: u32,
    },
    Evidence(evidence::Evidence),
    Close(terms::Close),
    Rekey(terms::Rekey),
    Move(terms::Move),
    /// Shows how an account stands at a node.
    #[command(after_help = "Example:\n  synod pay account show 0-0-1")]
    Show {
        /// The account.
        account: AccountId,
        /// The node to ask; by default that of the account's institution.
        #[arg(long)]
        node: Option<String>,
        /// Asks all nodes until a quorum states the same: every payment that was stable before is in it then.
        #[arg(long, conflicts_with = "node")]
        linearizable: bool,
    },
}

/// How sure a payment has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Until {
    /// No other entry can have its place.
    Certified,
    /// A correct node settled it.
    Settled,
    /// It survives any f faults.
    Stable,
}

impl Until {
    const fn word(self) -> &'static str {
        match self {
            Self::Certified => "certified",
            Self::Settled => "settled",
            Self::Stable => "stable",
        }
    }
}

/// Columns of a payment.
const TRANSFER: [&str; 9] = ["position", "id", "state", "kind", "from", "n", "to", "amount", "code"];
/// Columns of an account.
const ACCOUNT: [&str; 10] = [
    "id",
    "ledger",
    "state",
    "available",
    "pending",
    "credits",
    "debits",
    "limit",
    "entries",
    "open_entries",
];

fn columns(object: &Value, names: &[&'static str]) -> Vec<Value> {
    names.iter().map(|name| object.get(*name).cloned().unwrap_or(Value::Null)).collect()
}

/// Every field of an object, under its own name.
fn fields(report: Report, object: &Value) -> Report {
    let fields = object.as_object().into_iter().flatten();
    fields.fold(report, |report, (name, value)| report.field(name.clone(), value.clone()))
}

/// What settled at a node behind a cursor.
fn changes(system: &System, node: Option<&str>, (from, limit): (u64, u32)) -> Result<Report, SynError> {
    let at = system.named(node)?;
    let found = at.get(&format!("/v1/changes?from={from}&limit={limit}"))?;
    let rows = found["changes"].as_array().into_iter().flatten();
    Ok(Report::new("synod-pay-changes/1")
        .field("node", at.name())
        .field("more", found["more"].as_bool().unwrap_or(false))
        .field("cursor", found["cursor"].clone())
        .list("changes", &TRANSFER, rows.map(|row| columns(row, &TRANSFER)).collect()))
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        if let Verb::Audit(audit) = self.verb {
            return audit.run(session);
        }
        let system = &Arc::new(System::open(session, &self.reach)?);
        let report = match self.verb {
            Verb::Audit(audit) => return audit.run(session),
            Verb::Export(export) => export.report(system)?,
            Verb::Changes { node, from, limit } => changes(system, node.as_deref(), (from, limit))?,
            Verb::Wallet(wallet) => return wallet.run(session, system),
            Verb::Watch(watch) => return watch.run(session, system),
            Verb::Statement(statement) => statement.report(system)?,
            Verb::Prove(prove) => prove.report(system)?,
            Verb::Cuts(cuts) => cuts.report(system)?,
            Verb::Lanes(lanes) => lanes.report(system)?,
            Verb::Bundles(bundles) => bundles.report(system)?,
            Verb::Resolve(resolve) => return Err(resolve.refuse()),
            Verb::Freeze(freeze) => return Err(freeze.refuse()),
            Verb::Account { verb } => verb.report(system)?,
            Verb::Send(pay) => return pay.send(session, system),
            Verb::Multi(multi) => multi.send(system)?,
            Verb::Hold(hold) => hold.send(system)?,
            Verb::Post { decide, amount } => decide.post(system, amount)?,
            Verb::Void { decide } => decide.void(system)?,
            Verb::Limit(limit) => limit.send(system)?,
            Verb::Status { which: Which { id, from, node } } => {
                let (found, name) = orders::find(system, (id, from), node.as_deref())?;
                fields(Report::new("synod-pay-transfer/1"), &found).field("node", name)
            }
            Verb::Receipt { which: Which { id, from, node }, out } => {
                receipt::receipt(system, (id, from), node.as_deref(), out.as_deref())?
            }
            Verb::History { account, after, limit, node } => {
                let at = system.of(account, node.as_deref())?;
                let path = format!("/v1/pay/accounts/{account}/history?after={after}&limit={limit}");
                let found = at.get(&path)?;
                let rows = found["transfers"].as_array().into_iter().flatten();
                Report::new("synod-pay-history/1")
                    .field("account", account.to_string())
                    .field("node", at.name())
                    .field("more", found["more"].as_bool().unwrap_or(false))
                    .list("transfers", &TRANSFER, rows.map(|row| columns(row, &TRANSFER)).collect())
            }
            Verb::Faucet { account, amount, id } => orders::faucet(system, account, (amount, id))?,
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

impl AccountVerb {
    fn report(self, system: &System) -> Result<Report, SynError> {
        match self {
            Self::New { node, ledger, code, key } => {
                let at = system.named(node.as_deref())?;
                let ledger = ledger.or_else(|| at.ledger()).unwrap_or(1);
                let mut body = json!({ "ledger": ledger, "code": code });
                if let Some(key) = key {
                    body["ed25519"] = Value::from(key);
                }
                let opened = at.post("/v1/pay/accounts", (&body, "the opening")).map_err(|error| {
                    if error.retry() != Retry::Unknown {
                        return error;
                    }
                    let asks = format!("synod pay account ls --node {}", at.name());
                    error.because(format!(
                        "`{asks}` shows whether there is a new account; it has no id to ask by"
                    ))
                })?;
                Ok(fields(Report::new("synod-pay-account/1"), &opened).field("node", at.name()))
            }
            Self::Ls { node, after, limit } => {
                let at = system.named(node.as_deref())?;
                let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
                let found = at.get(&format!("/v1/pay/accounts?limit={limit}{after}"))?;
                let rows = found["accounts"].as_array().into_iter().flatten();
                Ok(Report::new("synod-pay-accounts/1").field("node", at.name()).list(
                    "accounts",
                    &ACCOUNT,
                    rows.map(|row| columns(row, &ACCOUNT)).collect(),
                ))
            }
            Self::Evidence(evidence) => evidence.report(system),
            Self::Close(close) => close.send(system),
            Self::Rekey(rekey) => rekey.send(system),
            Self::Move(to) => to.send(system),
            Self::Show { account, linearizable: true, .. } => behind::linearizable(system, account),
            Self::Show { account, node, .. } => {
                let at = system.of(account, node.as_deref())?;
                let found = at.get(&format!("/v1/pay/accounts/{account}"))?;
                Ok(fields(Report::new("synod-pay-account/1"), &found).field("node", at.name()))
            }
        }
    }
}
