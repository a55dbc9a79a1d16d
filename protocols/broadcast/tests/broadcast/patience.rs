//! What is on its way is not said again while it can still be answered, and not lost for want of a place.

use std::collections::BTreeMap;

use synod_broadcast::bracha as plain;
use synod_broadcast::signed::{Message, Timer};
use synod_broadcast::{Bracha, Lot};
use synod_machine::broadcast::{Broadcast, Offer};
use synod_machine::{Effect, Event, Job as _, Machine, Span, Time, testing};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::bracha;
use crate::signed::{Signed, ack, certificate, config, prepare, view};
use crate::world::keys;

fn alone(me: u32) -> Signed {
    Signed::new(config(4, me), view(4), &BTreeMap::new()).expect("sound")
}

/// A source whose peers answer after so long, and what it says meanwhile.
struct Source {
    machine: Signed,
    now: Time,
    timers: BTreeMap<Lot, Time>,
    sent: Vec<Message>,
}

impl Source {
    fn new() -> Self {
        Self { machine: alone(0), now: Time::ZERO, timers: BTreeMap::new(), sent: Vec::new() }
    }

    fn step(&mut self, event: Event<Signed>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in testing::effects(&mut self.machine, event, self.now) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(0)))),
                    Effect::Send { message, .. } => self.sent.push(message),
                    Effect::Arm { timer: Timer::Resend(lot), after } => {
                        self.timers.insert(lot, self.now + after);
                    }
                    Effect::Disarm(Timer::Resend(lot)) => drop(self.timers.remove(&lot)),
                    _ => {}
                }
            }
        }
    }

    /// Time goes on, and what is due happens.
    fn until(&mut self, then: Time) {
        while let Some((&lot, &at)) =
            self.timers.iter().min_by_key(|(_, at)| **at).filter(|(_, at)| **at <= then)
        {
            self.timers.remove(&lot);
            self.now = at;
            self.step(Event::Timer(Timer::Resend(lot)));
        }
        self.now = then;
    }

    /// A payload that these members endorse after so long but for an item; how often it went out.
    fn broadcast(&mut self, by: &[u32], took: Span, except: &[u32]) -> usize {
        let sequence = self.machine.mine() + 1;
        let (lot, payload) = (Lot { source: 0, sequence }, Bytes::from_static(b"text"));
        self.sent.clear();
        self.step(Event::Input(Offer::Broadcast { sequence, payload }));
        self.until(self.now + took);
        for by in by {
            let message = Message::Ack(ack(*by, lot, "text", except));
            self.step(Event::Message { from: NodeId(*by), message });
        }
        self.sent.iter().filter(|message| matches!(message, Message::Prepare { .. })).count()
    }
}

#[test]
fn a_payload_that_is_answered_late_goes_out_once() {
    let mut source = Source::new();
    let sent: Vec<usize> = (0..8).map(|_| source.broadcast(&[1, 2, 3], Span::secs(5), &[])).collect();
    assert_eq!(sent, [4, 2, 1, 1, 1, 1, 1, 1], "the source learns how long its peers take");
    assert!(source.timers.is_empty(), "all are certified");
}

#[test]
fn acks_with_exceptions_make_a_certificate_after_the_usual_wait_however_long_others_took() {
    let mut source = Source::new();
    for _ in 0..8 {
        source.broadcast(&[1, 2, 3], Span::secs(5), &[]);
    }
    let (before, usual) = (source.now, config(4, 0).bounds.resend);
    // The third never answers, and who may certify more with it waits for that.
    source.broadcast(&[1, 2], Span::millis(1), &[0]);
    let commits =
        |source: &Source| source.sent.iter().filter(|said| matches!(said, Message::Commit(_))).count();
    assert_eq!(commits(&source), 0);
    source.until(before + usual);
    assert_eq!(commits(&source), 1);
    assert_eq!(source.sent.iter().filter(|said| matches!(said, Message::Prepare { .. })).count(), 1);
}

