//! Drawn numbers and points for tests.

use crate::complete::Point;
use crate::field::{Fe, P_WORDS, minus};
use crate::point::{PackedKey, Sum};

/// A stream of words (splitmix64).
pub(crate) struct Drawn(u64);

impl Drawn {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.word() % bound as u64).expect("below a usize")
    }

    pub(crate) fn residue(&mut self) -> [u64; 6] {
        loop {
            let mut words: [u64; 6] = core::array::from_fn(|_| self.word());
            words[5] &= (1 << 61) - 1;
            if minus(&words, &P_WORDS).1 {
                return words;
            }
        }
    }
}

/// The generator of G1, as the curve's specification gives it.
pub(crate) fn generator() -> PackedKey {
    let hex = "17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb\
               08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1";
    let mut bytes = [0; 96];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal");
    }
    PackedKey::of_bytes(&bytes).expect("both coordinates are below p")
}

/// `count` points of G1: drawn small multiples of the generator, told apart.
pub(crate) fn keys(count: usize, seed: u64) -> Vec<PackedKey> {
    let mut from = Drawn::new(seed);
    let (mut step, mut keys) = (Point::of(&generator()), Vec::with_capacity(count));
    for _ in 0..from.below(1_000) {
        step = step.plus(&Point::of(&generator()));
    }
    let mut at = step;
    while keys.len() < count {
        at = at.plus(&step);
        keys.push(at.pack().expect("no multiple this small is infinity"));
    }
    keys
}

/// The key with the other y: its negation.
pub(crate) fn negated(key: &PackedKey) -> PackedKey {
    let Sum::Affine(mut bytes) = Point::of(key).to_sum() else { unreachable!("a key is no infinity") };
    let mut y: [u64; 6] = core::array::from_fn(|at| {
        u64::from_be_bytes(bytes[88 - 8 * at..96 - 8 * at].try_into().expect("eight"))
    });
    y = minus(&P_WORDS, &y).0;
    for (at, word) in y.iter().enumerate() {
        bytes[88 - 8 * at..96 - 8 * at].copy_from_slice(&word.to_be_bytes());
    }
    PackedKey::of_bytes(&bytes).expect("below p")
}

/// Whether the point satisfies y^2 = x^3 + 4.
pub(crate) fn on_curve(key: &PackedKey) -> bool {
    let (x, y) = crate::point::coordinates(key);
    let four = Fe::of(&[4, 0, 0, 0, 0, 0]);
    let right = x.times(&x).times(&x).plus(&four);
    y.times(&y).reduced_limbs() == right.reduced_limbs()
}
