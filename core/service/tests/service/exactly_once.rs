//! Exactly once, over drawn losses, doublings, crashes at every effect and orders that repeat (TK1-TK3, TK6, TK11).

use std::collections::BTreeMap;

use synod_machine::Span;
use synod_service::client::Rejection;
use synod_service::{ClientMessage, Item, Outcome};

use crate::world::{Setup, World};

/// TK4.
#[test]
fn a_command_at_idle_commits_at_once() {
    let mut world = World::new(Setup::default());
    let tags = world.submit(0, &["put a 1", "inc a", "get a"]);
    world.run_quiet();
    world.run_until("the answers", |world| world.all_answered(0, &tags));
    assert_eq!(
        tags.iter().map(|tag| world.value(0, *tag)).collect::<Vec<_>>(),
        ["ok", "2", "2"].map(|v| Some(v.to_owned()))
    );
    // Opening and frame took no timer but the end of the turn.
    assert!(world.now < synod_machine::Time::ZERO + Span::millis(1), "nothing had to be sent again");
}

/// TK1, TK2.
#[test]
fn whatever_is_lost_doubled_or_crashes_each_command_executes_once() {
    for seed in 0..40 {
        let mut world = World::new(Setup { clients: 3, seed, ..Setup::default() });
        world.lossy = 4 + seed % 7;
        world.doubling = 3 + seed % 5;
        let mut tags = Vec::new();
        for round in 0..12_u64 {
            let guest = usize::try_from(round % 3).expect("small");
            let commands: Vec<String> = (0..=world.from.below(5)).map(|_| "inc n".to_owned()).collect();
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            tags.extend(world.submit(guest, &commands).into_iter().map(|tag| (guest, tag)));
            for _ in 0..world.from.below(200) {
                world.tick();
            }
            let at = usize::try_from(world.from.below(4)).expect("small");
            match world.from.below(3) {
                0 if world.nodes[at].machine.is_some() => world.nodes[at].fuse = Some(world.from.below(30)),
                1 if world.nodes[at].machine.is_none() => world.restart(at),
                _ => {}
            }
            if let Some(again) = world.log.get(usize::try_from(world.from.below(40)).expect("small")) {
                let payload = again.0.clone();
                world.order_again(payload);
            }
        }
        world.lossy = 0;
        for at in 0..4 {
            world.nodes[at].fuse = None;
            if world.nodes[at].machine.is_none() {
                world.restart(at);
            }
        }
        world.run_until("all answers", |world| {
            tags.iter().all(|(guest, tag)| world.guests[*guest].outcomes.contains_key(tag))
        });
        world.check_exactly_once();
        check_increments(&world, &tags, seed);
    }
}

/// Each increment answered gives another number, from 1 to their count.
fn check_increments(world: &World, tags: &[(usize, u64)], seed: u64) {
    let mut seen = BTreeMap::new();
    for (guest, tag) in tags {
        let value = world
            .value(*guest, *tag)
            .unwrap_or_else(|| format!("seed {seed}: {:?}", world.guests[*guest].outcomes[tag]));
        assert_eq!(seen.insert(value.clone(), tag), None, "seed {seed}: {value} was given twice");
    }
    assert!((1..=tags.len()).all(|n| seen.contains_key(&n.to_string())), "seed {seed}: {seen:?}");
}

/// TK3.
#[test]
fn sequences_out_of_order_execute() {
    let mut world = World::new(Setup::default());
    let first = world.submit(0, &["put a 1"]);
    world.run_until("the session", |world| world.all_answered(0, &first));
    world.orders = false;
    let mut tags = Vec::new();
    for _ in 0..6 {
        tags.extend(world.submit(0, &["inc n"]));
        world.run_for(Span::millis(1));
    }
    assert_eq!(world.submitted.len(), 6, "each turn made its own frame");
    world.submitted.reverse();
    world.orders = true;
    world.run_until("the answers", |world| world.all_answered(0, &tags));
    let values: Vec<_> = tags.iter().map(|tag| world.value(0, *tag)).collect();
    let expected: Vec<_> = (1..=6).rev().map(|n: u32| Some(n.to_string())).collect();
    assert_eq!(values, expected, "executed in the order agreed, not in that of the sequences");
    world.check_exactly_once();
}

/// The frames that the first client sent: first sequence and number of commands.
fn frames(world: &World) -> BTreeMap<u64, usize> {
    let sent = world.guests[0].sent.iter().filter_map(|(_, message)| match message {
        ClientMessage::Item(item) => Item::parse(item.bytes()).ok(),
        _ => None,
    });
    let frame = |item| match item {
        Item::Frame(frame) => Some((frame.first, frame.commands.len())),
        Item::Open(_) => None,
    };
    sent.filter_map(frame).collect()
}

/// A client with a window of 64, of which 40 are in flight behind an order that stands.
fn forty_in_flight() -> (World, Vec<u64>) {
    let mut world = World::new(Setup { window: 64, ..Setup::default() });
    let first = world.submit(0, &["put a 1"]);
    world.run_until("the session", |world| world.all_answered(0, &first));
    world.orders = false;
    let tags = world.submit(0, &["inc n"; 40]);
    world.run_for(Span::millis(1));
    assert_eq!(frames(&world), BTreeMap::from([(1, 1), (2, 40)]));
    (world, tags)
}

/// TV4.
#[test]
fn the_commands_of_one_submission_are_one_frame_at_the_edge_of_the_window_too() {
    let (mut world, forty) = forty_in_flight();
    let thirty = world.submit(0, &["inc n"; 30]);
    world.run_for(Span::millis(1));
    assert_eq!(frames(&world).len(), 2, "twenty-four of them have room, and a frame is not cut");
    world.orders = true;
    world.run_until("the answers", |world| world.all_answered(0, &forty) && world.all_answered(0, &thirty));
    assert_eq!(frames(&world), BTreeMap::from([(1, 1), (2, 40), (42, 30)]));
    world.check_exactly_once();
}

