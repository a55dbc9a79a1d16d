//! The field of BLS12-381's curve, in Montgomery form with R = 2^416.
//!
//! *Form.* Eight limbs of 52 bits. The 35 bits above the modulus are slack: products take operands up to 2^398 and give
//! results below 2p, so a tree of additions needs no conditional subtraction. Every bound that is relied upon stands at
//! the function that relies on it.

use crate::lanes::{Eight, LOW, Lanes};

/// The modulus p, limbs of 52 bits, least first.
pub(crate) const P: [u64; 8] = limbs(&P_WORDS);
/// The modulus, words of 64 bits, least first.
pub(crate) const P_WORDS: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];
/// -1/p modulo 2^52.
const INVERSE: u64 = negated_inverse(P_WORDS[0]) & LOW;
/// R modulo p.
pub(crate) const ONE: Fe<u64> = Fe(limbs(&power_of_two(416)));
/// Four in Montgomery form: the curve is y^2 = x^3 + 4.
pub(crate) const FOUR: Fe<u64> = Fe(limbs(&power_of_two(418)));
/// R^2 modulo p.
pub(crate) const R2: Fe<u64> = Fe(limbs(&power_of_two(832)));
/// R^3 modulo p.
pub(crate) const R3: Fe<u64> = Fe(limbs(&power_of_two(1_248)));
/// What brings a number in Montgomery form with R = 2^384 into this one: 2^448 modulo p.
pub(crate) const R_OF_384: [u64; 8] = limbs(&power_of_two(448));

/// A number modulo p, not necessarily below it, limbs of 52 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fe<L>(pub(crate) [L; 8]);

/// Splits words of 64 bits into limbs of 52.
pub(crate) const fn limbs(words: &[u64; 6]) -> [u64; 8] {
    let [a, b, c, d, e, f] = *words;
    [
        a & LOW,
        (a >> 52 | b << 12) & LOW,
        (b >> 40 | c << 24) & LOW,
        (c >> 28 | d << 36) & LOW,
        (d >> 16 | e << 48) & LOW,
        (e >> 4) & LOW,
        (e >> 56 | f << 8) & LOW,
        f >> 44,
    ]
}

/// Joins limbs of 52 bits of a number below 2^384 into words of 64.
pub(crate) const fn words(limbs: &[u64; 8]) -> [u64; 6] {
    let [a, b, c, d, e, f, g, h] = *limbs;
    [
        a | b << 52,
        b >> 12 | c << 40,
        c >> 24 | d << 28,
        d >> 36 | e << 16,
        e >> 48 | f << 4 | g << 56,
        g >> 8 | h << 44,
    ]
}

/// -1/odd modulo 2^64, by Newton's iteration: each step doubles the bits that are right.
pub(crate) const fn negated_inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse.wrapping_neg()
}

/// `a - b` and whether it borrowed.
pub(crate) const fn minus(a: &[u64; 6], b: &[u64; 6]) -> ([u64; 6], bool) {
    let (mut out, mut borrow, mut at) = ([0; 6], false, 0);
    while at < 6 {
        let (first, under) = a[at].overflowing_sub(b[at]);
        let (second, again) = first.overflowing_sub(borrow as u64);
        out[at] = second;
        borrow = under | again;
        at += 1;
    }
    (out, borrow)
}

/// 2^exponent modulo p.
const fn power_of_two(exponent: u32) -> [u64; 6] {
    let (mut value, mut step) = ([1, 0, 0, 0, 0, 0], 0);
    while step < exponent {
        let (mut doubled, mut at, mut carry) = ([0; 6], 0, 0);
        while at < 6 {
            doubled[at] = value[at] << 1 | carry;
            carry = value[at] >> 63;
            at += 1;
        }
        // p has 381 bits, so a doubled residue fits the words.
        let (reduced, borrowed) = minus(&doubled, &P_WORDS);
        value = if borrowed { doubled } else { reduced };
        step += 1;
    }
    value
}

/// One row of a product: `sum + a * b` and as many times p as make the lowest limb vanish, which is dropped. Each limb gains
/// less than 2^54 and is not carried, so eight rows stay below 2^58.
#[inline(always)]
fn row<L: Lanes>(sum: [L; 8], a: &[L; 8], b: L, p: &[L; 8], inverse: L) -> [L; 8] {
    let zero = L::splat(0);
    let [s0, s1, s2, s3, s4, s5, s6, s7] = plus_product(sum, a, b);
    let s8 = zero.add_high(a[7], b);
    let m = zero.add_low(s0, inverse);
    let [s0, s1, s2, s3, s4, s5, s6, s7] = plus_product([s0, s1, s2, s3, s4, s5, s6, s7], p, m);
    let s8 = s8.add_high(p[7], m);
    // The low 52 bits of the lowest limb are zero now.
    [s1.add(s0.carry()), s2, s3, s4, s5, s6, s7, s8]
}

