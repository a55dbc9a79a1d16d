//! The operations of multi-signatures, on the curve or in a universe of toy keys.

use blst::min_pk::{AggregatePublicKey, PublicKey, Signature};
use blst::{BLST_ERROR, MultiPoint as _, blst_p1, blst_p2};

use super::equation::{self, Equation};
use super::numbers;
use super::points::{BlsPublicKey, BlsSignature, G2Sum, KeySum, SignatureSum, Sum, toy_number};
use super::registration::BadBls;
use super::secret::BlsSecret;
use crate::{Keys, toy};

/// The suite of signatures of messages.
pub const SIGNING: &[u8] = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";

/// The suite of proofs of possession.
pub const POSSESSION: &[u8] = b"BLS_POP_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";

/// Most keys that are gathered for one addition: 768 KiB, which stays in the cache.
pub const KEYS_AT_ONCE: usize = 8_192;

/// Who signs, if anybody does.
pub(crate) enum Signer<'a> {
    /// On the curve, with a secret or without.
    Curve(Option<&'a BlsSecret>),
    /// In a universe.
    Toy(&'a toy::Handle),
}

/// What a job does with keys and signatures: [`Keys::bls`] gives it.
pub struct Bls<'a> {
    signer: Signer<'a>,
    batch_secret: &'a [u8; 32],
}

/// Something said to be signed together by the keys of a sum.
pub(super) struct Said<'a> {
    pub(super) keys: &'a KeySum,
    pub(super) signature: &'a BlsSignature,
    pub(super) message: &'a [u8],
}

impl<'a> Bls<'a> {
    pub(crate) const fn new(signer: Signer<'a>, batch_secret: &'a [u8; 32]) -> Self {
        Self { signer, batch_secret }
    }

    /// Reads a key that somebody trusted vouches for, such as the operator for the directory of a genesis: canonical, on the
    /// curve, in G1 and not infinity. Keys of others are read by [`Bls::register`].
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn vouched_key(&self, bytes: &[u8; 48]) -> Result<BlsPublicKey, BadBls> {
        match &self.signer {
            Signer::Curve(_) => {
                let key = PublicKey::uncompress(bytes).map_err(bad)?;
                key.validate().map_err(bad)?;
                Ok(BlsPublicKey(key))
            }
            Signer::Toy(_) if bytes[0] & 0x80 == 0 => Err(BadBls::Encoding),
            Signer::Toy(_) if bytes[0] & 0x40 != 0 => Err(BadBls::Infinity),
            Signer::Toy(handle) => Ok(BlsPublicKey(numbers::key(bytes, handle.universe().bls_weight(bytes)))),
        }
    }

