//! How long it is waited before something is said again: as long as it takes here, and not as long as it was once thought to take.
//!
//! Who has a queue of seconds answers after seconds, and whoever is sent everything once more meanwhile has a longer one. So the wait is
//! the smoothed time that slots of a lane took and four times how much that varies (RFC 6298, Jacobson and Karels). A slot that was said
//! again tells nothing, for nobody knows which of its words was answered; the wait to which it came stays for the slots behind it until
//! one is done that was said once (Karn and Partridge). A lane's wait is never below the usual one. What others' lanes earn is at most
//! [`LONGEST`] times that, so that a source that speaks late on purpose delays those who would take its slots over by no more.

use std::collections::BTreeMap;

use synod_machine::broadcast::Bounds;
use synod_machine::{Span, Time};

/// How much longer than usual another's slot is waited for before it is said again for the first time.
const LONGEST: u64 = 8;

/// The wait of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// When it began.
    since: Time,
    /// Until it ends the next time.
    wait: Span,
    /// How often it ended.
    pub(crate) times: u32,
    /// Whether this node said something again.
    was_said_again: bool,
}

impl Waiting {
    pub(crate) const fn new(since: Time, wait: Span) -> Self {
        Self { since, wait, times: 0, was_said_again: false }
    }

    /// One that ended once.
    pub(crate) const fn ended(self) -> Self {
        Self { times: 1, ..self }
    }

    /// What is left of the first wait; nothing once it ended.
    pub(crate) const fn left(&self, now: Time) -> Span {
        let waited = now.since(self.since).0;
        if self.times == 0 { Span(self.wait.0.saturating_sub(waited)) } else { Span::ZERO }
    }

    /// It ended: the next is twice as long, up to a bound.
    pub(crate) fn again(&mut self, longest: Span) -> Span {
        self.wait = doubled(self.wait, longest);
        self.times = self.times.saturating_add(1);
        self.wait
    }
}

/// Twice as long, up to a bound.
pub(crate) fn doubled(wait: Span, longest: Span) -> Span {
    wait.times(2).min(longest)
}

/// What slots of one lane took.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The smoothed time and how much it varies, in ns.
    took: Option<(u64, u64)>,
    /// What a slot that was said again waited for last.
    backed: Span,
}

impl Lane {
    /// RFC 6298, 2.2 and 2.3.
    fn take(&mut self, span: Span) {
        self.took = Some(match self.took {
            None => (span.0, span.0 / 2),
            Some((smoothed, varies)) => {
                let off = smoothed.abs_diff(span.0);
                (mean(smoothed, span.0, 8), mean(varies, off, 4))
            }
        });
        self.backed = Span::ZERO;
    }

    fn span(&self) -> Span {
        let (smoothed, varies) = self.took.unwrap_or_default();
        Span(smoothed.saturating_add(varies.saturating_mul(4))).max(self.backed)
    }
}

/// What was known, with one part in so many of what is new.
const fn mean(known: u64, new: u64, parts: u64) -> u64 {
    known - known / parts + new / parts
}

/// See the module. Bounds: an entry per source.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    me: u8,
    lanes: BTreeMap<u8, Lane>,
}

impl Patience {
    pub(crate) const fn new(me: u8) -> Self {
        Self { me, lanes: BTreeMap::new() }
    }

    /// How long a slot of a source waits at first.
    pub(crate) fn first(&self, source: u8, bounds: &Bounds) -> Span {
        let earned = self.lanes.get(&source).map_or(Span::ZERO, Lane::span);
        let others = bounds.resend.times(LONGEST).min(bounds.resend_max);
        earned.clamp(bounds.resend, if source == self.me { bounds.resend_max } else { others })
    }

    /// What this node knows of a slot is said again.
    pub(crate) fn say_again(&mut self, source: u8, waiting: &mut Waiting) {
        waiting.was_said_again = true;
        let lane = self.lanes.entry(source).or_default();
        lane.backed = lane.backed.max(waiting.wait);
    }

    /// A slot waits no more: it is done.
    pub(crate) fn done(&mut self, source: u8, waiting: Waiting, now: Time) {
        if !waiting.was_said_again {
            self.lanes.entry(source).or_default().take(now.since(waiting.since));
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.lanes.len() * 2 * size_of::<(u8, Lane)>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u8 = 1;
    const OTHER: u8 = 2;

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// A slot that takes so long under this patience; how often it was said again.
    fn slot(patience: &mut Patience, source: u8, took: Span) -> u32 {
        let bounds = Bounds::default();
        let mut waiting = Waiting::new(at(0), patience.first(source, &bounds));
        let (mut now, mut said) = (waiting.wait, 0);
        while now < took {
            let next = waiting.again(bounds.resend_max);
            patience.say_again(source, &mut waiting);
            said += 1;
            now = Span(now.0 + next.0);
        }
        patience.done(source, waiting, at(took.as_millis()));
        said
    }

    #[test]
    fn a_queue_of_seconds_is_waited_for_and_nothing_is_said_again() {
        let (mut patience, bounds) = (Patience::new(ME), Bounds::default());
        let said: Vec<u32> = (0..12).map(|_| slot(&mut patience, ME, Span::secs(5))).collect();
        assert_eq!(said, [3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "it learns from the third on");
        let said: u32 = (0..60).map(|_| slot(&mut patience, ME, Span::millis(3))).sum();
        assert_eq!(said, 0);
        assert_eq!(patience.first(ME, &bounds), bounds.resend, "the queue is gone");
        assert_eq!(patience.first(OTHER, &bounds), bounds.resend, "that was another lane");
    }

    #[test]
    fn where_words_are_lost_the_wait_is_what_the_others_take() {
        let (mut patience, bounds) = (Patience::new(ME), Bounds::default());
        for n in 0..100_u64 {
            // One in three is said again, and done by that.
            let took = if n % 3 == 0 { Span::millis(510) } else { Span::millis(10) };
            slot(&mut patience, ME, took);
        }
        assert!(patience.first(ME, &bounds) <= Span::secs(1), "{:?}", patience.first(ME, &bounds));
    }

    #[test]
    fn a_source_that_is_late_on_purpose_is_not_waited_for_much_longer() {
        let (mut patience, bounds) = (Patience::new(ME), Bounds::default());
        for _ in 0..50 {
            slot(&mut patience, OTHER, Span::secs(9));
        }
        assert_eq!(patience.first(OTHER, &bounds), bounds.resend.times(LONGEST));
        for _ in 0..50 {
            slot(&mut patience, ME, Span::secs(9));
        }
        assert!(patience.first(ME, &bounds) > Span::secs(8), "own slots are waited for as long as it takes");
        assert!(patience.bytes() > 0);
    }
}
