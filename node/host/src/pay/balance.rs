//! Proofs of balances, absence and liabilities as anybody checks them who has the genesis.

use synod_astro::{NoProof, Proof, Shows, verify_proof};
use synod_config::{Genesis, SynError, code};
use synod_crypto::{Keys, Seed};
use synod_wire::{Bytes, Limits, Wire as _};

use super::node::view;

/// The kind of such a proof, where proofs state their kind.
pub const CUT_KIND: &str = "cut";
/// The newest format that is read here.
const FORMAT: u8 = 1;

/// Checks the bytes of a proof against a genesis, without network or disk.
///
/// # Errors
/// SYN-1110 for a newer format, SYN-6003 for signatures of another view, and SYN-6002 with what else does not hold.
pub fn check_proof(bytes: Bytes, genesis: &Genesis) -> Result<(Proof, Shows), SynError> {
    if let Some(format) = bytes.first().filter(|format| **format > FORMAT) {
        let (found, known) = (format.to_string(), FORMAT.to_string());
        let values = [("file", "the proof"), ("found", &*found), ("known", &*known)];
        return Err(SynError::of(code::FORMAT_NEWER, &values));
    }
    let proof = Proof::decode(bytes, &Limits::default())
        .map_err(|malformed| invalid(&format!("its bytes are no proof: {malformed}")))?;
    // Only public keys are used: the secret is one that nobody has.
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    let shows = verify_proof(&proof, &view(genesis, 0)?, &keys).map_err(|why| match why {
        NoProof::OtherView => {
            let epoch = genesis.roster().epoch().0.to_string();
            SynError::of(code::EPOCH_UNKNOWN, &[("epoch", "of the proof")])
                .because(format!("{why}; the genesis has epoch {epoch} and one view"))
        }
        why => invalid(&why.to_string()),
    })?;
    Ok((proof, shows))
}

fn invalid(why: &str) -> SynError {
    SynError::of(code::CERTIFICATE_INVALID, &[("reason", why)])
}
