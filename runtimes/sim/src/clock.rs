//! A node's clocks: virtual time bent by offset, drift and steps.
//!
//! The monotonic clock of an incarnation starts at a drawn value, so a machine that keeps a monotonic time across a
//! restart is found. The wall clock starts at a fixed date plus the node's offset and may be stepped.

use synod_machine::host::At;
use synod_machine::{Time, Wall};

/// The wall clock at virtual time zero, in Unix milliseconds.
pub(crate) const WALL_START: u64 = 1_750_000_000_000;

const BILLION: u64 = 1_000_000_000;

/// The clocks of one node.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    since: u64,
    base: u64,
    rate_ppb: u64,
    wall_shift_ms: i64,
}

impl Clock {
    pub(crate) const fn new() -> Self {
        Self { since: 0, base: 0, rate_ppb: BILLION, wall_shift_ms: 0 }
    }

    /// A new incarnation starts at virtual `now`; its monotonic clock shows `base`.
    pub(crate) const fn restart(&mut self, now: u64, base: u64) {
        self.since = now;
        self.base = base;
    }

    /// Makes the clock run faster or slower from now on, by parts per billion.
    pub(crate) fn drift(&mut self, now: u64, ppb: i64) {
        self.base = self.local(now);
        self.since = now;
        self.rate_ppb = BILLION.saturating_add_signed(ppb.clamp(-500_000_000, 500_000_000));
    }

    /// Moves the wall clock at once.
    pub(crate) const fn step(&mut self, ms: i64) {
        self.wall_shift_ms = self.wall_shift_ms.saturating_add(ms);
    }

    /// What the node's monotonic clock shows at virtual `now`.
    pub(crate) fn local(&self, now: u64) -> u64 {
        let passed =
            u128::from(now.saturating_sub(self.since)) * u128::from(self.rate_ppb) / u128::from(BILLION);
        self.base.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// The first virtual time at which the monotonic clock shows at least `local`.
    pub(crate) fn when(&self, local: u64) -> u64 {
        let ahead = u128::from(local.saturating_sub(self.base)) * u128::from(BILLION);
        let wait = ahead.div_ceil(u128::from(self.rate_ppb));
        self.since.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    pub(crate) fn at(&self, now: u64) -> At {
        let wall = WALL_START.saturating_add(now / 1_000_000).saturating_add_signed(self.wall_shift_ms);
        At { now: Time(self.local(now)), wall: Wall(wall) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_never_early_and_at_most_one_tick_late() {
        let mut clock = Clock::new();
        clock.restart(1_000, 77);
        for ppb in [0, 500_000, -500_000, 333_333_333, -123_456] {
            clock.drift(5_000_003, ppb);
            for ahead in [1, 999, 1_000_000, 7_777_777_777] {
                let due = clock.local(5_000_003) + ahead;
                let when = clock.when(due);
                assert!(clock.local(when) >= due, "fired early at {ppb} ppb");
                assert!(clock.local(when - 1) < due, "fired late at {ppb} ppb");
            }
        }
    }

    #[test]
    fn the_monotonic_clock_never_falls_when_the_drift_changes() {
        let mut clock = Clock::new();
        clock.restart(0, 10);
        let before = clock.local(1 << 40);
        clock.drift(1 << 40, -400_000_000);
        assert_eq!(clock.local(1 << 40), before);
        assert!(clock.local((1 << 40) + 100) > before);
    }

    #[test]
    fn the_wall_clock_steps_and_the_monotonic_one_does_not() {
        let mut clock = Clock::new();
        let before = clock.at(2_000_000);
        clock.step(-10_000);
        let after = clock.at(2_000_000);
        assert_eq!((before.now, before.wall.0 - 10_000), (after.now, after.wall.0));
    }
}
