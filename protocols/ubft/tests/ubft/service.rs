//! Clients, sessions, execution, and replicas that fall behind.

use std::cell::Cell;
use std::rc::Rc;

use synod_crypto::Signature;
use synod_machine::{Machine as _, Span};
use synod_quorum::NodeId;
use synod_ubft::message::{Message, Replied};
use synod_ubft::replica::{Output, Word};
use synod_wire::Bytes;

use crate::net::seeds;
use crate::town::{Town, client_id};

const SOON: Span = Span::millis(50);
const LONG: Span = Span::secs(20);

fn plain(_: &mut synod_ubft::replica::ReplicaConfig) {}

#[test]
fn a_call_is_executed_once_and_believed_from_f_plus_one() {
    for n in [3, 5] {
        let mut town = Town::new(n, 2, 1, plain);
        town.open();
        // The first requests may be faster than the word that puts their session on a link.
        let mut early = 0;
        for round in 0..10 {
            town.ask(round % 2, &format!("call {round}"), SOON);
            early = if round == 1 { town.count("D02_need_signed") } else { early };
        }
        assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
        town.pass(SOON);
        assert!((0..n).all(|id| town.executed(id) == 10 && town.chains(id) == town.chains(0)));
        assert!(
            town.count("S5.4_echo") > 0 && town.count("D02_need_signed") == early,
            "{:?}",
            town.net.rules
        );
    }
}

#[test]
fn what_waits_is_proposed_together_and_windows_go_on() {
    let mut town = Town::new(3, 2, 3, plain);
    town.open();
    for _ in 0..12 {
        let tickets: Vec<u64> = (0..2)
            .flat_map(|at| (0..8).map(move |call| (at, call)))
            .map(|(at, call)| town.call(at, &format!("{call}")))
            .collect();
        town.pass(Span::millis(40));
        assert!(tickets.into_iter().all(|ticket| town.result(ticket).is_some()), "{:?}", town.net.rules);
    }
    assert_eq!(town.executed(0), 192);
    assert!(town.of(0).executed().0 < 192, "batches");
    assert!(town.of(0).waiting() == 0 && town.of(1).waiting() == 0);
}

#[test]
fn t29_what_a_client_sends_to_the_leader_alone_is_not_proposed_before_it_is_signed() {
    let mut town = Town::new(3, 1, 4, plain);
    town.open();
    // Followers hear nothing of the client.
    town.net.cut.extend([(client_id(0), NodeId(1)), (client_id(0), NodeId(2))]);
    town.ask(0, "to the leader alone", LONG);
    assert!(town.count("D02_need_signed") > 0);
}

#[test]
fn t30_two_operations_of_one_id_are_executed_as_one_at_most() {
    for seed in seeds(8) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "first", LONG);
        let session = synod_ubft::sessions::name(synod_ubft::batch::Slot(0), 0);
        for (to, op) in [(0, "a"), (1, "b"), (2, "a")] {
            let op = synod_wire::Bytes::copy_from_slice(op.as_bytes()).try_into().expect("short");
            town.say(client_id(0), to, Message::Ask { session, id: 2, op, signature: None });
        }
        town.pass(Span::millis(200));
        assert!(town.executed(0) <= 2 && town.executed(0) == town.executed(1));
        // Its later requests, signed where they must be, are served.
        let ticket = town.call(0, "x");
        let other = town.call(0, "y");
        town.pass(Span::secs(3));
        assert!(town.result(ticket).is_some() || town.result(other).is_some(), "{:?}", town.net.rules);
    }
}

