//! Leaders that stop or lie, and how replicas leave a view without breaking a promise.

use std::cell::Cell;
use std::rc::Rc;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_ubft::replica::{Ask, Word};
use synod_ubft::{Body, ctb};
use synod_wire::{Limits, Wire as _};

use crate::group::{Group, threes};
use crate::net::seeds;

const SOON: Span = Span::millis(400);
const LONG: Span = Span::secs(30);

fn stop(group: &mut Group, id: u32) {
    group.net.stop(NodeId(id));
}

#[test]
fn t18_a_leader_that_stops_after_all_promised_is_replaced_and_the_batch_kept() {
    for (seed, mut group) in threes(30) {
        group.order(4, SOON);
        // Somewhere within the next slots the leader stops.
        group.wanted = 3;
        for _ in 0..20 + seed * 5 {
            group.propose();
            group.net.turn();
            group.watch();
        }
        stop(&mut group, 0);
        group.order(10, LONG);
        assert!(group.of(1).view().0 >= 1 && group.of(2).view().0 >= 1);
        assert!(group.count("A3.16_new_view") >= 1);
    }
}

#[test]
fn with_five_replicas_two_that_stop_are_borne() {
    for seed in seeds(6) {
        let mut group = Group::new(5, seed);
        group.order(3, SOON);
        stop(&mut group, 0);
        group.order(5, LONG);
        stop(&mut group, 1);
        group.order(20, LONG);
        assert!(group.of(2).view().0 >= 2, "{}", group.describe());
    }
}

#[test]
fn t19_what_one_replica_decided_fast_is_decided_by_all() {
    for (_, mut group) in threes(20) {
        group.order(2, SOON);
        // Promises to commit reach replica 1 alone, which decides; then its words are lost.
        let lie = |to: NodeId, word: &Word| {
            let is_promise = matches!(word, Word::WillCommit { .. });
            (!is_promise || to == NodeId(1)).then(|| word.clone())
        };
        group.net.lies.insert(NodeId(0), Box::new(lie));
        group.net.lies.insert(NodeId(2), Box::new(lie));
        group.wanted = 1;
        while group.decided.len() < 3 {
            group.propose();
            assert!(group.net.turn(), "one decides");
            group.watch();
        }
        let before = group.decided.clone();
        // The decider is cut off; the others must find the same.
        group.net.cut_off(NodeId(1), 3);
        group.liars.insert(NodeId(1));
        group.net.lies.clear();
        group.order(5, LONG);
        for (slot, (digest, _)) in before {
            assert_eq!(group.decided[&slot].0, digest);
        }
    }
}

#[test]
fn t20_t48_whoever_seals_first_leaves_nobody_behind() {
    for (_, mut group) in threes(20) {
        group.order(2, SOON);
        // All promise to certify; the promises to commit are lost, and the leader says nothing more.
        let drop = |_: NodeId, word: &Word| (!matches!(word, Word::WillCommit { .. })).then(|| word.clone());
        for id in 0..3 {
            group.net.lies.insert(NodeId(id), Box::new(drop));
        }
        group.wanted = 2;
        for _ in 0..60 {
            group.propose();
            group.net.turn();
            group.watch();
        }
        group.net.lies.clear();
        stop(&mut group, 0);
        group.order(10, LONG);
        assert!(group.count("A3.06_seal") >= 2);
    }
}

#[test]
fn t21_proposals_that_keep_coming_do_not_keep_a_view_from_being_left() {
    for (_, mut group) in threes(2) {
        // The leader withholds its promises to commit, and proposes on.
        let lie = |_: NodeId, word: &Word| {
            (!matches!(word, Word::WillCommit { .. } | Word::Certify { .. })).then(|| word.clone())
        };
        group.lie(0, Box::new(lie));
        group.order(20, LONG);
        assert!(group.of(1).view() == group.of(2).view());
    }
}

#[test]
fn t21_nothing_is_promised_in_a_view_that_is_left_and_it_is_left_while_proposals_keep_coming() {
    let mut leaving = 0;
    for (_, mut group) in threes(12) {
        group.order(4, SOON);
        // The leader orders on and on, and censors one client, for which the others wait.
        let since = group.net.now;
        group.is_pressing = false;
        group.wanted = u64::MAX;
        (1..3).for_each(|id| group.net.input(NodeId(id), Ask::Pressing(Some(since))));
        let end = group.net.after(Span::secs(1));
        for turn in 0.. {
            assert!(turn < 100_000, "U-L1: a view is not left: {}", group.describe());
            group.propose();
            group.net.turn();
            group.watch();
            let is_leaving = (1..3).any(|id| group.of(id).is_sealing());
            leaving += u64::from(is_leaving);
            if (1..3).all(|id| group.of(id).view().0 > 0) {
                break;
            }
            // While one leaves, messages are all that happens.
            if !is_leaving && turn % 20 == 0 {
                group.net.tick(end);
            }
        }
    }
    assert!(leaving > 100, "views are left while proposals come: {leaving} turns");
}

