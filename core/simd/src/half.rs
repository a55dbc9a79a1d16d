//! Sixteen words of 32 bits in two vectors of 256 bits.
//!
//! *Why unsafe.* As in the module for vectors of 512 bits: the instructions exist on most processors only. A [`Half`] is made
//! and used only inside [`compress`] and [`step`], which [`Hasher`](crate::Hasher) calls after it asked the processor.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256,
    _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srli_epi32,
    _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
    _mm256_unpacklo_epi64, _mm256_xor_si256,
};

use crate::each::Chains;
use crate::hash::{BLOCK, DIGEST, Row, WIDE};

/// Whether this processor has what [`compress`] and [`step`] need.
pub(crate) fn is_here() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Sixteen digests. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx2")]
pub(crate) fn compress(key: &[u32; 8], blocks: &[[u8; BLOCK]; WIDE], size: u32) -> [[u8; DIGEST]; WIDE] {
    crate::hash::compress::<Half>(key, blocks, size)
}

/// A block of each of sixteen inputs. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx2")]
pub(crate) fn step(chains: &mut Chains, blocks: &[&[u8; BLOCK]; WIDE]) {
    crate::each::step::<Half>(chains, blocks);
}

/// Eight words in a register.
#[derive(Clone, Copy)]
struct Eight(__m256i);

/// Sixteen words in two registers.
#[derive(Clone, Copy)]
struct Half([Eight; 2]);

/// Calls an instruction of the set that [`compress`] is compiled for.
macro_rules! eight {
    ($instruction:expr) => {
        // SAFETY: vectors exist only in functions that were called after the processor was found to have the instruction.
        Eight(unsafe { $instruction })
    };
}

impl Eight {
    #[inline(always)]
    fn of(words: &[u32; 8]) -> Self {
        eight!(_mm256_loadu_si256(words.as_ptr().cast()))
    }
    #[inline(always)]
    fn bytes(bytes: &[u8; 32]) -> Self {
        eight!(_mm256_loadu_si256(bytes.as_ptr().cast()))
    }
    #[inline(always)]
    fn stored(self) -> [u32; 8] {
        let mut out = [0; 8];
        // SAFETY: as for every instruction here; the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), self.0) };
        out
    }
    #[inline(always)]
    fn digest(self) -> [u8; DIGEST] {
        let mut out = [0; DIGEST];
        // SAFETY: as for every instruction here; the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), self.0) };
        out
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        eight!(_mm256_add_epi32(self.0, other.0))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        eight!(_mm256_xor_si256(self.0, other.0))
    }
    /// Rotated right by whole bytes.
    #[inline(always)]
    fn bytes_turned(self, order: __m256i) -> Self {
        eight!(_mm256_shuffle_epi8(self.0, order))
    }
    /// Rotated right by 12.
    #[inline(always)]
    fn turned_12(self) -> Self {
        eight!(_mm256_or_si256(_mm256_srli_epi32::<12>(self.0), _mm256_slli_epi32::<20>(self.0)))
    }
    /// Rotated right by 7.
    #[inline(always)]
    fn turned_7(self) -> Self {
        eight!(_mm256_or_si256(_mm256_srli_epi32::<7>(self.0), _mm256_slli_epi32::<25>(self.0)))
    }
    #[inline(always)]
    fn low(self, other: Self) -> Self {
        eight!(_mm256_unpacklo_epi32(self.0, other.0))
    }
    #[inline(always)]
    fn high(self, other: Self) -> Self {
        eight!(_mm256_unpackhi_epi32(self.0, other.0))
    }
    #[inline(always)]
    fn low_pairs(self, other: Self) -> Self {
        eight!(_mm256_unpacklo_epi64(self.0, other.0))
    }
    #[inline(always)]
    fn high_pairs(self, other: Self) -> Self {
        eight!(_mm256_unpackhi_epi64(self.0, other.0))
    }
    /// The first halves of both.
    #[inline(always)]
    fn fronts(self, other: Self) -> Self {
        eight!(_mm256_permute2x128_si256::<0x20>(self.0, other.0))
    }
    /// The second halves of both.
    #[inline(always)]
    fn backs(self, other: Self) -> Self {
        eight!(_mm256_permute2x128_si256::<0x31>(self.0, other.0))
    }
}

