//! Keys as they lie in memory, and sums as they leave.

use crate::field::{Fe, P_WORDS, limbs, minus, words};

/// A point of the curve in the form that sums read: two coordinates in Montgomery form with R = 2^416, 48 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct PackedKey {
    pub(crate) words: [u64; 12],
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

    /// The first eight of the twelve words.
    #[inline(always)]
    pub(crate) fn front(&self) -> &[u64; 8] {
        match self.words.first_chunk() {
            Some(row) => row,
            None => unreachable!("a key has twelve words"),
        }
    }

    /// The last eight of the twelve words.
    #[inline(always)]
    pub(crate) fn back(&self) -> &[u64; 8] {
        match self.words.last_chunk() {
            Some(row) => row,
            None => unreachable!("a key has twelve words"),
        }
    }

    pub(crate) fn coordinates(&self) -> (Fe<u64>, Fe<u64>) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.words;
        (Fe(limbs(&[a, b, c, d, e, f])), Fe(limbs(&[g, h, i, j, k, l])))
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
