//! Inversion of one number modulo p.
//!
//! *How.* The binary algorithm of Euclid halves one of two numbers per step, 762 steps in all. What a step does depends on the
//! lowest bit of both and on which is greater, so steps are taken 31 at a time on the outer 33 and 31 bits of both, and the long
//! numbers follow by one multiplication with what the steps came to (Pornin, "Optimized Binary GCD for Modular Inversion",
//! 2020). It takes longer or shorter by what it inverts: keys are public.

use crate::field::{Fe, P_WORDS, R3, limbs, low_word, minus, negated_inverse, words};

/// Steps that the outer bits of two numbers decide.
const STEPS: u32 = 31;
const STEPS_MASK: u64 = (1 << STEPS) - 1;
/// -1/p modulo 2^31.
const INVERSE: u64 = negated_inverse(P_WORDS[0]) & STEPS_MASK;
/// Rounds of [`STEPS`] that bring any number below p to zero: 2 * 381 - 1 steps.
const ROUNDS: usize = 25;

/// The inverse in Montgomery form of a number that is not zero; below 2p.
pub(crate) fn invert(number: &Fe<u64>) -> Fe<u64> {
    // Of x R comes 1 / (x R); times R^3 / R that is R / x.
    Fe(limbs(&invert_residue(&words(&number.reduced_limbs())))).times(&R3)
}

/// 1/number modulo p, for 0 < number < p.
fn invert_residue(number: &[u64; 6]) -> [u64; 6] {
    // u * number = a and v * number = b, modulo p, throughout; gcd(a, b) = 1 throughout.
    let (mut a, mut b, mut u, mut v) = (*number, P_WORDS, [1, 0, 0, 0, 0, 0], [0; 6]);
    for _ in 0..ROUNDS {
        if a == [0; 6] {
            break;
        }
        let [mut first, mut second] = steps(&a, &b);
        let (next_a, next_b) = (first.of_numbers(&a, &b), second.of_numbers(&a, &b));
        (u, v) = (first.of_factors(&u, &v), second.of_factors(&u, &v));
        (a, b) = (next_a, next_b);
    }
    v
}

/// What some steps made of one of two numbers: `f` times the first and `g` times the second, over 2^31.
#[derive(Clone, Copy)]
struct Mix {
    f: i64,
    g: i64,
}

impl Mix {
    /// The mix of the two numbers, made positive, with the signs of the factors that make it so. The division leaves no rest.
    fn of_numbers(&mut self, a: &[u64; 6], b: &[u64; 6]) -> [u64; 6] {
        let (sum, above) = self.weighed(a, b);
        let out = shifted(&sum, above);
        if above >= 0 {
            return out;
        }
        (self.f, self.g) = (-self.f, -self.g);
        minus(&[0; 6], &out).0
    }

    /// The mix of two residues modulo p, below p.
    fn of_factors(&self, u: &[u64; 6], v: &[u64; 6]) -> [u64; 6] {
        let (mut sum, above) = self.weighed(u, v);
        // As many p as make the low 31 bits zero.
        let times = i128::from(sum[0].wrapping_mul(INVERSE) & STEPS_MASK);
        let mut carry = 0_i128;
        for (sum, p) in sum.iter_mut().zip(&P_WORDS) {
            let wide = i128::from(*sum) + i128::from(*p) * times + carry;
            *sum = low_word(wide.cast_unsigned());
            carry = wide >> 64;
        }
        // Between -p and 2p.
        let out = shifted(&sum, above + carry);
        if above + carry < 0 {
            return minus(&out, &minus(&[0; 6], &P_WORDS).0).0;
        }
        let (reduced, borrowed) = minus(&out, &P_WORDS);
        if borrowed { out } else { reduced }
    }

    /// `f a + g b`: six words, and what is above them.
    fn weighed(&self, a: &[u64; 6], b: &[u64; 6]) -> ([u64; 6], i128) {
        let (mut out, mut carry) = ([0; 6], 0_i128);
        let (f, g) = (i128::from(self.f), i128::from(self.g));
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let wide = i128::from(*a) * f + i128::from(*b) * g + carry;
            *out = low_word(wide.cast_unsigned());
            carry = wide >> 64;
        }
        (out, carry)
    }
}

