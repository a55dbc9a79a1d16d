//! Verbs of payments that this release does not build: each is refused with what there is instead.

use clap::Args;
use synod_config::{SynError, code};
use synod_host::pay::AccountId;

/// Decides between two entries that an owner signed for one place; refused, for members give no word beyond a certificate.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay resolve 0-0-1")]
pub(super) struct Resolve {
    /// The account.
    account: AccountId,
}

/// Has members endorse nothing of an account any more; refused, for no line of a batch freezes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay freeze 0-0-1")]
pub(super) struct Freeze {
    /// The account.
    account: AccountId,
}

fn refused(verb: &str) -> SynError {
    SynError::of(code::UNSUPPORTED, &[("verb", verb)])
}

impl Resolve {
    /// # Errors
    /// Always SYN-3003.
    pub(super) fn refuse(&self) -> SynError {
        let of = self.account;
        refused("pay resolve")
            .because("it needs a ledger whose payments are final when they are stable alone (finality = stable), which is not built")
            .because(format!(
                "`synod pay account evidence {of} --out FILE` keeps both entries; the account goes on once somebody shows a certificate of one"
            ))
    }
}

impl Freeze {
    /// # Errors
    /// Always SYN-3003.
    pub(super) fn refuse(&self) -> SynError {
        refused("pay freeze").because(format!(
            "operators sign nothing about accounts yet; an institution pays nothing more from {} by closing it or not taking its orders",
            self.account
        ))
    }
}
