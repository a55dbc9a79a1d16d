//! What happened when: counts in bins of equal length, and latencies.

use synod_machine::{Span, Time};

/// So much later.
#[must_use]
pub const fn later(than: Span, by: Span) -> Span {
    Span(than.0.saturating_add(by.0))
}

/// Counts per bin of virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    bin: Span,
    counts: Vec<u64>,
    /// Of what was counted, by its end: (when, how long it took).
    latencies: Vec<(Time, Span)>,
}

impl Timeline {
    /// Nothing yet, in bins of this length.
    #[must_use]
    pub const fn new(bin: Span) -> Self {
        Self { bin, counts: Vec::new(), latencies: Vec::new() }
    }

    /// Something ended that took so long.
    pub fn count(&mut self, at: Time, took: Span) {
        let bin = usize::try_from(at.0 / self.bin.0.max(1)).unwrap_or(usize::MAX);
        // A run has a few thousand bins; a later end than that is the run's last bin.
        let bin = bin.min(1 << 20);
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.latencies.push((at, took));
    }

    /// How many ended in [from, to).
    #[must_use]
    pub fn between(&self, from: Span, to: Span) -> u64 {
        self.latencies.iter().filter(|(at, _)| at.0 >= from.0 && at.0 < to.0).count() as u64
    }

    /// How many ended a second in [from, to).
    #[must_use]
    pub fn rate(&self, from: Span, to: Span) -> u64 {
        let length = to.0.saturating_sub(from.0).max(1);
        let count = u128::from(self.between(from, to));
        u64::try_from(count * 1_000_000_000 / u128::from(length)).unwrap_or(u64::MAX)
    }

    /// The latency of this part in a thousand of what ended in [from, to), in microseconds.
    #[must_use]
    pub fn latency_us(&self, (from, to): (Span, Span), permille: usize) -> u64 {
        let within = self.latencies.iter().filter(|(at, _)| at.0 >= from.0 && at.0 < to.0);
        let mut took: Vec<u64> = within.map(|(_, took)| took.0 / 1_000).collect();
        took.sort_unstable();
        took.get((took.len() * permille / 1_000).min(took.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// Per bin that ended before `end`: its beginning in ms, and how many ended a second.
    #[must_use]
    pub fn points(&self, end: Span) -> Vec<(u64, u64)> {
        let bins = usize::try_from(end.0 / self.bin.0.max(1)).unwrap_or(0);
        let of = |bin: usize| self.counts.get(bin).copied().unwrap_or(0);
        let at = |bin: usize| bin as u64 * self.bin.0 / 1_000_000;
        (0..bins).map(|bin| (at(bin), of(bin) * 1_000_000_000 / self.bin.0.max(1))).collect()
    }

    /// The longest time in [from, to) in which nothing ended, in ms.
    #[must_use]
    pub fn gap_ms(&self, from: Span, to: Span) -> u64 {
        let mut last = from.0;
        let mut longest = 0;
        let within = self.latencies.iter().map(|(at, _)| at.0).filter(|at| (from.0..to.0).contains(at));
        let mut times: Vec<u64> = within.collect();
        times.sort_unstable();
        for at in times.into_iter().chain([to.0]) {
            longest = longest.max(at - last);
            last = at;
        }
        longest / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, Time, Timeline};

    #[test]
    fn a_bin_without_an_end_is_zero_and_a_gap_counts_from_the_edges() {
        let mut line = Timeline::new(Span::millis(100));
        for ms in [10, 20, 310, 320, 330] {
            line.count(Time(Span::millis(ms).0), Span::millis(ms / 10));
        }
        assert_eq!(line.points(Span::millis(500)), [(0, 20), (100, 0), (200, 0), (300, 30), (400, 0)]);
        assert_eq!(line.gap_ms(Span::ZERO, Span::millis(330)), 290);
        assert_eq!(line.gap_ms(Span::millis(320), Span::secs(1)), 670);
        assert_eq!(line.rate(Span::ZERO, Span::millis(500)), 10);
        let all = (Span::ZERO, Span::secs(1));
        assert_eq!((line.latency_us(all, 500), line.latency_us(all, 999)), (31_000, 33_000));
        assert_eq!(Timeline::new(Span::millis(1)).latency_us(all, 500), 0);
    }
}
