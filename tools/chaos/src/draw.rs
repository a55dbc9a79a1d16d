//! Numbers drawn from a seed.

use std::time::Duration;

/// Numbers drawn from a seed (SplitMix64): the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Draws from this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 for no bound.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next() % (bound.max(1) as u64);
        usize::try_from(drawn).unwrap_or(0)
    }

    /// One of two.
    pub const fn coin(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }

    /// A time of this mean as between the events of a Poisson process, at most four means.
    #[expect(clippy::float_arithmetic, reason = "the length of a pause, which decides nothing")]
    pub fn pause(&mut self, mean: Duration) -> Duration {
        let drawn = u32::try_from(self.next() >> 32).unwrap_or(0);
        let share = (f64::from(drawn) + 1.0) / 4_294_967_296.0;
        mean.mul_f64((-share.ln()).clamp(0.0, 4.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;
    use std::time::Duration;

    #[test]
    fn pauses_have_their_mean_and_a_seed_repeats_them() {
        let mean = Duration::from_secs(2);
        let mut draw = Draw::new(7);
        let pauses: Vec<Duration> = (0..2_000).map(|_| draw.pause(mean)).collect();
        let measured = pauses.iter().sum::<Duration>() / 2_000;
        assert!((1_800..2_150).contains(&measured.as_millis()), "{measured:?}");
        let mut again = Draw::new(7);
        assert!(pauses.iter().all(|pause| *pause == again.pause(mean)));
    }
}
