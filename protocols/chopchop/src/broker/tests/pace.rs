//! The pace at which clients are told things, and how long a broker waits for them.

use super::hostile::{from, jobs, lone, submit};
use super::*;
use crate::broker::flow::{Flow, Width};
use crate::broker::{Broker, DELIVER, SHOW, Timer};
use crate::by_hand::{Hand, sent};
use crate::config::Rules;
use crate::message::Inclusion;
use crate::tree::root_commit;
use synod_machine::{Effect, Event, Time, To};

const NARROW: Width = Width { first: 4, least: 4, most: 4 };

/// A broker that has closed a batch of these many clients, with room for as many answers as `width` says; what it said since.
fn closed(count: u32, width: Width) -> (Hand<Broker>, Vec<Effect<Broker>>) {
    let rules = Rules { batch_max: 64, body_bytes_max: 64 << 10, ..Rules::default() };
    let mut hand = lone(count, rules);
    hand.machine.places = Flow::new(width, SHOW);
    let said = close(&mut hand, count, 0);
    (hand, said)
}

/// Closes a batch in which every client stands with this number.
fn close(hand: &mut Hand<Broker>, count: u32, k0: u64) -> Vec<Effect<Broker>> {
    for id in 0..count {
        hand.step(from(link(id), ClientMessage::Submit(submit(id, k0, k0))));
    }
    hand.step(Event::Timer(Timer::Flush));
    let window = hand.machine.window;
    hand.step(Event::Timer(Timer::Window(window)))
}

/// The clients that were shown a place, and the root.
fn shown(effects: Vec<Effect<Broker>>) -> (Vec<u32>, Option<[u8; 16]>) {
    let (mut clients, mut root) = (Vec::new(), None);
    for (to, message) in sent(effects) {
        if let (To::Node(to), Message::Client(ClientMessage::Inclusion(inclusion))) = (to, message) {
            let Inclusion { root: top, k, shape, .. } = inclusion;
            let commit = root_commit(cluster().domains(), k, &shape, &top);
            root = commit.0.first_chunk().copied();
            clients.push(to.0 - link(0).0);
        }
    }
    (clients, root)
}

/// A client answers, whatever its share is worth.
fn answer(hand: &mut Hand<Broker>, id: u32, root_commit: [u8; 16]) -> Vec<Effect<Broker>> {
    let share = Box::new(BlsShareBytes([255; 192]));
    hand.step(from(link(id), ClientMessage::MultiSig { id, root_commit, share }))
}

fn pass(hand: &mut Hand<Broker>, ms: u64) {
    hand.now = Time(hand.now.0 + ms * 1_000_000);
}

fn is_distilling(hand: &Hand<Broker>) -> bool {
    hand.machine.seen().sealed == 0
}

#[test]
fn inclusions_leave_no_faster_than_they_are_answered() {
    let (mut hand, said) = closed(24, NARROW);
    let (first, root) = shown(said);
    let root = root.expect("a root is shown");
    assert_eq!(first, [0, 1, 2, 3], "a window of them");
    let mut next = Vec::new();
    for id in 0..20 {
        let (more, _) = shown(answer(&mut hand, id, root));
        assert_eq!(more.len(), 1, "an answer makes room for one");
        next.extend(more);
    }
    assert_eq!(next, (4..24).collect::<Vec<u32>>(), "each client is shown its place once");
    let (again, _) = shown(answer(&mut hand, 20, root));
    assert!(again.is_empty() && is_distilling(&hand));
    (21..24).for_each(|id| {
        answer(&mut hand, id, root);
    });
    assert!(!is_distilling(&hand), "all have answered");
}

#[test]
fn the_silent_make_room_after_a_timeout_and_are_shown_their_places_again() {
    let (mut hand, _) = closed(6, NARROW);
    pass(&mut hand, 199);
    assert!(shown(hand.step(Event::Timer(Timer::Resend(1)))).0.is_empty(), "too early");
    pass(&mut hand, 1);
    let (next, _) = shown(hand.step(Event::Timer(Timer::Resend(1))));
    assert_eq!(next, [4, 5, 0, 1], "those that were never shown theirs come first");
    pass(&mut hand, 200);
    let (next, _) = shown(hand.step(Event::Timer(Timer::Resend(1))));
    assert_eq!(next, [2, 3], "whoever was told twice has twice the time");
}

#[test]
fn closing_again_and_again_without_answers_leaves_no_room_taken() {
    let (mut hand, _) = closed(6, NARROW);
    for _ in 0..40 {
        pass(&mut hand, 100);
        hand.step(Event::Timer(Timer::Resend(1)));
        hand.step(Event::Timer(Timer::Distil(1)));
    }
    assert!(!is_distilling(&hand), "nobody is waited for for ever");
    assert_eq!(hand.machine.places.waiting(), 0);
}

