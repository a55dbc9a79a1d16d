//! Receipts of payments as anybody checks them who has the genesis.

use synod_astro::{NoReceipt, PaymentReceipt, Proved, verify_receipt};
use synod_broadcast::signed::Certificate;
use synod_config::{Genesis, SynError, code};
use synod_crypto::{Keys, Seed};
use synod_wire::{Bytes, Limits, Wire as _};

use super::node::view;

/// The kind of a receipt of a payment, where proofs state their kind.
pub const KIND: &str = "payment";
/// The newest format that is read here.
const FORMAT: u8 = 1;

/// Checks the bytes of a receipt against a genesis, without network or disk.
///
/// # Errors
/// SYN-1110 for a newer format, SYN-6003 for signatures of another view, and SYN-6002 with what else does not hold.
pub fn check(bytes: Bytes, genesis: &Genesis) -> Result<Proved, SynError> {
    if let Some(format) = bytes.first().filter(|format| **format > FORMAT) {
        let (found, known) = (format.to_string(), FORMAT.to_string());
        let values = [("file", "the receipt"), ("found", &*found), ("known", &*known)];
        return Err(SynError::of(code::FORMAT_NEWER, &values));
    }
    let receipt = PaymentReceipt::decode(bytes, &Limits::default())
        .map_err(|malformed| invalid(&format!("its bytes are no receipt: {malformed}")))?;
    // Only public keys are used: the secret is one that nobody has.
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    let shard = receipt.header.shard;
    if usize::from(shard) >= genesis.groups().len() {
        let error = SynError::of(code::EPOCH_UNKNOWN, &[("epoch", "of the receipt")]);
        return Err(error.because(format!("it is of shard {shard}, which the genesis does not have")));
    }
    verify_receipt::<Certificate>(&receipt, &view(genesis, shard)?, &keys).map_err(|why| match why {
        NoReceipt::OtherView => {
            let epoch = genesis.roster().epoch().0.to_string();
            SynError::of(code::EPOCH_UNKNOWN, &[("epoch", "of the receipt")])
                .because(format!("{why}; the genesis has epoch {epoch} and one view"))
        }
        why => invalid(&why.to_string()),
    })
}

fn invalid(why: &str) -> SynError {
    SynError::of(code::CERTIFICATE_INVALID, &[("reason", why)])
}
