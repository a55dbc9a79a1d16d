//! Eight lanes in a vector of 512 bits, with the fused multiply-add of 52 bits.
//!
//! *Why unsafe.* The instructions exist on some processors only, so the compiler asks whoever calls them to know. A
//! [`Vector`] is made and used only inside [`sum`] and [`times`], which exist for such processors, and
//! [`Adder`](crate::Adder) calls them only after it asked the processor. Nothing here reads or writes memory through a
//! pointer but the two whole rows of a key, which are references to as many words, and what prefetches name.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_add_epi64, _mm512_alignr_epi64, _mm512_and_si512,
    _mm512_loadu_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_or_si512, _mm512_set1_epi64,
    _mm512_shuffle_i64x2, _mm512_slli_epi64, _mm512_srai_epi64, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_sub_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use crate::complete::Point;
use crate::edwards::{EdwardsPoint, Sixteen};
use crate::field::Fe;
use crate::field25519::F;
use crate::lanes::{Eight, LOW, Lanes};
use crate::point::PackedKey;
use crate::root::Across;
use crate::sum::{Work, add_all};

/// Whether this processor has what [`sum`] needs.
pub(crate) fn is_here() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512ifma")
}

/// Adds keys. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(crate) fn sum(keys: &[&PackedKey], work: &mut Work<Vector>) -> Point<u64> {
    add_all(keys, work)
}

/// Takes square roots. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(crate) fn roots(x: &Across) -> [Across; 4] {
    crate::root::roots::<Vector>(x)
}

/// Takes square roots in the other field. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(crate) fn roots_25519(y: &Sixteen) -> [Sixteen; 4] {
    crate::edwards::roots::<Vector>(y)
}

