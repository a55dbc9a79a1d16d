//! Keys of a run: the toy scheme by default, real Ed25519 on request. The only place that builds toy keys.
//!
//! Keys are derived from the seed, so a run is reproducible with either scheme. Whoever holds a [`Keyring`] holds
//! every secret of the run; the world gives strategies the keys of corrupted identities only.

use synod_crypto::bls::BlsSecret;
use synod_crypto::toy::Universe;
use synod_crypto::{Hasher, Keys, PublicKey, Seed, Signature};

/// Which signatures a run uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crypto {
    /// Keyed tags of the real sizes.
    #[default]
    Toy,
    /// Real Ed25519 and BLS12-381.
    Real,
}

/// The keys of all identities of one run.
#[derive(Clone, Copy)]
pub struct Keyring {
    crypto: Crypto,
    seed: u64,
    universe: Universe,
}

impl Keyring {
    /// The keyring of the run of `seed`.
    #[must_use]
    pub fn new(crypto: Crypto, seed: u64) -> Self {
        Self { crypto, seed, universe: Universe::new(seed) }
    }

    /// The keys of identity `name`; equal names give equal keys. The world names a node by its id.
    #[must_use]
    pub fn keys(&self, name: u64) -> Keys {
        match self.crypto {
            Crypto::Toy => self.universe.keys(name),
            Crypto::Real => Keys::ed25519(&Seed::new(self.secret("sign", name)), self.secret("batch", name))
                .with_bls(BlsSecret::new(&Seed::new(self.secret("together", name)))),
        }
    }

    /// The public key of identity `name`, for rosters.
    #[must_use]
    pub fn public(&self, name: u64) -> PublicKey {
        self.keys(name).public()
    }

    /// Another form of a signature that holds as well, which only the toy scheme lets everybody make: of Ed25519 the signer
    /// alone can.
    #[must_use]
    pub fn twisted(signature: &Signature) -> Signature {
        synod_crypto::toy::twisted(signature)
    }

    /// Which scheme it is.
    #[must_use]
    pub const fn crypto(&self) -> Crypto {
        self.crypto
    }

    fn secret(&self, purpose: &str, name: u64) -> [u8; 32] {
        let mut hasher = Hasher::new("synod sim secret");
        hasher.add(&self.seed.to_le_bytes()).add(purpose.as_bytes()).add(&name.to_le_bytes());
        hasher.finish().0
    }
}

#[cfg(test)]
mod tests {
    use synod_crypto::bls::BlsClaim;
    use synod_crypto::{Hash, Scope, Statement};
    use synod_quorum::{Epoch, NodeId};
    use synod_wire::wire;

    use super::*;

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
    fn both_schemes_accept_their_own_and_refuse_a_foreign_signature() {
        let scope = Scope { cluster: Hash::ZERO, epoch: Epoch(0) };
        for crypto in [Crypto::Toy, Crypto::Real] {
            let ring = Keyring::new(crypto, 3);
            let (alice, bob) = (ring.keys(1), ring.keys(2));
            let claim = alice.sign(scope, NodeId(1), Said(7)).into_inner();
            assert!(claim.clone().verify(&bob).is_ok(), "{crypto:?}");
            let mut forged = claim;
            forged.key = ring.public(2);
            assert!(forged.verify(&bob).is_err(), "{crypto:?}");
        }
    }

    #[test]
    fn both_schemes_sign_together() {
        let scope = Scope { cluster: Hash::ZERO, epoch: Epoch(0) };
        for crypto in [Crypto::Toy, Crypto::Real] {
            let ring = Keyring::new(crypto, 3);
            let checker = ring.keys(9);
            let sum = |what| {
                let signed = [1, 2].map(|name| {
                    let keys = ring.keys(name);
                    (keys.bls_public().expect("a key"), keys.sign_bls(&scope, &Said(what)).expect("a secret"))
                });
                BlsClaim {
                    statement: Said(7),
                    scope,
                    keys: checker.bls().sum_keys(signed.map(|(key, _)| key)),
                    signature: checker.bls().sum_signatures(signed.map(|(_, share)| share)).to_signature(),
                }
            };
            assert!(sum(7).verify(&checker).is_ok(), "{crypto:?}");
            assert!(sum(8).verify(&checker).is_err(), "{crypto:?}");
        }
    }

    #[test]
    fn keys_follow_from_the_seed_and_the_name() {
        for crypto in [Crypto::Toy, Crypto::Real] {
            let public = |seed, name| Keyring::new(crypto, seed).public(name);
            assert_eq!(public(1, 1), public(1, 1));
            assert_ne!(public(1, 1), public(1, 2));
            assert_ne!(public(1, 1), public(2, 1));
        }
    }
}
