//! Sums of many keys: a tree of affine additions whose divisions share one inversion per level.
//!
//! *How.* Eight keys lie in a vector of points. At each level vectors `2i` and `2i + 1` are added lane by lane; the
//! differences of their x are multiplied together, inverted once, and taken apart again (Montgomery's trick), so that an
//! addition costs five products and a square. At the end the eight lanes are added one by one.
//!
//! *No reduction.* A coordinate of level `l` is below `B_l p`, where `B_0 = 2` and `B_(l+1) = 2 + C_l`. Differences stay
//! positive by adding `C_l p`, where `C_0 = 4` and `C_(l+1) = 2 C_l + 8`, which is never below `2 B_l`. Ten levels stay
//! below 2^396, and products take 2^398.
//!
//! *Exceptions.* Affine addition cannot add points of equal x. Then a level's product is zero, and the whole chunk is
//! added again by complete formulas: right, and ten times slower.

use core::borrow::Borrow;

use crate::field::{Fe, ONE, multiple_of_p};
use crate::lanes::Eight;
use crate::point::{Key, Sum, back, front};
use crate::scalar::{Point, invert};

/// Vectors of one chunk: what a second-level cache holds.
const CHUNK: usize = 1_024;
/// Levels of a chunk.
const LEVELS: usize = 10;
/// `C_l p` for each level, and one more.
const OFFSETS: [Fe<u64>; LEVELS + 1] = offsets();

const fn offsets() -> [Fe<u64>; LEVELS + 1] {
    let (mut out, mut multiple, mut level) = ([multiple_of_p(4); LEVELS + 1], 4, 0);
    while level <= LEVELS {
        out[level] = multiple_of_p(multiple);
        multiple = 2 * multiple + 8;
        level += 1;
    }
    out
}

/// What a chunk came to: one point per lane; `None` when two points of a level have the same x.
pub(crate) type Outcome = Option<[Point; 8]>;

/// Memory of the tree, used again for every chunk.
pub(crate) struct Work<L> {
    points: Vec<[Fe<L>; 2]>,
    /// Of each pair of a level: the difference of its x, and the product of those before it.
    differences: Vec<[Fe<L>; 2]>,
}

impl<L> Work<L> {
    pub(crate) const fn new() -> Self {
        Self { points: Vec::new(), differences: Vec::new() }
    }
}

/// Two coordinates out of twelve words each of eight keys.
#[inline(always)]
fn spread<L: Eight, K: Key, T: Borrow<K>>(keys: &[T; 8]) -> [Fe<L>; 2] {
    let [a, b, c, d, e, f, g, h] = L::columns(keys.each_ref().map(|key| front(key.borrow())));
    let [_, _, _, _, i, j, k, l] = L::columns(keys.each_ref().map(|key| back(key.borrow())));
    let (x, y) = (limbs(&[a, b, c, d, e, f]), limbs(&[g, h, i, j, k, l]));
    match K::FACTOR {
        Some(factor) => {
            let factor = Fe::splat(&Fe(factor));
            [L::product(&x, &factor), L::product(&y, &factor)]
        }
        None => [x, y],
    }
}

#[inline(always)]
fn limbs<L: Eight>(words: &[L; 6]) -> Fe<L> {
    let [a, b, c, d, e, f] = *words;
    Fe([
        a.low(),
        L::join::<12, 52>(a, b).low(),
        L::join::<24, 40>(b, c).low(),
        L::join::<36, 28>(c, d).low(),
        L::join::<48, 16>(d, e).low(),
        e.right::<4>().low(),
        L::join::<8, 56>(e, f).low(),
        f.right::<44>(),
    ])
}

#[inline(always)]
fn lane<L: Eight>(fe: &Fe<L>, lane: usize) -> Fe<u64> {
    Fe(fe.0.map(|limb| limb.store()[lane]))
}

