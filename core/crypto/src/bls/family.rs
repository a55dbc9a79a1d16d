//! Keys of benchmarks: a family of secrets that makes a million clients and their signatures cheap.
//!
//! Member i has the secret a + i * b modulo the order of the groups, so the next key and the next signature of one statement
//! are one point addition away, and signatures of many members add up to one that takes one sum of numbers and one
//! multiplication. The signatures are genuine: whoever checks them does the work it would do for strangers' keys.
//!
//! *Never for a cluster that matters*: who knows the secrets of two members knows those of all.
//!
//! Chop Chop, section 6.2.

use std::collections::{BTreeMap, BTreeSet};

use blst::min_pk::{AggregatePublicKey, PublicKey, SecretKey, Signature};
use blst::{blst_p1, blst_p2, blst_p2_affine, min_sig, p1_affines, p2_affines};

use super::points::{BlsPublicKey, BlsSignature, G2Sum};
use super::scheme::SIGNING;
use super::secret::BlsSecret;
use crate::{Scope, Seed, Statement};

/// Points that become affine by one inversion.
const POINTS_AT_ONCE: u32 = 4_096;
/// Members whose signatures are one addition from that of the first of them.
const ROW: u32 = 256;

/// The order of the groups, lowest word first.
const ORDER: Number =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// A number below [`ORDER`], lowest word first.
type Number = [u64; 4];

/// A family of keys for benchmarks. Printed and serialised like any secret: never.
pub struct BenchFamily {
    first: Number,
    step: Number,
}

impl BenchFamily {
    /// The family of a seed; equal seeds give equal families.
    ///
    /// # Panics
    /// Never: derivation refuses only material shorter than 32 bytes, and a seed has 32.
    #[must_use]
    pub fn new(seed: &Seed) -> Self {
        let derive = |purpose: &[u8]| {
            let secret = SecretKey::key_gen(seed.expose(), purpose).expect("a seed has 32 bytes");
            number(&secret.to_bytes())
        };
        Self { first: derive(b"synod bench first"), step: derive(b"synod bench step") }
    }

    /// The secret of a member.
    #[must_use]
    pub fn secret(&self, member: u32) -> BlsSecret {
        BlsSecret::of(secret(&self.sum(1, u64::from(member))))
    }

    /// The keys of `count` members from `first` on: 1 us each.
    #[must_use]
    pub fn keys(&self, first: u32, count: u32) -> Vec<BlsPublicKey> {
        let mut sum = AggregatePublicKey::from_public_key(&self.secret(first).public().0);
        let step = AggregatePublicKey::from_public_key(&secret(&self.step).sk_to_pk());
        let mut keys = Vec::with_capacity(count as usize);
        each_part(count, |part| {
            let next = |_| {
                let point = blst_p1::from(sum);
                sum.add_aggregate(&step);
                point
            };
            let points: Vec<blst_p1> = (0..part).map(next).collect();
            let affine = p1_affines::from(&points);
            keys.extend(affine.as_slice().iter().map(|point| BlsPublicKey(PublicKey::from(*point))));
        });
        keys
    }

    /// What each of `count` members from `first` on signs under `statement`: 2 us each.
    #[must_use]
    pub fn signatures<S: Statement>(
        &self,
        scope: &Scope,
        statement: &S,
        (first, count): (u32, u32),
    ) -> Vec<BlsSignature> {
        let message = statement.signed_bytes(scope);
        let mut sum = sum_of(self.secret(first).sign(SIGNING, &message));
        let step = sum_of(BlsSecret::of(secret(&self.step)).sign(SIGNING, &message));
        let mut signatures = Vec::with_capacity(count as usize);
        each_part(count, |part| {
            let next = |_| {
                let point = blst_p2::from(sum);
                sum.add_aggregate(&step);
                point
            };
            let points: Vec<blst_p2> = (0..part).map(next).collect();
            let affine = p2_affines::from(&points);
            signatures.extend(affine.as_slice().iter().map(|point| BlsSignature(Signature::from(*point))));
        });
        signatures
    }

    /// What any members sign under `statement`, wherever they stand: 1.2 ms before the first signature.
    #[must_use]
    pub fn under<S: Statement>(&self, scope: &Scope, statement: &S) -> FamilyShares {
        let message = statement.signed_bytes(scope);
        let first = sum_of(self.secret(0).sign(SIGNING, &message));
        let step = sum_of(BlsSecret::of(secret(&self.step)).sign(SIGNING, &message));
        let mut row = Vec::with_capacity(ROW as usize);
        let mut next = step;
        for _ in 1..ROW {
            row.push(blst_p2::from(next));
            next.add_aggregate(&step);
        }
        let row = p2_affines::from(&row);
        let row = row.as_slice().iter().map(|point| min_sig::PublicKey::from(*point)).collect();
        FamilyShares { first, row, rows: next }
    }

    /// The sum of what `members` sign under `statement`: 0.4 ms for any number of them; none to nothing. A member that is
    /// named twice signs twice.
    #[must_use]
    pub fn signed_by_all<S: Statement>(
        &self,
        scope: &Scope,
        statement: &S,
        members: impl IntoIterator<Item = u32>,
    ) -> Option<BlsSignature> {
        let add = |(count, sum), member| (count + 1, sum + u64::from(member));
        self.signed_by_sum(scope, statement, members.into_iter().fold((0, 0), add))
    }

