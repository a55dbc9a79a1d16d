//! What is ordered of an institution: payments, holds, and what becomes of holds.

use super::institution::{self, Institution};
use super::{Until, fields};
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::{Value, json};
use std::str::FromStr;
use synod_config::{SynError, code};
use synod_host::pay::AccountId;

/// What every order says.
#[derive(Debug, Args)]
pub(super) struct Terms {
    /// The order's name; sent twice, it happens once. By default a new one is drawn.
    #[arg(long)]
    id: Option<u128>,
    /// How sure it has to be.
    #[arg(long, value_enum, default_value_t = Until::Settled)]
    until: Until,
    /// The ledger of all accounts.
    #[arg(long, default_value_t = 1)]
    ledger: u32,
    /// Your reason, as a number.
    #[arg(long, default_value_t = 0)]
    code: u16,
}

/// Pays several accounts in one entry, all or none.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay multi --from 0-0-1 --leg 0-1-1=5 --leg 0-1-2=3")]
pub(super) struct Multi {
    /// Who pays.
    #[arg(long, value_name = "ACCOUNT")]
    from: AccountId,
    /// Who is paid, and how much; 64 at most.
    #[arg(long = "leg", value_name = "ACCOUNT=AMOUNT", required = true)]
    legs: Vec<Leg>,
    #[command(flatten)]
    terms: Terms,
}

/// Sets money aside until it is posted or voided: it can be spent by nobody meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay hold --from 0-0-1 --to 0-1-1 --amount 5 --id 8")]
pub(super) struct Hold {
    /// Who pays.
    #[arg(long, value_name = "ACCOUNT")]
    from: AccountId,
    /// Whom it would pay.
    #[arg(long, value_name = "ACCOUNT")]
    to: AccountId,
    /// How much at most.
    #[arg(long)]
    amount: u128,
    /// Whose orders decide over it; by default the payer's.
    #[arg(long, value_name = "ACCOUNT")]
    resolver: Option<AccountId>,
    /// When the resolver is to void it, in ms of Unix time; nothing does by itself.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    expires_at: u64,
    #[command(flatten)]
    terms: Terms,
}

/// A hold is decided over.
#[derive(Debug, Args)]
pub(super) struct Decide {
    /// The hold's name.
    hold: u128,
    /// The account that decides; by default the one that the hold names.
    #[arg(long, value_name = "ACCOUNT")]
    by: Option<AccountId>,
    #[command(flatten)]
    terms: Terms,
}

/// Who is paid by one leg, and how much.
#[derive(Clone, Debug)]
struct Leg {
    to: AccountId,
    amount: u128,
}

impl FromStr for Leg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (to, amount) = text.split_once('=').ok_or("a leg is written ACCOUNT=AMOUNT, such as 0-1-2=5")?;
        let to = to.parse().map_err(|why| format!("{to:?}: {why}"))?;
        let amount = amount.parse().map_err(|_| format!("{amount:?} is no amount"))?;
        Ok(Self { to, amount })
    }
}

impl Terms {
    /// Sends an order with these fields to the institution of an account.
    pub(super) fn send(self, session: &Session, from: AccountId, what: Value) -> Result<Report, SynError> {
        let id = self.id.unwrap_or_else(institution::draw_id);
        let mut order = json!({
            "id": id.to_string(), "from": from.to_string(), "ledger": self.ledger, "code": self.code,
            "until": self.until.word(),
        });
        let (Some(order_fields), Value::Object(what)) = (order.as_object_mut(), what) else {
            unreachable!("both are objects")
        };
        order_fields.extend(what);
        send(session, from, id, &order)
    }
}

impl Multi {
    pub(super) fn send(self, session: &Session) -> Result<Report, SynError> {
        let legs = self.legs.iter();
        let legs = legs.map(|leg| json!({ "to": leg.to.to_string(), "amount": leg.amount.to_string() }));
        let legs: Vec<Value> = legs.collect();
        self.terms.send(session, self.from, json!({ "legs": legs }))
    }
}

