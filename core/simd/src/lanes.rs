//! Words that are worked on side by side.
//!
//! [`Lanes`] is eight words of 64 bits, or one. The arithmetic of this crate is written over it once: arrays run on every
//! machine and under Miri, vectors where the processor has them, and one word serves the scalar path.

use crate::field::Fe;
use crate::field25519::F;

/// The low 52 bits of a word.
pub(crate) const LOW: u64 = (1 << 52) - 1;

/// Words that are worked on side by side.
pub(crate) trait Lanes: Copy {
    /// The same word in every lane.
    fn splat(word: u64) -> Self;
    /// Lane by lane, modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Lane by lane, modulo 2^64.
    fn sub(self, other: Self) -> Self;
    /// The low 52 bits.
    fn low(self) -> Self;
    /// The words shifted right by 52 bits, as signed numbers.
    fn carry(self) -> Self;
    /// Adds the low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn add_low(self, a: Self, b: Self) -> Self;
    /// Adds the high 52 bits of the product of the low 52 bits of `a` and `b`.
    fn add_high(self, a: Self, b: Self) -> Self;
    /// [`Fe::times`], as a call where that is better than code in place.
    fn product(a: &Fe<Self>, b: &Fe<Self>) -> Fe<Self>;
    /// [`Fe::squared`], likewise.
    fn square(a: &Fe<Self>) -> Fe<Self>;
}

/// Eight lanes, which come from words of eight keys and go back to them.
pub(crate) trait Eight: Lanes {
    /// Lane `i` is word `i`.
    fn load(words: &[u64; 8]) -> Self;
    /// Word `i` is lane `i`.
    fn store(self) -> [u64; 8];
    /// Shifts left by `LEFT` bits the words of `high`, right by `64 - LEFT` those of `low`, and joins them: 0 < LEFT < 64.
    fn join<const LEFT: u32, const RIGHT: u32>(low: Self, high: Self) -> Self;
    /// Words shifted right by `BITS`, unsigned.
    fn right<const BITS: u32>(self) -> Self;
    /// The bits that are set in both.
    fn both(self, other: Self) -> Self;
    /// [`F::times`], as a call where that is better than code in place.
    fn product_25519(a: &F<Self>, b: &F<Self>) -> F<Self>;
    /// [`F::squared`], likewise.
    fn square_25519(a: &F<Self>) -> F<Self>;
    /// Row `i` holds the first eight words of key `i`; vector `w` of the answer holds word `w` of every key.
    fn columns(rows: [&[u64; 8]; 8]) -> [Self; 8];
    /// The lanes in a ring, turned: lane `i` is what lane `i + BY` was.
    fn turned<const BY: i32>(self) -> Self;
    /// Has the memory of a key brought nearer, where the processor can be asked to.
    fn prefetch(_words: &[u64; 12]) {}
}

impl Lanes for u64 {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        word
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn low(self) -> Self {
        self & LOW
    }
    #[inline(always)]
    fn carry(self) -> Self {
        (self.cast_signed() >> 52).cast_unsigned()
    }
    #[inline(always)]
    fn add_low(self, a: Self, b: Self) -> Self {
        let product = u128::from(a & LOW) * u128::from(b & LOW);
        self.wrapping_add(word(product) & LOW)
    }
    #[inline(always)]
    fn add_high(self, a: Self, b: Self) -> Self {
        let product = u128::from(a & LOW) * u128::from(b & LOW);
        self.wrapping_add(word(product >> 52))
    }
    fn product(a: &Fe<Self>, b: &Fe<Self>) -> Fe<Self> {
        a.times(b)
    }
    fn square(a: &Fe<Self>) -> Fe<Self> {
        a.squared()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low word is what is asked for")]
#[inline(always)]
const fn word(wide: u128) -> u64 {
    wide as u64
}

/// Eight words in an array: the portable lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain([u64; 8]);

impl Plain {
    #[inline(always)]
    fn map(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let mut out = self;
        for (out, other) in out.0.iter_mut().zip(other.0) {
            *out = f(*out, other);
        }
        out
    }
}

impl Lanes for Plain {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self([word; 8])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.map(other, Lanes::add)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.map(other, Lanes::sub)
    }
    #[inline(always)]
    fn low(self) -> Self {
        Self(self.0.map(Lanes::low))
    }
    #[inline(always)]
    fn carry(self) -> Self {
        Self(self.0.map(Lanes::carry))
    }
    #[inline(always)]
    fn add_low(self, a: Self, b: Self) -> Self {
        let mut out = self;
        for ((out, a), b) in out.0.iter_mut().zip(a.0).zip(b.0) {
            *out = out.add_low(a, b);
        }
        out
    }
    #[inline(always)]
    fn add_high(self, a: Self, b: Self) -> Self {
        let mut out = self;
        for ((out, a), b) in out.0.iter_mut().zip(a.0).zip(b.0) {
            *out = out.add_high(a, b);
        }
        out
    }
    fn product(a: &Fe<Self>, b: &Fe<Self>) -> Fe<Self> {
        a.times(b)
    }
    fn square(a: &Fe<Self>) -> Fe<Self> {
        a.squared()
    }
}

impl Eight for Plain {
    #[inline(always)]
    fn load(words: &[u64; 8]) -> Self {
        Self(*words)
    }
    #[inline(always)]
    fn store(self) -> [u64; 8] {
        self.0
    }
    #[inline(always)]
    fn join<const LEFT: u32, const RIGHT: u32>(low: Self, high: Self) -> Self {
        low.map(high, |low, high| low >> RIGHT | high << LEFT)
    }
    #[inline(always)]
    fn right<const BITS: u32>(self) -> Self {
        Self(self.0.map(|word| word >> BITS))
    }
    #[inline(always)]
    fn both(self, other: Self) -> Self {
        self.map(other, |a, b| a & b)
    }
    #[inline(never)]
    fn product_25519(a: &F<Self>, b: &F<Self>) -> F<Self> {
        a.times(b)
    }
    #[inline(never)]
    fn square_25519(a: &F<Self>) -> F<Self> {
        a.squared()
    }
    #[inline(always)]
    fn columns(rows: [&[u64; 8]; 8]) -> [Self; 8] {
        core::array::from_fn(|word| Self(rows.map(|row| row[word])))
    }
    #[inline(always)]
    fn turned<const BY: i32>(self) -> Self {
        let mut out = self;
        out.0.rotate_left(BY.unsigned_abs() as usize);
        out
    }
}
