//! Keys as they lie in memory, and sums as they leave.

use crate::field::{Fe, P_WORDS, R_OF_384, limbs, minus, words};

/// A point of the curve in the form that sums read: two coordinates in Montgomery form with R = 2^416, 48 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct PackedKey {
    pub(crate) words: [u64; 12],
}

/// A point of the curve as curve libraries keep it: two coordinates in Montgomery form with R = 2^384, six words each,
/// least first. Sums bring it into the other form on the way, for two products per eight keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct LibraryKey(pub [u64; 12]);

/// A form of keys that sums read.
pub trait Key: Copy {
    /// Twelve words: x, then y.
    #[doc(hidden)]
    fn words(&self) -> &[u64; 12];
    /// What a coordinate is multiplied with to be in Montgomery form with R = 2^416, if with anything.
    #[doc(hidden)]
    const FACTOR: Option<[u64; 8]>;
}

impl Key for PackedKey {
    #[inline(always)]
    fn words(&self) -> &[u64; 12] {
        &self.words
    }
    const FACTOR: Option<[u64; 8]> = None;
}

impl Key for LibraryKey {
    #[inline(always)]
    fn words(&self) -> &[u64; 12] {
        &self.0
    }
    const FACTOR: Option<[u64; 8]> = Some(R_OF_384);
}

/// The first eight of twelve words.
#[inline(always)]
pub(crate) fn front<K: Key>(key: &K) -> &[u64; 8] {
    match key.words().first_chunk() {
        Some(row) => row,
        None => unreachable!("a key has twelve words"),
    }
}

/// The last eight of twelve words.
#[inline(always)]
pub(crate) fn back<K: Key>(key: &K) -> &[u64; 8] {
    match key.words().last_chunk() {
        Some(row) => row,
        None => unreachable!("a key has twelve words"),
    }
}

/// The coordinates of a key, in Montgomery form with R = 2^416.
pub(crate) fn coordinates<K: Key>(key: &K) -> (Fe<u64>, Fe<u64>) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *key.words();
    let (x, y) = (Fe(limbs(&[a, b, c, d, e, f])), Fe(limbs(&[g, h, i, j, k, l])));
    match K::FACTOR {
        Some(factor) => (x.times(&Fe(factor)), y.times(&Fe(factor))),
        None => (x, y),
    }
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

    pub(crate) fn of(x: &Fe<u64>, y: &Fe<u64>) -> Self {
        let (x, y) = (words(&x.reduced_limbs()), words(&y.reduced_limbs()));
        let mut words = [0; 12];
        words[..6].copy_from_slice(&x);
        words[6..].copy_from_slice(&y);
        Self { words }
    }
}

/// A number below p out of 48 big-endian bytes.
fn residue(bytes: &[u8]) -> Option<[u64; 6]> {
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
