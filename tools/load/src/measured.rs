//! What a run gathered.

use std::time::{Duration, Instant};

use synod_config::code;
use synod_host::Outcome;

use crate::Latency;

/// Outcomes counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Executed, with a result that f + 1 members gave, or the gateway in their name.
    pub accepted: u64,
    /// Never executed.
    pub rejected: u64,
    /// Executed or not.
    pub unknown: u64,
    /// Those of the rejected that were refused for load.
    pub busy: u64,
}

impl Tally {
    /// Counts the outcomes of one call.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Accepted { .. } => tally.accepted += 1,
                Outcome::Rejected { code, .. } => {
                    tally.rejected += 1;
                    tally.busy += u64::from(*code == code::BUSY.number());
                }
                Outcome::Unknown(_) => tally.unknown += 1,
            }
        }
        tally
    }

    /// Adds another tally.
    pub const fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.unknown += other.unknown;
        self.busy += other.busy;
    }
}

/// When a run measures.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// When the load starts.
    pub start: Instant,
    /// Time before measuring.
    pub warmup: Duration,
    /// Time measured.
    pub measure: Duration,
}

impl Window {
    /// A window whose load starts now.
    #[must_use]
    pub fn now(warmup: Duration, measure: Duration) -> Self {
        Self { start: Instant::now(), warmup, measure }
    }

    /// When measuring begins.
    #[must_use]
    pub fn begin(&self) -> Instant {
        self.start + self.warmup
    }

    /// When measuring ends, and the load with it.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.begin() + self.measure
    }
}

/// The longest time without an acknowledged operation, inside a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    last: Instant,
    end: Instant,
    longest: Duration,
}

impl Gap {
    pub(crate) fn new(window: &Window) -> Self {
        Self { last: window.begin(), end: window.end(), longest: Duration::ZERO }
    }

    /// Something was acknowledged. Moments come in order.
    pub(crate) fn acknowledged(&mut self, now: Instant) {
        let now = now.min(self.end);
        self.longest = self.longest.max(now.saturating_duration_since(self.last));
        self.last = self.last.max(now);
    }

    /// The longest time, with that up to the window's end.
    pub(crate) fn longest(&self) -> Duration {
        self.longest.max(self.end.saturating_duration_since(self.last))
    }
}

/// The result of one run of a generator, after its warm-up.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Outcomes inside the measured time; those of operations due inside it in an open loop.
    pub tally: Tally,
    /// Operations accepted inside the measured time, whenever they were due.
    pub completed: u64,
    /// Latencies of accepted operations inside the measured time.
    pub latency: Latency,
    /// The measured time.
    pub elapsed: Duration,
    /// Operations offered per second; the rate of an open loop.
    pub offered_per_s: f64,
    /// The longest time inside the measured time without an accepted operation.
    pub gap: Duration,
}

impl Measured {
    /// Accepted operations per second.
    #[must_use]
    pub fn achieved_per_s(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { count(self.completed) / seconds } else { 0.0 }
    }

    /// Whether an open loop achieved its rate within 5 %.
    #[must_use]
    pub fn held(&self) -> bool {
        self.achieved_per_s() >= 0.95 * self.offered_per_s
    }
}

/// A count as a float, for rates.
pub(crate) fn count(n: u64) -> f64 {
    // Rates are for people: above 2^32 operations a rounding of one does not show.
    f64::from(u32::try_from(n >> 16).unwrap_or(u32::MAX)) * 65_536.0
        + f64::from(u16::try_from(n & 0xffff).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{Gap, Measured, Tally, Window, count};
    use std::time::{Duration, Instant};
    use synod_host::Outcome;

    #[test]
    fn outcomes_are_counted_by_kind() {
        let outcomes = [
            Outcome::Unknown(None),
            Outcome::Rejected { code: 3_402, retry_ms: 1 },
            Outcome::Rejected { code: 3_002, retry_ms: 0 },
            Outcome::Accepted { value: bytes::Bytes::new(), position: 1 },
            Outcome::Unknown(None),
        ];
        assert_eq!(Tally::of(&outcomes), Tally { accepted: 1, rejected: 2, unknown: 2, busy: 1 });
    }

    #[test]
    fn a_rate_is_accepted_over_elapsed_and_held_within_five_percent() {
        let elapsed = Duration::from_secs(1);
        let mut measured =
            Measured { completed: 950, elapsed, offered_per_s: 1_000.0, ..Measured::default() };
        assert!((measured.achieved_per_s() - 950.0).abs() < 1e-9);
        assert!(measured.held());
        measured.completed = 949;
        assert!(!measured.held());
    }

    #[test]
    fn counts_become_floats_without_loss() {
        for n in [0, 1, 65_535, 65_536, 1_000_003, 1 << 40] {
            assert_eq!(format!("{:.0}", count(n)), n.to_string());
        }
    }

    #[test]
    fn a_gap_is_cut_to_the_window_and_counts_up_to_its_end() {
        let second = Duration::from_secs(1);
        let window = Window { start: Instant::now(), warmup: second * 5, measure: second * 10 };
        let at = |seconds: u32| window.start + second * seconds;
        let gap = |moments: &[u32]| {
            let mut gap = Gap::new(&window);
            moments.iter().for_each(|moment| gap.acknowledged(at(*moment)));
            gap.longest()
        };
        assert_eq!(gap(&[]), second * 10, "nothing at all");
        assert_eq!(gap(&[1, 8, 9]), second * 6, "what went before the window counts from its begin");
        assert_eq!(gap(&[6, 13, 14, 30]), second * 7);
        assert_eq!(gap(&[4, 6, 7]), second * 8, "up to the end");
    }
}