/// Adds multiples of points of edwards25519. Callers have seen [`is_here`] say yes.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(crate) fn eightfold_25519(points: &[&EdwardsPoint], numbers: &[[u8; 32]]) -> [[u64; 5]; 2] {
    crate::edwards::eightfold::<Vector>(points, numbers)
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn times(a: &Fe<Vector>, b: &Fe<Vector>) -> Fe<Vector> {
    a.times(b)
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn squared(a: &Fe<Vector>) -> Fe<Vector> {
    a.squared()
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn times_25519(a: &F<Vector>, b: &F<Vector>) -> F<Vector> {
    a.times(b)
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn squared_25519(a: &F<Vector>) -> F<Vector> {
    a.squared()
}

/// Eight words in a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector(__m512i);

/// Calls an instruction of the set that [`sum`] is compiled for.
macro_rules! vector {
    ($instruction:expr) => {
        // SAFETY: vectors exist only in functions that were called after the processor was found to have the instruction.
        Vector(unsafe { $instruction })
    };
}

impl Vector {
    /// Words 0 of each pair.
    #[inline(always)]
    fn evens(self, other: Self) -> Self {
        vector!(_mm512_unpacklo_epi64(self.0, other.0))
    }
    /// Words 1 of each pair.
    #[inline(always)]
    fn odds(self, other: Self) -> Self {
        vector!(_mm512_unpackhi_epi64(self.0, other.0))
    }
    /// Quarters 0 and 2 of both.
    #[inline(always)]
    fn front(self, other: Self) -> Self {
        vector!(_mm512_shuffle_i64x2::<0x88>(self.0, other.0))
    }
    /// Quarters 1 and 3 of both.
    #[inline(always)]
    fn back(self, other: Self) -> Self {
        vector!(_mm512_shuffle_i64x2::<0xdd>(self.0, other.0))
    }
}

/// Four vectors of pairs, quarter by quarter.
#[inline(always)]
fn quarters(a: Vector, b: Vector, c: Vector, d: Vector) -> [Vector; 4] {
    let (e, f, g, h) = (a.front(b), a.back(b), c.front(d), c.back(d));
    [e.front(g), f.front(h), e.back(g), f.back(h)]
}

impl Lanes for Vector {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        vector!(_mm512_set1_epi64(word.cast_signed()))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        vector!(_mm512_add_epi64(self.0, other.0))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        vector!(_mm512_sub_epi64(self.0, other.0))
    }
    #[inline(always)]
    fn low(self) -> Self {
        vector!(_mm512_and_si512(self.0, Self::splat(LOW).0))
    }
    #[inline(always)]
    fn carry(self) -> Self {
        vector!(_mm512_srai_epi64::<52>(self.0))
    }
    #[inline(always)]
    fn add_low(self, a: Self, b: Self) -> Self {
        vector!(_mm512_madd52lo_epu64(self.0, a.0, b.0))
    }
    #[inline(always)]
    fn add_high(self, a: Self, b: Self) -> Self {
        vector!(_mm512_madd52hi_epu64(self.0, a.0, b.0))
    }
    #[inline(always)]
    fn product(a: &Fe<Self>, b: &Fe<Self>) -> Fe<Self> {
        // Limb by limb: the answer of a call would be copied as a whole, by a function for memory.
        // SAFETY: vectors exist only in functions that were called after the processor was found to have the instructions.
        let Fe([a, b, c, d, e, f, g, h]) = unsafe { times(a, b) };
        Fe([a, b, c, d, e, f, g, h])
    }
    #[inline(always)]
    fn square(a: &Fe<Self>) -> Fe<Self> {
        // SAFETY: as for products.
        let Fe([a, b, c, d, e, f, g, h]) = unsafe { squared(a) };
        Fe([a, b, c, d, e, f, g, h])
    }
}

impl Eight for Vector {
    #[inline(always)]
    fn load(words: &[u64; 8]) -> Self {
        vector!(_mm512_loadu_si512(words.as_ptr().cast()))
    }
    #[inline(always)]
    fn store(self) -> [u64; 8] {
        let mut out = [0_u64; 8];
        // SAFETY: as for every instruction here; the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), self.0) };
        out
    }
    #[inline(always)]
    fn join<const LEFT: u32, const RIGHT: u32>(low: Self, high: Self) -> Self {
        let (low, high) = (low.right::<RIGHT>(), vector!(_mm512_slli_epi64::<LEFT>(high.0)));
        vector!(_mm512_or_si512(low.0, high.0))
    }
    #[inline(always)]
    fn right<const BITS: u32>(self) -> Self {
        vector!(_mm512_srli_epi64::<BITS>(self.0))
    }
    #[inline(always)]
    fn both(self, other: Self) -> Self {
        vector!(_mm512_and_si512(self.0, other.0))
    }
    #[inline(always)]
    fn product_25519(a: &F<Self>, b: &F<Self>) -> F<Self> {
        // SAFETY: as for products of the other field.
        let F([a, b, c, d, e]) = unsafe { times_25519(a, b) };
        F([a, b, c, d, e])
    }
    #[inline(always)]
    fn square_25519(a: &F<Self>) -> F<Self> {
        // SAFETY: as for products.
        let F([a, b, c, d, e]) = unsafe { squared_25519(a) };
        F([a, b, c, d, e])
    }
    /// A transposition of eight rows of eight words: pairs, then quarters, then halves change places.
    #[inline(always)]
    fn columns(rows: [&[u64; 8]; 8]) -> [Self; 8] {
        let [a, b, c, d, e, f, g, h] = rows;
        let (a, b, c, d) = (Self::load(a), Self::load(b), Self::load(c), Self::load(d));
        let (e, f, g, h) = (Self::load(e), Self::load(f), Self::load(g), Self::load(h));
        let [i, k, m, o] = quarters(a.evens(b), c.evens(d), e.evens(f), g.evens(h));
        let [j, l, n, p] = quarters(a.odds(b), c.odds(d), e.odds(f), g.odds(h));
        [i, j, k, l, m, n, o, p]
    }
    #[inline(always)]
    fn turned<const BY: i32>(self) -> Self {
        vector!(_mm512_alignr_epi64::<BY>(self.0, self.0))
    }
    #[inline(always)]
    fn prefetch(words: &[u64; 12]) {
        // SAFETY: a prefetch reads nothing; both addresses are of words of the key, in its one or two lines.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().cast());
            _mm_prefetch::<_MM_HINT_T0>((&raw const words[11]).cast());
        }
    }
}
