//! How fast clients are told what they answer (3.6, 4.3): no faster than they do answer.
//!
//! *Why.* All places of a batch leave a broker within a moment, and all answers come back within another; either overruns the
//! buffers of some socket, what was lost is asked for again, and asking again costs the time that answers need. So a window's
//! worth of datagrams waits for answers at any time, and each answer makes room for the next.
//!
//! *How wide.* Answers that come soon widen the window by one, late ones narrow it by one: it doubles or halves within a round
//! trip, and settles where answers take three of the shortest timeouts. What is not answered within the timeout waits no
//! longer: the silent cost others no room.
//!
//! *Bounds.* One number per batch with something to tell; the window has an upper end.

use std::collections::VecDeque;

use synod_machine::{Span, Time};

/// Answers that take longer than so many of the shortest timeouts narrow the window: what an answer takes by its nature, as
/// the next submission does that answers a delivery, says nothing about how full the way is.
const BRISK: u64 = 3;
/// The timeout before the first answer was measured.
const FIRST: Span = Span::millis(200);
/// The longest timeout before it is doubled.
const LONGEST: Span = Span::secs(1);
/// How often the timeout is doubled at most.
const DOUBLINGS_MAX: u32 = 4;

/// Datagrams that may wait for answers: at first, at least, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) first: u32,
    pub(super) least: u32,
    pub(super) most: u32,
}

impl Width {
    /// What the sockets of one broker hold without losing any.
    pub(super) const DEFAULT: Self = Self { first: 4_096, least: 1_024, most: 16_384 };
}

/// What one kind of datagram may do.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    width: Width,
    window: u32,
    waiting: u32,
    /// Smoothed time that answers take.
    round_trip: Option<Span>,
    floor: Span,
    /// Batches with something to tell, in turn.
    turns: VecDeque<u64>,
}

impl Flow {
    /// Nothing waits; timeouts are at least `floor`.
    pub(super) const fn new(width: Width, floor: Span) -> Self {
        let turns = VecDeque::new();
        Self { width, window: width.first, waiting: 0, round_trip: None, floor, turns }
    }

    /// Answers that are waited for.
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    pub(super) const fn has_room(&self) -> bool {
        self.waiting < self.window
    }

    /// The batch whose turn it is.
    pub(super) fn turn(&self) -> Option<u64> {
        self.turns.front().copied()
    }

    /// A batch has something to tell.
    pub(super) fn queue(&mut self, number: u64) {
        if !self.turns.contains(&number) {
            self.turns.push_back(number);
        }
    }

    /// The batch whose turn it is has nothing more to tell.
    pub(super) fn pass(&mut self) {
        self.turns.pop_front();
    }

    /// Somebody was told something.
    pub(super) const fn told(&mut self) {
        self.waiting += 1;
    }

    /// So many answers are not waited for any more.
    pub(super) const fn given_up(&mut self, count: u32) {
        assert!(count <= self.waiting, "what waits was told");
        self.waiting -= count;
    }

    /// An answer that was waited for came; with the time it took if nothing was told twice.
    pub(super) fn answered(&mut self, took: Option<Span>) {
        let used = self.waiting >= self.window / 2;
        self.given_up(1);
        let Some(took) = took else { return };
        let smooth = self.round_trip.map_or(took, |old| Span((old.0 / 8).saturating_mul(7) + took.0 / 8));
        self.round_trip = Some(smooth);
        if took > self.floor.times(BRISK) {
            self.window = self.window.saturating_sub(1).max(self.width.least);
        } else if used {
            self.window = self.window.saturating_add(1).min(self.width.most);
        }
    }

    /// How long the answer may take to what was told `times` times.
    pub(super) fn timeout(&self, times: u32) -> Span {
        let plain = self.round_trip.map_or(FIRST, |span| span.times(3)).max(self.floor).min(LONGEST);
        plain.max(self.floor).times(1 << times.saturating_sub(1).min(DOUBLINGS_MAX))
    }
}

/// When a client was told something that it answers, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// When first.
    pub(super) first: Time,
    /// When last.
    pub(super) last: Time,
    /// How often; 0 before the first time.
    pub(super) times: u32,
    /// Whether its answer is waited for.
    pub(super) waits: bool,
    /// Whether it is in the list of those that are told again.
    pub(super) again: bool,
}

