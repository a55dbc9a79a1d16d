//! What is ordered of an institution: payments, holds, and what becomes of holds.

use super::institution::{self, Institution, System};
use super::{Until, fields, file};
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use synod_config::{Exit, SynError, code};
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

/// Who pays whom, and how much.
#[derive(Debug, Args)]
pub(super) struct Parties {
    /// Who pays.
    #[arg(long, value_name = "ACCOUNT")]
    from: AccountId,
    /// Whom it pays; of a hold whom it would pay.
    #[arg(long, value_name = "ACCOUNT")]
    to: AccountId,
    /// How much, in the smallest unit of the ledger; of a hold the most that it can pay.
    #[arg(long)]
    amount: u128,
}

/// Pays from one account to another, once per id, and waits until the payment is as sure as wanted; with --file many.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay send --from 0-0-1 --to 0-1-1 --amount 5")]
pub(super) struct Pay {
    #[command(flatten)]
    parties: Option<Parties>,
    /// Pays every payment of a file instead: CSV with a head (id,from,to,amount and, if they are not the usual ones, ledger and code)
    /// or an object of JSON per line. Sent again it pays nothing twice, since ids stand in it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "amount", "id"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    terms: Terms,
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
    #[command(flatten)]
    parties: Parties,
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
    /// Whose hold it is, where several payers gave one that name.
    #[arg(long, value_name = "ACCOUNT")]
    payer: Option<AccountId>,
    /// The account that decides; by default the one that the hold names.
    #[arg(long, value_name = "ACCOUNT")]
    by: Option<AccountId>,
    #[command(flatten)]
    terms: Terms,
}

/// Who is paid by one leg, and how much.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) to: AccountId,
    pub(super) amount: u128,
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
    pub(super) fn send(self, system: &System, from: AccountId, what: Value) -> Result<Report, SynError> {
        let id = self.id.unwrap_or_else(institution::draw_id);
        let mut order = json!({
            "id": id.to_string(), "from": from.to_string(), "ledger": self.ledger, "code": self.code,
            "until": self.until.word(),
        });
        let (Some(order_fields), Value::Object(what)) = (order.as_object_mut(), what) else {
            unreachable!("both are objects")
        };
        order_fields.extend(what);
        send(system, from, id, &order)
    }
}

impl Parties {
    fn order(&self) -> Value {
        json!({ "to": self.to.to_string(), "amount": self.amount.to_string() })
    }
}

impl Pay {
    pub(super) fn send(self, session: &Session, system: &System) -> Done {
        match (self.file, self.parties) {
            (Some(file), None) => file::send(session, system, &file, self.terms.until),
            (None, Some(parties)) => {
                let what = parties.order();
                let report = self.terms.send(system, parties.from, what)?;
                session.output.print(&report)?;
                Ok(Exit::Success)
            }
            _ => Err(usage("say --from, --to and --amount, or --file")),
        }
    }
}

impl Multi {
    pub(super) fn send(self, system: &System) -> Result<Report, SynError> {
        let legs = self.legs.iter();
        let legs = legs.map(|leg| json!({ "to": leg.to.to_string(), "amount": leg.amount.to_string() }));
        let legs: Vec<Value> = legs.collect();
        self.terms.send(system, self.from, json!({ "legs": legs }))
    }
}

impl Hold {
    pub(super) fn send(self, system: &System) -> Result<Report, SynError> {
        let resolver = self.resolver.unwrap_or(self.parties.from);
        let mut what = self.parties.order();
        what["pending"] = Value::from(true);
        what["resolver"] = Value::from(resolver.to_string());
        what["expires_at"] = Value::from(self.expires_at.to_string());
        self.terms.send(system, self.parties.from, what)
    }
}

impl Decide {
    /// Pays what the hold set aside, or so much of it, and frees the rest.
    pub(super) fn post(self, system: &System, amount: Option<u128>) -> Result<Report, SynError> {
        let mut what = self.order("post_pending");
        if let Some(amount) = amount {
            what["amount"] = Value::from(amount.to_string());
        }
        let by = self.resolver(system)?;
        self.terms.send(system, by, what)
    }

    /// Frees what the hold set aside.
    pub(super) fn void(self, system: &System) -> Result<Report, SynError> {
        let by = self.resolver(system)?;
        let what = self.order("void_pending");
        self.terms.send(system, by, what)
    }

    /// What is to become of which hold.
    fn order(&self, verdict: &str) -> Value {
        let mut what = json!({ verdict: true, "pending_id": self.hold.to_string() });
        if let Some(payer) = self.payer {
            what["pending_from"] = Value::from(payer.to_string());
        }
        what
    }

    /// Who decides, as the hold says.
    fn resolver(&self, system: &System) -> Result<AccountId, SynError> {
        if let Some(by) = self.by {
            return Ok(by);
        }
        let (found, _) = find(system, (self.hold, self.payer), None).map_err(|error| {
            if error.code() == code::BAD_USAGE { error.because("of a hold it is --payer") } else { error }
        })?;
        let resolver = found["resolver"].as_str().and_then(|text| text.parse().ok());
        resolver.ok_or_else(|| {
            SynError::of(code::HOLD_NOT_FOUND, &[]).because(format!("transfer {} is no hold", self.hold))
        })
    }
}

/// Sends an order to the institution of its payer.
pub(super) fn send(system: &System, from: AccountId, id: u128, order: &Value) -> Result<Report, SynError> {
    let at = system.of(from, None)?;
    let paid = at.post("/v1/pay/transfers", (order, &format!("transfer {id}")));
    let paid = paid.map_err(|error| {
        if is_of_several(&error) {
            return error.because("--payer ACCOUNT says whose hold is meant");
        }
        told(error, from, id)
    })?;
    Ok(fields(Report::new("synod-pay-transfer/1"), &paid).field("node", at.name()))
}