/// `sum + a * b` without the high part of the highest limb.
#[inline(always)]
fn plus_product<L: Lanes>(sum: [L; 8], a: &[L; 8], b: L) -> [L; 8] {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = sum;
    let [a0, a1, a2, a3, a4, a5, a6, a7] = *a;
    [
        s0.add_low(a0, b),
        s1.add_high(a0, b).add_low(a1, b),
        s2.add_high(a1, b).add_low(a2, b),
        s3.add_high(a2, b).add_low(a3, b),
        s4.add_high(a3, b).add_low(a4, b),
        s5.add_high(a4, b).add_low(a5, b),
        s6.add_high(a5, b).add_low(a6, b),
        s7.add_high(a6, b).add_low(a7, b),
    ]
}

/// Adds to `$sum` the products of limbs `$i` and `$j` of `$a` and `$b`. Written out like [`row`], so that the sum stays in registers.
macro_rules! add_products {
    ($sum:ident, $a:expr, $b:expr, $($i:literal $j:literal),*) => {
        $(
            $sum[$i + $j] = $sum[$i + $j].add_low($a[$i], $b[$j]);
            $sum[$i + $j + 1] = $sum[$i + $j + 1].add_high($a[$i], $b[$j]);
        )*
    };
}

/// Adds as many p as make limb `$i` of `$sum` vanish, and carries what is left of it.
macro_rules! vanish {
    ($sum:ident, $p:ident, $inverse:ident, $($i:literal),*) => {
        $(
            let m = [L::splat(0).add_low($sum[$i], $inverse)];
            let high: &mut [L] = &mut $sum[$i..];
            add_products!(high, $p, m, 0 0, 1 0, 2 0, 3 0, 4 0, 5 0, 6 0, 7 0);
            $sum[$i + 1] = $sum[$i + 1].add($sum[$i].carry());
        )*
    };
}

/// The same words in every lane.
#[inline(always)]
fn splat_all<L: Lanes>(words: &[u64; 8]) -> [L; 8] {
    let mut out = [L::splat(0); 8];
    for at in 0..8 {
        out[at] = L::splat(words[at]);
    }
    out
}

impl<L: Lanes> Fe<L> {
    /// The same number in every lane.
    #[inline(always)]
    pub(crate) fn splat(number: &Fe<u64>) -> Self {
        Self(splat_all(&number.0))
    }

    /// Brings every limb back to 52 bits; the number must be below 2^416 and not negative.
    #[inline(always)]
    fn carried(self) -> Self {
        let mut out = self;
        let mut carry = L::splat(0);
        for limb in &mut out.0 {
            let sum = limb.add(carry);
            carry = sum.carry();
            *limb = sum.low();
        }
        out
    }

    /// The product, below 2p if the product of the operands is below R p; operands have limbs of 52 bits.
    #[inline(always)]
    pub(crate) fn times(&self, other: &Self) -> Self {
        let (p, inverse, own) = (splat_all(&P), L::splat(INVERSE), &self.0);
        let [a, b, c, d, e, f, g, h] = other.0;
        // Row by row and not in a loop, so that the sum stays in registers. No closures and nothing of the library that takes
        // one: what is not inlined is compiled without the instructions, and then a vector is a call for each of them.
        let sum = row([L::splat(0); 8], own, a, &p, inverse);
        let sum = row(sum, own, b, &p, inverse);
        let sum = row(sum, own, c, &p, inverse);
        let sum = row(sum, own, d, &p, inverse);
        let sum = row(sum, own, e, &p, inverse);
        let sum = row(sum, own, f, &p, inverse);
        let sum = row(sum, own, g, &p, inverse);
        Self(row(sum, own, h, &p, inverse)).carried()
    }