/// Columns of four rows, half by half: vector `i` holds word `4 h + i` of each row, for each half `h`.
#[inline(always)]
fn four(a: Eight, b: Eight, c: Eight, d: Eight) -> [Eight; 4] {
    let (e, f, g, h) = (a.low(b), a.high(b), c.low(d), c.high(d));
    [e.low_pairs(g), e.high_pairs(g), f.low_pairs(h), f.high_pairs(h)]
}

/// Eight rows of eight words, turned over their diagonal.
#[inline(always)]
fn transposed(r: [Eight; 8]) -> [Eight; 8] {
    let [a, b, c, d, e, f, g, h] = r;
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (four(a, b, c, d), four(e, f, g, h));
    [
        a0.fronts(b0),
        a1.fronts(b1),
        a2.fronts(b2),
        a3.fronts(b3),
        a0.backs(b0),
        a1.backs(b1),
        a2.backs(b2),
        a3.backs(b3),
    ]
}

/// In which order bytes stand when every word is rotated right by 16 bits.
#[inline(always)]
fn two_bytes() -> __m256i {
    eight!(_mm256_setr_epi8(
        2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15,
        12, 13,
    ))
    .0
}

/// In which order bytes stand when every word is rotated right by 8 bits.
#[inline(always)]
fn one_byte() -> __m256i {
    eight!(_mm256_setr_epi8(
        1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14,
        15, 12,
    ))
    .0
}

impl Row for Half {
    #[inline(always)]
    fn splat(word: u32) -> Self {
        let one = eight!(_mm256_set1_epi32(word.cast_signed()));
        Self([one, one])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self([self.0[0].add(other.0[0]), self.0[1].add(other.0[1])])
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self([self.0[0].xor(other.0[0]), self.0[1].xor(other.0[1])])
    }
    #[inline(always)]
    fn turn<const BITS: i32>(self) -> Self {
        let [front, back] = self.0;
        match BITS {
            16 => Self([front.bytes_turned(two_bytes()), back.bytes_turned(two_bytes())]),
            12 => Self([front.turned_12(), back.turned_12()]),
            8 => Self([front.bytes_turned(one_byte()), back.bytes_turned(one_byte())]),
            7 => Self([front.turned_7(), back.turned_7()]),
            _ => unreachable!("BLAKE3 rotates by 16, 12, 8 and 7"),
        }
    }
    #[inline(always)]
    fn load(words: &[u32; WIDE]) -> Self {
        let (front, back) = words.split_at(8);
        let (front, back) = (front.try_into().unwrap_or(&[0; 8]), back.try_into().unwrap_or(&[0; 8]));
        Self([Eight::of(front), Eight::of(back)])
    }
    #[inline(always)]
    fn store(self) -> [u32; WIDE] {
        let mut out = [0; WIDE];
        let (front, back) = out.split_at_mut(8);
        front.copy_from_slice(&self.0[0].stored());
        back.copy_from_slice(&self.0[1].stored());
        out
    }
    #[inline(always)]
    fn spread(blocks: &[&[u8; BLOCK]; WIDE]) -> [Self; 16] {
        let zero = Self::splat(0);
        let mut rows = [zero; 16];
        // No closures: what is not inlined is compiled without the instructions.
        for half in 0..2 {
            let (mut front, mut back) = ([zero.0[0]; 8], [zero.0[0]; 8]);
            for at in 0..8 {
                let (low, high) = blocks[half * 8 + at].split_at(32);
                front[at] = Eight::bytes(low.try_into().unwrap_or(&[0; 32]));
                back[at] = Eight::bytes(high.try_into().unwrap_or(&[0; 32]));
            }
            let (front, back) = (transposed(front), transposed(back));
            for at in 0..8 {
                rows[at].0[half] = front[at];
                rows[at + 8].0[half] = back[at];
            }
        }
        rows
    }
    #[inline(always)]
    fn gather(rows: &[Self; 8]) -> [[u8; DIGEST]; WIDE] {
        let mut out = [[0; DIGEST]; WIDE];
        for half in 0..2 {
            let mut words = [rows[0].0[0]; 8];
            for at in 0..8 {
                words[at] = rows[at].0[half];
            }
            let digests = transposed(words);
            for at in 0..8 {
                out[half * 8 + at] = digests[at].digest();
            }
        }
        out
    }
}