/// A client may not have a leader suspected that does what it must: what is signed for a follower alone gets to the leader, though the client said
/// another operation there.
#[test]
fn t49_a_client_that_signs_for_a_follower_what_it_did_not_say_to_the_leader_ends_no_view() {
    for seed in seeds(8) {
        let mut town = Town::new(3, 2, seed, plain);
        town.open();
        town.ask(0, "first", LONG);
        let session = town.session(0).expect("it is open");
        for (id, heard) in [(2, &["b", "b", "b"]), (3, &["b", "b", "a"]), (4, &["b", "c", "d"])] {
            for (to, op) in (0..).zip(heard) {
                let op = Bytes::from_static(op.as_bytes()).try_into().expect("short");
                town.say(client_id(0), to, Message::Ask { session, id, op, signature: None });
            }
            for to in 1..3 {
                let (op, signature) = town.signed(0, (session, id), "a");
                town.say(client_id(0), to, Message::Ask { session, id, op, signature: Some(signature) });
            }
            town.pass(LONG);
        }
        town.ask(1, "of another", LONG);
        assert!((0..3).all(|id| town.executed(id) == 5), "{}", town.describe());
        let views = (0..3).map(|id| town.of(id).consensus().map(|one| one.view().0));
        assert!(views.into_iter().all(|view| view == Some(0)), "{}", town.describe());
    }
}

#[test]
fn t49_a_client_that_registers_with_a_follower_alone_ends_no_view_and_has_its_session() {
    for follower in 1..3 {
        let mut town = Town::new(3, 1, 9, plain);
        let others = (0..3).filter(|id| *id != follower).map(NodeId);
        town.net.cut.extend(others.map(|other| (client_id(0), other)));
        town.pass(LONG);
        let is_open = |id: u32| town.count("register") > 0 && town.of(id).waiting() == 0;
        assert!((0..3).all(is_open), "{}", town.describe());
        let views = (0..3).map(|id| town.of(id).consensus().map(|one| one.view().0));
        assert!(views.into_iter().all(|view| view == Some(0)), "{}", town.describe());
    }
}

#[test]
fn t31_floods_and_forged_sessions_are_dropped_and_held_by_nobody() {
    let mut town = Town::new(3, 1, 5, plain);
    town.open();
    town.ask(0, "first", LONG);
    let before = town.of(1).waiting();
    let session = synod_ubft::sessions::name(synod_ubft::batch::Slot(0), 0);
    let op = || synod_wire::Bytes::from_static(b"forged").try_into().expect("short");
    for id in 0..2_000 {
        let stranger = NodeId(NodeId::GUESTS.0 + 70);
        town.say(stranger, 1, Message::Ask { session, id, op: op(), signature: None });
        town.say(client_id(0), 1, Message::Ask { session, id: 100 + id, op: op(), signature: None });
        town.say(client_id(0), 1, Message::Ask { session: session + 1 + id, id, op: op(), signature: None });
    }
    for id in 5..8 {
        let signature = Some(Signature([3; 64]));
        town.say(
            NodeId(NodeId::GUESTS.0 + 70),
            1,
            Message::Ask { session, id, op: op(), signature: signature.map(Box::new) },
        );
    }
    town.pass(Span::millis(20));
    assert_eq!(town.of(1).waiting(), before);
    assert!(town.net.blamed.iter().all(|(_, _, what)| *what == "bad_signature"), "{:?}", town.net.blamed);
    town.ask(0, "second", LONG);
    assert_eq!(town.executed(0), 2);
}

#[test]
fn t34_replies_that_are_wrong_or_missing_change_no_result() {
    let mut town = Town::new(3, 1, 6, plain);
    town.open();
    let lie = |_: NodeId, message: &Message| match message {
        Message::Reply { session, id, is_slow, .. } => {
            let result = Replied::Full(synod_wire::Bytes::from_static(b"wrong").try_into().expect("short"));
            Some(Message::Reply { session: *session, id: *id, result, is_slow: *is_slow })
        }
        _ => Some(message.clone()),
    };
    town.net.lies.insert(NodeId(2), Box::new(lie));
    for round in 0..6 {
        town.ask(0, &format!("{round}"), LONG);
    }
    assert!(town.net.blamed.iter().all(|(_, who, what)| (*who, *what) == (NodeId(2), "wrong_reply")));
}