    /// The product with itself, by a fifth fewer steps. Limbs of the sum stay below 2^58 as in [`row`].
    #[inline(always)]
    pub(crate) fn squared(&self) -> Self {
        let (p, inverse, a) = (splat_all::<L>(&P), L::splat(INVERSE), &self.0);
        let mut sum = [L::splat(0); 17];
        add_products!(
            sum, a, a, 0 1, 0 2, 0 3, 0 4, 0 5, 0 6, 0 7, 1 2, 1 3, 1 4, 1 5, 1 6, 1 7, 2 3, 2 4, 2 5, 2 6, 2 7, 3 4, 3 5, 3 6, 3 7, 4 5, 4 6, 4 7, 5 6, 5 7, 6 7
        );
        let [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16] = sum;
        let [s0, s1, s2, s3] = [s0.add(s0), s1.add(s1), s2.add(s2), s3.add(s3)];
        let [s4, s5, s6, s7] = [s4.add(s4), s5.add(s5), s6.add(s6), s7.add(s7)];
        let [s8, s9, s10, s11] = [s8.add(s8), s9.add(s9), s10.add(s10), s11.add(s11)];
        let [s12, s13, s14, s15] = [s12.add(s12), s13.add(s13), s14.add(s14), s15.add(s15)];
        let mut sum = [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16];
        add_products!(sum, a, a, 0 0, 1 1, 2 2, 3 3, 4 4, 5 5, 6 6, 7 7);
        vanish!(sum, p, inverse, 0, 1, 2, 3, 4, 5, 6, 7);
        let [_, _, _, _, _, _, _, _, s8, s9, s10, s11, s12, s13, s14, s15, _] = sum;
        Self([s8, s9, s10, s11, s12, s13, s14, s15]).carried()
    }

    /// The sum.
    #[inline(always)]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut out = *self;
        for at in 0..8 {
            out.0[at] = self.0[at].add(other.0[at]);
        }
        out.carried()
    }

    /// `self - a - b + offset`; `offset` is a multiple of p that is not below `a + b`.
    #[inline(always)]
    pub(crate) fn minus_both(&self, a: &Self, b: &Self, offset: &Self) -> Self {
        let mut out = *self;
        for at in 0..8 {
            out.0[at] = self.0[at].sub(a.0[at]).sub(b.0[at]).add(offset.0[at]);
        }
        out.carried()
    }

    /// `self - other + offset`; `offset` is a multiple of p that is not below `other`.
    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self, offset: &Self) -> Self {
        let mut out = *self;
        for at in 0..8 {
            out.0[at] = self.0[at].sub(other.0[at]).add(offset.0[at]);
        }
        out.carried()
    }
}

impl<L: Eight> Fe<L> {
    /// [`Eight::turned`].
    #[inline(always)]
    pub(crate) fn turned<const BY: i32>(&self) -> Self {
        let [a, b, c, d, e, f, g, h] = self.0;
        Self([
            a.turned::<BY>(),
            b.turned::<BY>(),
            c.turned::<BY>(),
            d.turned::<BY>(),
            e.turned::<BY>(),
            f.turned::<BY>(),
            g.turned::<BY>(),
            h.turned::<BY>(),
        ])
    }

    /// The number in lane 0.
    #[inline(always)]
    pub(crate) fn first(&self) -> Fe<u64> {
        let [a, b, c, d, e, f, g, h] = self.0;
        let first = |limb: L| limb.store()[0];
        Fe([first(a), first(b), first(c), first(d), first(e), first(f), first(g), first(h)])
    }
}

/// `multiple` times p, limbs of 52 bits but for the last.
pub(crate) const fn multiple_of_p(multiple: u64) -> Fe<u64> {
    let (mut out, mut carry, mut at) = ([0; 8], 0u128, 0);
    while at < 8 {
        let sum = P[at] as u128 * multiple as u128 + carry;
        out[at] = low_word(sum) & LOW;
        carry = sum >> 52;
        at += 1;
    }
    assert!(carry == 0, "the multiple fits 416 bits");
    Fe(out)
}

/// 2^-32 times a number below p, below p.
pub(crate) fn over_2_to_32(number: &[u64; 6]) -> [u64; 6] {
    const HALF: u64 = 0xffff_ffff;
    // As many p as make the low 32 bits zero.
    let times = u128::from(number[0].wrapping_mul(negated_inverse(P_WORDS[0])) & HALF);
    let (mut sum, mut carry) = ([0; 6], 0_u128);
    for ((sum, number), p) in sum.iter_mut().zip(number).zip(&P_WORDS) {
        let wide = u128::from(*number) + u128::from(*p) * times + carry;
        *sum = low_word(wide);
        carry = wide >> 64;
    }
    let [a, b, c, d, e, f] = sum;
    let join = |low: u64, high: u64| low >> 32 | high << 32;
    let out = [join(a, b), join(b, c), join(c, d), join(d, e), join(e, f), join(f, low_word(carry))];
    let (reduced, borrowed) = minus(&out, &P_WORDS);
    if borrowed { out } else { reduced }
}

#[expect(clippy::cast_possible_truncation, reason = "the low word is what is asked for")]
pub(crate) const fn low_word(wide: u128) -> u64 {
    wide as u64
}

impl Fe<u64> {
    /// Montgomery form of a residue below p.
    pub(crate) fn of(residue: &[u64; 6]) -> Self {
        Self(Self(limbs(residue)).times(&R2).reduced_limbs())
    }