/// The inverses of all lanes; `None` when one is zero.
#[inline(always)]
fn invert_lanes<L: Eight>(product: &Fe<L>) -> Option<Fe<L>> {
    let lanes: [Fe<u64>; 8] = core::array::from_fn(|at| lane(product, at));
    let (mut before, mut all) = ([ONE; 8], ONE);
    for (before, lane) in before.iter_mut().zip(&lanes) {
        *before = all;
        all = all.times(lane);
    }
    if all.is_zero() {
        return None;
    }
    let mut left = invert(&all);
    let mut out = [ONE; 8];
    for at in (0..8).rev() {
        out[at] = left.times(&before[at]);
        left = left.times(&lanes[at]);
    }
    Some(Fe(core::array::from_fn(|limb| L::load(&out.map(|fe| fe.0[limb])))))
}

/// Adds the keys of a chunk, a multiple of eight and at most 8,192, into eight lanes.
#[inline(always)]
pub(crate) fn add_chunk<L: Eight, K: Key, T: Borrow<K>>(keys: &[T], work: &mut Work<L>) -> Outcome {
    let Work { points, differences } = work;
    points.clear();
    // A loop, since what an iterator calls is compiled for any processor.
    for eight in keys.as_chunks::<8>().0 {
        points.push(spread::<L, K, T>(eight));
    }
    let one = Fe::<L>::splat(&ONE);
    let (mut stride, mut level) = (1, 0);
    while stride < points.len() {
        let (offset, next) = (Fe::splat(&OFFSETS[level]), Fe::splat(&OFFSETS[level + 1]));
        differences.clear();
        let mut product = one;
        let mut at = 0;
        while at + stride < points.len() {
            let difference = points[at + stride][0].minus(&points[at][0], &offset);
            differences.push([difference, product]);
            product = L::product(&product, &difference);
            at += 2 * stride;
        }
        let mut inverse = invert_lanes(&product)?;
        for [difference, before] in differences.iter().rev() {
            at -= 2 * stride;
            let own = L::product(&inverse, before);
            inverse = L::product(&inverse, difference);
            let ([x1, y1], [x2, y2]) = (points[at], points[at + stride]);
            let slope = L::product(&y2.minus(&y1, &offset), &own);
            let x3 = L::product(&slope, &slope).minus(&x1.plus(&x2), &offset);
            let y3 = L::product(&slope, &x1.minus(&x3, &next)).minus(&y1, &offset);
            points[at] = [x3, y3];
        }
        stride *= 2;
        level += 1;
    }
    match points.first() {
        Some([x, y]) => Some(core::array::from_fn(|at| Point::affine(&lane(x, at), &lane(y, at)))),
        None => Some([Point::INFINITY; 8]),
    }
}

/// Adds keys one after the other, by complete formulas.
pub(crate) fn add_slowly<K: Key, T: Borrow<K>>(keys: &[T]) -> Point {
    keys.iter().fold(Point::INFINITY, |sum, key| sum.plus(&Point::of(key.borrow())))
}

/// Adds any number of keys with a kernel for chunks.
pub(crate) fn add_all<L, K: Key, T: Borrow<K>>(
    keys: &[T],
    work: &mut Work<L>,
    kernel: impl Fn(&[T], &mut Work<L>) -> Outcome,
) -> Sum {
    let (whole, rest) = keys.split_at(keys.len() / 8 * 8);
    let mut sum = add_slowly(rest);
    for chunk in whole.chunks(8 * CHUNK) {
        match kernel(chunk, work) {
            Some(lanes) => sum = lanes.iter().fold(sum, |sum, point| sum.plus(point)),
            None => sum = sum.plus(&add_slowly(chunk)),
        }
    }
    sum.to_sum()
}

#[cfg(test)]
mod tests {
    use crate::point::{PackedKey, Sum};
    use crate::testing::{Drawn, keys, negated};
    use crate::{Adder, LibraryKey, Path};

    fn add_slowly(keys: &[&PackedKey]) -> crate::scalar::Point {
        super::add_slowly::<PackedKey, _>(keys)
    }