impl Told {
    /// It is told now; whether its answer counts among those that are waited for from now on alone.
    pub(super) fn tell(&mut self, now: Time, waits: bool) -> bool {
        if self.times == 0 {
            self.first = now;
        }
        self.last = now;
        self.times = self.times.saturating_add(1);
        self.again = false;
        waits && !core::mem::replace(&mut self.waits, waits)
    }

    /// Its answer came; whether it was waited for, and the time it took unless it was told twice.
    pub(super) fn answer(&mut self, now: Time) -> (bool, Option<Span>) {
        let waited = core::mem::take(&mut self.waits);
        (waited, (self.times == 1).then(|| now.since(self.last)))
    }
}

/// What the clients of a batch are told in turn: each once, and those again whose answer does not come.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling {
    /// The next that is told for the first time.
    pub(super) next: u32,
    /// Those that are told again.
    pub(super) again: VecDeque<u32>,
    /// Those whose answer is waited for.
    pub(super) waiting: u32,
    /// Whether everybody was told once.
    pub(super) ended: bool,
}

#[cfg(test)]
mod tests {
    use super::{Flow, Told, Width};
    use synod_machine::{Span, Time};

    const NARROW: Width = Width { first: 4, least: 2, most: 8 };
    const FLOOR: Span = Span::millis(50);
    const BRISK: Span = FLOOR.times(super::BRISK);

    /// Tells as much as there is room for, and answers all of it after `took`; how much it was.
    fn round(flow: &mut Flow, took: Span) -> u32 {
        let mut told = 0;
        while flow.has_room() {
            flow.told();
            told += 1;
        }
        (0..told).for_each(|_| flow.answered(Some(took)));
        told
    }

    #[test]
    fn the_window_opens_for_brisk_answers_and_closes_for_late_ones() {
        let mut flow = Flow::new(NARROW, FLOOR);
        assert_eq!(round(&mut flow, BRISK), 4);
        assert!((6..=8).contains(&round(&mut flow, BRISK)), "about twice as many");
        (0..4).for_each(|_| {
            round(&mut flow, BRISK);
        });
        assert_eq!(round(&mut flow, Span(BRISK.0 + 1)), 8, "never above its upper end");
        (0..4).for_each(|_| {
            round(&mut flow, Span(BRISK.0 + 1));
        });
        assert_eq!(round(&mut flow, BRISK), 2, "never below its lower end");
    }

    #[test]
    fn answers_that_take_their_time_by_nature_close_no_window() {
        let floor = Span::millis(200);
        let mut flow = Flow::new(NARROW, floor);
        (0..4).for_each(|_| {
            round(&mut flow, floor.times(super::BRISK));
        });
        assert_eq!(round(&mut flow, Span::millis(1)), 8, "it opened");
    }

    #[test]
    fn a_window_that_nobody_fills_does_not_open() {
        let mut flow = Flow::new(NARROW, FLOOR);
        for _ in 0..100 {
            flow.told();
            flow.answered(Some(Span::millis(1)));
        }
        assert_eq!(round(&mut flow, BRISK), 4);
    }

    #[test]
    fn timeouts_are_three_round_trips_above_a_floor_and_double() {
        let mut flow = Flow::new(NARROW, FLOOR);
        assert_eq!(flow.timeout(1), Span::millis(200), "nothing is known yet");
        for (took, first) in [(1, 50), (100, 300), (5_000, 1_000)] {
            for _ in 0..100 {
                flow.told();
                flow.answered(Some(Span::millis(took)));
            }
            let timeout = flow.timeout(1).as_millis();
            assert!(timeout.abs_diff(first) <= 2, "{timeout} ms at {took}");
        }
        assert_eq!(flow.timeout(3), flow.timeout(1).times(4));
        assert_eq!(flow.timeout(100), flow.timeout(5), "a last doubling");
    }

    #[test]
    fn only_answers_to_what_was_told_once_are_measured() {
        let (mut told, start) = (Told::default(), Time::ZERO);
        assert!(told.tell(start, true));
        assert!(!told.tell(start + Span::millis(60), true), "it waits already");
        assert_eq!(told.answer(start + Span::millis(70)), (true, None), "to which of the two?");
        assert_eq!(told.first, start);
        let mut once = Told::default();
        assert!(once.tell(start, true));
        assert_eq!(once.answer(start + Span::millis(9)), (true, Some(Span::millis(9))));
        assert!(!once.answer(start + Span::millis(9)).0, "an answer counts once");
    }
}
