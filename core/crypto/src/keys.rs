//! The keys of one node. They exist only inside jobs: whoever holds a `&Keys` is a job.

use core::fmt;

use ed25519_zebra::{SigningKey, VerificationKey, VerificationKeyBytes, batch};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use synod_quorum::NodeId;
use synod_wire::wire;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::bls::{BlsSecret, Signer, Vectors};
use crate::ed25519::{self, ReadKey};
use crate::{Claim, PublicKey, Scope, Statement, Verified, toy};

wire! {
    /// Signature bytes. Never an identifier or a set key: two signatures can be good for one statement.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Signature(pub [u8; 64]);
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sig")
    }
}

/// The secret from which a signing key is made; zeroised on drop, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Wraps secret bytes from a key file or the operating system's randomness.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret bytes, for the key file and the transport's key only.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The public key of this secret.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(VerificationKeyBytes::from(SigningKey::from(self.0).verification_key()).into())
    }
}

/// What a node signs with and how it checks the signatures of others.
pub struct Keys {
    scheme: Scheme,
    batch_secret: [u8; 32],
    vectors: Vectors,
}

enum Scheme {
    Ed25519 { key: Box<SigningKey>, bls: Option<Box<BlsSecret>> },
    Toy(toy::Handle),
}

/// Something signed, before it is known to be.
pub(crate) struct Signed<'a> {
    pub(crate) key: PublicKey,
    pub(crate) message: &'a [u8],
    pub(crate) signature: Signature,
}

impl Keys {
    /// Real Ed25519 keys. `batch_secret` comes from the operating system's randomness and keeps batch
    /// coefficients unknown to whoever makes signatures.
    #[must_use]
    pub fn ed25519(seed: &Seed, batch_secret: [u8; 32]) -> Self {
        let key = Box::new(SigningKey::from(seed.0));
        Self { scheme: Scheme::Ed25519 { key, bls: None }, batch_secret, vectors: Vectors::new() }
    }

    /// The same keys with a secret for multi-signatures. Toy keys have one of their own and keep it.
    #[must_use]
    pub fn with_bls(mut self, secret: BlsSecret) -> Self {
        if let Scheme::Ed25519 { bls, .. } = &mut self.scheme {
            *bls = Some(Box::new(secret));
        }
        self
    }

    pub(crate) const fn bls_signer(&self) -> (Signer<'_>, &[u8; 32]) {
        let signer = match &self.scheme {
            Scheme::Ed25519 { bls: None, .. } => Signer::Curve(None),
            Scheme::Ed25519 { bls: Some(secret), .. } => Signer::Curve(Some(secret)),
            Scheme::Toy(handle) => Signer::Toy(handle),
        };
        (signer, &self.batch_secret)
    }

    pub(crate) const fn vectors(&self) -> &Vectors {
        &self.vectors
    }

    pub(crate) const fn toy(handle: toy::Handle) -> Self {
        Self { scheme: Scheme::Toy(handle), batch_secret: [0; 32], vectors: Vectors::new() }
    }

    /// The public key others know this node by.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        match &self.scheme {
            Scheme::Ed25519 { key, .. } => {
                PublicKey(VerificationKeyBytes::from(key.verification_key()).into())
            }
            Scheme::Toy(handle) => handle.public(),
        }
    }

    /// Signs `statement` as `signer`; own statements are verified by construction.
    #[must_use]
    pub fn sign<S: Statement>(&self, scope: Scope, signer: NodeId, statement: S) -> Verified<Claim<S>> {
        let signature = self.sign_bytes(&statement.signed_bytes(&scope));
        Verified::mint(Claim { statement, scope, signer, key: self.public(), signature })
    }

    fn sign_bytes(&self, message: &[u8]) -> Signature {
        match &self.scheme {
            Scheme::Ed25519 { key, .. } => Signature(key.sign(message).to_bytes()),
            Scheme::Toy(handle) => handle.sign(message),
        }
    }

    pub(crate) fn check(&self, signed: &Signed<'_>) -> bool {
        match &self.scheme {
            Scheme::Ed25519 { .. } => check_one(signed),
            Scheme::Toy(handle) => handle.check(signed),
        }
    }

    /// Which of `signed` are good. One batch when all are; bisection otherwise.
    pub(crate) fn check_each(&self, signed: &[Signed<'_>]) -> Vec<bool> {
        match &self.scheme {
            Scheme::Toy(handle) => signed.iter().map(|s| handle.check(s)).collect(),
            Scheme::Ed25519 { .. } if ed25519::in_vectors(signed.len(), self.trusts_vectors()) => {
                self.check_each_read(signed, &[]).into_iter().map(|(good, _)| good).collect()
            }
            Scheme::Ed25519 { .. } => {
                let mut good: Vec<bool> = signed.iter().map(|_| true).collect();
                self.bisect(signed, &mut good);
                good
            }
        }
    }

    /// The same, over keys that were read before; with the keys that were not.
    pub(crate) fn check_each_read(
        &self,
        signed: &[Signed<'_>],
        known: &[Option<ReadKey>],
    ) -> Vec<(bool, Option<ReadKey>)> {
        let Scheme::Toy(handle) = &self.scheme else {
            return ed25519::check_each(
                signed,
                known,
                (&self.batch_secret, self.trusts_vectors()),
                check_one,
            );
        };
        let is_known =
            |at: usize, key: &PublicKey| known.get(at).is_some_and(|k| k.is_some_and(|k| k.key() == key));
        let check = |(at, one): (usize, &Signed<'_>)| {
            let good = handle.check(one);
            (good, (good && !is_known(at, &one.key)).then(|| ReadKey::toy(one.key)))
        };
        signed.iter().enumerate().map(check).collect()
    }

    /// Halves are examined from a work list: its length is at most the logarithm of the batch.
    fn bisect(&self, signed: &[Signed<'_>], good: &mut [bool]) {
        let mut work = vec![(0, signed.len())];
        while let Some((from, to)) = work.pop() {
            let part = signed.get(from..to).unwrap_or_default();
            match part {
                [] => {}
                [one] => good[from] = check_one(one),
                many if self.check_batch(many) => {}
                _ => {
                    let middle = from.midpoint(to);
                    work.push((from, middle));
                    work.push((middle, to));
                }
            }
        }
    }

    fn check_batch(&self, signed: &[Signed<'_>]) -> bool {
        let mut transcript = blake3::Hasher::new_keyed(&self.batch_secret);
        let mut verifier = batch::Verifier::new();
        for one in signed {
            transcript.update(&one.key.0).update(&one.signature.0).update(one.message);
            let key = VerificationKeyBytes::from(one.key.0);
            let signature = ed25519_zebra::Signature::from(one.signature.0);
            verifier.queue((key, signature, one.message));
        }
        verifier.verify(ChaCha8Rng::from_seed(*transcript.finalize().as_bytes())).is_ok()
    }
}

fn check_one(signed: &Signed<'_>) -> bool {
    let signature = ed25519_zebra::Signature::from(signed.signature.0);
    VerificationKey::try_from(signed.key.0).is_ok_and(|key| key.verify(&signature, signed.message).is_ok())
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.public())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.batch_secret.zeroize();
    }
}