#[test]
fn t28_a_replica_whose_application_differs_is_found_out_and_stops_answering() {
    let mut town = Town::new(3, 1, 7, plain);
    town.open();
    town.break_app(2);
    for round in 0..40 {
        town.ask(0, &format!("{round}"), LONG);
    }
    town.pass(SOON);
    assert!(town.told.iter().any(|(id, told)| *id == NodeId(2) && matches!(told, Output::Diverged { .. })));
    assert!(!town.told.iter().any(|(id, told)| *id != NodeId(2) && matches!(told, Output::Diverged { .. })));
}

#[test]
fn t26_a_replica_that_was_away_fetches_the_log_and_a_corrupt_one_is_no_source() {
    let mut town = Town::new(3, 1, 8, plain);
    town.open();
    town.ask(0, "before", LONG);
    town.net.cut_off(NodeId(2), 3);
    for round in 0..60 {
        town.ask(0, &format!("{round}"), LONG);
    }
    // One of the two sources makes batches up.
    let lie = |_: NodeId, message: &Message| match message {
        Message::Log { from, batches } => {
            let mut batches = batches.clone().into_vec();
            batches.iter_mut().for_each(|batch| batch.time_ms += 1);
            Some(Message::Log { from: *from, batches: batches.try_into().expect("as many") })
        }
        _ => Some(message.clone()),
    };
    town.net.lies.insert(NodeId(0), Box::new(lie));
    town.net.heal();
    for round in 0..60 {
        town.ask(0, &format!("again {round}"), LONG);
    }
    town.pass(Span::secs(1));
    assert!(town.count("A2.60_transfer") > 0, "{:?}", town.net.rules);
    assert_eq!(town.executed(2), town.executed(1));
    let bad: Vec<_> = town.net.blamed.iter().filter(|(_, _, what)| *what == "bad_content").collect();
    assert!(bad.iter().all(|(by, who, _)| (*by, *who) == (NodeId(2), NodeId(0))), "{bad:?}");
}

/// Found by `ubft/smr:6ad28c`: over links that are slower than the wait for a piece, each peer was left before it had answered.
#[test]
fn whoever_is_behind_waits_longer_with_each_peer_that_does_not_answer_in_time() {
    let mut town = Town::new(3, 1, 8, plain);
    town.open();
    town.net.cut_off(NodeId(2), 3);
    for round in 0..60 {
        town.ask(0, &format!("{round}"), LONG);
    }
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    let ask = move |_: NodeId, message: &Message| {
        count.set(count.get() + u32::from(matches!(message, Message::FetchLog { .. })));
        Some(message.clone())
    };
    let silent =
        |_: NodeId, message: &Message| (!matches!(message, Message::Log { .. })).then(|| message.clone());
    town.net.lies.insert(NodeId(2), Box::new(ask));
    (0..2).for_each(|id| drop(town.net.lies.insert(NodeId(id), Box::new(silent))));
    town.net.heal();
    town.pass(Span::secs(4));
    let wait = Town::settings(NodeId(2), 3).config.parameters.fast.times(4);
    let most = Span::secs(4).0 / wait.0;
    assert!(asked.get() > 5 && u64::from(asked.get()) < most / 4, "{} of {most}", asked.get());
    (0..2).for_each(|id| drop(town.net.lies.remove(&NodeId(id))));
    town.pass(Span::secs(4));
    assert!(town.executed(0) >= 60 && town.executed(2) == town.executed(0), "{}", town.describe());
}

#[test]
fn reads_are_answered_by_all_or_ordered() {
    let mut town = Town::new(3, 1, 9, plain);
    town.open();
    town.ask(0, "one", LONG);
    town.pass(SOON);
    let ticket = town.read(0, "count");
    town.pass(SOON);
    assert_eq!(town.result(ticket).as_deref(), Some(&1_u64.to_le_bytes()[..]));
    // Where one does not answer, the question is ordered.
    town.net.stop(NodeId(2));
    let ticket = town.read(0, "count");
    town.pass(Span::secs(3));
    let result = town.result(ticket).expect("ordered");
    assert!(result.ends_with(b"count"));
}

