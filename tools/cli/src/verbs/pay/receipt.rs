//! `synod pay receipt`: what proves a payment to anybody, checked before it is handed on.

use super::institution::System;
use super::orders;
use crate::output::Report;
use crate::proof::{Proof, invalid};
pub(super) use crate::verbs::client::payment;
use crate::verbs::client::shown_payment;
use std::path::Path;
use synod_config::{SynError, code};
use synod_host::pay::{AccountId, Entry, Level, Proved};

/// Takes the receipt of a payment of the node that shows the highest level: of one, of the payer's institution, or of all.
///
/// # Errors
/// SYN-3132 where nobody knows the payment, SYN-1001 where several payers have one of that name and none was named, SYN-3008 where nobody has a certificate of it, SYN-6002 where a node gives what proves
/// nothing, and those of the file.
pub(super) fn receipt(
    system: &System,
    (id, from): (u128, Option<AccountId>),
    node: Option<&str>,
    out: Option<&Path>,
) -> Result<Report, SynError> {
    let genesis = system.genesis();
    let path = orders::path(id, from, "/receipt");
    let mut known: Vec<(Proof, Proved, &str)> = Vec::new();
    let mut last = SynError::of(code::NOT_FOUND, &[("what", &format!("transfer {id}"))]);
    for at in orders::asked(system, from, node)? {
        let found = at.get(&path).and_then(|found| {
            let proof = Proof::parse(&found.to_string(), Path::new("the receipt"))?;
            let proved = payment(&proof, genesis)?;
            is_of(&proved, id, from)?;
            Ok((proof, proved))
        });
        match found {
            Ok((proof, proved)) => known.push((proof, proved, at.name())),
            Err(error) if error.code() == code::NOT_FOUND => {}
            Err(error) if from.is_none() && orders::is_of_several(&error) => {
                return Err(error.because("--from ACCOUNT says whose payment is meant"));
            }
            Err(error) => last = error,
        }
    }
    let payers: Vec<String> =
        known.iter().map(|(_, proved, _)| proved.entry.id.spender.to_string()).collect();
    orders::one_payer(id, payers.iter().map(String::as_str))?;
    let best = known.into_iter().max_by_key(|(_, proved, _)| proved.level);
    let (proof, proved, name) = best.ok_or(last)?;
    let report = shown_payment(&proved, genesis).field("node", name);
    match out {
        Some(file) => {
            proof.write(file)?;
            Ok(report.field("file", file.display().to_string()))
        }
        None => Ok(report.field("proof", proof.to_line())),
    }
}

/// The receipt of an entry that its owner signed, of the member that shows the highest level, and that level.
///
/// # Errors
/// SYN-3008 where nobody has a certificate of it, SYN-6002 where a node gives what proves nothing, and those of reaching nodes.
pub(super) fn of_entry(system: &System, entry: &Entry) -> Result<(Proof, Level), SynError> {
    let path = orders::path(entry.transfer, Some(entry.id.spender), "/receipt");
    let mut last = SynError::of(code::NOT_FOUND, &[("what", &format!("transfer {}", entry.transfer))]);
    let mut best: Option<(Proof, Level)> = None;
    for at in system.all()? {
        let found = at.get(&path).and_then(|found| {
            let proof = Proof::parse(&found.to_string(), Path::new("the receipt"))?;
            let proved = payment(&proof, system.genesis())?;
            if proved.entry == *entry {
                Ok((proof, proved.level))
            } else {
                Err(invalid("it is of another entry"))
            }
        });
        match found {
            Ok(found) if best.as_ref().is_none_or(|(_, level)| *level < found.1) => best = Some(found),
            Ok(_) => {}
            Err(error) => last = error,
        }
    }
    best.ok_or(last)
}

/// A receipt may hold and be of another payment than was asked for.
fn is_of(proved: &Proved, id: u128, from: Option<AccountId>) -> Result<(), SynError> {
    let (of, payer) = (proved.entry.transfer, proved.entry.id.spender);
    if of == id && from.is_none_or(|from| from == payer) {
        return Ok(());
    }
    Err(invalid(&format!("it is of payment {of} of {payer}")))
}
