//! Toy multi-signatures: the same linear equation over numbers modulo 2^61 - 1.
//!
//! A key weighs w, a message hashes to h, a signature is w * h: sums of signatures verify against sums of weights exactly
//! as points do, so rogue keys, splitting and shares that cancel behave as on the curve. Weights and hashes are keyed by the
//! universe; whoever computes with the numbers inside tags could forge, which is why strategies hold handles instead.
//!
//! The numbers stand in the coordinates of points, beside a mark that no coordinate of the curve can have, so that toy keys
//! and signatures take the memory of real ones.

use blst::min_pk::{PublicKey, Signature};
use blst::{blst_fp, blst_fp2, blst_p1_affine, blst_p2_affine};

/// 2^61 - 1, a prime.
const MODULUS: u64 = (1 << 61) - 1;

/// The highest limb of a toy coordinate; coordinates of the curve are below 2^381.
const MARK: u64 = u64::MAX;

/// A number below the modulus, from a word.
pub(crate) const fn reduce(word: u64) -> u64 {
    word % MODULUS
}

pub(super) const fn is_reduced(word: u64) -> bool {
    word < MODULUS
}

pub(super) const fn add(a: u64, b: u64) -> u64 {
    reduce(a + b)
}

pub(super) const fn subtract(a: u64, b: u64) -> u64 {
    reduce(a + MODULUS - b)
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 2^61")]
pub(super) const fn multiply(a: u64, b: u64) -> u64 {
    (a as u128 * b as u128 % MODULUS as u128) as u64
}

/// A toy key: its 48 bytes and its weight.
pub(super) fn key(bytes: &[u8; 48], weight: u64) -> PublicKey {
    let mut x = [0; 6];
    for (limb, word) in x.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*word);
    }
    let y = [weight, 0, 0, 0, 0, MARK];
    PublicKey::from(blst_p1_affine { x: blst_fp { l: x }, y: blst_fp { l: y } })
}

/// The bytes and the weight of a toy key; nothing of a real one.
pub(super) fn of_key(key: &PublicKey) -> Option<([u8; 48], u64)> {
    let point: &blst_p1_affine = key.into();
    let [weight, .., mark] = point.y.l;
    let mut bytes = [0; 48];
    for (word, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(point.x.l) {
        *word = limb.to_le_bytes();
    }
    (mark == MARK).then_some((bytes, weight))
}

/// A toy signature.
pub(super) fn signature(number: u64) -> Signature {
    let none = blst_fp::default();
    let (x, mark) = (blst_fp { l: [number, 0, 0, 0, 0, 0] }, blst_fp { l: [0, 0, 0, 0, 0, MARK] });
    Signature::from(blst_p2_affine { x: blst_fp2 { fp: [x, none] }, y: blst_fp2 { fp: [none, mark] } })
}

/// The number of a toy signature; nothing of a real one.
pub(super) fn of_signature(signature: &Signature) -> Option<u64> {
    let point: &blst_p2_affine = signature.into();
    let [number, ..] = point.x.fp[0].l;
    let [.., mark] = point.y.fp[1].l;
    (mark == MARK).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_obey_the_laws_of_sums() {
        let words = [0, 1, 2, MODULUS - 1, MODULUS / 2, 0x1234_5678_9abc_def0 % MODULUS];
        for a in words {
            for b in words {
                assert_eq!(subtract(add(a, b), b), a);
                assert_eq!(multiply(a, b), multiply(b, a));
                for c in words {
                    assert_eq!(multiply(a, add(b, c)), add(multiply(a, b), multiply(a, c)));
                }
            }
        }
        assert_eq!(multiply(MODULUS - 1, MODULUS - 1), 1);
    }

    #[test]
    fn no_point_of_the_curve_is_taken_for_a_toy() {
        let secret = crate::bls::BlsSecret::new(&crate::Seed::new([5; 32]));
        assert_eq!(of_key(&secret.public().0), None);
        assert_eq!(of_signature(&secret.sign(b"suite", b"message").0), None);
        assert_eq!(of_key(&key(&[7; 48], 9)), Some(([7; 48], 9)));
        assert_eq!(of_signature(&signature(11)), Some(11));
    }
}
