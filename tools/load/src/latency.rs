//! Latencies in microseconds, three significant digits.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// A histogram from 1 microsecond to 100 seconds.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

const MAX_US: u64 = 100_000_000;

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_US, 3);
        Self { histogram: histogram.expect("1 us to 100 s at three digits are bounds a histogram can have") }
    }
}

impl Latency {
    /// Adds `count` operations that took `us`.
    pub fn record(&mut self, us: u64, count: u64) {
        self.histogram.saturating_record_n(us.clamp(1, MAX_US), count);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms here have the same bounds");
    }

    /// The value below which this share of operations lies, in microseconds.
    #[must_use]
    pub fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// Number of operations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// `p50, p90, p99, p999, max` in microseconds; a mean is never shown.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "p50": self.at(0.5), "p90": self.at(0.9), "p99": self.at(0.99), "p999": self.at(0.999),
            "max": self.histogram.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Latency;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut latency = Latency::default();
        (1..=1_000).for_each(|us| latency.record(us, 1));
        assert_eq!((latency.at(0.5), latency.at(0.99), latency.count()), (500, 990, 1_000));
        let mut other = Latency::default();
        other.record(2_000, 1_000);
        latency.merge(&other);
        assert_eq!(latency.count(), 2_000);
        assert!(latency.at(0.75) >= 1_999);
    }

    #[test]
    fn nothing_is_lost_beyond_the_bounds() {
        let mut latency = Latency::default();
        latency.record(0, 1);
        latency.record(u64::MAX, 1);
        assert_eq!(latency.count(), 2);
    }
}