/// How many slots a machine fills before the first is done.
fn filled<M: Machine<Input = Offer>>(mut machine: M) -> u64 {
    let mut filled = 0;
    while machine.room() > 0 {
        filled += 1;
        let payload = Bytes::from_static(b"text");
        drop(testing::effects(
            &mut machine,
            Event::Input(Offer::Broadcast { sequence: filled, payload }),
            Time::ZERO,
        ));
    }
    filled
}

/// Found by measuring profile II: PREPAREs came behind the COMMITs that made room for them, which were yet to be checked, and were dropped
/// as beyond the window; the lane stood until they were said again.
#[test]
fn a_member_that_has_all_of_its_sources_commits_to_check_takes_what_comes_behind_them() {
    let filled = filled(alone(0));
    assert_eq!(filled, 4);
    let mut member = alone(1);
    let mut jobs = 0;
    let mut hears = |message| {
        let effects = testing::effects(&mut member, Event::Message { from: NodeId(0), message }, Time::ZERO);
        jobs += effects.iter().filter(|effect| matches!(effect, Effect::Compute(_))).count();
    };
    (1..=filled).for_each(|sequence| hears(prepare(0, sequence, "text")));
    for sequence in 1..=filled {
        let lot = Lot { source: 0, sequence };
        let said = [0, 2, 3].map(|by| ack(by, lot, "text", &[]).said).to_vec();
        hears(Message::Commit(certificate(lot, "text", said)));
    }
    (filled + 1..=2 * filled).for_each(|sequence| hears(prepare(0, sequence, "text")));
    assert_eq!(jobs, 12, "each is looked at");
}

#[test]
fn a_source_of_brachas_broadcast_fills_half_of_the_window_that_others_work_on() {
    let window = bracha::config(4, 0).bounds.window;
    assert_eq!(filled(bracha::alone()), window.div_ceil(2));
}

/// A member of Bracha's broadcast, and when the slot that it works on is said again.
struct Hearer {
    machine: Bracha,
    now: Time,
    due: Option<Time>,
    asked: usize,
    delivered: usize,
}

impl Hearer {
    fn step(&mut self, event: Event<Bracha>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in testing::effects(&mut self.machine, event, self.now) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(0)))),
                    Effect::Send { message: plain::Message::Ask(_), .. } => self.asked += 1,
                    Effect::Arm { timer: plain::Timer::Resend(_), after } => {
                        self.due = Some(self.now + after)
                    }
                    Effect::Disarm(plain::Timer::Resend(_)) => self.due = None,
                    Effect::Output(Broadcast::Delivered { .. }) => self.delivered += 1,
                    _ => {}
                }
            }
        }
    }

    /// A slot of member 1 whose votes come after so long; how often others are asked for them.
    fn slot(&mut self, sequence: u64, took: Span) -> usize {
        let (lot, then) = (Lot { source: 1, sequence }, self.now + took);
        self.asked = 0;
        let payload = Bytes::from_static(b"text").try_into().expect("short");
        self.step(Event::Message { from: NodeId(1), message: plain::Message::Prepare { sequence, payload } });
        while let Some(at) = self.due.filter(|at| *at <= then) {
            (self.due, self.now) = (None, at);
            self.step(Event::Timer(plain::Timer::Resend(lot)));
        }
        self.now = then;
        for from in [1, 2, 3] {
            let message = plain::Message::Ready(bracha::vote(1, sequence, "text"));
            self.step(Event::Message { from: NodeId(from), message });
        }
        self.asked
    }
}

#[test]
fn votes_that_come_late_are_asked_for_no_more_once_a_member_knows_how_late() {
    let mut hearer = Hearer { machine: bracha::alone(), now: Time::ZERO, due: None, asked: 0, delivered: 0 };
    let asked: Vec<usize> = (1..=8).map(|sequence| hearer.slot(sequence, Span::secs(3))).collect();
    assert_eq!((asked, hearer.delivered), (vec![2, 1, 0, 0, 0, 0, 0, 0], 8));
}
