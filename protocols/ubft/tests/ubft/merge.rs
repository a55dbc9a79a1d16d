//! The shorter pattern (4.18): followers promise to certify a proposal with what they lock of it, and a request takes one delay less.

use std::cell::RefCell;
use std::rc::Rc;

use synod_crypto::Hash;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_ubft::batch::{Slot, View};
use synod_ubft::certificate::{Certificate, Summarized};
use synod_ubft::replica::{Ask, Summary, Word};
use synod_ubft::slot::{Ballot, PROMISES_MAX, Stand};
use synod_ubft::{Body, Statement, ctb};

use crate::group::{Group, config_of, threes};
use crate::lies::{forged, proposal};
use crate::net::seeds;
use crate::world::signature_by;

const SOON: Span = Span::millis(400);
const LONG: Span = Span::secs(30);
const LEADER: NodeId = NodeId(0);

#[test]
fn t42_promises_that_go_with_what_is_locked_are_refused_but_for_three_replicas() {
    let sound = |n: u32, is_merged: bool| config_of(LEADER, n, is_merged).quorums().is_ok();
    assert!(sound(3, true) && sound(3, false) && sound(5, false));
    assert!(!sound(5, true) && !sound(7, true));
}

#[test]
fn a_slot_takes_two_messages_less_and_nobody_says_will_certify() {
    let sent = |is_merged: bool| {
        let mut group = if is_merged { Group::merged(1) } else { Group::new(3, 1) };
        group.order(1, SOON);
        let before = group.net.sent.clone();
        // One after the other: of two on their way the second is not the next of the stream.
        for _ in 0..5 {
            group.order(1, SOON);
        }
        assert_eq!((group.net.jobs, group.slow), (0, 0), "{:?}", group.net.rules);
        let now = |queue: u8| group.net.sent.get(&queue).copied().unwrap_or(0);
        let count = |queues: std::ops::RangeInclusive<u8>| -> u64 {
            queues.map(|queue| now(queue) - before.get(&queue).copied().unwrap_or(0)).sum()
        };
        // LOCK, LOCKED of all broadcasters, WILL_CERTIFY, WILL_COMMIT, all.
        [count(0..=0), count(13..=15), count(4..=4), count(5..=5), count(0..=15)]
    };
    assert_eq!(sent(false), [10, 10, 20, 30, 70]);
    assert_eq!(sent(true), [10, 20, 0, 30, 60]);
}

#[test]
fn what_nobody_vouches_for_yet_is_promised_once_it_is_delivered() {
    for seed in seeds(6) {
        let mut group = Group::merged(seed);
        (1..3).for_each(|id| group.deafen(id));
        group.wanted = 1;
        group.pass(Span::millis(1));
        assert_eq!(group.count("S4.18_promise"), 0);
        (1..3).for_each(|id| group.hear(id));
        group.pass(Span::millis(1));
        assert_eq!((group.count("A2.20_will_certify"), group.slow), (2, 0));
        assert!((0..3).all(|id| group.executed(id) == 1), "{}", group.describe());
    }
}

#[test]
fn promises_count_whether_their_proposal_is_here_before_them_or_behind_them() {
    let (mut promised, mut said) = (0, 0);
    for (_, mut group) in threes(20) {
        group.order(40, LONG);
        promised += group.count("S4.18_promise");
        said += group.count("A2.20_will_certify");
    }
    assert!(promised > 100 && said > 1_000, "{promised} {said}");
}

#[test]
fn a_promise_that_is_early_has_a_place_and_binds_when_its_proposal_is_delivered() {
    let (mut ballot, digest) = (Ballot::new(Slot(4)), |byte| Hash([byte; 32]));
    assert!(ballot.promise_early(View(1), digest(1)));
    assert!(
        !ballot.promise_early(View(1), digest(1)) && !ballot.may_promise(View(0)),
        "once, and of no view before it"
    );
    assert!(ballot.promised().is_empty() && ballot.is_early(View(1)));
    assert!(ballot.fulfil(View(1), digest(1)) && !ballot.fulfil(View(1), digest(1)));
    assert_eq!(ballot.promised(), [(View(1), digest(1))]);
    assert_eq!(ballot.stand(View(1), digest(1), false), None, "it is promised");
    // Another message was delivered: nothing was promised about that.
    assert!(ballot.promise_early(View(2), digest(2)) && !ballot.fulfil(View(2), digest(3)));
    assert_eq!(ballot.stand(View(2), digest(3), false), Some(Stand::Promise));
    // Promises that wait have their places.
    let last = View(PROMISES_MAX as u64);
    (3..=PROMISES_MAX as u64).for_each(|view| assert!(ballot.promise_early(View(view), digest(4))));
    assert!(!ballot.may_promise(View(last.0 + 1)));
    assert_eq!(ballot.stand(View(last.0 + 1), digest(5), false), Some(Stand::Signature));
    assert!(ballot.fulfil(last, digest(4)) && ballot.promised().len() < PROMISES_MAX);
}

