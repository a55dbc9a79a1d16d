//! Distributions that hot loops add to: a fixed array of buckets, no lock, no allocation.
//!
//! *Bounds.* A histogram has the buckets it was made with and one more for what lies above them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// Upper bounds of the buckets of durations, in nanoseconds: 20 us to 10 s.
pub const TIMES_NS: &[u64] = &[
    20 * US,
    50 * US,
    100 * US,
    200 * US,
    300 * US,
    500 * US,
    750 * US,
    MS,
    1_500 * US,
    2 * MS,
    3 * MS,
    4 * MS,
    5 * MS,
    7 * MS,
    10 * MS,
    15 * MS,
    20 * MS,
    30 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    1_000 * MS,
    2_000 * MS,
    5_000 * MS,
    10_000 * MS,
];

/// Upper bounds of the buckets of counts.
pub const COUNTS: &[u64] =
    &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/// Upper bounds of the buckets of sizes, in bytes: 256 B to 16 MiB.
pub const SIZES: &[u64] = &[
    1 << 8,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 20,
    1 << 22,
    1 << 24,
];

/// A distribution of whole numbers.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One per bound, and one for what lies above all.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Upper bound of each bucket, ascending, with the events in that bucket alone.
    pub buckets: Vec<(u64, u64)>,
    /// All events, those above the last bound included.
    pub count: u64,
    /// Sum of their values; it wraps beyond 64 bits.
    pub sum: u64,
}

impl Histogram {
    /// An empty one; the bounds ascend.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.is_sorted(), "bounds of buckets ascend");
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Counts one value.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value that came `times` times.
    pub fn record_many(&self, value: u64, times: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[at].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value.wrapping_mul(times), Ordering::Relaxed);
    }

    /// Counts one duration, in nanoseconds.
    pub fn time(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What was counted so far. Events that are counted meanwhile may be in the buckets and not yet in the sum.
    #[must_use]
    pub fn read(&self) -> Reading {
        let counts: Vec<u64> = self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let count = counts.iter().sum();
        let buckets = self.bounds.iter().copied().zip(counts).collect();
        Reading { buckets, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(COUNTS);
        [0, 1, 2, 3, 65_536, 65_537, 1 << 40].into_iter().for_each(|value| histogram.record(value));
        let read = histogram.read();
        let filled: Vec<_> = read.buckets.iter().copied().filter(|(_, events)| *events > 0).collect();
        assert_eq!(filled, [(1, 2), (2, 1), (4, 1), (65_536, 1)]);
        assert_eq!((read.count, read.sum), (7, 6 + 65_536 + 65_537 + (1 << 40)));
    }

    #[test]
    fn durations_are_counted_in_nanoseconds() {
        let histogram = Histogram::new(TIMES_NS);
        histogram.time(Duration::from_micros(20));
        histogram.time(Duration::from_micros(21));
        let read = histogram.read();
        assert_eq!((read.buckets[0].1, read.buckets[1].1, read.sum), (1, 1, 41_000));
    }

    #[test]
    fn every_table_of_bounds_ascends() {
        for bounds in [TIMES_NS, COUNTS, SIZES] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
