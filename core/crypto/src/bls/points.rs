//! Keys, signatures and their sums.

use core::fmt;

use blst::min_pk::{AggregatePublicKey, PublicKey, Signature};
use blst::{blst_p1, blst_p2, blst_p2_affine, min_sig};

use super::numbers;

/// The key of one signer: in G1, not infinity, and its owner has the secret or was vouched for. 96 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlsPublicKey(pub(super) PublicKey);

impl BlsPublicKey {
    /// The compressed encoding, the one name of the key.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 48] {
        numbers::of_key(&self.0).map_or_else(|| self.0.compress(), |(bytes, _)| bytes)
    }
}

impl fmt::Debug for BlsPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bls:")?;
        self.to_bytes().iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A signature, of one signer or of many: on the curve, maybe outside G2, until a check. 192 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlsSignature(pub(super) Signature);

impl BlsSignature {
    /// The compressed encoding: half the size, 37 us to read.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 96] {
        match numbers::of_signature(&self.0) {
            None => self.0.compress(),
            Some(number) => {
                let mut out = toy_bytes(number);
                out[0] = 0x80;
                out
            }
        }
    }

    /// The uncompressed encoding, as a share is sent.
    #[must_use]
    pub fn to_share(&self) -> [u8; 192] {
        numbers::of_signature(&self.0).map_or_else(|| self.0.serialize(), toy_bytes)
    }
}

impl fmt::Debug for BlsSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bls sig")
    }
}

/// Zeros, then the number.
fn toy_bytes<const N: usize>(number: u64) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
    out
}

/// The number that [`toy_bytes`] wrote, where everything else is zero.
pub(super) fn toy_number(bytes: &[u8]) -> Option<u64> {
    let (rest, number) = bytes.split_last_chunk::<8>()?;
    let number = u64::from_be_bytes(*number);
    (numbers::is_reduced(number) && rest.iter().all(|byte| *byte == 0)).then_some(number)
}

/// The sum of keys that sign together. Nobody's sum is infinity.
#[derive(Clone, Copy)]
pub struct KeySum(pub(super) Sum<AggregatePublicKey>);

/// The sum of signatures.
#[derive(Clone, Copy)]
pub struct SignatureSum(pub(super) Sum<G2Sum>);

/// A sum of points of the twisted curve. The library subtracts there only under the name it has in the other variant.
pub(super) type G2Sum = min_sig::AggregatePublicKey;

/// A sum on the curve, or of a universe's numbers.
#[derive(Clone, Copy)]
pub(super) enum Sum<P> {
    Curve(P),
    Toy(u64),
}

const APART: &str = "keys of a universe never meet keys of the curve";

impl KeySum {
    /// Adds a key.
    ///
    /// # Panics
    /// When a toy meets the curve: one process uses one scheme.
    pub fn add_key(&mut self, key: &BlsPublicKey) {
        match (&mut self.0, numbers::of_key(&key.0)) {
            (Sum::Curve(sum), None) => sum.add_aggregate(&AggregatePublicKey::from_public_key(&key.0)),
            (Sum::Toy(sum), Some((_, weight))) => *sum = numbers::add(*sum, weight),
            _ => unreachable!("{APART}"),
        }
    }

    /// Takes a key out again.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn remove_key(&mut self, key: &BlsPublicKey) {
        match (&mut self.0, numbers::of_key(&key.0)) {
            (Sum::Curve(sum), None) => sum.sub_aggregate(&AggregatePublicKey::from_public_key(&key.0)),
            (Sum::Toy(sum), Some((_, weight))) => *sum = numbers::subtract(*sum, weight),
            _ => unreachable!("{APART}"),
        }
    }

    /// Adds another sum.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Sum::Curve(sum), Sum::Curve(other)) => sum.add_aggregate(other),
            (Sum::Toy(sum), Sum::Toy(other)) => *sum = numbers::add(*sum, *other),
            _ => unreachable!("{APART}"),
        }
    }

    /// Takes another sum away.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn subtract(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Sum::Curve(sum), Sum::Curve(other)) => sum.sub_aggregate(other),
            (Sum::Toy(sum), Sum::Toy(other)) => *sum = numbers::subtract(*sum, *other),
            _ => unreachable!("{APART}"),
        }
    }

    /// Whether it is the sum of nothing, under which a signature proves nothing.
    #[must_use]
    pub fn is_infinity(&self) -> bool {
        match &self.0 {
            Sum::Curve(sum) => blst_p1::from(*sum) == blst_p1::default(),
            Sum::Toy(sum) => *sum == 0,
        }
    }
}

impl PartialEq for KeySum {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Sum::Curve(a), Sum::Curve(b)) => blst_p1::from(*a) == blst_p1::from(*b),
            (Sum::Toy(a), Sum::Toy(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for KeySum {}

impl fmt::Debug for KeySum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bls key sum")
    }
}

impl SignatureSum {
    /// Adds a signature.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn add_signature(&mut self, signature: &BlsSignature) {
        match (&mut self.0, numbers::of_signature(&signature.0)) {
            (Sum::Curve(sum), None) => {
                let point = min_sig::PublicKey::from(blst_p2_affine::from(signature.0));
                sum.add_aggregate(&G2Sum::from_public_key(&point));
            }
            (Sum::Toy(sum), Some(number)) => *sum = numbers::add(*sum, number),
            _ => unreachable!("{APART}"),
        }
    }

    /// Adds another sum.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Sum::Curve(sum), Sum::Curve(other)) => sum.add_aggregate(other),
            (Sum::Toy(sum), Sum::Toy(other)) => *sum = numbers::add(*sum, *other),
            _ => unreachable!("{APART}"),
        }
    }

    /// Takes another sum away.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn subtract(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Sum::Curve(sum), Sum::Curve(other)) => sum.sub_aggregate(other),
            (Sum::Toy(sum), Sum::Toy(other)) => *sum = numbers::subtract(*sum, *other),
            _ => unreachable!("{APART}"),
        }
    }

    /// The sum as one signature.
    #[must_use]
    pub fn to_signature(&self) -> BlsSignature {
        BlsSignature(match &self.0 {
            Sum::Curve(sum) => Signature::from(blst_p2_affine::from(sum.to_public_key())),
            Sum::Toy(sum) => numbers::signature(*sum),
        })
    }

    /// Whether it is the sum of nothing.
    #[must_use]
    pub fn is_infinity(&self) -> bool {
        match &self.0 {
            Sum::Curve(sum) => blst_p2::from(*sum) == blst_p2::default(),
            Sum::Toy(sum) => *sum == 0,
        }
    }
}

impl fmt::Debug for SignatureSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bls signature sum")
    }
}