/// Followers of a leader whom the test plays, and what the first of them locks of its messages, which reaches the second one as long as
/// `is_lost` is false.
fn led(seed: u64) -> (Group, Rc<RefCell<bool>>) {
    let mut group = Group::merged(seed);
    group.net.stop(LEADER);
    group.liars.insert(LEADER);
    group.is_pressing = false;
    let is_lost = Rc::new(RefCell::new(true));
    let lost = Rc::clone(&is_lost);
    let lie = move |to: NodeId, word: &Word| {
        let is_locked = matches!(word, Word::Ctb { broadcaster: 0, word: ctb::Message::Locked { .. } });
        (!(is_locked && to == NodeId(2) && *lost.borrow())).then(|| word.clone())
    };
    group.net.lies.insert(NodeId(1), Box::new(lie));
    (group, is_lost)
}

fn say(group: &mut Group, to: u32, words: &[Word]) {
    words.iter().for_each(|word| group.net.say(LEADER, NodeId(to), word.clone()));
}

/// Until nothing is on its way.
fn settle(group: &mut Group) {
    while group.net.turn() {
        group.watch();
    }
    group.watch();
}

fn next_k(group: &Group, of: u32) -> u64 {
    group.of(of).stream(LEADER).expect("a stream").next_k()
}

fn press(group: &mut Group) {
    (1..3).for_each(|id| group.net.input(NodeId(id), Ask::Pressing(Some(Time(0)))));
    group.watch();
}

/// Both followers promise what the leader proposes, the first one delivers it and promises to commit; the second one does not have it.
fn promised_by_both(seed: u64) -> (Group, Rc<RefCell<bool>>) {
    let (mut group, is_lost) = led(seed);
    let [lock, _] = forged(0, 1, &proposal(0, 0, 1_000, Vec::new()));
    (1..3).for_each(|to| say(&mut group, to, std::slice::from_ref(&lock)));
    settle(&mut group);
    assert_eq!(group.count("S4.18_promise"), 2, "{:?}", group.net.rules);
    assert_eq!((next_k(&group, 1), next_k(&group, 2)), (2, 1));
    assert_eq!(group.count("A2.27_will_commit"), 1);
    (group, is_lost)
}

#[test]
fn t51_a_view_is_left_though_a_leader_takes_the_place_of_what_was_promised_and_is_stopped() {
    for (seed, moves) in seeds(8).flat_map(|seed| [(seed, 1), (seed, 2)]) {
        let (mut group, is_lost) = promised_by_both(seed);
        // A later message of the place comes to the second follower, or to both, whose first one may lock it.
        let [lock, signed] = forged(0, 17, &proposal(0, 16, 1_000, Vec::new()));
        (2..=2).chain(1..moves).for_each(|to| say(&mut group, to, &[lock.clone(), signed.clone()]));
        // At another place the leader says two things.
        for time in [1_001, 1_002] {
            let [lock, signed] = forged(0, 2, &proposal(0, 1, time, Vec::new()));
            say(&mut group, 2, &[lock, signed]);
            settle(&mut group);
        }
        assert!(group.net.blamed.iter().any(|(by, _, fault)| *by == NodeId(2) && *fault == "equivocation"));
        assert!(group.count("S4.18_wait") > 0 && next_k(&group, 2) == 1);
        *is_lost.borrow_mut() = false;
        let first = group.of(1).proposed(Slot(0)).expect("it is here").1;
        press(&mut group);
        group.pass(Span::secs(3));
        for id in 1..3 {
            assert!(group.of(id).view() > View(0), "{moves}: {} {:?}", group.describe(), group.net.rules);
        }
        assert!(group.is_shown(1, 0), "it was promised, and is shown before the view is left");
        group.is_pressing = true;
        group.order(4, LONG);
        assert_eq!(group.decided[&Slot(0)].0, first, "what one promised to commit to");
    }
}

