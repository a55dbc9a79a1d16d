//! The field of 2^255 - 19, eight numbers side by side.
//!
//! *Form.* Five limbs of 51 bits, so that a limb has a bit of slack below the 52 that are multiplied. What is not said otherwise has
//! limbs below 2^51 + 2^14; a product takes limbs below 2^52 and, summed over ten halves and folded by 19, stays below 2^61, so one
//! round of carries side by side brings it back.

use crate::lanes::Eight;

/// The low 51 bits of a limb.
pub(crate) const MASK: u64 = (1 << 51) - 1;
/// Twice the modulus, limb by limb: above every number here.
const TWICE: [u64; 5] = [(MASK - 18) * 2, MASK * 2, MASK * 2, MASK * 2, MASK * 2];

/// A number, limbs least first.
pub(crate) type Limbs = [u64; 5];

/// Eight numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct F<L>(pub(crate) [L; 5]);

/// Adds to `$low` and `$high` the halves of the products of limbs `$i` and `$j`. Written out, so that the sums stay in registers.
macro_rules! add_products {
    ($low:ident, $high:ident, $a:expr, $b:expr, $($i:literal $j:literal),*) => {
        $(
            $low[$i + $j] = $low[$i + $j].add_low($a[$i], $b[$j]);
            $high[$i + $j] = $high[$i + $j].add_high($a[$i], $b[$j]);
        )*
    };
}

/// Joins halves, of which the high ones count twice and one place further, and folds what is above 255 bits.
#[inline(always)]
fn folded<L: Eight>(low: [L; 9], high: [L; 9]) -> F<L> {
    let [h0, h1, h2, h3, h4, h5, h6, h7, h8] = high;
    let [l0, l1, l2, l3, l4, l5, l6, l7, l8] = low;
    let out = [
        l0.add(times_19(l5.add(h4.add(h4)))),
        l1.add(h0.add(h0)).add(times_19(l6.add(h5.add(h5)))),
        l2.add(h1.add(h1)).add(times_19(l7.add(h6.add(h6)))),
        l3.add(h2.add(h2)).add(times_19(l8.add(h7.add(h7)))),
        l4.add(h3.add(h3)).add(times_19(h8.add(h8))),
    ];
    F(out).carried()
}

#[inline(always)]
fn times_19<L: Eight>(word: L) -> L {
    word.add(word.add(word)).add(L::join::<4, 60>(L::splat(0), word))
}

impl<L: Eight> F<L> {
    /// The same number in every lane.
    #[inline(always)]
    pub(crate) fn splat(limbs: &Limbs) -> Self {
        let [a, b, c, d, e] = *limbs;
        Self([L::splat(a), L::splat(b), L::splat(c), L::splat(d), L::splat(e)])
    }

    /// Lane `i` is number `i`; limbs across the lanes.
    #[inline(always)]
    pub(crate) fn load(across: &[[u64; 8]; 5]) -> Self {
        let [a, b, c, d, e] = across;
        Self([L::load(a), L::load(b), L::load(c), L::load(d), L::load(e)])
    }

    /// What [`F::load`] reads.
    #[inline(always)]
    pub(crate) fn store(&self) -> [[u64; 8]; 5] {
        let [a, b, c, d, e] = self.0;
        [a.store(), b.store(), c.store(), d.store(), e.store()]
    }

    /// One round of carries side by side: limbs below 2^61 come below 2^51 + 2^14.
    #[inline(always)]
    fn carried(self) -> Self {
        let mask = L::splat(MASK);
        let [a, b, c, d, e] = self.0;
        let over = times_19(e.right::<51>());
        Self([
            a.both(mask).add(over),
            b.both(mask).add(a.right::<51>()),
            c.both(mask).add(b.right::<51>()),
            d.both(mask).add(c.right::<51>()),
            e.both(mask).add(d.right::<51>()),
        ])
    }

    /// The product, by a call or in place.
    #[inline(always)]
    pub(crate) fn by(&self, other: &Self) -> Self {
        L::product_25519(self, other)
    }

