//! Proofs of how accounts stood behind a cut: checked offline, and said in words.

use super::receipts;
use super::verify::name;
use crate::output::Report;
use crate::proof::{Proof, invalid};
use serde_json::Value;
use synod_config::{Genesis, SynError, code, hex};
use synod_host::pay::{self, Owner, ShownBehind, Shows, Total};

/// A proof that holds.
pub(crate) struct Behind {
    /// As it stands in its file.
    pub(crate) file: Proof,
    /// What is proved.
    pub(crate) proof: pay::Proof,
    /// In numbers.
    pub(crate) shows: Shows,
}

impl Behind {
    /// The members who signed.
    pub(crate) fn signers(&self, genesis: &Genesis) -> Vec<String> {
        self.shows.signers.iter().map(|signer| name(genesis, signer)).collect()
    }
}

/// Checks a proof of how accounts stood.
///
/// # Errors
/// SYN-2101 for another cluster, SYN-6003 for another epoch, and those of [`pay::check_proof`].
pub(crate) fn behind(file: Proof, genesis: &Genesis) -> Result<Behind, SynError> {
    receipts::is_of(&file, genesis)?;
    if file.kind != pay::CUT_KIND {
        return Err(invalid(&format!("it is a proof of kind {:?}", file.kind)));
    }
    if file.epoch != genesis.roster().epoch().0 {
        return Err(SynError::of(code::EPOCH_UNKNOWN, &[("epoch", &file.epoch.to_string())]));
    }
    let (proof, shows) = pay::check_proof(file.bytes()?, genesis)?;
    Ok(Behind { file, proof, shows })
}

/// What is proved, in words.
fn said(proof: &pay::Proof, shows: &Shows) -> String {
    let (ledger, cut) = (proof.ledger, shows.number);
    match (&proof.shown, &shows.account) {
        (ShownBehind::Absence { account, .. }, _) => {
            format!("ledger {ledger} had no account {account} behind cut {cut}")
        }
        (ShownBehind::Balance(_), Some(opened)) => {
            let account = opened.account;
            let (has, owes) = shows.balance;
            if owes > Total::ZERO {
                format!("account {account} had issued {owes} behind cut {cut}")
            } else {
                format!("account {account} had {has} behind cut {cut}, {} of it set aside", opened.pending)
            }
        }
        _ => {
            let owed = shows.sums.liabilities;
            format!(
                "all accounts of ledger {ledger} together were owed {owed} behind cut {cut}, which is what its issuers owe"
            )
        }
    }
}

/// Says what such a proof proves, and by whom.
pub(crate) fn shown_behind(found: &Behind, genesis: &Genesis) -> Report {
    let Behind { proof, shows, .. } = found;
    let shown = match proof.shown {
        ShownBehind::Balance(_) => "balance",
        ShownBehind::Absence { .. } => "absence",
        ShownBehind::Liabilities => "liabilities",
    };
    let report = Report::new("synod-verify/1")
        .field("kind", pay::CUT_KIND)
        .field("cluster", genesis.cluster().name.clone())
        .field("epoch", genesis.roster().epoch().0)
        .field("proved", said(proof, shows))
        .field("shown", shown)
        .field("cut", shows.number.to_string())
        .field("ledger", proof.ledger);
    let accounts = proof.record.ledger(proof.ledger).map(|of| of.count);
    with_account(report, found)
        .field("ledger_accounts", accounts)
        .field("ledger_liabilities", shows.sums.liabilities.to_string())
        .field("ledger_issued", shows.sums.issued.to_string())
        .field("ledger_pending", shows.sums.pending.to_string())
        .field("root", proof.record.digest().to_string())
        .field("signers", found.signers(genesis))
}

/// Adds what is shown of one account.
fn with_account(report: Report, found: &Behind) -> Report {
    if let ShownBehind::Absence { account, .. } = &found.proof.shown {
        return report.field("account", account.to_string());
    }
    let Some(opened) = &found.shows.account else { return report };
    let (has, owes) = found.shows.balance;
    let balance = if owes > Total::ZERO { format!("-{owes}") } else { has.to_string() };
    let state = match (opened.flags.0 & 1, opened.flags.0 & 2) {
        (1, _) => "closed",
        (_, 2) => "frozen",
        _ => "open",
    };
    let owner = match opened.owner {
        Owner::Custodial(member) => format!("custodial, of member {member}"),
        Owner::SelfSigned(key) | Owner::Distilled { single: key, .. } => hex(&key.0),
    };
    report
        .field("account", opened.account.to_string())
        .field("balance", balance)
        .field("pending", opened.pending.to_string())
        .field("credits", opened.credits.to_string())
        .field("debits", opened.debits.to_string())
        .field("limit", opened.limit.to_string())
        .field("state", state)
        .field("owner", owner)
        .field("n", Value::from(opened.sequence.to_string()))
        .field("head", opened.head.to_string())
}
