//! The fast path, and what is slow.

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_ubft::replica::Word;

use crate::group::{Group, HALF, threes};

const SOON: Span = Span::millis(400);
const LONG: Span = Span::secs(20);

/// Orders until no replica signs at once any more.
fn fast_again(group: &mut Group) {
    for _ in 0..8 {
        group.order(64 + HALF, LONG);
        if (0..3).all(|id| !group.of(id).is_slow()) {
            return;
        }
    }
    unreachable!("U-L2: slow for ever: {} {:?}", group.describe(), group.net.rules);
}

#[test]
fn without_a_fault_everything_is_decided_by_promises_and_nothing_is_signed_for_it() {
    for n in [3, 5] {
        let mut group = Group::new(n, 1);
        // Below the first summary and the first checkpoint nothing is signed at all.
        group.order(6, SOON);
        assert_eq!((group.net.jobs, group.slow), (0, 0), "n = {n}: {:?}", group.net.rules);
        assert!(group.count("A2.31_decide_fast") >= 6);
        assert!(group.net.blamed.is_empty());
    }
}

#[test]
fn t39_windows_and_tails_go_on_and_nothing_stalls() {
    for (_, mut group) in threes(6) {
        group.order(150, LONG);
        // Of nine the last may be on its way; and jobs end in any order, so f + 1 may have signed a checkpoint before the one below it, which
        // is passed over.
        assert!(
            group.count("A2.52_adopt") >= 7 * 3 && group.count("A4.09_summary") > 10,
            "{:?}",
            group.net.rules
        );
        assert!(group.net.blamed.is_empty(), "{:?}", group.net.blamed);
        for id in 0..3 {
            assert!(group.of(id).low().low.0 >= 128, "{}", group.describe());
            assert!(group.of(id).view().0 == 0, "nobody suspects a leader that works");
        }
    }
}

#[test]
fn t38_promises_that_come_early_late_twice_or_of_another_view_lose_nothing() {
    let mut group = Group::new(3, 7);
    for slot in 0..8 {
        for view in [0, 3, 1 << 61] {
            let (view, slot) = (synod_ubft::batch::View(view), synod_ubft::batch::Slot(slot));
            // What the machine itself says later, said early; and promises of views that nobody is in.
            if view.0 == 0 {
                group.net.say(NodeId(2), NodeId(0), Word::WillCertify { view, slot, tag: 0 });
                group.net.say(NodeId(2), NodeId(0), Word::WillCertify { view, slot, tag: 0 });
            } else {
                group.net.say(NodeId(2), NodeId(1), Word::WillCommit { view, slot, tag: 9 });
            }
        }
    }
    group.pass(Span::millis(1));
    group.order(20, LONG);
    let far = synod_ubft::batch::Slot(1 << 62);
    group.net.say(
        NodeId(2),
        NodeId(1),
        Word::WillCommit { view: synod_ubft::batch::View(0), slot: far, tag: 0 },
    );
    group.pass(Span::millis(1));
    assert!(group.net.blamed.contains(&(NodeId(1), NodeId(2), "malformed")));
}

#[test]
fn t44_a_follower_that_is_down_makes_it_slow_and_one_that_comes_back_fast_again() {
    for (_, mut group) in threes(4) {
        group.order(5, SOON);
        group.net.cut_off(NodeId(2), 3);
        let follower = NodeId(2);
        group.liars.insert(follower);
        group.order(20, LONG);
        assert!(group.slow > 0 && group.of(0).is_slow() && group.of(1).is_slow(), "{:?}", group.net.rules);
        group.liars.remove(&follower);
        group.net.heal();
        // It hears of what it missed with the next slots.
        for _ in 0..3 {
            group.order(1, LONG);
        }
        fast_again(&mut group);
        let slow = group.slow;
        group.order(10, LONG);
        assert_eq!(group.slow, slow, "fast again");
    }
}

#[test]
fn a_memory_node_that_stops_costs_nothing() {
    let mut group = Group::new(3, 3);
    group.net.stop_memory(1);
    group.net.cut_off(NodeId(1), 3);
    group.liars.insert(NodeId(1));
    group.order(40, LONG);
    assert!(group.slow > 0);
}

#[test]
fn messages_that_are_lost_are_asked_for() {
    for (_, mut group) in threes(10) {
        group.net.loss = 30;
        group.order(60, LONG);
        group.net.loss = 0;
        group.pass(Span::millis(200));
        assert!(group.slow > 0 && group.net.blamed.is_empty(), "{:?}", group.net.blamed);
    }
}

#[test]
fn a_replica_that_vouches_for_nothing_slows_and_stops_nobody() {
    let mut group = Group::new(3, 5);
    group.deafen(2);
    group.order(30, LONG);
    assert!(group.slow > 0);
    group.hear(2);
    fast_again(&mut group);
}
