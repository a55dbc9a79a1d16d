//! One point at a time: complete addition in projective coordinates, and inversion.
//!
//! Addition is the complete formula of Renes, Costello and Batina (2015, algorithm 7) for a = 0 and 3b = 12: it has no
//! exceptions, so it also adds what the tree of the fast path may not: equal points, opposite points, infinity.

use crate::field::{Fe, ONE, P_WORDS, minus, multiple_of_p};
#[cfg(test)]
use crate::point::PackedKey;
use crate::point::{Key, Sum, coordinates, put_bytes};

/// A point (X : Y : Z); every coordinate is below 2p.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    x: Fe<u64>,
    y: Fe<u64>,
    z: Fe<u64>,
}

/// Above every operand that is subtracted here.
const OFFSET: Fe<u64> = multiple_of_p(64);

fn less(a: &Fe<u64>, b: &Fe<u64>) -> Fe<u64> {
    a.minus(b, &OFFSET)
}

/// Twelve times; operands are below 64p.
fn times_12(a: &Fe<u64>) -> Fe<u64> {
    let double = a.plus(a);
    let four = double.plus(&double);
    four.plus(&four).plus(&four)
}

impl Point {
    pub(crate) const INFINITY: Self = Self { x: Fe([0; 8]), y: ONE, z: Fe([0; 8]) };

    pub(crate) fn of<K: Key>(key: &K) -> Self {
        let (x, y) = coordinates(key);
        Self { x, y, z: ONE }
    }

    /// From affine coordinates in Montgomery form, below 2^398.
    pub(crate) fn affine(x: &Fe<u64>, y: &Fe<u64>) -> Self {
        Self { x: x.times(&ONE), y: y.times(&ONE), z: ONE }
    }

    /// The sum, whatever the operands.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let (t0, t1, t2) = (self.x.times(&other.x), self.y.times(&other.y), self.z.times(&other.z));
        let cross = |a: &Fe<u64>, b: &Fe<u64>, c: &Fe<u64>, d: &Fe<u64>, sum: &Fe<u64>| {
            less(&a.plus(b).times(&c.plus(d)), sum)
        };
        let t3 = cross(&self.x, &self.y, &other.x, &other.y, &t0.plus(&t1));
        let t4 = cross(&self.y, &self.z, &other.y, &other.z, &t1.plus(&t2));
        let y3 = times_12(&cross(&self.x, &self.z, &other.x, &other.z, &t0.plus(&t2)));
        let t0 = t0.plus(&t0).plus(&t0);
        let t2 = times_12(&t2);
        let (z3, t1) = (t1.plus(&t2), less(&t1, &t2));
        let x3 = t3.times(&t1).minus(&t4.times(&y3), &OFFSET);
        let y3 = y3.times(&t0).plus(&t1.times(&z3));
        let z3 = z3.times(&t4).plus(&t0.times(&t3));
        // Times one brings each below 2p again.
        Self { x: x3.times(&ONE), y: y3.times(&ONE), z: z3.times(&ONE) }
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

/// The inverse in Montgomery form of a number that is not zero, by the binary algorithm of Euclid. It takes longer or
/// shorter by what it inverts: keys are public.
pub(crate) fn invert(number: &Fe<u64>) -> Fe<u64> {
    // a R^-1 .. the residue r; then r^-1 brought back into Montgomery form.
    Fe::of(&invert_residue(&number.residue()))
}

fn is_even(number: &[u64; 6]) -> bool {
    number[0] & 1 == 0
}

fn halve(number: &[u64; 6], above: u64) -> [u64; 6] {
    let [a, b, c, d, e, f] = *number;
    [
        a >> 1 | b << 63,
        b >> 1 | c << 63,
        c >> 1 | d << 63,
        d >> 1 | e << 63,
        e >> 1 | f << 63,
        f >> 1 | above << 63,
    ]
}

/// Half of a residue modulo p: an odd one becomes even by adding p, whose sum fits 382 bits.
fn halve_modulo(number: &[u64; 6]) -> [u64; 6] {
    if is_even(number) {
        return halve(number, 0);
    }
    let (mut sum, mut carry) = ([0; 6], false);
    for at in 0..6 {
        let (first, over) = number[at].overflowing_add(P_WORDS[at]);
        let (second, again) = first.overflowing_add(u64::from(carry));
        sum[at] = second;
        carry = over | again;
    }
    halve(&sum, u64::from(carry))
}

fn minus_modulo(a: &[u64; 6], b: &[u64; 6]) -> [u64; 6] {
    let (difference, borrowed) = minus(a, b);
    if !borrowed {
        return difference;
    }
    // Below zero by less than p: p minus the amount.
    minus(&P_WORDS, &minus(b, a).0).0
}

/// 1/number modulo p, for 0 < number < p.
fn invert_residue(number: &[u64; 6]) -> [u64; 6] {
    const UNIT: [u64; 6] = [1, 0, 0, 0, 0, 0];
    // x * number = u and y * number = v, modulo p, throughout; gcd(u, v) = 1 throughout.
    let (mut u, mut v, mut x, mut y) = (*number, P_WORDS, UNIT, [0; 6]);
    while u != UNIT && v != UNIT {
        while is_even(&u) {
            u = halve(&u, 0);
            x = halve_modulo(&x);
        }
        while is_even(&v) {
            v = halve(&v, 0);
            y = halve_modulo(&y);
        }
        let (difference, borrowed) = minus(&u, &v);
        if borrowed {
            v = minus(&v, &u).0;
            y = minus_modulo(&y, &x);
        } else {
            u = difference;
            x = minus_modulo(&x, &y);
        }
    }
    if u == UNIT { x } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Drawn, generator, keys, negated, on_curve};

    #[test]
    fn an_inverse_times_its_number_is_one() {
        let mut from = Drawn::new(5);
        let edges = [[1, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], minus(&P_WORDS, &[1, 0, 0, 0, 0, 0]).0];
        for residue in edges.into_iter().chain((0..200).map(|_| from.residue())) {
            let number = Fe::of(&residue);
            assert_eq!(number.times(&invert(&number)).reduced_limbs(), ONE.reduced_limbs());
        }
    }

    #[test]
    fn addition_stays_on_the_curve_and_is_a_group() {
        assert!(on_curve(&generator()));
        let keys = keys(20, 6);
        assert!(keys.iter().all(on_curve));
        let point = |at: usize| Point::of(&keys[at]);
        let (a, b, c) = (point(0), point(7), point(13));
        assert_eq!(a.plus(&b).plus(&c).to_sum(), a.plus(&b.plus(&c)).to_sum());
        assert_eq!(a.plus(&b).to_sum(), b.plus(&a).to_sum());
        assert_eq!(a.plus(&Point::INFINITY).to_sum(), a.to_sum());
        assert_eq!(Point::INFINITY.plus(&Point::INFINITY).to_sum(), Sum::Infinity);
        assert_eq!(a.plus(&Point::of(&negated(&keys[0]))).to_sum(), Sum::Infinity);
        assert!(on_curve(&a.plus(&a).pack().expect("of large order")));
        assert_eq!(a.plus(&a).plus(&a).to_sum(), a.plus(&a.plus(&a)).to_sum());
    }

    #[test]
    fn a_key_leaves_as_the_bytes_it_came_from() {
        let Sum::Affine(bytes) = Point::of(&generator()).to_sum() else { panic!("no infinity") };
        assert_eq!(PackedKey::of_bytes(&bytes), Some(generator()));
        let mut large = bytes;
        large[0] = 0xff;
        assert_eq!(PackedKey::of_bytes(&large), None, "a coordinate of p or more");
    }
}
