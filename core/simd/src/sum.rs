//! Sums of many keys: a tree of affine additions whose divisions share one inversion per level.
//!
//! *How.* Eight keys lie in a vector of points. At each level vectors `2i` and `2i + 1` are added lane by lane; the
//! differences of their x are multiplied together, inverted once, and taken apart again (Montgomery's trick), so that an
//! addition costs five products and a square. Keys go through the first levels chunk by chunk, so that these work in the
//! cache; what is left of all chunks goes through the others together. At the end the eight lanes are added.
//!
//! *No reduction.* A coordinate of level `l` is below `B_l p`, where `B_0 = 2` and `B_(l+1) = 2 + C_l`. Differences stay
//! positive by adding `C_l p`, where `C_0 = 4` and `C_(l+1) = 2 C_l + 8`, which is never below `2 B_l`. Fifteen levels stay
//! below 2^401, and products of two numbers below 2^398 or of one below 2^401 and one below 2p are below R p.
//!
//! *Exceptions.* Affine addition cannot add points of equal x. Then a level's product is zero, and all keys are added by
//! complete formulas: right, and at most three times slower in all.

use crate::complete::Point;
use crate::field::{Fe, ONE, multiple_of_p};
use crate::invert::invert;
use crate::lanes::Eight;
use crate::planted;
use crate::point::{PackedKey, back, front};

/// Vectors of one chunk, and most that are left of all chunks: as much as a second-level cache holds.
const CHUNK: usize = 1_024;
/// Levels that a chunk goes through alone.
const LOW_LEVELS: usize = 5;
/// All levels.
const LEVELS: usize = LOW_LEVELS + CHUNK.ilog2() as usize;
/// Keys ahead of the one that is loaded whose memory is asked for.
const AHEAD: usize = 64;
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

/// Eight points side by side.
type Points<L> = [Fe<L>; 2];

/// Memory of the tree, used again for every chunk.
pub(crate) struct Work<L> {
    /// Vectors of one chunk, a power of two of at most [`CHUNK`].
    size: usize,
    chunk: Vec<Points<L>>,
    /// What is left of chunks.
    left: Vec<Points<L>>,
    /// Of each pair of a level: the difference of its x, and the product of those before it.
    differences: Vec<[Fe<L>; 2]>,
}

impl<L> Work<L> {
    pub(crate) const fn new() -> Self {
        Self::of(CHUNK)
    }

    const fn of(size: usize) -> Self {
        Self { size, chunk: Vec::new(), left: Vec::new(), differences: Vec::new() }
    }
}

