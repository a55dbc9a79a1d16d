//! When terms are given up, and how long leaders are waited for.

use super::{Pace, Paced, Pacemaker, Reason, Temper};
use crate::View;
use crate::view::Terms;
use synod_machine::{Effect, Event, Machine, Rng, Span, Time, Turn, Wall};
use synod_quorum::{Epoch, NodeId, Weights};

const BASE: Span = Span::millis(50);

/// A pacemaker of four members with terms of one view, and its clock.
struct Bench {
    pacemaker: Pacemaker,
    rng: Rng,
    now: Time,
    view: u64,
}

impl Bench {
    fn new() -> Self {
        let temper = Temper { base: BASE, max: Span::secs(4), adaptive: true, insistent: true };
        let terms = Terms::new(1);
        let pacemaker = Pacemaker::new(NodeId(0), Epoch(0), Weights::equal(4), terms, temper);
        let mut bench = Self { pacemaker, rng: Rng::new(1, NodeId(0), 0), now: Time::ZERO, view: 0 };
        bench.tell(Pace::Work(true));
        bench
    }

    fn step(&mut self, event: Event<Pacemaker>) -> Vec<Effect<Pacemaker>> {
        let mut effects = Vec::new();
        self.pacemaker.step(event, &mut Turn::new(self.now, Wall(0), &mut self.rng, &mut effects));
        self.pacemaker.invariants();
        effects
    }

    fn tell(&mut self, pace: Pace) -> Vec<Effect<Pacemaker>> {
        self.step(Event::Input(pace))
    }

    fn wait(&mut self, span: Span) {
        self.now = self.now + span;
    }

    fn enter(&mut self, reason: Reason, led: Option<u32>) {
        self.view += 1;
        let (view, led) = (View(self.view), led.map(NodeId));
        self.tell(Pace::Enter { view, reason, led });
    }

    fn expire(&mut self) {
        let told = self.step(Event::Timer(View(self.view)));
        assert!(told.iter().any(|e| matches!(e, Effect::Output(Paced::Expired { .. }))));
    }
}

#[test]
fn a_view_is_measured_from_the_first_arming_of_its_timer() {
    let mut bench = Bench::new();
    bench.enter(Reason::Start, None);
    for leader in 0..3 {
        for _ in 0..6 {
            bench.wait(BASE);
            bench.expire();
        }
        bench.enter(Reason::Qc, Some(leader));
    }
    bench.tell(Pace::Committed);
    assert_eq!(bench.pacemaker.duration(), BASE.times(6 * 8));
}

#[test]
fn a_view_given_up_counts_as_far_as_its_last_certificate() {
    let mut bench = Bench::new();
    bench.enter(Reason::Start, None);
    for leader in 0..3 {
        bench.wait(Span::millis(40));
        bench.tell(Pace::Certified(NodeId(leader)));
        bench.wait(Span::millis(30));
        bench.tell(Pace::Certified(NodeId(leader)));
        bench.wait(Span::secs(1));
        bench.enter(Reason::Tc, None);
    }
    bench.tell(Pace::Committed);
    assert_eq!(bench.pacemaker.duration(), Span::millis(70 * 8));
}

#[test]
fn failures_are_forgotten_at_once_only_when_the_views_of_half_the_members_are_measured() {
    let mut bench = Bench::new();
    bench.enter(Reason::Start, None);
    (0..6).for_each(|_| bench.enter(Reason::Tc, None));
    bench.wait(BASE);
    bench.enter(Reason::Qc, Some(1));
    bench.tell(Pace::Committed);
    assert_eq!(bench.pacemaker.failures(), 3);
    for leader in 2..4 {
        bench.wait(BASE);
        bench.enter(Reason::Qc, Some(leader));
    }
    bench.tell(Pace::Committed);
    assert_eq!((bench.pacemaker.failures(), bench.pacemaker.duration()), (0, BASE.times(8)));
}

#[test]
fn a_proposal_behind_the_timer_shows_how_long_to_wait_and_one_before_it_shows_nothing() {
    // A member far from the others enters a view late and finds its certificate there; the next view takes a round trip,
    // for its vote is needed.
    let far = |late: bool| {
        let mut bench = Bench::new();
        bench.enter(Reason::Start, None);
        for term in 0..3 * 5 {
            bench.wait(Span::millis(3));
            bench.enter(Reason::Qc, Some(term % 3));
            bench.wait(Span::millis(270));
            if late {
                bench.expire();
            }
            bench.tell(Pace::Proposed(NodeId(term % 3)));
            bench.wait(Span::secs(1));
            // Said again.
            bench.tell(Pace::Proposed(NodeId(term % 3)));
            bench.tell(Pace::Committed);
            bench.wait(Span::secs(2));
            bench.enter(Reason::Tc, None);
        }
        bench.tell(Pace::Committed);
        bench.pacemaker.duration()
    };
    assert_eq!((far(true), far(false)), (Span::millis(270 * 8), BASE));
}

#[test]
fn views_of_a_busy_machine_that_end_in_time_change_the_median_alone() {
    let mut bench = Bench::new();
    bench.enter(Reason::Start, None);
    for view in 0..3 * 64 {
        bench.wait(Span::millis(2));
        bench.enter(Reason::Qc, Some(view % 3));
    }
    for view in 0..3 * 8 {
        bench.wait(Span::millis(49));
        bench.enter(Reason::Qc, Some(view % 3));
    }
    assert_eq!(bench.pacemaker.duration(), BASE, "a leader that stops now is given up as soon as ever");
}

#[test]
fn one_slow_leader_does_not_stretch_the_timeout_and_nor_does_a_silent_one() {
    let mut bench = Bench::new();
    bench.enter(Reason::Start, None);
    for _ in 0..10 {
        bench.wait(Span::secs(3));
        bench.enter(Reason::Qc, Some(3));
        bench.wait(Span::secs(1));
        bench.enter(Reason::Tc, None);
        bench.tell(Pace::Committed);
    }
    assert_eq!(bench.pacemaker.duration(), BASE);
}
