//! Simulation crypto: keyed BLAKE3 tags of the real sizes in place of signatures.
//!
//! A tag cannot be made without the handle of its key, and adversaries are given the handles of corrupted
//! identities only, so the simulator keeps the one property protocols rely on at a hundredth of the cost.
//! `tidy` refuses this module outside the simulator.

use subtle::ConstantTimeEq;
use synod_quorum::PublicKey;

use crate::keys::Signed;
use crate::{Keys, Signature};

/// The world in which toy keys mean something; its secret never leaves it.
#[derive(Clone, Copy)]
pub struct Universe {
    secret: [u8; 32],
}

impl Universe {
    /// The universe of a simulator run.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { secret: blake3::derive_key("synod toy universe", &seed.to_le_bytes()) }
    }

    /// The keys of identity `name`; equal names give equal keys.
    #[must_use]
    pub fn keys(&self, name: u64) -> Keys {
        let public = *blake3::keyed_hash(&self.secret, &name.to_le_bytes()).as_bytes();
        Keys::toy(Handle { universe: *self, public: PublicKey(public) })
    }

    fn tag(&self, key: &PublicKey, message: &[u8]) -> Signature {
        let own = blake3::keyed_hash(&self.secret, &key.0);
        let mut out = [0; 64];
        blake3::Hasher::new_keyed(own.as_bytes()).update(message).finalize_xof().fill(&mut out);
        Signature(out)
    }
}

pub(crate) struct Handle {
    universe: Universe,
    public: PublicKey,
}

impl Handle {
    pub(crate) const fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Signature {
        self.universe.tag(&self.public, message)
    }

    pub(crate) fn check(&self, signed: &Signed<'_>) -> bool {
        self.universe.tag(&signed.key, signed.message).0.ct_eq(&signed.signature.0).into()
    }
}
