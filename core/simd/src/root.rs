//! Points of compressed keys, eight square roots side by side.
//!
//! Reading a key takes a power of 379 bits, which is what a server does a million times when it starts with a directory of a
//! million clients. Here eight are raised together.
//!
//! *What it decides.* A key is given only where its root was found and squared again. Everything else (other flags, a coordinate of p or
//! more, an x without a y) is `None`, and whoever asked has the key judged by the curve library.

use crate::field::{FOUR, Fe, ONE, P_WORDS, R2, limbs, minus, multiple_of_p, words};
use crate::lanes::Eight;
use crate::point::{PackedKey, residue};

/// Bits of the first byte: compressed, infinity, the larger of both y.
const COMPRESSED: u8 = 0x80;
const INFINITY: u8 = 0x40;
const LARGER: u8 = 0x20;
/// Digits of the exponent of a root.
const DIGITS: usize = 95;
/// (p + 1) / 4 in digits of four bits, highest first: the exponent of a root, since p is 3 modulo 4.
const EXPONENT: [u8; DIGITS] = exponent();
/// Above every square that is subtracted here.
const OFFSET: Fe<u64> = multiple_of_p(4);
/// One, not in Montgomery form: what a number leaves the form by.
const PLAIN_ONE: Fe<u64> = Fe([1, 0, 0, 0, 0, 0, 0, 0]);
/// (p - 1) / 2: the larger y is above it.
const HALF: [u64; 6] = shifted::<1>();

/// p shifted right, by less than a word.
const fn shifted<const BY: u32>() -> [u64; 6] {
    let [a, b, c, d, e, f] = P_WORDS;
    let left = 64 - BY;
    [
        a >> BY | b << left,
        b >> BY | c << left,
        c >> BY | d << left,
        d >> BY | e << left,
        e >> BY | f << left,
        f >> BY,
    ]
}

const fn exponent() -> [u8; DIGITS] {
    let mut words = shifted::<2>();
    // The quarter of p that was cut off and the one of 1 make one more; the lowest word has room for it.
    words[0] += 1;
    let (mut digits, mut at) = ([0; DIGITS], 0);
    while at < DIGITS {
        let bit = 4 * (DIGITS - 1 - at);
        digits[at] = (words[bit / 64] >> (bit % 64) & 0xf).to_le_bytes()[0];
        at += 1;
    }
    digits
}

/// Numbers of eight lanes, by limb.
pub(crate) type Across = [[u64; 8]; 8];

/// For eight x below p, each as limbs across the lanes: x and y in Montgomery form, y out of it, and what is zero where y is a root;
/// all below 2p.
#[inline(always)]
pub(crate) fn roots<L: Eight>(x: &Across) -> [Across; 4] {
    let [a, b, c, d, e, f, g, h] = x;
    let (a, b, c, d) = (L::load(a), L::load(b), L::load(c), L::load(d));
    let raw = Fe([a, b, c, d, L::load(e), L::load(f), L::load(g), L::load(h)]);
    let x = L::product(&raw, &Fe::splat(&R2));
    let cube = L::product(&L::square(&x), &x);
    let square = cube.plus(&Fe::splat(&FOUR));
    let y = raised(&square);
    let off = L::square(&y).minus(&square, &Fe::splat(&OFFSET));
    let (plain, off) = (L::product(&y, &Fe::splat(&PLAIN_ONE)), L::product(&off, &Fe::splat(&ONE)));
    [stored(&x), stored(&y), stored(&plain), stored(&off)]
}

/// The power whose square is `number`, where there is one; `number` is below 2^398.
#[inline(always)]
fn raised<L: Eight>(number: &Fe<L>) -> Fe<L> {
    let one = Fe::splat(&ONE);
    let mut powers = [one; 16];
    for at in 1..16 {
        powers[at] = L::product(&powers[at - 1], number);
    }
    let mut power = powers[usize::from(EXPONENT[0])];
    for at in 1..DIGITS {
        for _ in 0..4 {
            power = L::square(&power);
        }
        power = L::product(&power, &powers[usize::from(EXPONENT[at])]);
    }
    power
}

#[inline(always)]
fn stored<L: Eight>(number: &Fe<L>) -> Across {
    let [a, b, c, d, e, f, g, h] = number.0;
    [a.store(), b.store(), c.store(), d.store(), e.store(), f.store(), g.store(), h.store()]
}

/// The number of one lane, brought below p.
fn below_p(across: &Across, lane: usize) -> [u64; 6] {
    let number = words(&across.map(|limb| limb[lane]));
    let (reduced, borrowed) = minus(&number, &P_WORDS);
    if borrowed { number } else { reduced }
}

/// The coordinate x of an encoding whose flags are those of a point.
fn x_of(key: &[u8; 48]) -> Option<[u64; 6]> {
    if key[0] & (COMPRESSED | INFINITY) != COMPRESSED {
        return None;
    }
    let mut bytes = *key;
    bytes[0] &= !(COMPRESSED | INFINITY | LARGER);
    residue(&bytes)
}