    /// The product with itself, likewise.
    #[inline(always)]
    pub(crate) fn square(&self) -> Self {
        L::square_25519(self)
    }

    /// The product.
    #[inline(always)]
    pub(crate) fn times(&self, other: &Self) -> Self {
        let (a, b, zero) = (&self.0, &other.0, L::splat(0));
        let (mut low, mut high) = ([zero; 9], [zero; 9]);
        add_products!(low, high, a, b, 0 0, 1 0, 2 0, 3 0, 4 0, 0 1, 1 1, 2 1, 3 1, 4 1);
        add_products!(low, high, a, b, 0 2, 1 2, 2 2, 3 2, 4 2, 0 3, 1 3, 2 3, 3 3, 4 3);
        add_products!(low, high, a, b, 0 4, 1 4, 2 4, 3 4, 4 4);
        folded(low, high)
    }

    /// The product with itself, by fewer steps.
    #[inline(always)]
    pub(crate) fn squared(&self) -> Self {
        let (a, zero) = (&self.0, L::splat(0));
        let (mut low, mut high) = ([zero; 9], [zero; 9]);
        add_products!(low, high, a, a, 0 1, 0 2, 0 3, 0 4, 1 2, 1 3, 1 4, 2 3, 2 4, 3 4);
        for at in 1..8 {
            low[at] = low[at].add(low[at]);
            high[at] = high[at].add(high[at]);
        }
        add_products!(low, high, a, a, 0 0, 1 1, 2 2, 3 3, 4 4);
        folded(low, high)
    }

    /// The sum, not carried: it is for one more sum or difference.
    #[inline(always)]
    pub(crate) fn raw_plus(&self, other: &Self) -> Self {
        let ([a, b, c, d, e], [f, g, h, i, j]) = (self.0, other.0);
        Self([a.add(f), b.add(g), c.add(h), d.add(i), e.add(j)])
    }

    /// The sum; either may be a raw one.
    #[inline(always)]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.raw_plus(other).carried()
    }

    /// The difference; `self` may be a raw sum.
    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let [a, b, c, d, e] = self.raw_plus(&Self::splat(&TWICE)).0;
        let [f, g, h, i, j] = other.0;
        Self([a.sub(f), b.sub(g), c.sub(h), d.sub(i), e.sub(j)]).carried()
    }
}

/// The number below the modulus that is the same, of limbs below 2^52.
pub(crate) const fn frozen(limbs: &Limbs) -> Limbs {
    let mut out = *limbs;
    let mut round = 0;
    while round < 2 {
        let mut at = 0;
        while at < 4 {
            out[at + 1] += out[at] >> 51;
            out[at] &= MASK;
            at += 1;
        }
        out[0] += 19 * (out[4] >> 51);
        out[4] &= MASK;
        round += 1;
    }
    // Adding 19 carries out of 255 bits if the number is not below the modulus.
    let (mut over, mut at) = (19, 0);
    while at < 5 {
        over = (out[at] + over) >> 51;
        at += 1;
    }
    out[0] += 19 * over;
    let mut at = 0;
    while at < 4 {
        out[at + 1] += out[at] >> 51;
        out[at] &= MASK;
        at += 1;
    }
    out[4] &= MASK;
    out
}

/// The number of 32 bytes, least first, without their highest bit: below 2^255, maybe not below the modulus.
pub(crate) const fn of_bytes(bytes: &[u8; 32]) -> Limbs {
    let (mut words, mut at) = ([0_u64; 4], 0);
    while at < 32 {
        words[at / 8] |= (bytes[at] as u64) << (8 * (at % 8));
        at += 1;
    }
    let [a, b, c, d] = words;
    [
        a & MASK,
        (a >> 51 | b << 13) & MASK,
        (b >> 38 | c << 26) & MASK,
        (c >> 25 | d << 39) & MASK,
        d >> 12 & MASK,
    ]
}