#[test]
fn what_is_delivered_while_its_view_is_left_is_signed_before_it_is() {
    for seed in seeds(8) {
        let mut group = Group::merged(seed);
        group.order(1, SOON);
        let held = Rc::new(RefCell::new(Vec::new()));
        let keep = Rc::clone(&held);
        let lie = move |to: NodeId, word: &Word| {
            let is_locked = matches!(word, Word::Ctb { broadcaster: 0, word: ctb::Message::Locked { .. } });
            if is_locked && to == NodeId(2) {
                keep.borrow_mut().push(word.clone());
                return None;
            }
            Some(word.clone())
        };
        group.net.lies.insert(NodeId(1), Box::new(lie));
        group.wanted = 1;
        group.propose();
        settle(&mut group);
        assert_eq!((next_k(&group, 1), next_k(&group, 2)), (3, 2), "{}", group.describe());
        // The second follower leaves, and has no time for the signature that it owes for the slot before.
        group.is_pressing = false;
        group.net.busy.insert(NodeId(2));
        group.net.input(NodeId(2), Ask::Pressing(Some(Time(0))));
        group.watch();
        let end = group.net.after(Span::millis(100));
        while !group.of(2).is_sealing() {
            assert!(group.net.tick(end), "it suspects");
            group.watch();
        }
        for word in held.take() {
            group.net.say(NodeId(1), NodeId(2), word);
        }
        for _ in 0..400 {
            group.net.turn();
            group.watch();
        }
        assert!(group.of(2).is_sealing() && next_k(&group, 2) == 3, "{}", group.describe());
        group.net.lies.clear();
        group.net.busy.clear();
        group.is_pressing = true;
        group.order(5, LONG);
        assert!(group.of(2).view() > View(0) && group.count("A3.06_seal") > 0);
    }
}

/// A summary of the leader's stream hides what became of a promise, since the leader says that it left the view: what was promised is
/// kept all the same, or the one that promised to commit could never leave.
#[test]
fn a_promise_that_a_summary_hides_is_kept() {
    for seed in seeds(8) {
        let (mut group, is_lost) = promised_by_both(seed);
        // The leader goes from view to view, and says so to the first follower alone.
        for k in 2..=8 {
            let [lock, signed] = forged(0, k, &Body::SealView(View(k - 1)));
            say(&mut group, 1, &[lock, signed]);
        }
        settle(&mut group);
        assert_eq!(next_k(&group, 1), 9, "{}", group.describe());
        let state = group.of(1).stream(LEADER).expect("a stream").state();
        let subject = Summarized { about: 0, k: 8, state: state.digest() };
        let sign = |signer: u8| {
            let statement = Statement::Summary { signer, about: 0, k: 8, state: subject.state };
            (signer, signature_by(NodeId(u32::from(signer)), statement))
        };
        let certificate = Certificate { subject, signed: vec![sign(0), sign(1)].try_into().expect("few") };
        say(&mut group, 2, &[Word::Summary(Box::new(Summary { certificate, state }))]);
        let end = group.net.after(Span::millis(40));
        while next_k(&group, 2) < 9 {
            settle(&mut group);
            assert!(group.net.tick(end), "it is found: {} {:?}", group.describe(), group.net.rules);
        }
        assert!(group.of(1).is_sealing() || group.of(1).view() == View(0), "{}", group.describe());
        // The lock moves on, and the promise is kept once it is known that the other locked the same.
        let [lock, _] = forged(0, 17, &Body::SealView(View(40)));
        say(&mut group, 2, &[lock]);
        settle(&mut group);
        *is_lost.borrow_mut() = false;
        press(&mut group);
        group.pass(Span::secs(3));
        for id in 1..3 {
            assert!(group.of(id).view() > View(0), "{} {:?}", group.describe(), group.net.rules);
        }
        assert!(group.is_shown(1, 0), "it was promised, and is shown before the view is left");
    }
}

/// Nobody's promise of another message is taken for one of this.
#[test]
fn a_promise_counts_for_what_was_locked_alone() {
    for seed in seeds(8) {
        let mut group = Group::merged(seed);
        group.order(1, SOON);
        // The second follower promises something, always of another body than it locked.
        let lie = |_: NodeId, word: &Word| match word {
            Word::Ctb { broadcaster, word: ctb::Message::Locked { broadcaster: of, k, .. } } => {
                let told = ctb::Told::Digest(Hash([9; 32]));
                let word = ctb::Message::Locked { broadcaster: *of, k: *k, told, promise: true };
                Some(Word::Ctb { broadcaster: *broadcaster, word })
            }
            _ => Some(word.clone()),
        };
        group.lie(2, Box::new(lie));
        let before = group.count("A2.27_will_commit");
        group.wanted = 1;
        group.propose();
        settle(&mut group);
        // The liar's machine alone takes its own word for it.
        assert_eq!(group.count("A2.27_will_commit"), before + 1, "not all promised");
        group.order(4, LONG);
    }
}
