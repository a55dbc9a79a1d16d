//! Times of late, and buckets that refill.

use std::collections::VecDeque;

use synod_machine::{Span, Time};

/// Times that are remembered.
const SPANS: usize = 64;

/// The last times that something took.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(VecDeque<Span>);

impl Recent {
    pub(super) fn add(&mut self, span: Span) {
        if self.0.len() >= SPANS {
            self.0.pop_front();
        }
        self.0.push_back(span);
    }

    /// The time that `percent` of them did not exceed; none before the first.
    pub(super) fn quantile(&self, percent: usize) -> Option<Span> {
        let mut sorted: Vec<Span> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied()
    }
}

/// Straggles that a client or a link may still cause: 8, and one more every 10 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    left: u32,
    since: Time,
}

/// Straggles of a full bucket.
const FULL: u32 = 8;
/// Time after which one more is allowed.
const REFILL: Span = Span::secs(10);

impl Bucket {
    pub(super) const fn full(now: Time) -> Self {
        Self { left: FULL, since: now }
    }

    fn refilled(self, now: Time) -> Self {
        let more = now.since(self.since).0 / REFILL.0;
        let left = u64::from(self.left).saturating_add(more).min(u64::from(FULL));
        Self { left: u32::try_from(left).unwrap_or(FULL), since: self.since + REFILL.times(more) }
    }

    pub(super) fn is_empty(self, now: Time) -> bool {
        self.refilled(now).left == 0
    }

    pub(super) fn is_full(self, now: Time) -> bool {
        self.refilled(now).left == FULL
    }

    pub(super) fn charge(&mut self, now: Time) {
        let since = if self.is_full(now) { now } else { self.refilled(now).since };
        *self = Self { left: self.refilled(now).left.saturating_sub(1), since };
    }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, Recent};
    use synod_machine::{Span, Time};

    #[test]
    fn eight_straggles_are_free_and_one_more_every_ten_seconds() {
        let start = Time::ZERO;
        let mut bucket = Bucket::full(start);
        for _ in 0..8 {
            assert!(!bucket.is_empty(start));
            bucket.charge(start);
        }
        assert!(bucket.is_empty(start) && bucket.is_empty(start + Span::millis(9_999)));
        let later = start + Span::secs(10);
        assert!(!bucket.is_empty(later));
        bucket.charge(later);
        assert!(bucket.is_empty(later + Span::millis(9_999)));
        assert!(bucket.is_full(later + Span::secs(80)) && !bucket.is_full(later + Span::secs(79)));
    }

    #[test]
    fn quantiles_are_of_the_last_times() {
        let mut recent = Recent::default();
        assert_eq!(recent.quantile(95), None);
        (1..=100).for_each(|n| recent.add(Span::millis(n)));
        assert_eq!(recent.quantile(100), Some(Span::millis(100)));
        assert_eq!(recent.quantile(0), Some(Span::millis(37)));
        assert_eq!(recent.quantile(50), Some(Span::millis(68)));
    }
}
