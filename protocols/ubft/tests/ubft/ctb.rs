//! Consistent Tail Broadcast by a correct broadcaster.

use synod_crypto::Hash;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_ubft::ctb::{Input, Output, WAITING_MAX};
use synod_wire::Bytes;

use crate::world::{P, TAIL, World};

const LONG: Span = Span::secs(2);

#[test]
fn all_deliver_after_one_exchange_without_a_signature_or_a_memory_node() {
    let mut world = World::new(3, &[], 1);
    world.broadcast(b"one", false);
    world.settle();
    for id in 0..3 {
        assert_eq!(world.has(id, 1), Some(&b"one"[..]));
    }
    // Two LOCKs and a LOCKED of each receiver.
    assert_eq!(
        world.sent.iter().map(|(queue, count)| (*queue, *count)).collect::<Vec<_>>(),
        [(0, 2), (2, 2)]
    );
    assert_eq!(world.jobs, 0);
    let rules: Vec<_> = world.rules.iter().copied().collect();
    assert_eq!(rules, ["A1.03_lock", "A1.12_locked", "A1.22_deliver_fast"]);
    // Nothing is left to be asked for.
    world.pass(LONG);
    assert_eq!(world.sent.values().sum::<u64>(), 4);
}

#[test]
fn a_long_message_is_echoed_by_its_digest_and_no_longer_one_is_sent() {
    let mut world = World::new(3, &[], 1);
    world.broadcast(&[7; 8_000], false);
    world.settle();
    assert!(world.has(1, 1) == Some(&[7; 8_000][..]));
    world.input(P, Input::Broadcast { body: Bytes::from(vec![0; (8 << 10) + 65]), signed: false });
    world.settle();
    assert!(matches!(world.outputs.last(), Some((P, Output::Refused(body))) if body.len() == (8 << 10) + 65));
    assert_eq!(world.replicas[0].as_ref().expect("there").sent(), 1);
}

#[test]
fn with_a_silent_receiver_the_others_deliver_by_signature_and_registers() {
    for seed in 0..40 {
        let mut world = World::new(3, &[], seed);
        world.cut_off.insert(NodeId(2));
        for at in 0..5_u8 {
            world.broadcast(&[at], at == 3);
        }
        world.pass(LONG);
        for k in 1..=5_u8 {
            assert_eq!(world.has(1, k.into()), Some(&[k - 1][..]), "seed {seed}");
        }
        assert!(world.rules.contains("A1.37_deliver_slow") && world.blamed.is_empty());
    }
}

#[test]
fn whoever_missed_a_message_asks_and_gets_it_signed() {
    for seed in 0..40 {
        let mut world = World::new(3, &[], seed);
        world.cut_off.insert(NodeId(2));
        world.broadcast(b"missed", false);
        world.broadcast(&[9; 5_000], false);
        world.settle();
        world.cut_off.clear();
        // It hears of the first by nobody, and of later ones by their LOCKED, and all NACKs of others bring SIGNED to it as well.
        world.pass(LONG);
        for id in 0..3 {
            assert_eq!(world.has(id, 1), Some(&b"missed"[..]), "seed {seed}");
            assert!(world.has(id, 2) == Some(&[9; 5_000][..]), "seed {seed}");
        }
        assert!(world.rules.contains("nack"));
    }
}

#[test]
fn the_last_messages_of_a_tail_are_delivered_by_all_whatever_gave_way() {
    let mut evicted = 0;
    for seed in 0..30 {
        let mut world = World::new(if seed % 2 == 0 { 3 } else { 5 }, &[], seed);
        let tail = u64::from(TAIL);
        for k in 1..=3 * tail {
            world.broadcast(format!("message {k}").as_bytes(), seed % 3 == 0);
            for _ in 0..seed % 5 {
                world.turn();
            }
            world.input(P, Input::Summarized(k));
        }
        world.pass(LONG);
        evicted += world.evicted;
        for (id, _) in (0_u32..).zip(&world.replicas) {
            for k in 2 * tail + 1..=3 * tail {
                assert_eq!(world.has(id, k), Some(format!("message {k}").as_bytes()), "seed {seed}, {id}");
            }
        }
        assert!(world.blamed.is_empty(), "{:?}", world.blamed);
    }
    assert!(evicted > 500, "{evicted} messages gave way");
}

