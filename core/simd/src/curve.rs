//! Which kernel works on points of edwards25519.

use crate::Path;
use crate::edwards::{EdwardsPoint, eightfold, read_sixteen, roots};
use crate::lanes::Plain;

/// Reads and adds points of edwards25519.
#[derive(Clone, Copy, Debug)]
pub struct Edwards {
    path: Path,
}

impl Default for Edwards {
    fn default() -> Self {
        Self::new()
    }
}

impl Edwards {
    /// The fastest path of this processor.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::ifma::is_here() {
            return Self { path: Path::Avx512 };
        }
        Self::portable()
    }

    /// The portable path: slower than a library that does one after the other.
    #[must_use]
    pub const fn portable() -> Self {
        Self { path: Path::Portable }
    }

    /// Which path this is.
    #[must_use]
    pub const fn path(&self) -> Path {
        self.path
    }

    /// The points of encodings, in order, by the rules of ZIP-215: a y of the modulus or more and a zero with a sign are read. `None`
    /// says nothing but that another library has to judge the encoding.
    #[must_use]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn read(&self, encodings: &[[u8; 32]]) -> Vec<Option<EdwardsPoint>> {
        let mut out = Vec::with_capacity(encodings.len());
        for some in encodings.chunks(16) {
            match self.path {
                Path::Portable | Path::Avx2 => read_sixteen(some, &mut out, roots::<Plain>),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: only `new` gives this path, after it found the instructions on this processor.
                Path::Avx512 => read_sixteen(some, &mut out, |y| unsafe { crate::ifma::roots_25519(y) }),
                #[cfg(not(target_arch = "x86_64"))]
                Path::Avx512 => unreachable!("only processors of that kind have it"),
            }
        }
        out
    }

    /// Whether eight times the sum of points, each as often as its number says, is the identity. Numbers are below 2^255, least byte
    /// first; points and numbers are as many. It costs least where numbers of like length stand side by side.
    ///
    /// # Panics
    /// When there are more points or more numbers, or a number is not below 2^255.
    #[must_use]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn vanishes(&self, points: &[&EdwardsPoint], numbers: &[[u8; 32]]) -> bool {
        assert_eq!(points.len(), numbers.len(), "each point has its number");
        assert!(numbers.iter().all(|number| number[31] < 0x80), "numbers are below 2^255");
        let off = match self.path {
            Path::Portable | Path::Avx2 => eightfold::<Plain>(points, numbers),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `new` gives this path, after it found the instructions on this processor.
            Path::Avx512 => unsafe { crate::ifma::eightfold_25519(points, numbers) },
            #[cfg(not(target_arch = "x86_64"))]
            Path::Avx512 => unreachable!("only processors of that kind have it"),
        };
        off == [[0; 5]; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::Edwards;
    use crate::edwards::EdwardsPoint;
    use crate::testing::Drawn;

    /// The order of the large group, least byte first.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    fn drawn(from: &mut Drawn) -> [u8; 32] {
        let words: [u64; 4] = core::array::from_fn(|_| from.word());
        core::array::from_fn(|at| words[at / 8].to_le_bytes()[at % 8])
    }

    /// `count` points with numbers of as many bytes as are asked for, and one more number that makes all vanish: of minus one times
    /// each, piece by piece.
    fn cancelling(count: usize, bytes: usize, seed: u64) -> (Vec<EdwardsPoint>, Vec<[u8; 32]>) {
        let (mut from, portable) = (Drawn::new(seed), Edwards::portable());
        let mut points = Vec::new();
        while points.len() < count {
            points.extend(portable.read(&[drawn(&mut from)]).into_iter().flatten());
        }
        let mut numbers: Vec<[u8; 32]> = Vec::new();
        for _ in 0..count {
            let mut number = drawn(&mut from);
            number[bytes..].fill(0);
            number[31] &= 0x0f;
            numbers.push(number);
        }
        // The order less the number: both together vanish.
        let opposite = |number: &[u8; 32]| {
            let (mut out, mut borrow) = ([0; 32], 0_i16);
            for at in 0..32 {
                let step = i16::from(ORDER[at]) - i16::from(number[at]) - borrow;
                borrow = i16::from(step < 0);
                out[at] = step.rem_euclid(256).to_le_bytes()[0];
            }
            out
        };
        let opposites: Vec<[u8; 32]> = numbers.iter().map(opposite).collect();
        points.extend(points.clone());
        numbers.extend(opposites);
        (points, numbers)
    }

    #[test]
    fn both_paths_find_what_vanishes_and_what_does_not() {
        for (count, bytes) in [(1, 32), (3, 16), (8, 32), (9, 16), (21, 32)] {
            let (points, mut numbers) = cancelling(count, bytes, 7 + count as u64);
            let points: Vec<&EdwardsPoint> = points.iter().collect();
            for edwards in [Edwards::portable(), Edwards::new()] {
                assert!(edwards.vanishes(&points, &numbers), "{count} {:?}", edwards.path());
            }
            for at in [0, count, numbers.len() - 1] {
                numbers[at][3] ^= 1;
                for edwards in [Edwards::portable(), Edwards::new()] {
                    assert!(!edwards.vanishes(&points, &numbers), "{count} {at} {:?}", edwards.path());
                }
                numbers[at][3] ^= 1;
            }
        }
        assert!(Edwards::new().vanishes(&[], &[]) && Edwards::portable().vanishes(&[], &[]));
    }

    #[test]
    fn both_paths_read_the_same_and_about_half_of_all_encodings_are_points() {
        let mut from = Drawn::new(5);
        let mut all: Vec<[u8; 32]> = (0..150).map(|_| drawn(&mut from)).collect();
        all.extend([[0; 32], [0xff; 32], [1; 32]]);
        let portable = Edwards::portable().read(&all);
        for count in [0, 1, 8, 15, 16, 17, 153] {
            assert_eq!(Edwards::new().read(&all[..count]), portable[..count]);
        }
        let found = portable.iter().flatten().count();
        assert!((50..105).contains(&found), "{found} of 153");
    }

    #[test]
    fn points_of_small_order_vanish_eightfold_and_one_of_large_order_does_not() {
        let mut order_4 = [0; 32];
        let mut identity = [0; 32];
        let mut base = [0x66; 32];
        (identity[0], base[0]) = (1, 0x58);
        let mut order_8 =
            [0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0]
                .into_iter()
                .chain([
                    0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc,
                    0x05,
                ]);
        let order_8: [u8; 32] = core::array::from_fn(|_| order_8.next().expect("32 bytes"));
        order_4[31] = 0x80;
        let number = |least: u8| core::array::from_fn(|at| if at == 0 { least } else { 0 });
        for edwards in [Edwards::portable(), Edwards::new()] {
            let read = edwards.read(&[order_4, identity, order_8, base]);
            let points: Vec<&EdwardsPoint> = read.iter().flatten().collect();
            assert_eq!(points.len(), 4, "all are points");
            assert_eq!(*points[1], EdwardsPoint::IDENTITY);
            assert!(edwards.vanishes(&points[..3], &[number(1), number(7), number(3)]));
            assert!(!edwards.vanishes(&points, &[number(1), number(7), number(3), number(1)]));
            assert!(edwards.vanishes(&points[3..], &[ORDER]), "the order of the base point");
        }
    }
}
