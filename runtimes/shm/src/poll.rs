//! The polling loop: one thread, round robin over what it polls (docs/papers/ubft.md, section on the runtime).
//!
//! *How.* A pass ticks every item once. If none found anything, the poller yields its core; after [`RESTLESS`] of
//! nothing, and no timer due within as long again, it sleeps until somebody rings or the next timer is due. The clock is read
//! every [`TICKS_PER_CLOCK`] ticks and whenever a pass found nothing.
//!
//! *Bounds.* No allocation in a pass that does not sleep; one that is parked hears that it is to stop when it is rung. A wake-up from sleep takes 24 to 27 us, so nothing that is waited for may sleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use synod_machine::{Span, Time};

use crate::doorbell::{Doorbell, Look, Woken};
use crate::error::Error;
use crate::placement::{Placement, Rest, TooFewCores, cores};

/// How long nothing has to be found before a poller sleeps.
pub const RESTLESS: Span = Span::micros(50);
/// Ticks between two looks at the clock.
pub const TICKS_PER_CLOCK: u32 = 64;

/// What a tick found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something, and there may be more.
    Worked,
    /// Nothing.
    Idle {
        /// When the next timer is due.
        next_timer: Option<Time>,
    },
}

impl Progress {
    /// What two ticks together found: work of either, or the earlier timer.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Worked, _) | (_, Self::Worked) => Self::Worked,
            (Self::Idle { next_timer: a }, Self::Idle { next_timer: b }) => {
                Self::Idle { next_timer: a.into_iter().chain(b).min() }
            }
        }
    }
}

/// What is polled: a machine with its rings.
pub trait Polled {
    /// Does a bounded part of what there is to do. `now` may be a few ticks old.
    fn tick(&mut self, now: Time) -> Progress;
}

/// A clock that does not go back.
pub trait Clock {
    /// The time.
    fn now(&self) -> Time;
}

/// The system's, from the moment it was made on.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic(Instant);

impl Monotonic {
    /// A clock that shows zero.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Time {
        // Nanoseconds of 584 years fit.
        Time(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// What a pass came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// An item worked.
    Worked,
    /// None did, and a timer is due.
    Due,
    /// None did; the poller gave its core away, or kept it if it may spin.
    Rested,
    /// None did for long; it slept, or wanted to.
    Slept(Woken),
}

/// The polling loop.
#[derive(Debug)]
pub struct Poller<P, C> {
    items: Vec<P>,
    clock: C,
    rest: Rest,
    bell: Doorbell,
    now: Time,
    ticks: u32,
    idle_since: Option<Time>,
}

impl<P: Polled, C: Clock> Poller<P, C> {
    /// A poller of `items` that rests as `rest` says and is woken by `bell`.
    pub fn new(items: Vec<P>, clock: C, rest: Rest, bell: Doorbell) -> Self {
        let now = clock.now();
        Self { items, clock, rest, bell, now, ticks: 0, idle_since: None }
    }

    /// One pass over all items, and the rest behind it.
    ///
    /// # Errors
    /// What the system said to a sleep.
    pub fn pass(&mut self) -> Result<Pass, Error> {
        let Progress::Idle { next_timer } = self.tick_all() else {
            self.idle_since = None;
            return Ok(Pass::Worked);
        };
        self.now = self.clock.now();
        let since = *self.idle_since.get_or_insert(self.now);
        if next_timer.is_some_and(|due| due <= self.now) {
            return Ok(Pass::Due);
        }
        let soon = next_timer.is_some_and(|due| due.since(self.now) <= RESTLESS);
        if soon || self.now.since(since) < RESTLESS {
            match self.rest {
                Rest::Yield => std::thread::yield_now(),
                Rest::Spin => std::hint::spin_loop(),
            }
            return Ok(Pass::Rested);
        }
        self.sleep().map(Pass::Slept)
    }

    fn sleep(&mut self) -> Result<Woken, Error> {
        let (items, clock, now) = (&mut self.items, &self.clock, self.now);
        let woken = self.bell.sleep(|| match tick(items, now) {
            Progress::Worked => Look::Found,
            Progress::Idle { next_timer } => {
                let now = clock.now();
                Look::Nothing(next_timer.map(|due| Duration::from_nanos(due.since(now).0)))
            }
        });
        self.now = self.clock.now();
        self.idle_since = None;
        woken
    }

    fn tick_all(&mut self) -> Progress {
        let mut all = Progress::Idle { next_timer: None };
        for item in &mut self.items {
            all = all.and(item.tick(self.now));
            self.ticks += 1;
            if self.ticks == TICKS_PER_CLOCK {
                self.ticks = 0;
                self.now = self.clock.now();
            }
        }
        all
    }

    /// Polls until `stop` is set. Who sets it from another thread rings as well.
    ///
    /// # Errors
    /// What the system said to a sleep.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        while !stop.load(Ordering::Relaxed) {
            self.pass()?;
        }
        Ok(())
    }

    /// The bell, to add cords to.
    pub const fn bell(&mut self) -> &mut Doorbell {
        &mut self.bell
    }

    /// What it polls.
    pub fn items(&mut self) -> &mut [P] {
        &mut self.items
    }
}

fn tick<P: Polled>(items: &mut [P], now: Time) -> Progress {
    items.iter_mut().fold(Progress::Idle { next_timer: None }, |all, item| all.and(item.tick(now)))
}

/// Says how pollers of a group of `processes` rest on the cores of the calling thread, and warns where they were to
/// spin and must not.
///
/// # Errors
/// What the system said.
pub fn rest_here(placement: Placement, processes: u32) -> Result<(Rest, Option<TooFewCores>), Error> {
    let (rest, why) = placement.rest(processes, cores()?);
    if let Some(why) = why {
        tracing::warn!(cores = why.cores, processes = why.processes, "{why}");
    }
    Ok((rest, why))
}
