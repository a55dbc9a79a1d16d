//! `synod pay receipt`: what proves a payment to anybody, checked before it is handed on.

use super::institution::Institution;
use crate::context;
use crate::output::Report;
use crate::proof::Proof;
use crate::session::{Session, no_context};
use crate::verbs::client::{payment, shown_payment};
use std::path::Path;
use synod_config::{SynError, code};
use synod_host::pay::{Level, Proved};

/// Takes the receipt of a payment of the node that shows the highest level: of one, or of each in turn.
///
/// # Errors
/// SYN-3132 where nobody knows the payment, SYN-3008 where nobody has a certificate of it, SYN-6002 where a node gives what proves
/// nothing, and those of the file.
pub(super) fn receipt(
    session: &Session,
    id: u128,
    node: Option<&str>,
    out: Option<&Path>,
) -> Result<Report, SynError> {
    let genesis = context::genesis(session)?.ok_or_else(no_context)?;
    let asked = match node {
        Some(node) => vec![Institution::named(session, Some(node))?],
        None => Institution::all(session)?,
    };
    let mut best: Option<(Proof, Proved, String)> = None;
    let mut last = SynError::of(code::NOT_FOUND, &[("what", &format!("transfer {id}"))]);
    for at in asked {
        let found = at.get(session, &format!("/v1/pay/transfers/{id}/receipt")).and_then(|found| {
            let proof = Proof::parse(&found.to_string(), Path::new("the receipt"))?;
            let proved = payment(&proof, &genesis)?;
            Ok((proof, proved))
        });
        match found {
            Ok((proof, proved)) => {
                let is_better = best.as_ref().is_none_or(|(_, known, _)| {
                    proved.entry.id == known.entry.id && proved.level > known.level
                });
                if is_better {
                    best = Some((proof, proved, at.name()));
                }
            }
            Err(error) if error.code() == code::NOT_FOUND => {}
            Err(error) => last = error,
        }
        if best.as_ref().is_some_and(|(_, known, _)| known.level == Level::Stable) {
            break;
        }
    }
    let (proof, proved, name) = best.ok_or(last)?;
    let report = shown_payment(&proved, &genesis).field("node", name);
    match out {
        Some(file) => {
            proof.write(file)?;
            Ok(report.field("file", file.display().to_string()))
        }
        None => Ok(report.field("proof", proof.to_line())),
    }
}
