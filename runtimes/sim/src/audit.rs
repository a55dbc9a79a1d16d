//! A rolling digest of everything that happened: equal runs have equal digests.
//!
//! 128 bits, two dependent multiply-and-rotate lanes over 64-bit words, about one nanosecond per word. It finds
//! nondeterminism; it is no defence against an adversary.

use core::fmt;

const LANE_A: u64 = 0x9e37_79b9_7f4a_7c15;
const LANE_B: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The digest of a run, or of its prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest under construction.
#[derive(Clone, Debug)]
pub struct Audit {
    a: u64,
    b: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self { a: LANE_A, b: LANE_B }
    }
}

impl Audit {
    /// Adds one number.
    pub const fn word(&mut self, x: u64) {
        self.a = (self.a ^ x).wrapping_mul(LANE_A).rotate_left(29);
        self.b = (self.b.rotate_left(17) ^ x).wrapping_mul(LANE_B).wrapping_add(self.a);
    }

    /// Adds bytes and their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.word(u64::from_le_bytes(last));
        }
    }

    /// The digest so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut end = self.clone();
        end.word(0);
        end.word(1);
        Digest(u128::from(end.a) << 64 | u128::from(end.b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&[u8]]) -> Digest {
        let mut audit = Audit::default();
        parts.iter().for_each(|part| audit.bytes(part));
        audit.digest()
    }

    #[test]
    fn order_length_and_content_all_count() {
        assert_eq!(of(&[b"ab", b"c"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"c", b"ab"]));
        assert_ne!(of(&[b"a"]), of(&[b"a\0"]));
        assert_ne!(of(&[&[7; 64]]), of(&[&[7; 65]]));
        assert_ne!(of(&[]), of(&[b""]));
    }

    #[test]
    fn every_bit_of_a_word_counts() {
        let digests: std::collections::BTreeSet<Digest> =
            (0..64).map(|bit| of(&[&(1_u64 << bit).to_le_bytes()])).collect();
        assert_eq!(digests.len(), 64);
    }
}