/// TV4.
#[test]
fn a_submission_beyond_a_frame_is_executed_in_its_order() {
    let (mut world, forty) = forty_in_flight();
    let hundred = world.submit(0, &["inc n"; 100]);
    for sent in [2, 3, 4] {
        world.orders = false;
        world.run_for(Span::millis(1));
        assert_eq!(frames(&world).len(), sent, "a part is sent when the one before it is executed");
        // Were there two, the later would be executed first.
        world.submitted.reverse();
        world.orders = true;
        world.run_until("the frame", |world| world.guests[0].machine.outstanding() <= [100, 36, 0][sent - 2]);
    }
    assert!(world.all_answered(0, &forty));
    let values: Vec<_> = hundred.iter().map(|tag| world.value(0, *tag)).collect();
    let expected: Vec<_> = (41..=140).map(|n: u32| Some(n.to_string())).collect();
    assert_eq!(values, expected);
    world.check_exactly_once();
}

#[test]
fn the_rest_of_a_submission_given_up_at_its_deadline_is_not_sent() {
    let (mut world, _) = forty_in_flight();
    world.orders = true;
    world.run_for(Span::millis(1));
    world.orders = false;
    let tags = world.submit_within(0, &["inc n"; 100], Span::secs(1));
    world.run_for(Span::secs(2));
    let outcomes: Vec<_> = tags.iter().map(|tag| &world.guests[0].outcomes[tag]).collect();
    let (sent, rest) = outcomes.split_at(64);
    assert!(sent.iter().all(|outcome| matches!(outcome, Outcome::Unknown(..))));
    assert!(rest.iter().all(|outcome| **outcome == Outcome::Rejected(Rejection::NoQuorum)));
    assert_eq!(
        frames(&world).len(),
        3,
        "what follows a command that may be executed yet is not executed first"
    );
}

/// TK6, K3.
#[test]
fn a_duplicate_in_flight_is_answered_only_after_commit() {
    let mut world = World::new(Setup::default());
    let first = world.submit(0, &["put a 1"]);
    world.run_until("the session", |world| world.all_answered(0, &first));
    world.orders = false;
    let tags = world.submit(0, &["inc n"]);
    // The client sends again and again, to all; nothing may be answered.
    world.run_for(Span::secs(30));
    assert!(world.submitted.len() >= 4, "every node took the frame");
    assert!(!world.all_answered(0, &tags), "answered before anything was committed");
    assert!(world.guests[0].blamed.is_empty());
    world.orders = true;
    world.run_until("the answer", |world| world.all_answered(0, &tags));
    assert_eq!(world.value(0, tags[0]).as_deref(), Some("1"), "however many copies were ordered");
    world.check_exactly_once();
}

/// TK11: the frames of a whole history, ordered again with the `acked` they had then.
#[test]
fn an_old_frame_ordered_again_changes_nothing() {
    let mut world = World::new(Setup::default());
    let mut tags = Vec::new();
    for _ in 0..8 {
        tags.extend(world.submit(0, &["inc n", "inc n"]));
        world.run_until("the answers", |world| world.all_answered(0, &tags));
    }
    let roots: Vec<_> = (0..4).map(|at| world.executor(at).app().clone()).collect();
    let old: Vec<_> = world.log.iter().map(|(payload, ..)| payload.clone()).collect();
    let before: Vec<_> =
        world.executor(0).sessions().clone().get(1).map(|s| s.window().base()).into_iter().collect();
    old.into_iter().for_each(|payload| world.order_again(payload));
    world.run_for(Span::secs(5));
    for (at, app) in roots.iter().enumerate() {
        assert_eq!(world.executor(at).executed().0, world.log.len() as u64);
        assert_eq!(world.executor(at).app(), app, "a liar's repetition was executed");
    }
    let after: Vec<_> = world.executor(0).sessions().get(1).map(|s| s.window().base()).into_iter().collect();
    assert_eq!((before.len(), before), (1, after), "the base never falls");
}

/// TK2.
#[test]
fn accepted_commands_survive_the_loss_of_any_one_node() {
    for dead in 0..4 {
        let mut world = World::new(Setup { seed: 5, ..Setup::default() });
        let first = world.submit(0, &["put a 1"]);
        world.run_until("the session", |world| world.all_answered(0, &first));
        world.crash(dead);
        let tags = world.submit(0, &["inc n", "inc n"]);
        world.run_until("answers of the others", |world| world.all_answered(0, &tags));
        assert_eq!(world.value(0, tags[1]).as_deref(), Some("2"));
        world.restart(dead);
        world.run_for(Span::secs(1));
        assert_eq!(world.executor(dead).app(), world.executor((dead + 1) % 4).app());
    }
}

#[test]
fn a_retry_sends_the_same_bytes() {
    let mut world = World::new(Setup::default());
    world.lossy = 1;
    world.submit_within(0, &["inc n"], Span::secs(60));
    world.run_for(Span::secs(20));
    let items: Vec<_> =
        world.guests[0].sent.iter().filter(|(_, m)| matches!(m, ClientMessage::Item(_))).collect();
    assert!(items.len() > 20, "it went on");
    assert!(items.iter().all(|(_, message)| *message == items[0].1), "always the same opening");
    world.run_for(Span::secs(60));
    let rejected = world.guests[0].outcomes.values().all(|outcome| matches!(outcome, Outcome::Rejected(_)));
    assert!(
        rejected && world.guests[0].outcomes.len() == 1,
        "nothing was sent, so it is certainly not executed"
    );
}