    fn adders() -> Vec<Adder> {
        [Adder::portable(), Adder::new()].into()
    }

    fn refs(keys: &[PackedKey]) -> Vec<&PackedKey> {
        keys.iter().collect()
    }

    #[test]
    fn sums_of_any_count_are_those_of_complete_addition() {
        let all = keys(3_000, 10);
        for count in (0..70).chain([127, 128, 129, 1_000, 1_023, 1_024, 2_999]) {
            let some = refs(&all[..count]);
            let slow = add_slowly(&some).to_sum();
            for mut adder in adders() {
                assert_eq!(adder.sum::<PackedKey, _>(&some), slow, "{count} keys, {:?}", adder.path());
            }
        }
    }

    #[test]
    fn keys_of_the_curve_library_add_up_to_the_same() {
        use crate::field::{Fe, limbs, words};
        let all = keys(300, 15);
        // Out of R = 2^416 into R = 2^384: times 2^384 in the first form's plain numbers.
        let mut shift = [0; 8];
        shift[7] = 1 << (384 - 7 * 52);
        let into = |w: &[u64]| {
            let number = Fe(limbs(w.try_into().expect("six words")));
            words(&Fe(shift).times(&number).reduced_limbs())
        };
        let library: Vec<LibraryKey> = all
            .iter()
            .map(|key| {
                let mut out = [0; 12];
                out[..6].copy_from_slice(&into(&key.words[..6]));
                out[6..].copy_from_slice(&into(&key.words[6..]));
                LibraryKey(out)
            })
            .collect();
        for count in [0, 1, 7, 8, 9, 64, 300] {
            let slow = add_slowly(&refs(&all[..count])).to_sum();
            for mut adder in adders() {
                assert_eq!(
                    adder.sum::<LibraryKey, _>(&library[..count]),
                    slow,
                    "{count} keys, {:?}",
                    adder.path()
                );
            }
        }
    }

    #[test]
    fn more_than_a_chunk_is_added_in_chunks() {
        let all = keys(20_000, 11);
        let some = refs(&all);
        let slow = add_slowly(&some).to_sum();
        assert_eq!(Adder::new().sum::<PackedKey, _>(&some), slow);
    }

    #[test]
    fn repeated_and_opposite_keys_are_added_right() {
        let all = keys(200, 12);
        let opposite = negated(&all[3]);
        let mut from = Drawn::new(13);
        for _ in 0..60 {
            let mut some: Vec<&PackedKey> = refs(&all[..from.below(200)]);
            for _ in 0..from.below(20) {
                let at = from.below(some.len() + 1);
                some.insert(at, if from.below(2) == 0 { &opposite } else { &all[3] });
            }
            let slow = add_slowly(&some).to_sum();
            for mut adder in adders() {
                assert_eq!(adder.sum::<PackedKey, _>(&some), slow, "{:?}", adder.path());
            }
        }
    }

    #[test]
    fn keys_that_cancel_out_are_infinity() {
        let all = keys(40, 14);
        let opposites: Vec<PackedKey> = all.iter().map(negated).collect();
        let both: Vec<&PackedKey> = all.iter().chain(&opposites).collect();
        let mixed: Vec<&PackedKey> = all.iter().zip(&opposites).flat_map(|(a, b)| [a, b]).collect();
        for mut adder in adders() {
            assert_eq!(adder.sum::<PackedKey, _>(&both), Sum::Infinity);
            assert_eq!(adder.sum::<PackedKey, _>(&mixed), Sum::Infinity);
            assert_eq!(adder.sum::<PackedKey, PackedKey>(&[]), Sum::Infinity);
        }
    }

    #[test]
    fn the_path_is_what_the_processor_has() {
        assert_eq!(Adder::portable().path(), Path::Portable);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(Adder::new().path() == Path::Avx512, crate::ifma::is_here());
    }
}