    /// The same of `count` members whose numbers add up to `sum`.
    #[must_use]
    pub fn signed_by_sum<S: Statement>(
        &self,
        scope: &Scope,
        statement: &S,
        (count, sum): (u64, u64),
    ) -> Option<BlsSignature> {
        let together = self.sum(count, sum);
        (count > 0).then(|| BlsSecret::of(secret(&together)).sign(SIGNING, &statement.signed_bytes(scope)))
    }

    /// `count` times the first secret and `steps` times the step.
    fn sum(&self, count: u64, steps: u64) -> Number {
        add(&times(&self.first, count), &times(&self.step, steps))
    }
}

/// What the members of a family sign under one statement, one addition each.
pub struct FamilyShares {
    /// What member 0 signs.
    first: G2Sum,
    /// The step 1 to `ROW - 1` times.
    row: Vec<min_sig::PublicKey>,
    /// The step `ROW` times.
    rows: G2Sum,
}

impl FamilyShares {
    /// The signatures of `members`, in their order: 2 us each where members are many of few hundreds.
    #[must_use]
    pub fn of(&self, members: &[u32]) -> Vec<BlsSignature> {
        let mut begun: BTreeMap<u32, G2Sum> = BTreeMap::new();
        let mut last = (0, self.first);
        // By rising number, so that each row is a few additions from the one before.
        for row in members.iter().map(|member| member / ROW).collect::<BTreeSet<u32>>() {
            last = (row, self.ahead(last.1, row - last.0));
            begun.insert(row, last.1);
        }
        let mut signatures = Vec::with_capacity(members.len());
        for part in members.chunks(POINTS_AT_ONCE as usize) {
            let point = |member: &u32| {
                let mut sum = begun.get(&(member / ROW)).copied().unwrap_or(self.first);
                let place = (member % ROW).checked_sub(1).and_then(|at| self.row.get(at as usize));
                if let Some(step) = place {
                    // The points are this family's own.
                    let added = sum.add_public_key(step, false);
                    assert!(added.is_ok(), "nothing is checked");
                }
                blst_p2::from(sum)
            };
            let points: Vec<blst_p2> = part.iter().map(point).collect();
            let affine = p2_affines::from(&points);
            signatures.extend(affine.as_slice().iter().map(|point| BlsSignature(Signature::from(*point))));
        }
        signatures
    }

    /// `from` and so many rows more.
    fn ahead(&self, mut from: G2Sum, rows: u32) -> G2Sum {
        let mut doubled = self.rows;
        for bit in 0..u32::BITS - rows.leading_zeros() {
            if rows >> bit & 1 == 1 {
                from.add_aggregate(&doubled);
            }
            let same = doubled;
            doubled.add_aggregate(&same);
        }
        from
    }
}

/// A signature as a sum of one.
fn sum_of(signature: BlsSignature) -> G2Sum {
    G2Sum::from_public_key(&min_sig::PublicKey::from(blst_p2_affine::from(signature.0)))
}

/// Calls `part` with the sizes of parts that make up `count`.
fn each_part(count: u32, mut part: impl FnMut(u32)) {
    let mut left = count;
    while left > 0 {
        let size = left.min(POINTS_AT_ONCE);
        part(size);
        left -= size;
    }
}

/// A number out of 32 big-endian bytes.
fn number(bytes: &[u8; 32]) -> Number {
    let mut out = [0; 4];
    for (word, chunk) in out.iter_mut().zip(bytes.rchunks_exact(8)) {
        *word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    out
}

/// The secret that is this number.
fn secret(number: &Number) -> SecretKey {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.rchunks_exact_mut(8).zip(number) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    SecretKey::from_bytes(&bytes).expect("below the order, and zero only by a chance of 2^-254")
}

/// `a + b` modulo the order.
fn add(a: &Number, b: &Number) -> Number {
    // Both are below 2^255, so nothing is carried out of the last word.
    let (sum, carried) = words(a, b, u64::overflowing_add);
    assert!(!carried, "numbers below the order");
    let (reduced, borrowed) = words(&sum, &ORDER, u64::overflowing_sub);
    if borrowed { sum } else { reduced }
}

/// Word after word with a carry.
fn words(a: &Number, b: &Number, with: fn(u64, u64) -> (u64, bool)) -> (Number, bool) {
    let (mut out, mut carry) = ([0; 4], false);
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        let (part, first) = with(*a, *b);
        let (whole, second) = with(part, u64::from(carry));
        *out = whole;
        carry = first || second;
    }
    (out, carry)
}

/// `n` times `a` modulo the order.
fn times(a: &Number, n: u64) -> Number {
    (0..u64::BITS).rev().fold([0; 4], |product, bit| {
        let doubled = add(&product, &product);
        if n >> bit & 1 == 1 { add(&doubled, a) } else { doubled }
    })
}

#[cfg(test)]
mod tests {
    use super::{Number, ORDER, add, number, secret, times};

    #[test]
    fn numbers_are_reduced_by_the_order() {
        let [low, second, third, fourth] = ORDER;
        let top: Number = [low - 1, second, third, fourth];
        assert_eq!((add(&top, &[1, 0, 0, 0]), add(&top, &[2, 0, 0, 0])), ([0; 4], [1, 0, 0, 0]));
        assert_eq!(add(&times(&top, u64::MAX), &[u64::MAX, 0, 0, 0]), [0; 4], "minus one, many times");
        let some = [1, 2, 3, 4];
        assert_eq!((times(&some, 0), times(&some, 1), times(&some, 3)), ([0; 4], some, [3, 6, 9, 12]));
        assert_eq!(number(&secret(&some).to_bytes()), some, "there and back");
    }
}
