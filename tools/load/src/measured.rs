//! What a run gathered.

use std::time::Duration;

use synod_host::Outcome;

use crate::Latency;

/// Outcomes counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Executed, with a result that f + 1 members gave.
    pub accepted: u64,
    /// Never executed.
    pub rejected: u64,
    /// Executed or not.
    pub unknown: u64,
}

impl Tally {
    /// Counts the outcomes of one call.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Accepted { .. } => tally.accepted += 1,
                Outcome::Rejected { .. } => tally.rejected += 1,
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
    }
}

/// The result of one run of a generator, after its warm-up.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Outcomes inside the measured time.
    pub tally: Tally,
    /// Outcomes of the whole run, warm-up included: what the audit compares with the state.
    pub whole: Tally,
    /// Latencies of accepted operations inside the measured time.
    pub latency: Latency,
    /// The measured time.
    pub elapsed: Duration,
    /// Operations offered per second; the rate of an open loop.
    pub offered_per_s: f64,
    /// The longest time inside the run without an accepted operation.
    pub gap: Duration,
}

impl Measured {
    /// Accepted operations per second.
    #[must_use]
    pub fn achieved_per_s(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { count(self.tally.accepted) / seconds } else { 0.0 }
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
    use super::{Measured, Tally, count};
    use std::time::Duration;
    use synod_host::Outcome;

    #[test]
    fn outcomes_are_counted_by_kind() {
        let outcomes = [
            Outcome::Unknown(None),
            Outcome::Rejected { code: 3_402, retry_ms: 1 },
            Outcome::Accepted { value: bytes::Bytes::new(), position: 1 },
            Outcome::Unknown(None),
        ];
        assert_eq!(Tally::of(&outcomes), Tally { accepted: 1, rejected: 1, unknown: 2 });
    }

    #[test]
    fn a_rate_is_accepted_over_elapsed_and_held_within_five_percent() {
        let tally = Tally { accepted: 950, ..Tally::default() };
        let elapsed = Duration::from_secs(1);
        let mut measured = Measured { tally, elapsed, offered_per_s: 1_000.0, ..Measured::default() };
        assert!((measured.achieved_per_s() - 950.0).abs() < 1e-9);
        assert!(measured.held());
        measured.tally.accepted = 949;
        assert!(!measured.held());
    }

    #[test]
    fn counts_become_floats_without_loss() {
        for n in [0, 1, 65_535, 65_536, 1_000_003, 1 << 40] {
            assert_eq!(format!("{:.0}", count(n)), n.to_string());
        }
    }
}
