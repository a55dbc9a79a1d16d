//! Receipts in files: one as a proof of its own, or many, one proof per line.

use crate::cluster::unwritable;
use crate::proof::{Proof, RECEIPT, invalid};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use synod_chopchop::certificate::DeliveryCertificate;
use synod_chopchop::config::Cluster;
use synod_chopchop::receipt::Receipt;
use synod_config::{Genesis, SynError, code};
use synod_crypto::{Keys, Seed};
use synod_quorum::NodeSet;
use synod_wire::{Limits, Wire as _};

/// Ending of the name of a file with one receipt per line.
pub(super) const MANY: &str = "jsonl";
/// Longest line.
const LINE_MAX: u64 = 1 << 20;

/// Writes a receipt as a proof; one that stands there already is the same.
///
/// # Errors
/// SYN-1101 if the system refuses.
pub(super) fn write(file: &Path, genesis: &Genesis, receipt: &Receipt) -> Result<(), SynError> {
    if file.exists() {
        return Ok(());
    }
    Proof::new(RECEIPT, genesis, &receipt.encode()).write(file)
}

/// What receipts prove.
pub(super) struct Checked {
    /// How many.
    pub(super) count: u64,
    /// The last of them.
    pub(super) last: Receipt,
    /// Who signed for it.
    pub(super) signers: NodeSet,
}

/// Checks receipts, one after another. Certificates that were found good are not checked again.
pub(super) struct Checker<'a> {
    cluster: &'a Cluster,
    keys: Keys,
    good: Option<DeliveryCertificate>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        // Only public keys are used: the secret is one that nobody has.
        Self { cluster, keys: Keys::ed25519(&Seed::new([0; 32]), [0; 32]), good: None }
    }

    /// Checks one.
    ///
    /// # Errors
    /// SYN-6002 with what is wrong with it.
    pub(super) fn check(&mut self, proof: &Proof) -> Result<Receipt, SynError> {
        let receipt = Receipt::decode(proof.bytes()?, &Limits::default())
            .map_err(|malformed| invalid(&format!("its bytes are no receipt: {malformed}")))?;
        let verdict = match &self.good {
            Some(good) if *good == receipt.certificate => receipt.shows(self.cluster),
            _ => receipt.verify(self.cluster, &self.keys),
        };
        verdict.map_err(|why| invalid(&why.to_string()))?;
        self.good = Some(receipt.certificate.clone());
        Ok(receipt)
    }

    /// Checks every line of a file.
    ///
    /// # Errors
    /// Those of [`Checker::check`], with the number of the line; SYN-2101 for a receipt of another cluster.
    pub(super) fn check_lines(&mut self, file: &Path, genesis: &Genesis) -> Result<Checked, SynError> {
        let opened = File::open(file).map_err(|error| unwritable(file, &error))?;
        let (mut lines, mut count, mut last) = (BufReader::new(opened), 0_u64, None);
        loop {
            let mut line = String::new();
            let read = lines.by_ref().take(LINE_MAX).read_line(&mut line);
            if read.map_err(|error| unwritable(file, &error))? == 0 {
                break;
            }
            count += 1;
            let at = |error: SynError| error.because(format!("line {count} of {}", file.display()));
            let proof = Proof::parse(&line, file).map_err(at)?;
            is_of(&proof, genesis).map_err(at)?;
            last = Some(self.check(&proof).map_err(at)?);
        }
        let last = last.ok_or_else(|| invalid("there is no receipt in the file"))?;
        let signers = last.certificate.aggregate.signers.set();
        Ok(Checked { count, last, signers })
    }
}

/// Refuses a proof of another cluster.
///
/// # Errors
/// SYN-2101 with both ids.
pub(super) fn is_of(proof: &Proof, genesis: &Genesis) -> Result<(), SynError> {
    let id = genesis.id().to_string();
    if proof.cluster == id {
        return Ok(());
    }
    Err(SynError::of(code::WRONG_CLUSTER, &[("theirs", &*proof.cluster), ("mine", &*id)]))
}
