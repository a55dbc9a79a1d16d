//! `synod pay account evidence`: what shows that the owner of an account signed two entries for one place, checked before it is handed on.

use super::institution::System;
use crate::output::Report;
use crate::proof::Proof;
use crate::verbs::client::{shown_two, two_entries};
use clap::Args;
use std::path::{Path, PathBuf};
use synod_config::{SynError, code};
use synod_host::pay::AccountId;

/// Takes both entries that the owner of a conflicted account signed for one place: what shows it to anybody who has the genesis. They
/// are checked first.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay account evidence 0-0-1 --out 0-0-1.evidence")]
pub(super) struct Evidence {
    /// The account.
    account: AccountId,
    /// The node to ask; by default all, until one shows it.
    #[arg(long)]
    node: Option<String>,
    /// Writes it to a new file, for `synod client verify`; by default it is printed.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Evidence {
    /// # Errors
    /// SYN-3132 where nobody shows two entries, SYN-6002 where a node gives what proves nothing, and those of the file.
    pub(super) fn report(&self, system: &System) -> Result<Report, SynError> {
        let path = format!("/v1/pay/accounts/{}/evidence", self.account);
        let asked = match &self.node {
            Some(node) => vec![system.named(Some(node))?],
            None => system.all()?,
        };
        let what = format!("a second entry for a place of account {}", self.account);
        let mut last = SynError::of(code::NOT_FOUND, &[("what", &what)]);
        for at in asked {
            let found = at.get(&path).and_then(|found| {
                let proof = Proof::parse(&found.to_string(), Path::new("the evidence"))?;
                let two = two_entries(&proof, system.genesis())?;
                let of = two.place().spender;
                if of == self.account {
                    return Ok((proof, two));
                }
                Err(crate::proof::invalid(&format!("it is of account {of}")))
            });
            match found {
                Ok((proof, two)) => {
                    let report = shown_two(&two, system.genesis()).field("node", at.name());
                    let Some(file) = &self.out else { return Ok(report.field("proof", proof.to_line())) };
                    proof.write(file)?;
                    return Ok(report.field("file", file.display().to_string()));
                }
                Err(error) if error.code() == code::NOT_FOUND => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