/// A refusal of an order of this account and name, with what its user does next.
pub(super) fn told(error: SynError, from: AccountId, id: u128) -> SynError {
    if error.code() == code::CONFLICTED {
        return error.because(format!("`synod pay account evidence {from} --out FILE` keeps both entries"));
    }
    // What is plainly refused, by the node or before it was sent, did not happen, and its id is as free as before.
    if matches!(error.exit_code(), Exit::Rejected | Exit::Usage) {
        return error;
    }
    error.because(format!(
        "its id is {id}: `synod pay status {id} --from {from}` tells what became of it; sent again with --id {id} it \
         happens once"
    ))
}

/// Asks one node for a payment by its name and, if it is said, its payer; by default the payer's institution, or all: then the word of
/// the payer's institution counts, or that of whoever calls it surest. Gives the name of the node that said so; nodes that gave no answer
/// stand in `away`.
///
/// # Errors
/// SYN-3132 where nobody knows it, SYN-1001 where several payers have one of that name and none was named.
pub(super) fn find(
    system: &System,
    (id, from): (u128, Option<AccountId>),
    node: Option<&str>,
) -> Result<(Value, String), SynError> {
    let path = path(id, from, "");
    let mut last = SynError::of(code::NOT_FOUND, &[("what", &format!("transfer {id}"))]);
    let (mut known, mut away): (Vec<(Value, &str)>, Vec<&str>) = Default::default();
    for at in asked(system, from, node)? {
        match at.get(&path) {
            Ok(found) => known.push((found, at.name())),
            Err(error) if error.code() == code::NOT_FOUND => {}
            Err(error) if from.is_none() && is_of_several(&error) => {
                return Err(error.because("--from ACCOUNT says whose payment is meant"));
            }
            Err(error) => {
                away.push(at.name());
                last = error;
            }
        }
    }
    one_payer(id, known.iter().filter_map(|(found, _)| found["from"].as_str()))?;
    let surest = known.into_iter().max_by_key(|(found, name)| {
        let payer = found["from"].as_str().and_then(|payer| payer.parse::<AccountId>().ok());
        (
            payer.is_some_and(|payer| system.of(payer, None).is_ok_and(|at| at.name() == *name)),
            sureness(found),
        )
    });
    let (mut found, name) = surest.ok_or(last)?;
    if !away.is_empty() {
        found["away"] = Value::from(away);
    }
    Ok((found, name.to_owned()))
}

/// Where a payment is asked for: at a node of this name, else at its payer's institution, else everywhere.
pub(super) fn asked<'a>(
    system: &'a System,
    from: Option<AccountId>,
    node: Option<&str>,
) -> Result<Vec<Institution<'a>>, SynError> {
    match (node, from) {
        (Some(node), _) => Ok(vec![system.named(Some(node))?]),
        (None, Some(from)) => Ok(vec![system.of(from, None)?]),
        (None, None) => system.all(),
    }
}

/// The route of a payment, or of what `rest` says of it.
pub(super) fn path(id: u128, from: Option<AccountId>, rest: &str) -> String {
    let from = from.map(|from| format!("?from={from}")).unwrap_or_default();
    format!("/v1/pay/transfers/{id}{rest}{from}")
}

/// Whether a node refuses because it knows payments of several payers under one name.
pub(super) fn is_of_several(error: &SynError) -> bool {
    error.code() == code::NAME_AMBIGUOUS
}

/// Makes sure that what was found under a name is one payer's: names are each payer's own.
///
/// # Errors
/// SYN-1001 with the payers.
pub(super) fn one_payer<'a>(id: u128, payers: impl Iterator<Item = &'a str>) -> Result<(), SynError> {
    let payers: BTreeSet<&str> = payers.collect();
    if payers.len() <= 1 {
        return Ok(());
    }
    let payers: Vec<&str> = payers.into_iter().collect();
    Err(usage(&format!("{id} names payments of {}", payers.join(" and of ")))
        .because("--from ACCOUNT says whose payment is meant"))
}

/// How sure a node calls a payment.
fn sureness(found: &Value) -> usize {
    let levels = ["accepted", "certified", "settled", "stable"];
    levels.iter().position(|level| found["state"] == *level).unwrap_or(0)
}

/// Gives an account money of its institution's issuer.
///
/// # Errors
/// SYN-3013 where the cluster is no drill or the institution issues no money, SYN-1001 for the issuer itself, and those of the order.
pub(super) fn faucet(
    system: &System,
    account: AccountId,
    (amount, id): (u128, Option<u128>),
) -> Result<Report, SynError> {
    let at = system.of(account, None)?;
    if !system.is_drill() {
        return Err(SynError::of(code::NOT_PERMITTED, &[("what", "a faucet")])
            .because("only clusters made by `synod demo` or `synod up` have one"));
    }
    // Without a registrar the account of that number is somebody's own.
    let Some(ledger) = at.ledger() else {
        return Err(SynError::of(code::NOT_PERMITTED, &[("what", "a faucet")])
            .because(format!("{} is no registrar of the genesis and issues no money", at.name())));
    };
    let from = synod_host::pay::Seat::over(account).issuer();
    if from == account {
        return Err(usage("the faucet pays from this very account; name another"));
    }
    let id = id.unwrap_or_else(institution::draw_id);
    let order = json!({
        "id": id.to_string(), "from": from.to_string(), "to": account.to_string(),
        "amount": amount.to_string(), "ledger": ledger,
    });
    send(system, from, id, &order)
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