#[test]
fn a_leader_signs_what_it_proposed_behind_a_certificate_that_is_still_checked_before_it_leaves() {
    for (_, mut group) in threes(20) {
        (0..3).for_each(|id| group.net.input(NodeId(id), Ask::SlowOnly));
        group.order(3, SOON);
        let turns = |group: &mut Group, is_done: fn(&Group) -> bool| {
            for _ in 0..5_000 {
                if is_done(group) {
                    return;
                }
                group.propose();
                group.net.turn();
                group.watch();
            }
        };
        // The leader shows a certificate, which is checked when it has time, and proposes the next slot.
        let shown = group.count("A2.36_commit");
        group.wanted = 1;
        while group.count("A2.36_commit") < shown + 1 || !group.is_shown(0, 3) {
            group.propose();
            assert!(group.net.turn(), "it is shown");
            group.watch();
        }
        group.net.busy.insert(NodeId(0));
        group.wanted = 1;
        group.is_pressing = false;
        let since = Time(0);
        (1..3).for_each(|id| group.net.input(NodeId(id), Ask::Pressing(Some(since))));
        turns(&mut group, |group| group.wanted == 0);
        let end = group.net.after(Span::millis(60));
        while (1..3).any(|id| group.of(id).view().0 == 0) && group.net.tick(end) {
            turns(&mut group, |group| (1..3).all(|id| group.of(id).view().0 > 0));
        }
        group.is_pressing = true;
        turns(&mut group, |group| group.of(0).view().0 > 0);
        group.net.busy.clear();
        group.order(5, LONG);
        assert!(group.of(0).view().0 > 0, "{}", group.describe());
    }
}

#[test]
fn a_proposal_that_is_not_decided_is_enough_to_suspect_and_where_nothing_waits_nobody_does() {
    let mut group = Group::new(3, 5);
    group.order(3, SOON);
    group.is_pressing = false;
    group.pass(Span::millis(500));
    assert!((0..3).all(|id| group.of(id).view().0 == 0), "nothing waits");
    (1..3).for_each(|id| group.deafen(id));
    group.wanted = 1;
    group.pass(Span::millis(200));
    assert!((0..3).all(|id| group.of(id).view().0 > 0), "{}", group.describe());
}

#[test]
fn t33_a_leader_that_is_slow_is_replaced_and_time_goes_on() {
    let mut group = Group::new(3, 2);
    // Its proposals reach nobody.
    let lie = |_: NodeId, word: &Word| match word {
        Word::Ctb { broadcaster: 0, .. } => None,
        _ => Some(word.clone()),
    };
    group.lie(0, Box::new(lie));
    let took = group.order(5, LONG);
    assert!(took <= Span::secs(2), "{took}");
}

#[test]
fn t35_one_that_suspects_alone_is_followed_and_the_fast_path_goes_on() {
    let mut group = Group::new(3, 4);
    group.order(5, SOON);
    // Replica 2 hears nothing from the leader for a while.
    group.net.cut.insert((NodeId(0), NodeId(2)));
    group.wanted = 1;
    group.pass(Span::millis(200));
    group.net.heal();
    group.pass(Span::millis(300));
    group.order(100, LONG);
    assert!(group.of(0).view() == group.of(1).view() && group.of(1).view() == group.of(2).view());
    assert!(!group.of(0).is_slow());
}

#[test]
fn t36_after_a_storm_of_view_changes_it_goes_on() {
    for (_, mut group) in threes(6) {
        for round in 0..8_u32 {
            let victim = NodeId(round % 3);
            group.net.cut_off(victim, 3);
            group.wanted = 2;
            group.pass(Span::millis(60 + u64::from(round) * 20));
            group.net.heal();
        }
        let took = group.order(20, LONG);
        assert!(took <= Span::secs(15), "{took}");
    }
}

#[test]
fn t47_a_checkpoint_that_one_replica_has_alone_is_shown_before_it_leaves() {
    for (_, mut group) in threes(12) {
        // Shares of checkpoints reach replica 1 alone.
        let lie = |to: NodeId, word: &Word| {
            let is_share = matches!(word, Word::CertifyCheckpoint { .. });
            (!is_share || to == NodeId(1)).then(|| word.clone())
        };
        for id in 0..3 {
            group.net.lies.insert(NodeId(id), Box::new(lie));
        }
        group.order(17, LONG);
        stop(&mut group, 0);
        group.order(40, LONG);
        assert!(group.of(1).low().low.0 >= 32);
    }
}

