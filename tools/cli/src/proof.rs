//! A proof in a file: what it says, and the bytes whose signatures say so.
//!
//! `{"schema": "synod-proof/1", "kind", "cluster", "epoch", "bytes"}`; the bytes are the canonical encoding of a
//! certificate, a commit, an entry, a certified state, a payment, two entries of one place, an account behind a cut or a receipt, as hex digits. Everything else in the file is a label: what
//! is proved is read from the bytes alone.
//!
//! *Bounds.* A file of 4 MiB.

use crate::cluster::unwritable;
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::Path;
use synod_config::{Genesis, SynError, code};
use synod_config::{hex, unhex};
use synod_wire::Bytes;

const FILE_MAX: u64 = 4 << 20;
const SCHEMA: &str = "synod-proof/1";
/// The kind of a receipt of Chop Chop.
pub(crate) const RECEIPT: &str = "receipt";

/// A proof as it stands in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proof {
    schema: String,
    /// `certificate`, `commit`, `entry`, `checkpoint`, `payment`, `two-entries`, `cut` or `receipt`.
    pub(crate) kind: String,
    /// Id of the cluster.
    pub(crate) cluster: String,
    /// The epoch of the members that signed.
    pub(crate) epoch: u32,
    bytes: String,
}

impl Proof {
    /// A proof of this kind from members of `genesis`.
    pub(crate) fn new(kind: &str, genesis: &Genesis, bytes: &Bytes) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            kind: kind.to_owned(),
            cluster: genesis.id().to_string(),
            epoch: genesis.roster().epoch().0,
            bytes: hex(bytes),
        }
    }

    /// What the signatures are over, and the signatures.
    ///
    /// # Errors
    /// SYN-6002 if it is no hex in small letters.
    pub(crate) fn bytes(&self) -> Result<Bytes, SynError> {
        let bytes = unhex(&self.bytes).filter(|bytes| hex(bytes) == self.bytes);
        bytes.map(Bytes::from).ok_or_else(|| invalid("its bytes are no small hex digits"))
    }

    /// The proof on one line.
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers always become JSON")
    }

    /// Writes a new file.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses, as it does where a file stands already.
    pub(crate) fn write(&self, path: &Path) -> Result<(), SynError> {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers always become JSON");
        let opened = std::fs::File::options().write(true).create_new(true).open(path);
        let written =
            opened.and_then(|mut file| std::io::Write::write_all(&mut file, (text + "\n").as_bytes()));
        written.map_err(|error| unwritable(path, &error))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// SYN-1101 if it cannot be read, SYN-1110 for another schema, SYN-6002 if it is no proof.
    pub(crate) fn read(path: &Path) -> Result<Self, SynError> {
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(|error| unwritable(path, &error))?;
        let read =
            file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| unwritable(path, &error))?;
        if read as u64 > FILE_MAX {
            return Err(invalid("it is longer than 4 MiB"));
        }
        Self::parse(&text, path)
    }

    /// Reads the text of a proof; `path` is where it stands.
    ///
    /// # Errors
    /// SYN-1110 for another schema, SYN-6002 if it is no proof.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, SynError> {
        let proof: Self = serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
        if proof.schema != SCHEMA {
            let shown = path.display().to_string();
            let values = [("file", &*shown), ("found", &*proof.schema), ("known", SCHEMA)];
            return Err(SynError::of(code::FORMAT_NEWER, &values));
        }
        Ok(proof)
    }
}

/// The refusal of something that proves nothing.
pub(crate) fn invalid(why: &str) -> SynError {
    SynError::of(code::CERTIFICATE_INVALID, &[("reason", why)])
}