    /// The residue below p that this stands for, out of Montgomery form.
    pub(crate) fn residue(&self) -> [u64; 6] {
        let mut one = [0; 8];
        one[0] = 1;
        words(&self.times(&Self(one)).reduced_limbs())
    }

    /// The representative below p, for numbers below 2^398.
    pub(crate) fn reduced_limbs(&self) -> [u64; 8] {
        // Times one in Montgomery form keeps the number and brings it below 2p.
        let mut out = words(&self.times(&ONE).0);
        let (reduced, borrowed) = minus(&out, &P_WORDS);
        if !borrowed {
            out = reduced;
        }
        limbs(&out)
    }

    /// Whether it stands for zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.reduced_limbs() == [0; 8]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;
    use crate::testing::Drawn;

    /// Schoolbook product modulo p, bit by bit.
    fn slow(a: &[u64; 6], b: &[u64; 6]) -> [u64; 6] {
        let double = |value: &[u64; 6]| {
            let (mut out, mut carry) = ([0; 6], 0);
            for (out, word) in out.iter_mut().zip(value) {
                *out = word << 1 | carry;
                carry = word >> 63;
            }
            let (reduced, borrowed) = minus(&out, &P_WORDS);
            if borrowed { out } else { reduced }
        };
        let mut sum = [0_u64; 6];
        for bit in (0..384).rev() {
            sum = double(&sum);
            if b[bit / 64] >> (bit % 64) & 1 == 1 {
                let mut carry = 0_u128;
                for (sum, a) in sum.iter_mut().zip(a) {
                    let wide = u128::from(*sum) + u128::from(*a) + carry;
                    *sum = low_word(wide);
                    carry = wide >> 64;
                }
                let (reduced, borrowed) = minus(&sum, &P_WORDS);
                if !borrowed {
                    sum = reduced;
                }
            }
        }
        sum
    }

    #[test]
    fn products_are_those_of_long_multiplication() {
        let mut from = Drawn::new(1);
        let edges = [[0; 6], [1, 0, 0, 0, 0, 0], minus(&P_WORDS, &[1, 0, 0, 0, 0, 0]).0];
        let drawn: Vec<[u64; 6]> = (0..60).map(|_| from.residue()).collect();
        for a in edges.iter().chain(&drawn) {
            for b in edges.iter().chain(drawn.iter().take(12)) {
                let product = Fe::of(a).times(&Fe::of(b));
                assert_eq!(product.residue(), slow(a, b));
            }
            assert_eq!(Fe::of(a).squared().residue(), slow(a, a));
        }
    }

    #[test]
    fn eight_lanes_say_what_one_says() {
        let mut from = Drawn::new(2);
        for _ in 0..50 {
            let (a, b): ([Fe<u64>; 8], [Fe<u64>; 8]) = (
                core::array::from_fn(|_| Fe::of(&from.residue())),
                core::array::from_fn(|_| Fe::of(&from.residue())),
            );
            let across = |one: &[Fe<u64>; 8]| {
                Fe(core::array::from_fn(|limb| Plain::load(&core::array::from_fn(|lane| one[lane].0[limb]))))
            };
            let offset = multiple_of_p(4);
            let (x, y) = (across(&a), across(&b));
            let (product, difference) = (x.times(&y), x.minus(&y, &Fe::splat(&offset)));
            let square = Plain::square(&x);
            for lane in 0..8 {
                let of = |fe: &Fe<Plain>| Fe(fe.0.map(|limb| limb.store()[lane]));
                assert_eq!(of(&product).0, a[lane].times(&b[lane]).0);
                assert_eq!(of(&square).0, a[lane].squared().0);
                assert_eq!(of(&difference).0, a[lane].minus(&b[lane], &offset).0);
            }
        }
    }

    #[test]
    fn words_and_limbs_are_the_same_number() {
        let mut from = Drawn::new(3);
        for _ in 0..1_000 {
            let residue = from.residue();
            assert_eq!(words(&limbs(&residue)), residue);
        }
        assert_eq!(words(&P), P_WORDS);
    }

    #[test]
    fn operands_up_to_398_bits_are_taken() {
        let mut from = Drawn::new(4);
        let (a, b) = (from.residue(), from.residue());
        let wide = |residue: &[u64; 6]| Fe::of(residue).plus(&multiple_of_p(100_000));
        assert_eq!(wide(&a).times(&wide(&b)).residue(), slow(&a, &b));
        assert_eq!(wide(&a).squared().residue(), slow(&a, &a));
        assert_eq!(wide(&a).squared().0, wide(&a).times(&wide(&a)).0, "the same representative");
        assert_eq!(Fe(wide(&a).reduced_limbs()).residue(), a);
        assert!(multiple_of_p(100_000).is_zero());
    }
}
