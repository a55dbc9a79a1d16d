//! Counter-based draws: one ChaCha8 stream per (seed, component, entity).
//!
//! The key of a stream is the BLAKE3 digest of the three; its position is that entity's own counter. A fault, node
//! or client that is removed takes its own stream with it and leaves every other draw unchanged, which is what
//! makes shrinking work. All arithmetic is in integers, so debug and release builds draw the same values.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};
use synod_crypto::Hasher;

/// One in a million, the unit of probabilities here.
pub const PPM: u32 = 1_000_000;

/// The source of all streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    seed: u64,
}

impl Draws {
    /// The streams of the run of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed.
    #[must_use]
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// The stream of one entity of one component, at its start.
    #[must_use]
    pub fn stream(self, component: &str, entity: u64) -> Stream {
        let mut key = Hasher::new("synod sim draw");
        key.add(&self.seed.to_le_bytes()).add(component.as_bytes()).add(&entity.to_le_bytes());
        Stream(ChaCha8Rng::from_seed(key.finish().0))
    }
}

/// One entity's stream of draws.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// The next 32 bits; what ties are broken with.
    pub fn tie(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// An index into something of `len` elements; 0 when there are none.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True in `ppm` of a million cases. Always costs one draw.
    pub fn chance(&mut self, ppm: u32) -> bool {
        self.below(u64::from(PPM)) < u64::from(ppm)
    }

    /// An exponential value of mean `mean`, to about one percent; at most 45 times the mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        const LN_2: u128 = 2_977_044_472; // in units of 2^-32
        let bits = (64_u64 << 32) - log2(self.draw() | 1);
        u64::try_from((u128::from(mean) * u128::from(bits) * LN_2) >> 64).unwrap_or(u64::MAX)
    }

    /// A log-normal value of this median, with a standard deviation of one doubling; at most 64 times the median.
    pub fn log_normal(&mut self, median: u64) -> u64 {
        // Twelve uniform values add up to a normal one with variance 1, around 6.
        let sum: u64 = (0..12).map(|_| self.draw() >> 32).sum();
        let scaled = u128::from(exp2(sum)) * u128::from(median);
        u64::try_from(scaled >> 6).unwrap_or(u64::MAX)
    }

    /// A value from `low` (at least 1) to `high` whose logarithm is uniform.
    pub fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let low = low.max(1);
        let exponent = self.between(log2(low), log2(high.max(low)));
        exp2(exponent).clamp(low, high.max(low))
    }

    /// One of `choices`; `None` when there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }

    /// Puts `items` in a uniform order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

/// The curvature of the logarithm between powers of two, in units of 2^-32: about 0.344.
const CURVE: u64 = 1_477_468_749;

fn curve(fraction: u64) -> u64 {
    let product = (fraction * ((1 << 32) - fraction)) >> 32;
    (product * CURVE) >> 32
}

/// The binary logarithm of `x >= 1` in units of 2^-32.
fn log2(x: u64) -> u64 {
    assert!(x > 0, "zero has no logarithm");
    let whole = 63 - u64::from(x.leading_zeros());
    let fraction = (x << x.leading_zeros() << 1) >> 32;
    (whole << 32) + fraction + curve(fraction)
}

/// Two to the power of `e`, given in units of 2^-32.
fn exp2(e: u64) -> u64 {
    let (whole, fraction) = (e >> 32, e & 0xffff_ffff);
    let mantissa = (1_u64 << 32) + fraction - curve(fraction);
    u64::try_from((u128::from(mantissa) << whole) >> 32).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_all_three_parts_of_their_key() {
        let first = |seed, component, entity| Draws::new(seed).stream(component, entity).draw();
        assert_eq!(first(1, "link", 2), first(1, "link", 2));
        assert_ne!(first(1, "link", 2), first(2, "link", 2));
        assert_ne!(first(1, "link", 2), first(1, "node", 2));
        assert_ne!(first(1, "link", 2), first(1, "link", 3));
    }

    #[test]
    fn log_normal_values_lie_around_their_median() {
        let mut stream = Draws::new(2).stream("log normal", 0);
        let values: Vec<u64> = (0..4_000).map(|_| stream.log_normal(1_000_000)).collect();
        let share = |low: u64, high: u64| values.iter().filter(|v| (low..high).contains(v)).count();
        assert!((1_850..2_150).contains(&share(0, 1_000_000)), "the median");
        assert!((2_500..2_950).contains(&share(500_000, 2_000_000)), "one standard deviation");
        assert!(share(4_000_000, u64::MAX) > 40, "the long tail");
    }

    #[test]
    fn one_entity_drawing_more_leaves_the_others_where_they_were() {
        let draws = Draws::new(9);
        let (mut a, mut b) = (draws.stream("node", 0), draws.stream("node", 1));
        for _ in 0..100 {
            a.draw();
        }
        assert_eq!(b.draw(), draws.stream("node", 1).draw());
    }

    #[test]
    fn logarithm_and_power_undo_each_other_to_one_percent() {
        for x in [1, 2, 3, 7, 100, 12_345, 1 << 40, (1 << 40) + (1 << 39), u64::MAX >> 2] {
            let back = exp2(log2(x));
            assert!(back.abs_diff(x) <= x / 100, "{x} came back as {back}");
        }
    }

    #[test]
    fn the_exponential_has_its_mean() {
        let mut stream = Draws::new(4).stream("test", 0);
        let sum: u64 = (0..100_000).map(|_| stream.exponential(1_000)).sum();
        assert!((98_000_000..102_000_000).contains(&sum), "the sum was {sum}");
    }

    #[test]
    fn the_log_uniform_reaches_every_decade_alike() {
        let mut stream = Draws::new(4).stream("test", 1);
        let mut decades = [0_u32; 4];
        for _ in 0..40_000 {
            let x = stream.log_uniform(1_000, 10_000_000);
            assert!((1_000..=10_000_000).contains(&x));
            decades[usize::try_from(x.ilog10().clamp(3, 6) - 3).expect("small")] += 1;
        }
        assert!(decades.iter().all(|n| (9_000..11_000).contains(n)), "{decades:?}");
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut stream = Draws::new(1).stream("test", 2);
        let drawn: Vec<u64> = (0..1_000).map(|_| stream.between(3, 6)).collect();
        assert!((3..=6).all(|x| drawn.contains(&x)));
        assert!(drawn.iter().all(|x| (3..=6).contains(x)));
        assert_eq!((stream.below(0), stream.index(0)), (0, 0));
        assert!((0..1_000).all(|_| stream.chance(PPM)) && !(0..1_000).any(|_| stream.chance(0)));
    }

    #[test]
    fn a_shuffle_keeps_the_items_and_moves_them() {
        let mut items: Vec<u32> = (0..50).collect();
        Draws::new(1).stream("test", 3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