/// A replica's NEW_VIEW or COMMIT, as it is said.
fn body(word: &Word, of: u8) -> Option<(u64, Body)> {
    let Word::Ctb { broadcaster, word: ctb::Message::Lock { k, body } } = word else { return None };
    let read = Body::decode(body.bytes().clone(), &Limits::default()).ok()?;
    (*broadcaster == of).then_some((*k, read))
}

#[test]
fn t32_a_leader_that_censors_is_replaced_within_the_wait() {
    let mut group = Group::new(3, 9);
    let proposed = Rc::new(Cell::new(0));
    let count = Rc::clone(&proposed);
    // From its third proposal on the leader proposes to nobody.
    let lie = move |_: NodeId, word: &Word| {
        if let Some((_, Body::Prepare { .. })) = body(word, 0) {
            count.set(count.get() + 1);
            return (count.get() <= 4).then(|| word.clone());
        }
        // Nor does it say them signed.
        if matches!(word, Word::Ctb { broadcaster: 0, word: ctb::Message::Signed { .. } }) && count.get() > 4
        {
            return None;
        }
        Some(word.clone())
    };
    group.lie(0, Box::new(lie));
    group.order(10, LONG);
    assert!(group.of(1).view().0 >= 1, "{} proposals", proposed.get());
}

/// Found by `ubft/smr:404` and by clusters whose leader was killed: neither knows what the other said, so neither asks for it, and both wait
/// until it is summed up.
#[test]
fn what_two_replicas_lost_of_all_that_they_may_say_is_said_again_though_no_link_ended() {
    for (_, mut group) in threes(12) {
        group.order(6, SOON);
        stop(&mut group, 2);
        group.net.cut_off(NodeId(0), 3);
        group.wanted = 400;
        group.pass(Span::secs(2));
        group.net.heal();
        group.order(10, LONG);
    }
}

/// Found by `ubft/smr:7db`: one that suspects again and again by itself is so far ahead in the end that no two meet in a view.
#[test]
fn one_that_suspects_alone_waits_for_the_others_in_its_view_and_is_followed_later() {
    for seed in seeds(6) {
        let mut group = Group::new(5, seed);
        group.order(4, SOON);
        // One client is heard by replica 2 alone, which gives up one leader after the other for it.
        group.is_pressing = false;
        let since = group.net.now;
        group.net.input(NodeId(2), Ask::Pressing(Some(since)));
        let (view, mut ahead) = (|group: &Group, id: u32| group.of(id).view().0, 0);
        for _ in 0..40 {
            group.pass(Span::millis(200));
            let others = (0..5).filter(|id| *id != 2).map(|id| view(&group, id)).max();
            assert!(Some(view(&group, 2)) <= others.map(|view| view + 1), "{}", group.describe());
            ahead += u64::from(Some(view(&group, 2)) > others);
        }
        assert!(ahead > 20, "it waits for those who followed it lately: {ahead}");
        group.net.input(NodeId(2), Ask::Pressing(None));
        group.pass(Span::secs(11));
        assert!((0..5).all(|id| view(&group, id) == view(&group, 2)), "{}", group.describe());
    }
}

/// Found by `ubft/smr:5b9050`: f + 1 certificates decide what is not here yet, and the batch comes with a later view's proposal.
#[test]
fn a_batch_that_comes_behind_its_decision_is_executed_though_nothing_else_is_decided() {
    let mut late = 0;
    for seed in seeds(6) {
        let mut group = Group::new(5, seed);
        group.order(2, SOON);
        // Replica 2 hears neither the leader nor what others have of its proposals.
        let lie = |to: NodeId, word: &Word| {
            let is_of_leader = match word {
                Word::Ctb { broadcaster, .. } => *broadcaster == 0,
                // What is longer is no batch.
                _ => matches!(word, Word::Content { total, .. } if *total < 256),
            };
            (to != NodeId(2) || !is_of_leader).then(|| word.clone())
        };
        for id in [0, 1, 3, 4] {
            group.net.lies.insert(NodeId(id), Box::new(lie));
        }
        group.wanted = 3;
        group.pass(Span::millis(30));
        let behind = group.executed(1).saturating_sub(group.executed(2));
        late += behind;
        stop(&mut group, 0);
        group.net.input(NodeId(2), Ask::Pressing(Some(Time(0))));
        group.pass(Span::secs(20));
        assert_eq!(group.executed(2), group.executed(1), "{}", group.describe());
    }
    assert!(late > 6, "it misses what others have: {late}");
}
