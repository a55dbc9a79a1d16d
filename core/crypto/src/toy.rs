//! Simulation crypto: keyed BLAKE3 tags of the real sizes in place of signatures.
//!
//! A tag cannot be made without the handle of its key, and adversaries are given the handles of corrupted
//! identities only, so the simulator keeps the one property protocols rely on at a hundredth of the cost. Every identity
//! also has a key for multi-signatures, made of numbers that add up as points do ([`bls`]).
//! `tidy` refuses this module outside the simulator.

use subtle::ConstantTimeEq;
use synod_quorum::PublicKey;

use crate::keys::Signed;
use crate::{Keys, Signature, bls};

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

    /// What a key for multi-signatures weighs. Any bytes weigh something; only a handle proves possession.
    pub(crate) fn bls_weight(&self, key: &[u8; 48]) -> u64 {
        self.number(b"weight", key)
    }

    /// The number of a message in a suite.
    pub(crate) fn bls_hash(&self, suite: &[u8], message: &[u8]) -> u64 {
        self.number(suite, message)
    }

    /// A number from 1 to 2^61 - 2.
    fn number(&self, purpose: &[u8], of: &[u8]) -> u64 {
        let own = blake3::keyed_hash(&self.secret, purpose);
        let hash = blake3::keyed_hash(own.as_bytes(), of);
        let word = hash.as_bytes().first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        bls::reduce(word).max(1)
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

    pub(crate) const fn universe(&self) -> &Universe {
        &self.universe
    }

    /// The key for multi-signatures: bytes that look like a compressed point.
    pub(crate) fn bls_key(&self) -> [u8; 48] {
        let mut out = [0; 48];
        let mut hasher = blake3::Hasher::new_keyed(&self.universe.secret);
        hasher.update(b"bls").update(&self.public.0).finalize_xof().fill(&mut out);
        out[0] = 0x80 | out[0] & 0x0f;
        out
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Signature {
        self.universe.tag(&self.public, message)
    }

    pub(crate) fn check(&self, signed: &Signed<'_>) -> bool {
        let own = self.universe.tag(&signed.key, signed.message);
        (own.0.ct_eq(&signed.signature.0) | twisted(&own).0.ct_eq(&signed.signature.0)).into()
    }
}

/// The second form of a signature, which holds as well and is other bytes: as Ed25519 signatures do that differ by a
/// point of small order, and which stricter criteria than ZIP-215 refuse. Anybody can make it.
#[must_use]
pub fn twisted(signature: &Signature) -> Signature {
    let mut out = signature.0;
    out[32..].fill(0xff);
    Signature(out)
}

#[cfg(test)]
mod tests {
    use synod_quorum::{Epoch, NodeId};
    use synod_wire::wire;

    use super::{Universe, twisted};
    use crate::{Hash, Scope, Statement};

    wire! {
        /// Something to sign.
        #[derive(Clone, Debug, PartialEq)]
        struct Said(u64);
    }

    impl Statement for Said {
        const PROTOCOL: u8 = 250;
        const VERSION: u8 = 1;
        fn kind(&self) -> u16 {
            1
        }
    }

    #[test]
    fn both_forms_of_a_signature_hold_for_what_was_signed_alone() {
        let scope = Scope { cluster: Hash::ZERO, epoch: Epoch(0) };
        let universe = Universe::new(3);
        let (alice, bob) = (universe.keys(1), universe.keys(2));
        let mut claim = alice.sign(scope, NodeId(1), Said(7)).into_inner();
        let plain = claim.signature;
        claim.signature = twisted(&plain);
        assert_ne!(claim.signature, plain);
        assert!(claim.clone().verify(&bob).is_ok());
        let mut other = claim.clone();
        other.statement = Said(8);
        assert!(other.verify(&bob).is_err(), "another statement");
        claim.signature.0[31] ^= 1;
        assert!(claim.verify(&bob).is_err(), "half a tag");
    }
}
