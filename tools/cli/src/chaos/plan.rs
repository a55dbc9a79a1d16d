//! What a run does to its cluster.

use std::time::Duration;

/// How the one faulty member behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It says nothing to anybody.
    Silent,
    /// It tells clients wrong results.
    Replies,
    /// It signs two proposals for each view it leads and votes for both.
    Equivocate,
}

impl Lie {
    /// The word of the command line and of reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Replies => "replies",
            Self::Equivocate => "equivocate",
        }
    }

    /// The line for the member's admin socket.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Silent => "silence on",
            Self::Replies => "lie on",
            Self::Equivocate => "equivocate on",
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: u16,
    /// Leaders killed at least.
    pub(crate) kills: u32,
    /// Mean time between a member's return and the next kill; exponentially distributed.
    pub(crate) kill_mean: Duration,
    /// How long a follower is stopped, if one is.
    pub(crate) stop: Option<Duration>,
    /// Whether all members are killed and started at once.
    pub(crate) restart_all: bool,
    /// What the one faulty member does; nobody is killed then.
    pub(crate) lie: Option<Lie>,
    /// How long leaders are killed, or the faulty member is faulty, at least.
    pub(crate) span: Duration,
    pub(crate) seed: u64,
}

/// Numbers drawn from the seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 for no bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next() % (bound.max(1) as u64);
        usize::try_from(drawn).unwrap_or(0)
    }

    /// A time of this mean as between the events of a Poisson process, at most four means.
    pub(crate) fn pause(&mut self, mean: Duration) -> Duration {
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