#[test]
fn a_leader_that_stops_costs_its_clients_a_view_change_and_nothing_else() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        town.net.stop(NodeId(0));
        town.liars.insert(NodeId(0));
        for round in 0..20 {
            town.ask(0, &format!("{round}"), LONG);
        }
        assert!(town.of(1).consensus().is_some_and(|consensus| consensus.view().0 >= 1));
    }
}

#[test]
fn the_slow_path_alone_orders_as_well() {
    let mut town = Town::new(3, 1, 11, |settings| settings.fast_path = false);
    town.open();
    for round in 0..20 {
        town.ask(0, &format!("{round}"), LONG);
    }
    assert!(town.count("A2.41_decide_slow") > 20);
}

#[test]
fn an_operation_that_is_too_long_is_refused_here_and_blamed_there() {
    let mut town = Town::new(3, 1, 12, plain);
    town.open();
    let long = "x".repeat(513);
    let ticket = town.call(0, &long);
    assert!(town.result(ticket).is_none());
    let session = synod_ubft::sessions::name(synod_ubft::batch::Slot(0), 0);
    let op = synod_wire::Bytes::from(long.into_bytes()).try_into().expect("a blob");
    town.say(client_id(0), 1, Message::Ask { session, id: 1, op, signature: None });
    town.pass(SOON);
    assert!(town.net.blamed.contains(&(NodeId(1), client_id(0), "malformed")));
    town.of(0).invariants();
}

/// Calls in flight, until so many are done.
fn keep_busy(town: &mut Town, all: usize, in_flight: usize) {
    let (mut called, mut done, mut rounds) = (0, 0, 0);
    while done < all {
        while called < all && called - done < in_flight {
            town.call(0, &format!("{called}"));
            called += 1;
        }
        town.pass(Span::micros(100));
        let (results, refused) = town.take_results(0);
        // Behind an old call that waits a session has no place.
        called -= refused;
        done += results;
        rounds += 1;
        assert!(rounds < 100_000, "{done} of {all} are done: {}", town.describe());
    }
}

#[test]
fn what_waits_while_two_slots_are_open_is_ordered_in_one() {
    let mut town = Town::new(3, 1, 6, plain);
    town.open();
    let before = town.count("A2.17_propose");
    let tickets: Vec<u64> = (0..16).map(|at| town.call(0, &format!("{at}"))).collect();
    town.pass(LONG);
    assert!(tickets.iter().all(|ticket| town.result(*ticket).is_some()), "{}", town.describe());
    let slots = town.count("A2.17_propose") - before;
    assert!(slots <= 8, "two at a time, and what waited meanwhile in the next: {slots} slots");
}

#[test]
fn calls_are_heard_by_whoever_is_a_window_behind_and_nobody_has_to_sign() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, plain);
        town.be_brief();
        town.open();
        // Replica 2 decides nothing for as long as it takes to be a window behind the two that answer.
        for liar in [0, 1] {
            let lie = |to: NodeId, message: &Message| {
                let is_last = matches!(message, Message::Word { word: Word::WillCommit { .. }, .. });
                (to != NodeId(2) || !is_last).then(|| message.clone())
            };
            town.net.lies.insert(NodeId(liar), Box::new(lie));
        }
        let before = town.count("D02_need_signed");
        keep_busy(&mut town, 28, 16);
        assert!(town.executed(0) >= 28 && town.executed(2) < 12, "seed {seed}: {}", town.describe());
        assert_eq!(town.count("D02_need_signed"), before, "seed {seed}: {}", town.describe());
        town.net.lies.clear();
        keep_busy(&mut town, 200, 16);
    }
}