/// `a - b`; both below the modulus.
pub(crate) const fn difference(a: &Limbs, b: &Limbs) -> Limbs {
    let (mut out, mut at) = (TWICE, 0);
    while at < 5 {
        out[at] = out[at] + a[at] - b[at];
        at += 1;
    }
    // Limbs of up to 53 bits: one sweep before the two of `frozen`.
    let mut at = 0;
    while at < 4 {
        out[at + 1] += out[at] >> 51;
        out[at] &= MASK;
        at += 1;
    }
    frozen(&out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;
    use crate::testing::Drawn;

    /// Schoolbook, by 128-bit products and without lanes.
    fn product(a: &Limbs, b: &Limbs) -> Limbs {
        let mut sums = [0_u128; 5];
        for (i, left) in a.iter().enumerate() {
            for (j, right) in b.iter().enumerate() {
                let fold = if i + j >= 5 { 19 } else { 1 };
                sums[(i + j) % 5] += u128::from(*left) * u128::from(*right) * fold;
            }
        }
        for at in 0..10 {
            let carry = sums[at % 5] >> 51;
            sums[at % 5] &= u128::from(MASK);
            sums[(at + 1) % 5] += carry * if at % 5 == 4 { 19 } else { 1 };
        }
        frozen(&sums.map(|sum| u64::try_from(sum).expect("carried")))
    }

    /// Drawn numbers and the greatest that every function takes.
    fn numbers(seed: u64) -> Vec<Limbs> {
        let (mut from, most) = (Drawn::new(seed), MASK + (1 << 14));
        let edges = [[0; 5], [1, 0, 0, 0, 0], [MASK; 5], [MASK - 18, MASK, MASK, MASK, MASK], [most; 5]];
        let drawn = (0..35).map(|_| core::array::from_fn(|_| from.word() % (most + 1)));
        edges.into_iter().chain(drawn).collect()
    }

    fn lane(number: &F<Plain>, at: usize) -> Limbs {
        frozen(&number.store().map(|limb| limb[at]))
    }

    #[test]
    fn products_sums_and_differences_are_those_of_the_schoolbook() {
        let numbers = numbers(3);
        let splat = |limbs: &Limbs| F::<Plain>::splat(limbs);
        for a in &numbers {
            assert_eq!(lane(&splat(a).squared(), 2), product(a, a));
            for b in &numbers {
                assert_eq!(lane(&splat(a).times(&splat(b)), 5), product(a, b));
                let sum = splat(a).plus(&splat(b));
                assert_eq!(lane(&sum.minus(&splat(b)), 0), frozen(a));
                assert_eq!(lane(&splat(a).raw_plus(&splat(b)).minus(&splat(a)), 7), frozen(b));
                assert_eq!(lane(&splat(a).minus(&splat(b)), 1), difference(&frozen(a), &frozen(b)));
                for out in [sum, splat(a).minus(&splat(b)), splat(a).times(&splat(b)), splat(a).squared()] {
                    let limbs = out.store().map(|limb| limb[3]);
                    assert!(limbs.iter().all(|limb| *limb < MASK + (1 << 14)), "{limbs:?}");
                }
            }
        }
    }

    #[test]
    fn a_number_is_frozen_below_the_modulus() {
        let p = [MASK - 18, MASK, MASK, MASK, MASK];
        assert_eq!(frozen(&p), [0; 5]);
        assert_eq!(frozen(&[MASK - 17, MASK, MASK, MASK, MASK]), [1, 0, 0, 0, 0]);
        assert_eq!(frozen(&[MASK - 19, MASK, MASK, MASK, MASK]), [MASK - 19, MASK, MASK, MASK, MASK]);
        assert_eq!(frozen(&[MASK; 5]), [18, 0, 0, 0, 0]);
        let bytes = core::array::from_fn(|at| u8::try_from(at + 1).expect("small"));
        let limbs = of_bytes(&bytes);
        let mut back = [0_u64; 5];
        for bit in 0..255 {
            back[bit / 51] |= u64::from(bytes[bit / 8] >> (bit % 8) & 1) << (bit % 51);
        }
        assert_eq!(limbs, back);
    }
}
