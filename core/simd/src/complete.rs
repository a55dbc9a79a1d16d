//! Complete addition in projective coordinates, of one point or of eight side by side.
//!
//! The formula of Renes, Costello and Batina (2015, algorithm 7) for a = 0 and 3b = 12 has no exceptions, so it also adds what
//! the tree of the fast path may not: equal points, opposite points, infinity.

use crate::field::{Fe, ONE, multiple_of_p};
use crate::invert::invert;
use crate::lanes::{Eight, Lanes};
use crate::point::{PackedKey, Sum, coordinates, put_bytes};

/// A point (X : Y : Z); every coordinate is below 2p.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<L> {
    x: Fe<L>,
    y: Fe<L>,
    z: Fe<L>,
}

/// Above every operand that is subtracted here.
const OFFSET: Fe<u64> = multiple_of_p(64);

#[inline(always)]
fn less<L: Lanes>(a: &Fe<L>, b: &Fe<L>) -> Fe<L> {
    a.minus(b, &Fe::splat(&OFFSET))
}

/// Twelve times; operands are below 64p.
#[inline(always)]
fn times_12<L: Lanes>(a: &Fe<L>) -> Fe<L> {
    let double = a.plus(a);
    let four = double.plus(&double);
    four.plus(&four).plus(&four)
}

/// The product of the sums of two pairs, less `sum`.
#[inline(always)]
fn cross<L: Lanes>(a: [&Fe<L>; 2], b: [&Fe<L>; 2], sum: &Fe<L>) -> Fe<L> {
    less(&L::product(&a[0].plus(a[1]), &b[0].plus(b[1])), sum)
}

impl<L: Lanes> Point<L> {
    #[inline(always)]
    pub(crate) fn infinity() -> Self {
        let zero = Fe([L::splat(0); 8]);
        Self { x: zero, y: Fe::splat(&ONE), z: zero }
    }

    /// From affine coordinates in Montgomery form, below 2^400.
    #[inline(always)]
    pub(crate) fn affine([x, y]: &[Fe<L>; 2]) -> Self {
        let one = Fe::splat(&ONE);
        Self { x: L::product(x, &one), y: L::product(y, &one), z: one }
    }

    /// The sum, whatever the operands.
    #[inline(always)]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let (t0, t1) = (L::product(&self.x, &other.x), L::product(&self.y, &other.y));
        let t2 = L::product(&self.z, &other.z);
        let t3 = cross([&self.x, &self.y], [&other.x, &other.y], &t0.plus(&t1));
        let t4 = cross([&self.y, &self.z], [&other.y, &other.z], &t1.plus(&t2));
        let y3 = times_12(&cross([&self.x, &self.z], [&other.x, &other.z], &t0.plus(&t2)));
        let t0 = t0.plus(&t0).plus(&t0);
        let t2 = times_12(&t2);
        let (z3, t1) = (t1.plus(&t2), less(&t1, &t2));
        let x3 = less(&L::product(&t3, &t1), &L::product(&t4, &y3));
        let y3 = L::product(&y3, &t0).plus(&L::product(&t1, &z3));
        let z3 = L::product(&z3, &t4).plus(&L::product(&t0, &t3));
        // Times one brings each below 2p again.
        let one = Fe::splat(&ONE);
        Self { x: L::product(&x3, &one), y: L::product(&y3, &one), z: L::product(&z3, &one) }
    }
}

impl<L: Eight> Point<L> {
    /// The sum of the eight points.
    #[inline(always)]
    pub(crate) fn folded(&self) -> Point<u64> {
        let halves =
            self.plus(&Self { x: self.x.turned::<4>(), y: self.y.turned::<4>(), z: self.z.turned::<4>() });
        let [x, y, z] = [&halves.x, &halves.y, &halves.z];
        let pairs = halves.plus(&Self { x: x.turned::<2>(), y: y.turned::<2>(), z: z.turned::<2>() });
        let [x, y, z] = [&pairs.x, &pairs.y, &pairs.z];
        let all = pairs.plus(&Self { x: x.turned::<1>(), y: y.turned::<1>(), z: z.turned::<1>() });
        Point { x: all.x.first(), y: all.y.first(), z: all.z.first() }
    }
}

impl Point<u64> {
    pub(crate) fn of(key: &PackedKey) -> Self {
        let (x, y) = coordinates(key);
        Self { x, y, z: ONE }
    }

    /// Its affine coordinates; `None` for infinity.
    fn affine_coordinates(&self) -> Option<(Fe<u64>, Fe<u64>)> {
        if self.z.is_zero() {
            return None;
        }
        let inverse = invert(&self.z);
        Some((self.x.times(&inverse), self.y.times(&inverse)))
    }

    #[cfg(test)]
    pub(crate) fn pack(&self) -> Option<PackedKey> {
        self.affine_coordinates().map(|(x, y)| PackedKey::of(&x, &y))
    }

    /// The sum as it leaves this crate.
    pub(crate) fn to_sum(self) -> Sum {
        let Some((x, y)) = self.affine_coordinates() else { return Sum::Infinity };
        let mut bytes = [0; 96];
        let (front, back) = bytes.split_at_mut(48);
        put_bytes(front, &x.residue());
        put_bytes(back, &y.residue());
        Sum::Affine(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{generator, keys, negated, on_curve};

    #[test]
    fn addition_stays_on_the_curve_and_is_a_group() {
        assert!(on_curve(&generator()));
        let keys = keys(20, 6);
        assert!(keys.iter().all(on_curve));
        let point = |at: usize| Point::of(&keys[at]);
        let (a, b, c) = (point(0), point(7), point(13));
        assert_eq!(a.plus(&b).plus(&c).to_sum(), a.plus(&b.plus(&c)).to_sum());
        assert_eq!(a.plus(&b).to_sum(), b.plus(&a).to_sum());
        assert_eq!(a.plus(&Point::infinity()).to_sum(), a.to_sum());
        assert_eq!(Point::infinity().plus(&Point::infinity()).to_sum(), Sum::Infinity);
        assert_eq!(a.plus(&Point::of(&negated(&keys[0]))).to_sum(), Sum::Infinity);
        assert!(on_curve(&a.plus(&a).pack().expect("of large order")));
        assert_eq!(a.plus(&a).plus(&a).to_sum(), a.plus(&a.plus(&a)).to_sum());
    }

    #[test]
    fn a_key_leaves_as_the_bytes_it_came_from() {
        let Sum::Affine(bytes) = Point::of(&generator()).to_sum() else { panic!("no infinity") };
        assert_eq!(PackedKey::of_bytes(&bytes), Some(generator()));
        assert_eq!(PackedKey::of_library(&generator().to_library()), generator());
        let mut large = bytes;
        large[0] = 0xff;
        assert_eq!(PackedKey::of_bytes(&large), None, "a coordinate of p or more");
    }
}