/// Two coordinates out of twelve words each of eight keys.
#[inline(always)]
fn spread<L: Eight>(keys: &[&PackedKey; 8]) -> Points<L> {
    let [a, b, c, d, e, f, g, h] = L::columns(keys.map(front));
    let [_, _, _, _, i, j, k, l] = L::columns(keys.map(back));
    [limbs(&[a, b, c, d, e, f]), limbs(&[g, h, i, j, k, l])]
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

/// The inverses of all lanes; `None` when one is zero. One number is inverted: the product of all, which each lane then
/// takes the seven others out of.
#[inline(always)]
fn invert_lanes<L: Eight>(number: &Fe<L>) -> Option<Fe<L>> {
    let half = number.turned::<4>();
    let halves = L::product(number, &half);
    let pair = halves.turned::<2>();
    let pairs = L::product(&halves, &pair);
    let other = pairs.turned::<1>();
    let all = L::product(&pairs, &other).first();
    if all.is_zero() && !planted!(C24) {
        return None;
    }
    let others = L::product(&half, &L::product(&pair, &other));
    Some(L::product(&Fe::splat(&invert(&all)), &others))
}

/// Asks for the memory of up to sixteen keys from `at` on.
#[inline(always)]
fn ask_for<L: Eight>(keys: &[&PackedKey], at: usize) {
    let end = keys.len().min(at + 16);
    let mut at = at;
    while at < end {
        L::prefetch(&keys[at].0);
        at += 1;
    }
}

/// Adds pairs of neighbours, level by level from `level` on, until at most `until` are left, and has the memory of the keys
/// `ahead` brought nearer meanwhile: as many as the first level has. `None` when two points of a pair have the same x.
#[inline(always)]
fn add_pairs<L: Eight>(
    points: &mut Vec<Points<L>>,
    differences: &mut Vec<[Fe<L>; 2]>,
    (mut level, until): (usize, usize),
    mut ahead: &[&PackedKey],
) -> Option<()> {
    while points.len() > until {
        let (offset, next) = (Fe::splat(&OFFSETS[level]), Fe::splat(&OFFSETS[level + 1]));
        // Backwards, so that the way back goes forwards and what is done makes room for its sums.
        let mut product = Fe::<L>::splat(&ONE);
        let pairs = points.len() / 2;
        differences.clear();
        let mut at = pairs;
        while at > 0 {
            at -= 1;
            let difference = points[2 * at + 1][0].minus(&points[2 * at][0], &offset);
            differences.push([difference, product]);
            product = L::product(&product, &difference);
        }
        let mut inverse = invert_lanes(&product)?;
        while at < pairs {
            ask_for::<L>(ahead, 16 * at);
            let [difference, before] = &differences[pairs - 1 - at];
            let own = L::product(&inverse, before);
            inverse = L::product(&inverse, difference);
            let [[x1, y1], [x2, y2]] = [&points[2 * at], &points[2 * at + 1]];
            let slope = L::product(&y2.minus(y1, &offset), &own);
            let x3 = L::square(&slope).minus_both(x1, x2, &offset);
            let y3 = L::product(&slope, &x1.minus(&x3, &next)).minus(y1, &offset);
            points[at] = [x3, y3];
            at += 1;
        }
        if points.len() % 2 == 1 {
            points[pairs] = points[points.len() - 1];
        }
        points.truncate(points.len().div_ceil(2));
        ahead = &[];
        level += 1;
    }
    Some(())
}

/// Adds a multiple of eight keys in a tree; `None` when it meets two points of the same x.
#[inline(always)]
fn add_in_tree<L: Eight>(keys: &[&PackedKey], work: &mut Work<L>) -> Option<Point<L>> {
    let Work { size, chunk, left, differences } = work;
    let (size, stay) = (*size, *size >> LOW_LEVELS);
    let mut sum = Point::infinity();
    left.clear();
    let mut at = 0;
    while at < keys.len() {
        let end = keys.len().min(at + 8 * size);
        chunk.clear();
        // A loop, since what an iterator calls is compiled for any processor.
        while let Some(eight) = keys[at..end].first_chunk::<8>() {
            if let Some(ahead) = keys.get(at + AHEAD..).and_then(<[&PackedKey]>::first_chunk::<8>) {
                for key in ahead {
                    L::prefetch(&key.0);
                }
            }
            chunk.push(spread(eight));
            at += 8;
        }
        add_pairs(chunk, differences, (0, stay), &keys[at..])?;
        left.append(chunk);
        if left.len() + stay > size || at == keys.len() {
            add_pairs(left, differences, (LOW_LEVELS, 1), &[])?;
            if let Some(points) = left.pop() {
                sum = sum.plus(&Point::affine(&points));
            }
        }
    }
    Some(sum)
}

/// Adds a multiple of eight keys by complete formulas, eight lanes side by side.
#[inline(always)]
fn add_completely<L: Eight>(keys: &[&PackedKey]) -> Point<L> {
    let mut sum = Point::infinity();
    let mut at = 0;
    while let Some(eight) = keys[at..].first_chunk::<8>() {
        sum = sum.plus(&Point::affine(&spread(eight)));
        at += 8;
    }
    sum
}

/// Adds keys one after the other, by complete formulas.
pub(crate) fn add_slowly(keys: &[&PackedKey]) -> Point<u64> {
    keys.iter().fold(Point::infinity(), |sum, key| sum.plus(&Point::of(key)))
}

/// Adds any number of keys.
#[inline(always)]
pub(crate) fn add_all<L: Eight>(keys: &[&PackedKey], work: &mut Work<L>) -> Point<u64> {
    let (whole, rest) = keys.split_at(keys.len() / 8 * 8);
    let rest = add_slowly(rest);
    if whole.is_empty() {
        return rest;
    }
    let sum = match add_in_tree::<L>(whole, work) {
        Some(sum) => sum,
        None => add_completely(whole),
    };
    sum.folded().plus(&rest)
}

#[cfg(test)]
mod tests {
    use super::add_slowly;
    use crate::point::{PackedKey, Sum};
    use crate::testing::{Drawn, keys, negated};
    use crate::{Adder, Path};

    /// In builds with planted bugs the one that the environment names is on.
    fn adders() -> Vec<Adder> {
        #[cfg(synod_plant)]
        crate::planted::activate(&std::env::var("SYNOD_PLANT").unwrap_or_default());
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
                assert_eq!(adder.sum(&some), slow, "{count} keys, {:?}", adder.path());
            }
        }
    }

    #[test]
    fn more_than_a_chunk_is_added_in_chunks() {
        let all = keys(20_000, 11);
        let some = refs(&all);
        let slow = add_slowly(&some).to_sum();
        assert_eq!(Adder::new().sum(&some), slow);
    }

    #[test]
    fn what_is_left_of_chunks_is_added_whenever_there_is_a_chunk_of_it() {
        let all = keys(5_000, 16);
        let mut work = super::Work::<crate::lanes::Plain>::of(32);
        for count in [250, 256, 264, 512, 4_096, 8_184, 8_192, 8_200, 9_000, 20_000] {
            // One key left of each chunk of 256, and 32 chunks of them, more than twice.
            let some: Vec<&PackedKey> = all.iter().cycle().step_by(7).take(count).collect();
            let sum = super::add_all(&some, &mut work).to_sum();
            assert_eq!(sum, add_slowly(&some).to_sum(), "{count} keys");
            assert!(work.chunk.capacity() <= 64 && work.left.capacity() <= 64, "memory is bounded");
        }
    }

    #[test]
    fn points_that_meet_behind_the_first_levels_are_added_right() {
        // Eight lanes of eight equal chunks: what is left of one is what is left of the next.
        let some: Vec<PackedKey> = keys(8 * 32, 17).repeat(8);
        let mut work = super::Work::<crate::lanes::Plain>::of(32);
        let sum = super::add_all(&refs(&some), &mut work).to_sum();
        assert_eq!(sum, add_slowly(&refs(&some)).to_sum());
        let tree = super::add_in_tree(&refs(&some), &mut work);
        assert!(tree.is_none(), "the tree cannot add them");
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
                assert_eq!(adder.sum(&some), slow, "{:?}", adder.path());
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
            assert_eq!(adder.sum(&both), Sum::Infinity);
            assert_eq!(adder.sum(&mixed), Sum::Infinity);
            assert_eq!(adder.sum(&[]), Sum::Infinity);
        }
    }

    #[test]
    fn the_path_is_what_the_processor_has() {
        assert_eq!(Adder::portable().path(), Path::Portable);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(Adder::new().path() == Path::Avx512, crate::ifma::is_here());
    }
}
