//! `synod pay cuts`, `proof` and `statement`: how accounts stood, as a quorum signed it.
//!
//! What a node tells is checked before it is handed on: proofs against the genesis, and statements against the proofs of the balances
//! that they begin and end with.

use super::institution::{Institution, System};
use super::{columns, fields};
use crate::output::Report;
use crate::proof::{Proof, invalid};
use crate::verbs::client::{Behind, behind, shown_behind};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::{Path, PathBuf};
use synod_config::SynError;
use synod_host::pay::{AccountId, ShownBehind, Total};

/// Lists the cuts that a node keeps: states that a quorum signed, by number, with the sums of each ledger.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay cuts --limit 5")]
pub(super) struct Cuts {
    /// The node to ask; by default the first registrar's.
    #[arg(long)]
    node: Option<String>,
    /// Begins behind this cut; by default the newest are listed.
    #[arg(long, value_name = "CUT")]
    after: Option<u64>,
    /// Cuts at most.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

/// Takes a proof of how an account stood behind a cut, that it was not there, or of what all accounts of a ledger were owed. It is
/// checked first, and anybody who has the genesis can check it: `synod client verify`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay proof balance 0-0-1 --out 1.proof")]
pub(super) struct Prove {
    #[command(subcommand)]
    of: Of,
}

#[derive(Debug, Subcommand)]
enum Of {
    /// How an account stood.
    #[command(after_help = "Example:\n  synod pay proof balance 0-0-1")]
    Balance {
        /// The account.
        account: AccountId,
        #[command(flatten)]
        which: Which,
    },
    /// What all accounts of a ledger were owed together.
    #[command(after_help = "Example:\n  synod pay proof liabilities")]
    Liabilities {
        /// The ledger; by default that of the node's own money.
        #[arg(long)]
        ledger: Option<u32>,
        #[command(flatten)]
        which: Which,
    },
    /// That an account was not there.
    #[command(after_help = "Example:\n  synod pay proof absence 0-0-999")]
    Absence {
        /// The account.
        account: AccountId,
        /// The ledger in which it was not; by default that of its registrar's money.
        #[arg(long)]
        ledger: Option<u32>,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// The number of the cut; by default the newest that the node keeps.
    #[arg(long, value_name = "CUT")]
    as_of: Option<u64>,
    /// The node to ask; by default that of the account's institution.
    #[arg(long)]
    node: Option<String>,
    /// Writes it to a new file; by default it is printed.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// States what an account was paid and paid between two cuts: opening balance, entries, closing balance. Both balances are proved by
/// a quorum's signatures, and the entries have to lead from the one to the other.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay statement 0-0-1")]
pub(super) struct Statement {
    /// The account.
    account: AccountId,
    /// Begins behind this cut; by default where the account was opened.
    #[arg(long, value_name = "CUT")]
    since: Option<u64>,
    /// Ends with this cut; by default the newest that the node keeps.
    #[arg(long, value_name = "CUT")]
    as_of: Option<u64>,
    /// The node to ask; by default that of the account's institution.
    #[arg(long)]
    node: Option<String>,
}

/// Columns of a cut, one row per ledger.
const CUT: [&str; 9] =
    ["cut", "ledger", "accounts", "liabilities", "issued", "pending", "signers", "heard_ms", "root"];
/// Columns of a line of a statement.
const LINE: [&str; 12] =
    ["position", "id", "kind", "from", "n", "to", "credit", "debit", "held", "freed", "balance", "code"];

impl Cuts {
    pub(super) fn report(&self, system: &System) -> Result<Report, SynError> {
        let at = system.named(self.node.as_deref())?;
        let after = self.after.map(|after| format!("&after={after}")).unwrap_or_default();
        let found = at.get(&format!("/v1/pay/cuts?limit={}{after}", self.limit))?;
        let cuts = found["cuts"].as_array().into_iter().flatten();
        let rows = cuts.flat_map(|cut| {
            let ledgers = cut["ledgers"].as_array().cloned().unwrap_or_default();
            ledgers.into_iter().map(move |mut row| {
                for name in ["cut", "heard_ms", "root"] {
                    row[name] = cut[name].clone();
                }
                row["signers"] = Value::from(cut["signers"].as_array().map_or(0, Vec::len));
                columns(&row, &CUT)
            })
        });
        Ok(Report::new("synod-pay-cuts/1")
            .field("node", at.name())
            .field("more", found["more"].as_bool().unwrap_or(false))
            .list("cuts", &CUT, rows.collect()))
    }
}

/// What was asked to be proved.
#[derive(Clone, Copy)]
enum Asked {
    Balance(AccountId),
    Absence(AccountId, Option<u32>),
    Liabilities(u32),
}

impl Asked {
    fn path(self, as_of: Option<u64>) -> String {
        let query = |ledger: Option<u32>| {
            let all = [
                as_of.map(|number| format!("as_of={number}")),
                ledger.map(|ledger| format!("ledger={ledger}")),
            ];
            let all: Vec<String> = all.into_iter().flatten().collect();
            if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
        };
        match self {
            Self::Balance(account) => format!("/v1/pay/accounts/{account}/proof{}", query(None)),
            Self::Absence(account, ledger) => format!("/v1/pay/accounts/{account}/proof{}", query(ledger)),
            Self::Liabilities(ledger) => format!("/v1/pay/ledgers/{ledger}/proof{}", query(None)),
        }
    }

    /// A proof may hold and be of something else than was asked for.
    fn is_in(self, found: &Behind, as_of: Option<u64>) -> Result<(), SynError> {
        let (proof, shows) = (&found.proof, &found.shows);
        let is_asked = match (self, &proof.shown) {
            (Self::Balance(account), ShownBehind::Balance(_)) => {
                shows.account.as_ref().is_some_and(|opened| opened.account == account)
            }
            (Self::Absence(account, ledger), ShownBehind::Absence { account: of, .. }) => {
                account == *of && ledger.is_none_or(|ledger| ledger == proof.ledger)
            }
            (Self::Liabilities(ledger), ShownBehind::Liabilities) => ledger == proof.ledger,
            (Self::Balance(account), ShownBehind::Absence { .. }) => {
                let (ledger, cut) = (proof.ledger, shows.number);
                return Err(SynError::of(
                    synod_config::code::NOT_FOUND,
                    &[("what", &format!("account {account} behind cut {cut} in ledger {ledger}"))],
                )
                .because("`synod pay proof absence` gives the proof that it was not there"));
            }
            (Self::Absence(account, _), ShownBehind::Balance(_)) => {
                return Err(invalid(&format!("account {account} was there behind cut {}", shows.number)));
            }
            _ => false,
        };
        if is_asked && as_of.is_none_or(|number| number == shows.number) {
            return Ok(());
        }
        Err(invalid("the node gave a proof of something else"))
    }

    /// The proof of a node, checked.
    fn of(self, at: &Institution<'_>, system: &System, as_of: Option<u64>) -> Result<Behind, SynError> {
        let found = at.get(&self.path(as_of))?;
        let file = Proof::parse(&found.to_string(), Path::new("the proof"))?;
        let found = behind(file, system.genesis())?;
        self.is_in(&found, as_of)?;
        Ok(found)
    }
}

impl Prove {
    pub(super) fn report(self, system: &System) -> Result<Report, SynError> {
        let (at, asked, which) = match self.of {
            Of::Balance { account, which } => {
                (system.of(account, which.node.as_deref())?, Asked::Balance(account), which)
            }
            Of::Absence { account, ledger, which } => {
                (system.of(account, which.node.as_deref())?, Asked::Absence(account, ledger), which)
            }
            Of::Liabilities { ledger, which } => {
                let at = system.named(which.node.as_deref())?;
                let ledger = ledger.or_else(|| at.ledger()).unwrap_or(1);
                (at, Asked::Liabilities(ledger), which)
            }
        };
        let found = asked.of(&at, system, which.as_of)?;
        let report = shown_behind(&found, system.genesis()).field("node", at.name());
        match &which.out {
            Some(file) => {
                found.file.write(file)?;
                Ok(report.field("file", file.display().to_string()))
            }
            None => Ok(report.field("proof", found.file.to_line())),
        }
    }
}

/// What an account stood at, as a statement says it and as a proof does.
fn is_proved(said: &Value, found: &Behind) -> bool {
    let account = found.shows.account.as_ref();
    let sums = account.map_or_else(Default::default, |opened| {
        [opened.credits, opened.debits, opened.pending].map(|sum| sum.to_string())
    });
    let sequence = account.map(|opened| opened.sequence.to_string());
    ["credits", "debits", "pending"].iter().zip(sums).all(|(name, sum)| said[*name] == *sum)
        && said["n"].as_str() == sequence.as_deref()
}

/// Sums of a statement, as texts say them.
struct Sums {
    credits: Total,
    debits: Total,
}

impl Sums {
    fn of(said: &Value, [credits, debits]: [&str; 2]) -> Option<Self> {
        let sum = |name: &str| said[name].as_str()?.parse().ok();
        Some(Self { credits: sum(credits)?, debits: sum(debits)? })
    }

    fn and(&self, more: &Self) -> Option<Self> {
        let credits = self.credits.checked_add(more.credits)?;
        Some(Self { credits, debits: self.debits.checked_add(more.debits)? })
    }
}

/// Whether the entries lead from the opening balance to the closing one.
fn leads(opening: &Value, entries: &[Value], closing: &Value) -> bool {
    let opening = Sums::of(opening, ["credits", "debits"]);
    let sums = entries
        .iter()
        .try_fold(opening, |sums, entry| Some(sums?.and(&Sums::of(entry, ["credit", "debit"])?)))
        .flatten();
    let of = |sums: Sums| (sums.credits, sums.debits);
    sums.is_some() && sums.map(of) == Sums::of(closing, ["credits", "debits"]).map(of)
}

impl Statement {
    pub(super) fn report(&self, system: &System) -> Result<Report, SynError> {
        let at = system.of(self.account, self.node.as_deref())?;
        let account = self.account;
        let (first, entries) = self.pages(&at)?;
        let (opening, closing) = (&first["opening"], &first["closing"]);
        if !leads(opening, &entries, closing) {
            return Err(invalid(
                "the entries of the statement do not lead from its opening balance to its closing one",
            ));
        }
        let number = |said: &Value| said["cut"].as_str().and_then(|text| text.parse::<u64>().ok());
        let mut signers = Value::Null;
        for said in [opening, closing] {
            // Behind cut 0 there was nothing.
            let Some(cut) = number(said).filter(|cut| *cut > 0) else { continue };
            let asked = match Asked::Balance(account).of(&at, system, Some(cut)) {
                Ok(found) => found,
                // It was not open yet.
                Err(error) if error.code() == synod_config::code::NOT_FOUND && said["credits"] == "0" => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !is_proved(said, &asked) {
                return Err(invalid(&format!("the statement says of cut {cut} what its proof does not")));
            }
            signers = Value::from(asked.signers(system.genesis()));
        }
        let report = Report::new("synod-pay-statement/1")
            .field("account", account.to_string())
            .field("ledger", first["ledger"].clone())
            .field("node", at.name());
        let report =
            [("opening", opening), ("closing", closing)].into_iter().fold(report, |report, (name, said)| {
                ["cut", "balance", "pending", "n", "credits", "debits"]
                    .iter()
                    .fold(report, |report, part| report.field(format!("{name}_{part}"), said[*part].clone()))
            });
        let rows = entries.iter().map(|row| columns(row, &LINE)).collect();
        Ok(report.field("signers", signers).list("entries", &LINE, rows))
    }

    /// The first page, and the entries of all of them. Later pages are of the cuts of the first.
    fn pages(&self, at: &Institution<'_>) -> Result<(Value, Vec<Value>), SynError> {
        let path = format!("/v1/pay/accounts/{}/statement?limit=1000", self.account);
        let said = |name: &str, number: Option<u64>| number.map(|number| format!("&{name}={number}"));
        let mut query: String =
            [said("since", self.since), said("as_of", self.as_of)].into_iter().flatten().collect();
        let first = at.get(&format!("{path}{query}"))?;
        if let Some(cut) = first["closing"]["cut"].as_str().filter(|_| self.as_of.is_none()) {
            query = format!("{query}&as_of={cut}");
        }
        let (mut entries, mut page) = (Vec::new(), first.clone());
        loop {
            entries.extend(page["entries"].as_array().cloned().into_iter().flatten());
            let Some(next) = page["next"].as_str().map(str::to_owned) else { return Ok((first, entries)) };
            page = at.get(&format!("{path}{query}&after={next}"))?;
            if page["next"] == *next {
                // It would be asked for ever.
                return Err(invalid("the statement does not end"));
            }
        }
    }
}

/// How an account stands at q members that say the same: every payment that was stable before is in it.
///
/// # Errors
/// SYN-3401 where fewer say the same until the time is up, SYN-3132 where a quorum knows no such account.
pub(super) fn linearizable(system: &System, account: AccountId) -> Result<Report, SynError> {
    let (found, agreed) = super::agree::agree(system, account)?;
    Ok(fields(Report::new("synod-pay-account/1"), &found)
        .field("read", "linearizable")
        .field("agreed", agreed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_statement_whose_entries_do_not_add_up_is_none() {
        let stood = |credits: &str, debits: &str| json!({ "credits": credits, "debits": debits });
        let entry = |credit: &str, debit: &str| json!({ "credit": credit, "debit": debit });
        let entries = [entry("5", "0"), entry("0", "3")];
        assert!(leads(&stood("10", "0"), &entries, &stood("15", "3")));
        assert!(!leads(&stood("10", "0"), &entries, &stood("15", "4")));
        assert!(!leads(&stood("10", "0"), &entries[..1], &stood("15", "3")));
        assert!(!leads(&json!({}), &[], &json!({})), "nothing said is nothing shown");
        let beyond = [entry(&Total::MAX.to_string(), "0")];
        assert!(!leads(&stood("1", "0"), &beyond, &stood("0", "0")), "sums do not wrap");
    }

    #[test]
    fn what_is_asked_for_stands_in_the_path() {
        let account: AccountId = "0-0-2".parse().expect("an account");
        assert_eq!(Asked::Balance(account).path(None), "/v1/pay/accounts/0-0-2/proof");
        assert_eq!(Asked::Liabilities(7).path(Some(3)), "/v1/pay/ledgers/7/proof?as_of=3");
        let absent = Asked::Absence(account, Some(7)).path(Some(3));
        assert_eq!(absent, "/v1/pay/accounts/0-0-2/proof?as_of=3&ledger=7");
    }
}