/// Six words and what is above them, shifted right by [`STEPS`].
fn shifted(number: &[u64; 6], above: i128) -> [u64; 6] {
    let [a, b, c, d, e, f] = *number;
    let above = low_word(above.cast_unsigned());
    let join = |low: u64, high: u64| low >> STEPS | high << (64 - STEPS);
    [join(a, b), join(b, c), join(c, d), join(d, e), join(e, f), join(f, above)]
}

/// Thirty-one steps on the outer bits of two numbers.
fn steps(a: &[u64; 6], b: &[u64; 6]) -> [Mix; 2] {
    let bits = bits(a).max(bits(b)).max(64);
    let (mut a, mut b) = (outer(a, bits), outer(b, bits));
    let (mut f0, mut g0, mut f1, mut g1) = (1_i64, 0_i64, 0_i64, 1_i64);
    for _ in 0..STEPS {
        // Masks and no branches: which way a step goes cannot be foretold.
        let odd = (a & 1).wrapping_neg();
        let swap = odd & u64::from(a < b).wrapping_neg();
        let turn = (a ^ b) & swap;
        (a, b) = (a ^ turn, b ^ turn);
        let (odd_signed, swap) = (odd.cast_signed(), swap.cast_signed());
        let (f, g) = ((f0 ^ f1) & swap, (g0 ^ g1) & swap);
        (f0, f1, g0, g1) = (f0 ^ f, f1 ^ f, g0 ^ g, g1 ^ g);
        a = a.wrapping_sub(b & odd) >> 1;
        (f0, g0) = (f0.wrapping_sub(f1 & odd_signed), g0.wrapping_sub(g1 & odd_signed));
        (f1, g1) = (f1 << 1, g1 << 1);
    }
    [Mix { f: f0, g: g0 }, Mix { f: f1, g: g1 }]
}

fn bits(number: &[u64; 6]) -> u32 {
    let mut length = 384;
    for word in number.iter().rev() {
        if *word != 0 {
            return length - word.leading_zeros();
        }
        length -= 64;
    }
    0
}

/// The highest 33 of `bits` bits and the lowest 31: all of a number of 64 bits.
fn outer(number: &[u64; 6], bits: u32) -> u64 {
    let (at, over) = ((bits - 1) / 64, (bits - 1) % 64 + 1);
    let word = |at: u32| number.get(at as usize).copied().unwrap_or(0);
    let below = at.checked_sub(1).map_or(0, word);
    let top = if over == 64 { word(at) } else { word(at) << (64 - over) | below >> over };
    (top & !STEPS_MASK) | (number[0] & STEPS_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::ONE;
    use crate::testing::Drawn;

    /// number^(p - 2), bit by bit.
    fn by_power(number: &Fe<u64>) -> Fe<u64> {
        let exponent = minus(&P_WORDS, &[2, 0, 0, 0, 0, 0]).0;
        (0..381).rev().fold(ONE, |power, bit| {
            let square = power.times(&power);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 { square.times(number) } else { square }
        })
    }

    #[test]
    fn an_inverse_is_the_power_that_fermat_names() {
        let mut from = Drawn::new(5);
        let p_minus = |less| minus(&P_WORDS, &[less, 0, 0, 0, 0, 0]).0;
        let small = (1..70).map(|at| [at, 0, 0, 0, 0, 0]);
        let powers = (0..381).map(|bit| {
            let mut number = [0; 6];
            number[bit / 64] = 1 << (bit % 64);
            number
        });
        let drawn: Vec<[u64; 6]> = (0..300).map(|_| from.residue()).collect();
        for residue in small.chain(powers).chain((1..70).map(p_minus)).chain(drawn) {
            let number = Fe::of(&residue);
            let inverse = invert(&number);
            assert_eq!(inverse.reduced_limbs(), by_power(&number).reduced_limbs(), "{residue:?}");
            assert_eq!(number.times(&inverse).reduced_limbs(), ONE.reduced_limbs());
        }
    }

    #[test]
    fn outer_bits_are_those_of_the_number() {
        let number = [0x0123_4567_89ab_cdef, 0xffff_0000_ffff_0001, 5, 0, 0, 0];
        assert_eq!((bits(&number), bits(&[0; 6]), bits(&P_WORDS)), (131, 0, 381));
        let top = 0b101 << 61 | number[1] >> 3;
        assert_eq!(outer(&number, 131), (top & !STEPS_MASK) | (number[0] & STEPS_MASK));
        assert_eq!(outer(&[7, 0, 0, 0, 0, 0], 64), 7);
    }
}