#[test]
fn deliveries_leave_no_faster_than_they_are_acknowledged() {
    let mut world = running(10);
    let broker = world.brokers.get_mut(&BROKERS[0]).expect("it runs");
    broker.machine.deliveries = Flow::new(NARROW, DELIVER);
    let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&sent);
    let acks = std::rc::Rc::new(std::cell::Cell::new(false));
    let arrive = std::rc::Rc::clone(&acks);
    world.loss = Box::new(move |letter: &Letter| match &letter.message {
        Message::Client(ClientMessage::Delivery(_)) => {
            seen.borrow_mut().push(letter.to);
            false
        }
        Message::Client(ClientMessage::Ack { .. }) => !arrive.get(),
        _ => false,
    });
    (0..10).for_each(|id| world.broadcast(id, 3));
    world.run_until(150);
    assert_eq!(sent.borrow().len(), 4, "as long as none is acknowledged");
    acks.set(true);
    world.run_until(3_000);
    let reached: std::collections::BTreeSet<NodeId> = sent.borrow().iter().copied().collect();
    assert_eq!(reached.len(), 10);
    assert!(sent.borrow().len() <= 14, "{} deliveries to ten clients", sent.borrow().len());
    assert_eq!(world.brokers[&BROKERS[0]].machine.deliveries.waiting(), 0);
}

#[test]
fn answers_that_come_late_lengthen_the_wait() {
    let (mut hand, said) = closed(4, Width::DEFAULT);
    let root = shown(said).1.expect("a root is shown");
    assert_eq!(hand.machine.distil_wait().as_millis(), 1_000, "nobody knows yet");
    pass(&mut hand, 4);
    (0..3).for_each(|id| {
        answer(&mut hand, id, root);
    });
    // Most came within the last wait, and then none.
    (0..2).for_each(|_| {
        hand.step(Event::Timer(Timer::Distil(1)));
    });
    assert!(!is_distilling(&hand));
    assert_eq!(hand.machine.distil_wait().as_millis(), 20, "never less");
    pass(&mut hand, 56);
    answer(&mut hand, 3, root);
    assert_eq!(hand.machine.distil_wait().as_millis(), 90, "half as long again as the last one took");
}

#[test]
fn shares_that_still_come_are_waited_for_and_a_trickle_is_not() {
    let (mut hand, said) = closed(60, Width::DEFAULT);
    let root = shown(said).1.expect("a root is shown");
    for part in 0..3 {
        pass(&mut hand, 20);
        (part * 10..part * 10 + 10).for_each(|id| {
            answer(&mut hand, id, root);
        });
        hand.step(Event::Timer(Timer::Distil(1)));
        assert!(is_distilling(&hand), "ten more came");
    }
    hand.step(Event::Timer(Timer::Distil(1)));
    assert!(!is_distilling(&hand), "none came");
    let (mut hand, said) = closed(60, Width::DEFAULT);
    let root = shown(said).1.expect("a root is shown");
    let mut answered = 0;
    while is_distilling(&hand) {
        // Twenty at once, and then one after another.
        for _ in 0..if answered == 0 { 20 } else { 1 } {
            answer(&mut hand, answered, root);
            answered += 1;
        }
        pass(&mut hand, 40);
        hand.step(Event::Timer(Timer::Distil(1)));
    }
    assert!((40..50).contains(&answered), "{answered} within the second that a trickle gets at most");
}

/// A broker whose first answers came soon: clients with more to do are not all stragglers.
#[test]
fn a_batch_is_not_given_up_before_half_of_its_clients_answered() {
    let (mut hand, said) = closed(60, Width::DEFAULT);
    let root = shown(said).1.expect("a root is shown");
    hand.machine.answers.add(Span::millis(1));
    assert_eq!(hand.machine.distil_wait().as_millis(), 20, "others answered at once");
    answer(&mut hand, 0, root);
    for _ in 0..15 {
        pass(&mut hand, 20);
        hand.step(Event::Timer(Timer::Distil(1)));
        assert!(is_distilling(&hand), "nearly nobody answered yet");
    }
    (1..59).for_each(|id| {
        answer(&mut hand, id, root);
    });
    hand.step(Event::Timer(Timer::Distil(1)));
    assert!(is_distilling(&hand), "they still come");
    hand.step(Event::Timer(Timer::Distil(1)));
    assert!(!is_distilling(&hand), "the last one is not waited for");
    let (mut hand, _) = closed(60, Width::DEFAULT);
    pass(&mut hand, 1_000);
    hand.step(Event::Timer(Timer::Distil(1)));
    assert!(!is_distilling(&hand), "nor are all of them beyond the longest wait");
}

#[test]
fn a_submission_that_comes_again_while_it_is_checked_is_checked_once() {
    let mut hand = lone(2, Rules { batch_max: 64, body_bytes_max: 64 << 10, ..Rules::default() });
    for _ in 0..3 {
        hand.step_alone(from(link(0), ClientMessage::Submit(submit(0, 0, 1))));
    }
    let mut checks = jobs(hand.step_alone(Event::Timer(Timer::Flush)));
    assert_eq!((checks.len(), hand.machine.checking), (1, 1));
    // The same from another link is another matter: it may be the one that its client reads.
    hand.step_alone(from(link(0), ClientMessage::Submit(submit(0, 0, 1))));
    hand.step_alone(from(link(9), ClientMessage::Submit(submit(0, 0, 1))));
    let answer = hand.run(checks.remove(0));
    hand.step(answer);
    hand.step(Event::Timer(Timer::Flush));
    assert_eq!(hand.machine.seen().pool, 1);
    assert_eq!(
        hand.machine.pool.get(0).expect("it waits").carriers.iter().count(),
        2,
        "both links are answered"
    );
}
