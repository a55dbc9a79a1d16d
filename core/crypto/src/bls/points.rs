//! Keys, signatures and their sums.

use core::fmt;

use blst::min_pk::{AggregatePublicKey, PublicKey, Signature};
use blst::{BLST_ERROR, blst_p1, blst_p2, blst_p2_affine, min_sig};

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

/// Points that are added up.
pub(super) trait Group: Copy {
    fn plus(&mut self, other: &Self);
    fn minus(&mut self, other: &Self);
    fn is_zero(&self) -> bool;
}

/// A sum of points of the twisted curve. The library subtracts there only under the name it has in the other variant.
pub(super) type G2Sum = min_sig::AggregatePublicKey;

impl Group for AggregatePublicKey {
    fn plus(&mut self, other: &Self) {
        self.add_aggregate(other);
    }
    fn minus(&mut self, other: &Self) {
        self.sub_aggregate(other);
    }
    fn is_zero(&self) -> bool {
        blst_p1::from(*self) == blst_p1::default()
    }
}

impl Group for G2Sum {
    fn plus(&mut self, other: &Self) {
        self.add_aggregate(other);
    }
    fn minus(&mut self, other: &Self) {
        self.sub_aggregate(other);
    }
    fn is_zero(&self) -> bool {
        blst_p2::from(*self) == blst_p2::default()
    }
}

/// A sum on the curve, or of a universe's numbers.
#[derive(Clone, Copy)]
pub(super) enum Sum<P> {
    Curve(P),
    Toy(u64),
}

impl<P: Group> Sum<P> {
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Curve(sum), Self::Curve(other)) => sum.plus(other),
            (Self::Toy(sum), Self::Toy(other)) => *sum = numbers::add(*sum, *other),
            (Self::Curve(_) | Self::Toy(_), _) => unreachable!("one process uses one scheme"),
        }
    }

    fn subtract(&mut self, other: &Self) {
        match (self, other) {
            (Self::Curve(sum), Self::Curve(other)) => sum.minus(other),
            (Self::Toy(sum), Self::Toy(other)) => *sum = numbers::subtract(*sum, *other),
            (Self::Curve(_) | Self::Toy(_), _) => unreachable!("one process uses one scheme"),
        }
    }

    fn is_infinity(&self) -> bool {
        match self {
            Self::Curve(sum) => sum.is_zero(),
            Self::Toy(sum) => *sum == 0,
        }
    }
}

/// The sum of keys that sign together. Nobody's sum is infinity.
#[derive(Clone, Copy)]
pub struct KeySum(pub(super) Sum<AggregatePublicKey>);

/// The sum of signatures.
#[derive(Clone, Copy)]
pub struct SignatureSum(pub(super) Sum<G2Sum>);

impl KeySum {
    pub(super) const fn of_point(point: AggregatePublicKey) -> Self {
        Self(Sum::Curve(point))
    }

    fn of(key: &BlsPublicKey) -> Self {
        Self(match numbers::of_key(&key.0) {
            None => Sum::Curve(AggregatePublicKey::from_public_key(&key.0)),
            Some((_, weight)) => Sum::Toy(weight),
        })
    }

    /// Adds a key.
    ///
    /// # Panics
    /// When a toy meets the curve: one process uses one scheme.
    pub fn add_key(&mut self, key: &BlsPublicKey) {
        self.add(&Self::of(key));
    }

    /// Takes a key out again.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn remove_key(&mut self, key: &BlsPublicKey) {
        self.subtract(&Self::of(key));
    }

    /// Adds another sum.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    /// Takes another sum away.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn subtract(&mut self, other: &Self) {
        self.0.subtract(&other.0);
    }

    /// Whether it is in the group, infinity too. Sums of keys are, by their type: this is for points that are no keys yet.
    pub(super) fn is_in_group(&self) -> bool {
        match &self.0 {
            Sum::Curve(sum) => {
                matches!(sum.to_public_key().validate(), Ok(()) | Err(BLST_ERROR::BLST_PK_IS_INFINITY))
            }
            Sum::Toy(_) => true,
        }
    }

    /// Whether it is the sum of nothing, under which a signature proves nothing.
    #[must_use]
    pub fn is_infinity(&self) -> bool {
        self.0.is_infinity()
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
        let sum = match numbers::of_signature(&signature.0) {
            Some(number) => Sum::Toy(number),
            None => {
                let point = min_sig::PublicKey::from(blst_p2_affine::from(signature.0));
                Sum::Curve(G2Sum::from_public_key(&point))
            }
        };
        self.0.add(&sum);
    }

    /// Adds another sum.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    /// Takes another sum away.
    ///
    /// # Panics
    /// When a toy meets the curve.
    pub fn subtract(&mut self, other: &Self) {
        self.0.subtract(&other.0);
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
        self.0.is_infinity()
    }
}

impl fmt::Debug for SignatureSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bls signature sum")
    }
}
