//! How fast a crowd speaks: no faster than brokers answer, and again no sooner than they do answer.

use super::*;

#[test]
fn no_more_is_begun_than_brokers_have_shown_a_root_for() {
    let mut few = crowd(10, Some(0));
    few.pace.unshown = 4;
    let mut hand = Hand::new(few);
    hand.input(Input::Broadcast(2));
    let first = begun(&mut hand);
    assert_eq!(first.len(), 4);
    assert!(begun(&mut hand).is_empty(), "no broker said anything");
    let batch = Batch::close(&hand.crowd.cluster, 0, &first);
    batch.show(&mut hand, &first, false);
    batch.show(&mut hand, &first, false);
    assert_eq!(begun(&mut hand).len(), 4, "and being shown a root twice makes no room twice");
    batch.deliver(&mut hand, 2, &[]);
    let acks = hand.said();
    assert_eq!(
        acks.len(),
        4,
        "a delivery is acknowledged at once when the next message waits for room: {acks:?}"
    );
    assert!(begun(&mut hand).is_empty(), "four are still without a root");
}

#[test]
fn a_message_is_sent_again_after_three_times_what_roots_take_of_late() {
    let mut hand = Hand::new(crowd(40, Some(0)));
    // 32 members are shown their roots after 0.7 s, and delivered.
    hand.input(Input::Broadcast(1));
    let first = begun(&mut hand);
    let (soon, late) = first.split_at(32);
    hand.wait(300);
    hand.now = hand.now + Span::millis(400);
    let batch = Batch::close(&hand.crowd.cluster, 0, soon);
    batch.show(&mut hand, soon, false);
    hand.said();
    // The others' patience was set before that was known.
    hand.wait(400);
    let again = submits(hand.said());
    assert_eq!(again.len(), late.len());
    batch.deliver(&mut hand, 2, &[]);
    hand.input(Input::Broadcast(2));
    hand.said();
    let second = begun(&mut hand);
    assert_eq!(second.len(), 32);
    let resent = |said: Vec<Said>| submits(said).iter().filter(|(_, _, submit)| submit.k0 == 1).count();
    hand.wait(1_900);
    assert_eq!(resent(hand.said()), 0, "2.1 s are three times 0.7 s");
    hand.wait(300);
    assert_eq!(resent(hand.said()), 32);
}

#[test]
fn many_members_whose_broker_is_silent_do_not_all_speak_at_once() {
    let mut many = crowd(400, Some(0));
    many.pace.per_second = 2_000;
    let mut hand = Hand::new(many);
    hand.input(Input::Broadcast(1));
    while hand.stats().begun < 400 {
        hand.wait(5);
    }
    hand.said();
    hand.wait(5_000);
    let elsewhere = submits(hand.said());
    assert_eq!(elsewhere.len(), 20, "a hundredth of a second's worth");
    assert!(elsewhere.iter().all(|(broker, ..)| *broker == 1));
    (0..19).for_each(|_| hand.wait(10));
    assert_eq!(hand.stats().other_broker, 400);
}

#[test]
fn a_root_that_is_shown_in_time_gives_its_broker_as_much_time_again() {
    let mut hand = Hand::new(crowd(2, Some(0)));
    hand.input(Input::Broadcast(1));
    let said = begun(&mut hand);
    hand.wait(3_000);
    let batch = Batch::close(&hand.crowd.cluster, 0, &said);
    batch.show(&mut hand, &said, false);
    hand.said();
    hand.wait(3_900);
    assert!(hand.said().is_empty(), "the broker is at work");
    hand.wait(200);
    assert!(submits(hand.said()).iter().all(|(broker, ..)| *broker == 1));
    assert_eq!(hand.stats().other_broker, 2);
}

#[test]
fn members_far_apart_sign_one_root_and_are_shown_it_twice_without_harm() {
    let mut hand = Hand::new(crowd(600, Some(0)));
    hand.input(Input::Broadcast(1));
    let all = begun(&mut hand);
    let some: Vec<_> =
        all.iter().filter(|(_, member, _)| [0, 3, 255, 256, 257, 599].contains(member)).cloned().collect();
    let batch = Batch::close(&hand.crowd.cluster, 0, &some);
    batch.show(&mut hand, &some, false);
    let said = hand.said();
    assert_eq!(judged(&hand, batch.commit, said), (vec![0, 3, 255, 256, 257, 599], vec![]));
    batch.show(&mut hand, &some, false);
    let said = hand.said();
    assert_eq!(
        judged(&hand, batch.commit, said).0.len(),
        6,
        "the share is sent again: the first may be lost"
    );
}