    /// Reads a compressed signature: canonical, on the curve and not infinity; maybe outside G2.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn signature(&self, bytes: &[u8; 96]) -> Result<BlsSignature, BadBls> {
        match &self.signer {
            Signer::Curve(_) => Signature::uncompress(bytes).map_err(bad).and_then(not_infinity),
            Signer::Toy(_) if bytes[0] & 0x80 == 0 => Err(BadBls::Encoding),
            Signer::Toy(_) => {
                let mut number = *bytes;
                number[0] &= 0x7f;
                toy_signature(&number)
            }
        }
    }

    /// Reads an uncompressed signature by the same rules; 0.7 us.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn share(&self, bytes: &[u8; 192]) -> Result<BlsSignature, BadBls> {
        match &self.signer {
            Signer::Curve(_) => Signature::deserialize(bytes).map_err(bad).and_then(not_infinity),
            Signer::Toy(_) => toy_signature(bytes),
        }
    }

    /// Adds keys by the curve library, [`KEYS_AT_ONCE`] at a time with one inversion for all, none to infinity. Books of many
    /// keys are added up by [`Keys::key_adder`]. No refusal rests on this sum:
    /// [`BlsClaim::reconsider`](super::BlsClaim::reconsider).
    pub fn sum_keys(&self, keys: impl IntoIterator<Item = BlsPublicKey>) -> KeySum {
        if let Signer::Toy(_) = self.signer {
            return self.sum_keys_one_by_one(keys);
        }
        let mut keys = keys.into_iter().map(|key| key.0);
        let mut sum = AggregatePublicKey::from(blst_p1::default());
        let mut gathered: Vec<PublicKey> = Vec::with_capacity(keys.size_hint().0.min(KEYS_AT_ONCE));
        loop {
            gathered.extend(keys.by_ref().take(KEYS_AT_ONCE));
            if gathered.is_empty() {
                return KeySum(Sum::Curve(sum));
            }
            sum.add_aggregate(&gathered.as_slice().add());
            gathered.clear();
        }
    }

    /// The reference path: adds keys one after another.
    pub fn sum_keys_one_by_one(&self, keys: impl IntoIterator<Item = BlsPublicKey>) -> KeySum {
        let mut sum = KeySum(match self.signer {
            Signer::Curve(_) => Sum::Curve(AggregatePublicKey::from(blst_p1::default())),
            Signer::Toy(_) => Sum::Toy(0),
        });
        keys.into_iter().for_each(|key| sum.add_key(&key));
        sum
    }

    /// Adds signatures; whether they are in G2 is for the check of the sum.
    pub fn sum_signatures(&self, signatures: impl IntoIterator<Item = BlsSignature>) -> SignatureSum {
        let signatures = signatures.into_iter();
        if let Signer::Toy(_) = self.signer {
            let mut sum = SignatureSum(Sum::Toy(0));
            signatures.for_each(|signature| sum.add_signature(&signature));
            return sum;
        }
        let mut signatures = signatures.map(|signature| signature.0);
        let mut sum = G2Sum::from(blst_p2::default());
        let mut gathered: Vec<Signature> = Vec::new();
        loop {
            gathered.extend(signatures.by_ref().take(KEYS_AT_ONCE));
            if gathered.is_empty() {
                return SignatureSum(Sum::Curve(sum));
            }
            sum.add_aggregate(&G2Sum::from(blst_p2::from(gathered.as_slice().add())));
            gathered.clear();
        }
    }

    /// What random coefficients and subsets are drawn by.
    pub(super) const fn batch_secret(&self) -> &[u8; 32] {
        self.batch_secret
    }

    pub(super) const fn is_of_curve(&self) -> bool {
        matches!(self.signer, Signer::Curve(_))
    }

    pub(crate) fn public(&self) -> Option<BlsPublicKey> {
        match &self.signer {
            Signer::Curve(secret) => secret.map(BlsSecret::public),
            Signer::Toy(handle) => self.vouched_key(&handle.bls_key()).ok(),
        }
    }

    pub(crate) fn sign(&self, suite: &[u8], message: &[u8]) -> Option<BlsSignature> {
        match &self.signer {
            Signer::Curve(secret) => secret.map(|secret| secret.sign(suite, message)),
            Signer::Toy(handle) => {
                let weight = handle.universe().bls_weight(&handle.bls_key());
                let number = numbers::multiply(weight, handle.universe().bls_hash(suite, message));
                Some(BlsSignature(numbers::signature(number)))
            }
        }
    }

    /// Which of `said` were signed by all keys of their sums: infinity on either side and signatures outside G2 are refused.
    pub(super) fn which_hold(&self, suite: &[u8], said: &[Said<'_>]) -> Vec<bool> {
        let Signer::Toy(handle) = &self.signer else {
            let equations = said.iter().filter_map(equation).collect::<Vec<_>>();
            assert_eq!(equations.len(), said.len(), "keys of a universe never meet keys of the curve");
            return equation::which_hold(suite, &equations, self.batch_secret);
        };
        let holds = |one: &Said<'_>| {
            let hash = handle.universe().bls_hash(suite, one.message);
            match (&one.keys.0, numbers::of_signature(&one.signature.0)) {
                (Sum::Toy(keys), Some(number)) => {
                    *keys != 0 && number != 0 && numbers::multiply(*keys, hash) == number
                }
                _ => false,
            }
        };
        said.iter().map(holds).collect()
    }
}

fn equation<'a>(said: &Said<'a>) -> Option<Equation<'a>> {
    match &said.keys.0 {
        Sum::Curve(keys) => {
            let (key, signature) = (equation::affine(keys), said.signature.0);
            Some(Equation { key, signature, message: said.message })
        }
        Sum::Toy(_) => None,
    }
}

fn not_infinity(signature: Signature) -> Result<BlsSignature, BadBls> {
    let point: &blst::blst_p2_affine = (&signature).into();
    if *point == blst::blst_p2_affine::default() {
        Err(BadBls::Infinity)
    } else {
        Ok(BlsSignature(signature))
    }
}

fn toy_signature(bytes: &[u8]) -> Result<BlsSignature, BadBls> {
    match toy_number(bytes) {
        None => Err(BadBls::Encoding),
        Some(0) => Err(BadBls::Infinity),
        Some(number) => Ok(BlsSignature(numbers::signature(number))),
    }
}

const fn bad(error: BLST_ERROR) -> BadBls {
    match error {
        BLST_ERROR::BLST_PK_IS_INFINITY => BadBls::Infinity,
        BLST_ERROR::BLST_POINT_NOT_ON_CURVE => BadBls::NoPoint,
        BLST_ERROR::BLST_POINT_NOT_IN_GROUP => BadBls::OutsideGroup,
        _ => BadBls::Encoding,
    }
}

impl Keys {
    /// The operations of multi-signatures with these keys.
    #[must_use]
    pub fn bls(&self) -> Bls<'_> {
        let (signer, batch_secret) = self.bls_signer();
        Bls::new(signer, batch_secret)
    }
}
