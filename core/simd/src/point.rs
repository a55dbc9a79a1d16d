//! Keys as they lie in memory, and sums as they leave.

use crate::field::{Fe, P_WORDS, R_OF_384, limbs, minus, over_2_to_32, words};

/// A point of the curve in the form that sums read: two coordinates in Montgomery form with R = 2^416, six words each, least
/// first. Words that are no such coordinates add up to nothing that means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct PackedKey(pub [u64; 12]);

/// The first eight of twelve words.
#[inline(always)]
pub(crate) fn front(key: &PackedKey) -> &[u64; 8] {
    match key.0.first_chunk() {
        Some(row) => row,
        None => unreachable!("a key has twelve words"),
    }
}

/// The last eight of twelve words.
#[inline(always)]
pub(crate) fn back(key: &PackedKey) -> &[u64; 8] {
    match key.0.last_chunk() {
        Some(row) => row,
        None => unreachable!("a key has twelve words"),
    }
}

/// The coordinates of a key, in Montgomery form with R = 2^416.
pub(crate) fn coordinates(key: &PackedKey) -> (Fe<u64>, Fe<u64>) {
    let [x, y] = halves(&key.0);
    (Fe(limbs(&x)), Fe(limbs(&y)))
}

/// The words of x and of y.
const fn halves(words: &[u64; 12]) -> [[u64; 6]; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *words;
    [[a, b, c, d, e, f], [g, h, i, j, k, l]]
}

const fn joined([x, y]: [[u64; 6]; 2]) -> [u64; 12] {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (x, y);
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

/// A sum of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The keys cancel out, or there were none.
    Infinity,
    /// The coordinates x and y, 48 bytes each, big-endian.
    Affine([u8; 96]),
}

impl PackedKey {
    /// The key with these coordinates, 48 bytes each, big-endian; `None` when one is not below p. Whether they are a
    /// point of the curve and in its group was checked by who registered the key; sums of other numbers mean nothing.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; 96]) -> Option<Self> {
        let (x, y) = bytes.split_at(48);
        let (x, y) = (residue(x)?, residue(y)?);
        Some(Self::of(&Fe::of(&x), &Fe::of(&y)))
    }

    /// The key whose words a curve library keeps: two coordinates below p in Montgomery form with R = 2^384.
    #[must_use]
    pub fn of_library(words: &[u64; 12]) -> Self {
        let [x, y] = halves(words).map(|words| Fe(limbs(&words)).times(&Fe(R_OF_384)));
        Self::of(&x, &y)
    }

    /// The words that a curve library keeps of this key.
    #[must_use]
    pub fn to_library(&self) -> [u64; 12] {
        joined(halves(&self.0).map(|words| over_2_to_32(&words)))
    }

    /// The key with these words of Montgomery form, each below p.
    pub(crate) const fn joined_of(x: [u64; 6], y: [u64; 6]) -> Self {
        Self(joined([x, y]))
    }

    pub(crate) fn of(x: &Fe<u64>, y: &Fe<u64>) -> Self {
        Self(joined([x, y].map(|number| words(&number.reduced_limbs()))))
    }
}

/// A number below p out of 48 big-endian bytes.
pub(crate) fn residue(bytes: &[u8]) -> Option<[u64; 6]> {
    let mut out = [0; 6];
    for (out, chunk) in out.iter_mut().zip(bytes.rchunks_exact(8)) {
        *out = u64::from_be_bytes(chunk.try_into().ok()?);
    }
    minus(&out, &P_WORDS).1.then_some(out)
}

/// 48 big-endian bytes of a residue.
pub(crate) fn put_bytes(out: &mut [u8], residue: &[u64; 6]) {
    for (chunk, word) in out.rchunks_exact_mut(8).zip(residue) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
}
