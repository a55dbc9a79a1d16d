//! A token bucket with a burst of its own: how fast a socket may send.

use synod_machine::{Span, Time};

const SECOND: u64 = 1_000_000_000;

/// So many packets per second, at most `burst` saved up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    rate: u64,
    burst: u64,
    /// Packets times a second.
    saved: u64,
    at: Time,
}

impl Pace {
    /// A full bucket; a rate or burst of 0 counts as 1.
    pub(crate) const fn new(rate: u32, burst: u32, now: Time) -> Self {
        let (rate, burst) =
            (if rate == 0 { 1 } else { rate as u64 }, if burst == 0 { 1 } else { burst as u64 });
        Self { rate, burst, saved: burst * SECOND, at: now }
    }

    /// Packets that may be sent now.
    pub(crate) fn open(&mut self, now: Time) -> usize {
        let since = now.since(self.at).0;
        self.at = self.at.max(now);
        self.saved = since.saturating_mul(self.rate).saturating_add(self.saved).min(self.burst * SECOND);
        usize::try_from(self.saved / SECOND).unwrap_or(usize::MAX)
    }

    /// Counts packets that were sent, no more than were open.
    pub(crate) fn take(&mut self, packets: usize) {
        let packets = u64::try_from(packets).unwrap_or(u64::MAX).saturating_mul(SECOND);
        assert!(packets <= self.saved, "no more is sent than is open");
        self.saved -= packets;
    }

    /// When a quarter of the burst is there again: whoever waits is looked at a few times per burst, not per packet.
    pub(crate) fn opens(&self) -> Time {
        let wanted = (self.burst / 4).max(1) * SECOND;
        self.at + Span(wanted.saturating_sub(self.saved).div_ceil(self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_brings_the_rate_and_a_rest_no_more_than_the_burst() {
        let mut pace = Pace::new(1_000, 16, Time(1));
        let (mut now, mut sent) = (Time(1), 0);
        while now < Time(SECOND + 1) {
            let open = pace.open(now);
            assert!(open <= 16);
            pace.take(open);
            sent += open;
            assert!(pace.opens() > now);
            now = pace.opens();
        }
        assert!((1_000..=1_016).contains(&sent), "{sent} packets");
        assert_eq!(pace.open(Time(100 * SECOND)), 16);
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_brings_nothing() {
        let mut pace = Pace::new(1_000, 4, Time(SECOND));
        let open = pace.open(Time(SECOND));
        pace.take(open);
        assert_eq!((pace.open(Time(SECOND)), pace.open(Time(5))), (0, 0));
    }
}