impl Hold {
    pub(super) fn send(self, session: &Session) -> Result<Report, SynError> {
        let resolver = self.resolver.unwrap_or(self.from);
        let what = json!({
            "to": self.to.to_string(), "amount": self.amount.to_string(), "pending": true,
            "resolver": resolver.to_string(), "expires_at": self.expires_at.to_string(),
        });
        self.terms.send(session, self.from, what)
    }
}

impl Decide {
    /// Pays what the hold set aside, or so much of it, and frees the rest.
    pub(super) fn post(self, session: &Session, amount: Option<u128>) -> Result<Report, SynError> {
        let mut what = json!({ "post_pending": true, "pending_id": self.hold.to_string() });
        if let Some(amount) = amount {
            what["amount"] = Value::from(amount.to_string());
        }
        let by = self.resolver(session)?;
        self.terms.send(session, by, what)
    }

    /// Frees what the hold set aside.
    pub(super) fn void(self, session: &Session) -> Result<Report, SynError> {
        let by = self.resolver(session)?;
        let what = json!({ "void_pending": true, "pending_id": self.hold.to_string() });
        self.terms.send(session, by, what)
    }

    /// Who decides, as the hold says.
    fn resolver(&self, session: &Session) -> Result<AccountId, SynError> {
        if let Some(by) = self.by {
            return Ok(by);
        }
        let (found, _) = find(session, self.hold, None)?;
        let resolver = found["resolver"].as_str().and_then(|text| text.parse().ok());
        resolver.ok_or_else(|| {
            SynError::of(code::HOLD_NOT_FOUND, &[]).because(format!("transfer {} is no hold", self.hold))
        })
    }
}

/// Sends an order to the institution of its payer.
pub(super) fn send(session: &Session, from: AccountId, id: u128, order: &Value) -> Result<Report, SynError> {
    let at = Institution::of(session, from, None)?;
    let paid = at.post(session, "/v1/pay/transfers", order).map_err(|error| {
        if error.retry() == synod_config::Retry::Unknown {
            return error.because(format!(
                "`synod pay status {id}` tells what became of it; sent again with --id {id} it happens once"
            ));
        }
        error
    })?;
    Ok(fields(Report::new("synod-pay-transfer/1"), &paid).field("node", at.name()))
}

/// Asks one node, or each until one knows the payment; gives the name of the one that knows it.
pub(super) fn find(session: &Session, id: u128, node: Option<&str>) -> Result<(Value, String), SynError> {
    let asked = match node {
        Some(node) => vec![Institution::named(session, Some(node))?],
        None => Institution::all(session)?,
    };
    let mut last = SynError::of(code::NOT_FOUND, &[("what", &format!("transfer {id}"))]);
    for at in asked {
        match at.get(session, &format!("/v1/pay/transfers/{id}")) {
            Ok(found) => return Ok((found, at.name())),
            Err(error) if error.code() == code::NOT_FOUND => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Gives an account money of its institution's issuer.
///
/// # Errors
/// SYN-3013 where the cluster is no drill, SYN-1001 for the issuer itself, and those of the order.
pub(super) fn faucet(session: &Session, account: AccountId, amount: u128) -> Result<Report, SynError> {
    let at = Institution::of(session, account, None)?;
    if !at.is_drill() {
        return Err(SynError::of(code::NOT_PERMITTED, &[("what", "a faucet")])
            .because("only clusters made by `synod demo` or `synod up` have one"));
    }
    let from = synod_host::pay::issuer(account.registrar);
    if from == account {
        return Err(usage("the faucet pays from this very account; name another"));
    }
    let (id, ledger) = (institution::draw_id(), at.ledger().unwrap_or(1));
    let order = json!({
        "id": id.to_string(), "from": from.to_string(), "to": account.to_string(),
        "amount": amount.to_string(), "ledger": ledger,
    });
    send(session, from, id, &order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_is_an_account_and_an_amount() {
        let leg: Leg = "0-1-2=5".parse().expect("a leg");
        assert_eq!((leg.to.to_string(), leg.amount), ("0-1-2".to_owned(), 5));
        for text in ["0-1-2", "0-1-2=", "=5", "0-1-2=-5", "0-1=5", "0-1-2=5=5"] {
            assert!(text.parse::<Leg>().is_err(), "{text}");
        }
    }
}
