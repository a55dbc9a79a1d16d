//! The clocks of the network runtime: monotonic since the node's start, wall for timestamps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use synod_machine::host::At;
use synod_machine::{Time, Wall};

/// Samples both clocks; copies share their start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts monotonic time at 1 ns, so that zero stays before everything.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn at(&self) -> At {
        let since = self.start.elapsed().as_nanos();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        At {
            now: Time(u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)),
            wall: Wall(u64::try_from(wall).unwrap_or(u64::MAX)),
        }
    }

    /// The instant at which `time` is reached.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        // A deadline beyond some hundred years is never reached anyway.
        self.start.checked_add(Duration::from_nanos(time.0)).unwrap_or_else(|| self.start + YEAR)
    }
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
