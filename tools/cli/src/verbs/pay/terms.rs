//! What becomes of an account itself: closed, given another owner or representative, or another limit. For accounts that their institution
//! signs for; owners who sign do so with their wallets.

use super::institution::{self, System};
use super::{Until, fields};
use crate::output::Report;
use crate::session::usage;
use clap::Args;
use serde_json::{Value, json};
use synod_config::{SynError, code};
use synod_host::pay::AccountId;

/// What every change says.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// The account.
    account: AccountId,
    /// The change's name; sent twice, it happens once. By default a new one is drawn.
    #[arg(long)]
    id: Option<u128>,
    /// How sure it has to be.
    #[arg(long, value_enum, default_value_t = Until::Settled)]
    until: Until,
    /// Your reason, as a number.
    #[arg(long, default_value_t = 0)]
    code: u16,
    /// The node of the institution that signs for it; by default that which opened it.
    #[arg(long)]
    node: Option<String>,
}

/// Closes an account: nothing is paid from it any more, and what is left goes to another one. What is paid to it later leaves by closing
/// it once more.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay account close 0-1-2 --to 0-1-1")]
pub(super) struct Close {
    #[command(flatten)]
    change: Change,
    /// Who has what is left.
    #[arg(long, value_name = "ACCOUNT")]
    to: AccountId,
    /// How much that is; by default all, and less than all is refused.
    #[arg(long)]
    amount: Option<u128>,
}

/// Gives an account another owner, from its next entry on.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay account rekey 0-1-1 --custodian n1")]
pub(super) struct Rekey {
    #[command(flatten)]
    change: Change,
    /// An Ed25519 key as 64 hex digits: its holder signs each payment.
    #[arg(long, value_name = "HEX", conflicts_with = "custodian")]
    key: Option<String>,
    /// The institution that signs for it.
    #[arg(long, value_name = "NODE")]
    custodian: Option<String>,
}

/// Gives an account another representative: the member that its owner gives entries to first. An institution carries the accounts that it
/// signs for whoever represents them.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay account move 0-1-1 --to n2")]
pub(super) struct Move {
    #[command(flatten)]
    change: Change,
    /// The member.
    #[arg(long, value_name = "NODE")]
    to: String,
}

/// Sets how far below 0 an account may go: at most what was agreed when it was opened. Only issuers, and accounts that were opened with a
/// limit, have one.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay limit 0-1-1 --to 500000")]
pub(super) struct Limit {
    #[command(flatten)]
    change: Change,
    /// The limit, in the smallest unit of the ledger.
    #[arg(long, value_name = "AMOUNT")]
    to: u128,
}

impl Change {
    /// Sends a change with these fields to the institution of its account.
    fn send(self, system: &System, word: &str, mut what: Value) -> Result<Report, SynError> {
        let Self { account, id, until, code: reason, node } = self;
        let (id, at) = (id.unwrap_or_else(institution::draw_id), system.of(account, node.as_deref())?);
        what["id"] = Value::from(id.to_string());
        what["until"] = Value::from(until.word());
        what["code"] = Value::from(reason);
        let path = format!("/v1/pay/accounts/{account}/{word}");
        let made = at.post(&path, (&what, &format!("transfer {id}")));
        let made = made.map_err(|error| super::orders::told(error, account, id))?;
        Ok(fields(Report::new("synod-pay-transfer/1"), &made).field("node", at.name()))
    }
}

impl Close {
    pub(super) fn send(self, system: &System) -> Result<Report, SynError> {
        let (of, is_all) = (self.change.account, self.amount.is_none());
        let mut what = json!({ "to": self.to.to_string() });
        if let Some(amount) = self.amount {
            what["amount"] = Value::from(amount.to_string());
        }
        self.change.send(system, "close", what).map_err(|error| {
            if is_all || error.code() != code::CLOSE_NOT_EMPTY {
                return error;
            }
            error.because(format!(
                "its holds are open, or it has more than that: `synod pay account show {of}`"
            ))
        })
    }
}

impl Rekey {
    pub(super) fn send(self, system: &System) -> Result<Report, SynError> {
        let what = match (self.key, self.custodian) {
            (Some(key), None) => json!({ "ed25519": key }),
            (None, Some(name)) => {
                json!({ "custodial": system.number_beside(self.change.account, &name)? })
            }
            _ => return Err(usage("say --key or --custodian")),
        };
        self.change.send(system, "rekey", what)
    }
}

impl Move {
    pub(super) fn send(self, system: &System) -> Result<Report, SynError> {
        let to = system.number_beside(self.change.account, &self.to)?;
        self.change.send(system, "move", json!({ "representative": to }))
    }
}

impl Limit {
    pub(super) fn send(self, system: &System) -> Result<Report, SynError> {
        self.change.send(system, "limit", json!({ "limit": self.to.to_string() }))
    }
}