/// Reads up to eight keys by `roots`, in order.
pub(crate) fn read_eight(
    keys: &[[u8; 48]],
    out: &mut Vec<Option<PackedKey>>,
    roots: impl Fn(&Across) -> [Across; 4],
) {
    let mut across = [[0; 8]; 8];
    let xs: [Option<[u64; 6]>; 8] = core::array::from_fn(|lane| keys.get(lane).and_then(x_of));
    for (lane, x) in xs.iter().enumerate() {
        for (limb, of_x) in across.iter_mut().zip(limbs(&x.unwrap_or_default())) {
            limb[lane] = of_x;
        }
    }
    let [x, y, plain, off] = roots(&across);
    for (lane, key) in keys.iter().enumerate().take(8) {
        let found = xs[lane].is_some() && below_p(&off, lane) == [0; 6];
        let plain = below_p(&plain, lane);
        let (is_larger, is_zero) = (minus(&HALF, &plain).1, plain == [0; 6]);
        let own = below_p(&y, lane);
        let y = if is_larger == (key[0] & LARGER != 0) { own } else { minus(&P_WORDS, &own).0 };
        out.push((found && !is_zero).then(|| PackedKey::joined_of(below_p(&x, lane), y)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;
    use crate::point::Sum;
    use crate::testing::{Drawn, keys, negated, on_curve};
    use crate::{Adder, complete::Point};

    /// The encoding of a point, by its coordinates and the rule of the specification.
    fn compressed(key: &PackedKey) -> [u8; 48] {
        let Sum::Affine(bytes) = Point::of(key).to_sum() else { panic!("no infinity") };
        let (x, y) = bytes.split_at(48);
        let other = negated(key);
        let Sum::Affine(other) = Point::of(&other).to_sum() else { panic!("no infinity") };
        let mut out: [u8; 48] = x.try_into().expect("48 bytes");
        out[0] |= COMPRESSED | if *y > other[48..] { LARGER } else { 0 };
        out
    }

    #[test]
    fn a_key_comes_back_from_its_encoding_with_the_right_sign() {
        let all: Vec<PackedKey> = keys(37, 40).iter().flat_map(|key| [*key, negated(key)]).collect();
        let bytes: Vec<[u8; 48]> = all.iter().map(compressed).collect();
        let wanted: Vec<Option<PackedKey>> = all.into_iter().map(Some).collect();
        for adder in [Adder::portable(), Adder::new()] {
            for count in [0, 1, 7, 8, 9, 74] {
                assert_eq!(adder.read(&bytes[..count]), wanted[..count], "{count}, {:?}", adder.path());
            }
        }
        assert!(bytes.iter().any(|key| key[0] & LARGER != 0) && bytes.iter().any(|key| key[0] & LARGER == 0));
    }

    #[test]
    fn what_is_given_is_on_the_curve_and_about_half_of_all_x_have_no_y() {
        let mut from = Drawn::new(41);
        let drawn: Vec<[u8; 48]> = (0..200)
            .map(|_| {
                let mut out = [0; 48];
                out.iter_mut().for_each(|byte| *byte = from.word().to_le_bytes()[0]);
                out[0] = COMPRESSED | out[0] & 0x2f & !0x10;
                out
            })
            .collect();
        let portable = Adder::portable().read(&drawn);
        assert_eq!(Adder::new().read(&drawn), portable, "both paths");
        let found = portable.iter().flatten().count();
        assert!((60..140).contains(&found), "{found} of 200 are on the curve");
        for (bytes, key) in drawn.iter().zip(&portable) {
            if let Some(key) = key {
                assert!(on_curve(key) && compressed(key) == *bytes);
            }
        }
    }

    #[test]
    fn other_flags_and_coordinates_of_p_or_more_are_left_to_the_library() {
        let good = compressed(&keys(1, 42)[0]);
        let change = |f: fn(&mut [u8; 48])| {
            let mut bytes = good;
            f(&mut bytes);
            bytes
        };
        let p: [u8; 48] = core::array::from_fn(|at| P_WORDS[5 - at / 8].to_be_bytes()[at % 8]);
        let mut of_p = p;
        of_p[0] |= COMPRESSED;
        let bad = [
            change(|b| b[0] &= !COMPRESSED),
            change(|b| b[0] |= INFINITY),
            change(|b| *b = [0xff; 48]),
            change(|b| b[0] |= 0x1f),
            of_p,
            [0; 48],
        ];
        for adder in [Adder::portable(), Adder::new()] {
            assert_eq!(adder.read(&bad), [None; 6]);
            assert!(adder.read(&[bad[0], good, bad[1]])[1].is_some(), "its neighbours hinder no key");
        }
    }

    #[test]
    fn the_exponent_is_a_quarter_of_p_and_one() {
        let digit = |at: usize| u64::from(EXPONENT[DIGITS - 1 - at]);
        let mut quarter = [0_u64; 6];
        for at in 0..DIGITS {
            quarter[at / 16] |= digit(at) << (4 * (at % 16));
        }
        // Four times it is p + 1.
        let mut four = [0_u64; 6];
        for at in (0..6).rev() {
            four[at] = quarter[at] << 2 | at.checked_sub(1).map_or(0, |low| quarter[low] >> 62);
        }
        let one = minus(&four, &P_WORDS).0;
        assert_eq!(one, [1, 0, 0, 0, 0, 0]);
        let four = Fe::of(&[4, 0, 0, 0, 0, 0]);
        assert_eq!(FOUR.reduced_limbs(), four.reduced_limbs());
        let lanes: Fe<Plain> = raised(&Fe::splat(&four));
        let root = Fe(lanes.0.map(|limb| limb.store()[3]));
        assert_eq!(root.times(&root).reduced_limbs(), four.reduced_limbs());
    }
}
