//! Sixteen words of 32 bits in a vector of 512 bits.
//!
//! *Why unsafe.* As in the module for sums: the instructions exist on some processors only. A [`Wide`] is made and used
//! only inside [`compress`] and [`step`], which [`Hasher`](crate::Hasher) calls after it asked the processor.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_loadu_si512, _mm512_ror_epi32, _mm512_set1_epi32, _mm512_shuffle_i32x4,
    _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use crate::each::Chains;
use crate::hash::{BLOCK, Row, WIDE};

/// Whether this processor has what [`compress`] and [`step`] need.
pub(crate) fn is_here() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// Sixteen digests. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx512f")]
pub(crate) fn compress(key: &[u32; 8], blocks: &[[u8; BLOCK]; WIDE], size: u32) -> [[u8; 32]; WIDE] {
    crate::hash::compress::<Wide>(key, blocks, size)
}

/// A block of each of sixteen inputs. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx512f")]
pub(crate) fn step(chains: &mut Chains, blocks: &[&[u8; BLOCK]; WIDE]) {
    crate::each::step::<Wide>(chains, blocks);
}

/// Sixteen words in a register.
#[derive(Clone, Copy)]
struct Wide(__m512i);

/// Calls an instruction of the set that [`compress`] is compiled for.
macro_rules! wide {
    ($instruction:expr) => {
        // SAFETY: vectors exist only in functions that were called after the processor was found to have the instruction.
        Wide(unsafe { $instruction })
    };
}

impl Wide {
    #[inline(always)]
    fn bytes(bytes: &[u8; BLOCK]) -> Self {
        wide!(_mm512_loadu_si512(bytes.as_ptr().cast()))
    }
    #[inline(always)]
    fn low(self, other: Self) -> Self {
        wide!(_mm512_unpacklo_epi32(self.0, other.0))
    }
    #[inline(always)]
    fn high(self, other: Self) -> Self {
        wide!(_mm512_unpackhi_epi32(self.0, other.0))
    }
    #[inline(always)]
    fn low_pairs(self, other: Self) -> Self {
        wide!(_mm512_unpacklo_epi64(self.0, other.0))
    }
    #[inline(always)]
    fn high_pairs(self, other: Self) -> Self {
        wide!(_mm512_unpackhi_epi64(self.0, other.0))
    }
    #[inline(always)]
    fn front(self, other: Self) -> Self {
        wide!(_mm512_shuffle_i32x4::<0x88>(self.0, other.0))
    }
    #[inline(always)]
    fn back(self, other: Self) -> Self {
        wide!(_mm512_shuffle_i32x4::<0xdd>(self.0, other.0))
    }
    /// Quarters 0 of both, then quarters 1.
    #[inline(always)]
    fn first_half(self, other: Self) -> Self {
        wide!(_mm512_shuffle_i32x4::<0x44>(self.0, other.0)).woven()
    }
    /// Quarters 2 of both, then quarters 3.
    #[inline(always)]
    fn second_half(self, other: Self) -> Self {
        wide!(_mm512_shuffle_i32x4::<0xee>(self.0, other.0)).woven()
    }
    /// The two quarters in the middle change places.
    #[inline(always)]
    fn woven(self) -> Self {
        wide!(_mm512_shuffle_i32x4::<0xd8>(self.0, self.0))
    }
    /// The 64 bytes: two digests.
    #[inline(always)]
    fn digests(self) -> [u8; BLOCK] {
        let mut out = [0; BLOCK];
        // SAFETY: as for every instruction here; the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), self.0) };
        out
    }
}

/// Columns of four rows, quarter by quarter: vector `i` holds word `4 q + i` of each row, for each quarter `q`.
#[inline(always)]
fn four(a: Wide, b: Wide, c: Wide, d: Wide) -> [Wide; 4] {
    let (e, f, g, h) = (a.low(b), a.high(b), c.low(d), c.high(d));
    [e.low_pairs(g), e.high_pairs(g), f.low_pairs(h), f.high_pairs(h)]
}

/// Quarter `q` of each of four vectors, for each `q`.
#[inline(always)]
fn quarters(a: Wide, b: Wide, c: Wide, d: Wide) -> [Wide; 4] {
    let (e, f, g, h) = (a.front(b), a.back(b), c.front(d), c.back(d));
    [e.front(g), f.front(h), e.back(g), f.back(h)]
}

/// Sixteen rows of sixteen words, turned over their diagonal.
#[inline(always)]
fn transposed(r: [Wide; 16]) -> [Wide; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = r;
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (four(a, b, c, d), four(e, f, g, h));
    let ([c0, c1, c2, c3], [d0, d1, d2, d3]) = (four(i, j, k, l), four(m, n, o, p));
    let ([x0, x4, x8, x12], [x1, x5, x9, x13]) = (quarters(a0, b0, c0, d0), quarters(a1, b1, c1, d1));
    let ([x2, x6, x10, x14], [x3, x7, x11, x15]) = (quarters(a2, b2, c2, d2), quarters(a3, b3, c3, d3));
    [x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15]
}

impl Row for Wide {
    #[inline(always)]
    fn splat(word: u32) -> Self {
        wide!(_mm512_set1_epi32(word.cast_signed()))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        wide!(_mm512_add_epi32(self.0, other.0))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        wide!(_mm512_xor_si512(self.0, other.0))
    }
    #[inline(always)]
    fn turn<const BITS: i32>(self) -> Self {
        wide!(_mm512_ror_epi32::<BITS>(self.0))
    }
    #[inline(always)]
    fn load(words: &[u32; WIDE]) -> Self {
        wide!(_mm512_loadu_si512(words.as_ptr().cast()))
    }
    #[inline(always)]
    fn store(self) -> [u32; WIDE] {
        let mut out = [0; WIDE];
        // SAFETY: as for every instruction here; the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), self.0) };
        out
    }
    #[inline(always)]
    fn spread(blocks: &[&[u8; BLOCK]; WIDE]) -> [Self; 16] {
        let mut rows = [Self::splat(0); 16];
        for at in 0..16 {
            rows[at] = Self::bytes(blocks[at]);
        }
        transposed(rows)
    }
    #[inline(always)]
    fn gather(rows: &[Self; 8]) -> [[u8; 32]; WIDE] {
        let [a, b, c, d, e, f, g, h] = *rows;
        // Quarter `q` of vector `i` holds the first or the last four words of digest `4 q + i`.
        let (fronts, backs) = (four(a, b, c, d), four(e, f, g, h));
        let mut out = [[0; 32]; WIDE];
        for at in 0..4 {
            let (front, back) = (fronts[at], backs[at]);
            let (first, second) = (front.first_half(back).digests(), front.second_half(back).digests());
            out[at].copy_from_slice(&first[..32]);
            out[at + 4].copy_from_slice(&first[32..]);
            out[at + 8].copy_from_slice(&second[..32]);
            out[at + 12].copy_from_slice(&second[32..]);
        }
        out
    }
}