#[test]
fn a_broadcaster_waits_for_a_summary_after_a_tail_of_messages() {
    let mut world = World::new(3, &[], 1);
    let tail = u64::from(TAIL);
    for k in 0..tail + 3 {
        world.broadcast(&k.to_le_bytes(), false);
    }
    world.settle();
    assert_eq!(world.replicas[0].as_ref().map(synod_ubft::CtBroadcast::sent), Some(tail));
    assert!(world.rules.contains("E23_blocked"));
    world.input(P, Input::Summarized(2));
    world.settle();
    assert_eq!(world.replicas[0].as_ref().map(synod_ubft::CtBroadcast::sent), Some(tail + 2));
    // A summary of what was not sent lets nothing out.
    world.input(P, Input::Summarized(u64::MAX));
    world.settle();
    assert_eq!(world.replicas[0].as_ref().map(synod_ubft::CtBroadcast::sent), Some(tail + 3));
    assert_eq!(world.delivered[&NodeId(1)].len() as u64, tail + 3);
}

#[test]
fn a_broadcaster_takes_no_more_than_it_may_keep() {
    let mut world = World::new(3, &[], 1);
    let tail = usize::try_from(TAIL).expect("small");
    for _ in 0..tail + WAITING_MAX {
        world.broadcast(b"x", false);
    }
    assert_eq!(world.replicas[0].as_ref().map(synod_machine::Machine::room), Some(0));
    world.input(P, Input::Broadcast { body: Bytes::from_static(b"y"), signed: false });
    assert_eq!(world.outputs.last(), Some(&(P, Output::Refused(Bytes::from_static(b"y")))));
    // A receiver broadcasts nothing for another.
    world.input(NodeId(1), Input::Broadcast { body: Bytes::from_static(b"z"), signed: false });
    assert_eq!(world.outputs.last(), Some(&(NodeId(1), Output::Refused(Bytes::from_static(b"z")))));
}

#[test]
fn in_slow_mode_everything_is_signed_at_once() {
    let mut world = World::new(3, &[], 1);
    world.input(P, Input::Slow(true));
    world.broadcast(b"one", false);
    world.settle();
    assert!(world.jobs > 0 && world.rules.contains("A1.04_signed"));
    world.input(P, Input::Slow(false));
    let jobs = world.jobs;
    world.broadcast(b"two", false);
    world.settle();
    assert_eq!(world.jobs, jobs);
    assert_eq!(world.has(2, 2), Some(&b"two"[..]));
}

#[test]
fn a_signed_message_without_its_body_waits_until_the_body_is_found() {
    let mut world = World::new(3, &[0], 1);
    let body = vec![5; 2_000];
    let digest = Hash::of(&body);
    let signature = crate::world::signature_of(1, digest);
    let message = synod_ubft::ctb::Message::Signed {
        broadcaster: 0,
        k: 1,
        digest,
        signature: Box::new(signature),
        body: None,
    };
    for id in [1, 2] {
        world.say(P, id, message.clone());
    }
    world.settle();
    assert!(world.outputs.contains(&(NodeId(1), Output::Missing { k: 1, digest })));
    assert!(world.delivered.is_empty());
    for id in [1, 2] {
        world.input(NodeId(id), Input::Found(Bytes::from_static(b"another")));
        world.input(NodeId(id), Input::Found(Bytes::from(body.clone())));
    }
    world.pass(LONG);
    assert_eq!(world.has(1, 1), Some(&body[..]));
    assert_eq!(world.has(2, 1), Some(&body[..]));
}

#[test]
fn memory_nodes_may_stop_and_one_that_comes_back_empty_is_not_believed() {
    for seed in 0..20 {
        let mut world = World::new(3, &[], seed);
        world.cut_off.insert(NodeId(2));
        world.stop_memory(0);
        world.broadcast(b"one", true);
        world.pass(LONG);
        assert_eq!(world.has(1, 1), Some(&b"one"[..]), "f_m of them are not needed");
        // Two of three are needed: one is away, one is empty.
        world.start_memory(0, 3);
        world.stop_memory(1);
        world.broadcast(b"two", true);
        world.pass(LONG);
        assert_eq!(world.has(1, 2), None, "seed {seed}: a node that forgot completes nothing");
    }
}
