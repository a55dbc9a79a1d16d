//! Where what settles at a node of a payment system is posted to.

use super::config::broken;
use super::layers::Effective;
use crate::address::Address;
use crate::errors::SynError;
use crate::table::bad_value;
use std::path::PathBuf;

/// Longest path of a webhook, in bytes.
const PATH_BYTES_MAX: usize = 512;

/// `[webhook]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Who is told; `None` is off.
    pub address: Option<Address>,
    /// The path of the request.
    pub path: String,
    /// File with the secret under which requests are signed.
    pub secret_file: Option<PathBuf>,
    /// Whether payments may leave this machine in plain text.
    pub plain: bool,
}

impl Webhook {
    pub(super) fn of(from: &Effective) -> Self {
        Self {
            address: from.address("webhook.address"),
            path: from.text("webhook.path"),
            secret_file: from.path("webhook.secret_file"),
            plain: from.flag("webhook.plain"),
        }
    }

    /// Checks the path, and that whoever is told can know that it is this node who tells.
    ///
    /// # Errors
    /// SYN-1103 for a path that is none of HTTP, SYN-1106 for a receiver without a secret, and for one of another machine that is not
    /// asked for in so many words.
    pub(super) fn check(&self) -> Result<(), SynError> {
        let is_path = self.path.starts_with('/')
            && self.path.len() <= PATH_BYTES_MAX
            && self.path.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_path {
            return Err(bad_value(
                "node.toml",
                "webhook.path",
                "no path of HTTP: /, and visible ASCII characters",
            ));
        }
        let Some(address) = &self.address else { return Ok(()) };
        if self.secret_file.is_none() {
            let why = "whoever is told has to know that this node tells; name a file with a secret";
            return Err(broken("webhook.address", "webhook.secret_file", why));
        }
        if address.is_loopback() || self.plain {
            return Ok(());
        }
        let why = format!(
            "{address} is on another machine, and requests are not encrypted: end TLS on this one, or say plain = true"
        );
        Err(broken("webhook.address", "webhook.plain", &why))
    }
}
