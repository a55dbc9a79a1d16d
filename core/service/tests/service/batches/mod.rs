//! The executor beside a Chop Chop server: lanes as jobs, checkpoints, crashes, states from others, reads.

mod header;
mod same;
mod world;

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Event, Link, Machine};
use synod_quorum::NodeId;
use synod_service::lanes::{NOT_DELIVERED, State, UNREADABLE};
use synod_service::{Answered, BatchInput, BatchQuestion, BatchStanding, ClientMessage, Query, ReadMode};
use synod_wire::{Blob, Bytes, Drawn, Limits, Wire};

use crate::purses::{CHUNK, Purses, batch};
use world::{Handed, World};

/// Batches of clients that come to be more, a checkpoint behind every fourth; its root and the state of each height.
fn log(seed: u64, heights: u64) -> (Vec<Handed>, Vec<(u64, Hash)>, Hash) {
    let mut from = Drawn::new(seed);
    let mut state = State::new(Purses, 1, 0);
    let (mut log, mut roots, mut directory) = (Vec::new(), Vec::new(), 1_u32);
    let mut draw = |bound: u32| u32::try_from(from.below(u64::from(bound))).expect("small");
    for height in 2..heights + 2 {
        directory += draw(CHUNK * 3);
        let ids: Vec<u32> = (0..directory).filter(|_| draw(2) == 0).collect();
        let asked: Vec<(u32, u32, u32)> =
            ids.into_iter().map(|id| (id, draw(directory + 1), draw(60))).collect();
        let mut batch = batch(height, directory, &asked);
        batch.skipped = (0..).take(asked.len()).filter(|index| index % 5 == 3).collect();
        state.execute(&batch);
        log.push(Handed::Batch(batch));
        if height.is_multiple_of(4) {
            log.push(Handed::Checkpoint(3 * height + 1, height));
            roots.push((3 * height + 1, state.root()));
        }
    }
    (log, roots, state.root())
}

#[test]
fn lanes_as_jobs_give_the_state_of_one_lane_whatever_the_order_they_come_back() {
    for (seed, lanes) in (0..).zip([1, 2, 7, 16, 16]) {
        // Batches as one job, and lane by lane.
        for small in [0, u32::MAX] {
            let mut world = World::new(1, lanes, small, seed);
            let (log, roots, last) = log(seed, 14);
            world.log = log;
            world.run();
            assert_eq!(world.nodes[0].applied, roots, "{lanes} lanes");
            assert_eq!(world.machine(0).state().root(), last);
            assert_eq!(world.machine(0).height(), 15);
            world.blobs_are_those_kept(0);
        }
    }
}

#[test]
fn a_crash_between_any_two_effects_costs_nothing() {
    let (handed, roots, last) = log(3, 13);
    let mut crashes = 0;
    for fuse in 0.. {
        let (world, crashed) = World::crashed_at(fuse, &handed);
        crashes += u64::from(crashed);
        let mut applied = world.nodes[0].applied.clone();
        applied.dedup();
        assert_eq!(applied, roots, "crash at effect {fuse}");
        assert_eq!(world.machine(0).state().root(), last, "crash at effect {fuse}");
        world.blobs_are_those_kept(0);
        if !crashed {
            break;
        }
    }
    assert!(crashes > 100, "{crashes} crashes were tried");
}

#[test]
fn only_chunks_that_changed_are_stored_and_three_checkpoints_are_kept() {
    let mut world = World::new(1, 4, 0, 1);
    for height in 2..8 {
        world.log.push(Handed::Batch(batch(height, 40, &[(0, 1, 1), (9, 8, 1)])));
        world.log.push(Handed::Checkpoint(3 * height + 1, height));
    }
    let mut stored = Vec::new();
    for until in 1..=6 {
        let rest = world.log.split_off(2 * until);
        let before = world.nodes[0].stored;
        world.run();
        stored.push(world.nodes[0].stored - before);
        world.log.extend(rest);
        world.nodes[0].cursor = 2 * until;
        if until < 6 {
            continue;
        }
        world.blobs_are_those_kept(0);
    }
    // The header, two chunks that differ and one that stands for the eight others; then two chunks each.
    assert_eq!(stored, [4, 2, 2, 2, 2, 2]);
    assert_eq!(world.nodes[0].records.len(), 3, "older ones were compacted away");
}

/// A world of four that executed a log, and its last checkpoint.
fn executed(seed: u64) -> (World, u64, Hash) {
    let mut world = World::new(4, 3, 0, seed);
    let (log, roots, _) = log(seed, 13);
    world.log = log;
    world.nodes[3].mute = true;
    world.nodes[3].cursor = world.log.len();
    world.run();
    let (position, root) = *roots.last().expect("three checkpoints");
    world.nodes[3].mute = false;
    (world, position, root)
}

#[test]
fn a_state_is_taken_from_others_and_a_bad_source_is_blamed_and_dropped() {
    for (seed, bad) in [(1, 0), (2, 1), (3, 2)] {
        let (mut world, position, root) = executed(seed);
        world.nodes[bad].lies = true;
        world.jump(3, position, 12, root);
        world.run();
        assert_eq!(world.nodes[3].applied, [(position, root)]);
        assert_eq!(world.machine(3).state().root(), world.machine((bad + 1) % 3).state().root());
        assert!(!world.faults.is_empty(), "the liar was asked");
        let liar = NodeId(u32::try_from(bad).expect("few"));
        let named = |(at, peer, fault): &(usize, NodeId, synod_machine::Fault)| {
            (*at, *peer, fault.name) == (3, liar, "wrong_state_chunk")
        };
        assert!(world.faults.iter().all(named));
        world.blobs_are_those_kept(3);
        world.restart(3);
        world.run();
        assert_eq!(world.machine(3).height(), 14, "what was taken is durable");
    }
}

#[test]
fn silent_sources_are_passed_over_and_all_liars_are_asked_again_once_they_tell_the_truth() {
    let (mut world, position, root) = executed(4);
    world.nodes[0].mute = true;
    world.nodes[1].mute = true;
    world.jump(3, position, 12, root);
    world.run();
    assert_eq!(world.nodes[3].applied, [(position, root)]);

    let (mut world, position, root) = executed(5);
    (0..3).for_each(|at| world.nodes[at].lies = true);
    world.jump(3, position, 12, root);
    world.run_some(400);
    assert!(world.nodes[3].applied.is_empty() && world.faults.len() >= 3);
    (0..3).for_each(|at| world.nodes[at].lies = false);
    world.run();
    assert_eq!(world.nodes[3].applied, [(position, root)]);
}

#[test]
fn a_jump_drops_what_is_at_work_and_to_an_own_checkpoint_asks_nobody() {
    let (handed, roots, last) = log(6, 13);
    for turns in 0..120 {
        let mut world = World::new(2, 3, 0, u64::from(turns));
        world.log.clone_from(&handed);
        world.nodes[1].cursor = world.log.len();
        world.run();
        world.run_some(turns);
        // The server of node 0 goes back to its mark before the last.
        let (position, root) = roots[1];
        world.nodes[1].lies = true;
        world.jump(0, position, 8, root);
        world.run();
        assert_eq!(world.machine(0).state().root(), last);
        assert!(world.faults.is_empty(), "nobody was asked");
    }
    let mut world = World::new(1, 3, 0, 9);
    world.log = handed;
    world.nodes[0].cursor = 0;
    world.run_some(60);
    let (position, root) = roots[0];
    world.jump(0, position, 4, root);
    world.run();
    assert_eq!(world.nodes[0].applied.last(), roots.last());
    assert_eq!(world.machine(0).state().root(), last);
}

#[test]
fn a_server_that_comes_back_names_the_state_that_is_read_already_or_was_lost() {
    for lost in [false, true] {
        let (mut world, position, root) = executed(8);
        if lost {
            world.nodes[1].records.clear();
            world.nodes[1].blobs.clear();
        }
        world.restart(1);
        let before = world.nodes[1].applied.len();
        world.jump(1, position, 12, root);
        assert_eq!(world.machine(1).status().installing, Some(Position(position)));
        world.run();
        assert_eq!(world.nodes[1].applied[before..], [(position, root)], "answered once");
        assert_eq!(world.machine(1).height(), 14, "what lies behind it is executed again");
        assert_eq!(world.machine(1).state().root(), world.machine(0).state().root());
        assert!(world.faults.is_empty());
        world.blobs_are_those_kept(1);
    }
}

#[test]
fn a_chunk_that_the_lane_lost_is_fetched_from_others() {
    let (mut world, position, root) = executed(7);
    let names: Vec<Hash> = world.nodes[1].blobs.keys().copied().collect();
    for name in names {
        world.nodes[1].blobs.remove(&name);
    }
    world.restart(1);
    world.run();
    assert_eq!(world.machine(1).standing().checkpoint, Position(position));
    assert_eq!(world.machine(1).standing().root, root);
    assert_eq!(world.machine(1).state().root(), world.machine(0).state().root());
    world.restart(1);
    world.nodes[0].mute = true;
    world.nodes[2].mute = true;
    world.run();
    assert_eq!(world.machine(1).height(), 14, "what was fetched was stored again");
}

#[test]
fn an_executor_whose_state_nobody_has_any_more_says_so_and_takes_a_newer_one() {
    let (mut world, ..) = executed(7);
    world.nodes[1].blobs.clear();
    (0..4).filter(|at| *at != 1).for_each(|at| world.nodes[at].mute = true);
    world.restart(1);
    world.run_some(200);
    assert!(world.stuck.contains(&1), "everybody was asked in vain");
    let said = world.stuck.len();
    (0..4).for_each(|at| world.nodes[at].mute = false);
    world.run();
    assert!(world.stuck.len() <= said + 1, "it is not said any more");
    assert_eq!(world.machine(1).state().root(), world.machine(0).state().root());
}

#[test]
fn entries_that_are_no_operations_or_were_not_delivered_are_not_executed() {
    let mut world = World::new(1, 3, 0, 1);
    let mut odd = batch(2, 9, &[(0, 1, 5), (1, 0, 5)]);
    odd.operations = odd.operations.slice(..9);
    let mut skipped = batch(3, 9, &[(0, 1, 5), (1, 0, 7), (8, 0, 101)]);
    skipped.skipped = vec![1];
    world.log = vec![Handed::Batch(odd), Handed::Batch(skipped)];
    world.run();
    let code = |id, height| world.machine(0).code(id, height);
    assert_eq!((code(0, 2), code(1, 2)), (Some(UNREADABLE), Some(UNREADABLE)));
    assert_eq!([code(0, 3), code(1, 3), code(8, 3)], [Some(0), Some(NOT_DELIVERED), Some(1)]);
    assert_eq!((code(2, 3), code(0, 4)), (None, None));
    let purse = |id: u32| world.machine(0).state().query(&id.to_le_bytes());
    assert_eq!(
        (purse(0).as_deref(), purse(1).as_deref()),
        (Some(&95_u64.to_le_bytes()[..]), Some(&105_u64.to_le_bytes()[..]))
    );
}

fn ask(world: &mut World, id: u64, mode: ReadMode, question: &BatchQuestion) {
    let question = Blob::try_from(question.encode()).expect("short");
    let message = ClientMessage::Query(Query { id, mode, full: 0, question });
    world.step(0, Event::Message { from: NodeId(1_000), message });
}

/// The answers since the last call: number, and value if the question was understood.
fn answers(world: &mut World) -> Vec<(u64, Option<Bytes>)> {
    let read = |(_, message): (NodeId, ClientMessage)| match message {
        ClientMessage::Answer(answer) => match answer.value {
            Answered::Body(value) => Some((answer.id, answer.understood.then(|| value.into_bytes()))),
            Answered::Digest(_) | Answered::Gone(_) => None,
        },
        _ => None,
    };
    world.answers.drain(..).filter_map(read).collect()
}

#[test]
fn a_read_waits_for_its_height() {
    let mut world = World::new(1, 3, 0, 1);
    world.log = vec![Handed::Batch(batch(2, 9, &[(0, 1, 5)])), Handed::Checkpoint(7, 2)];
    let question = Blob::try_from(Bytes::copy_from_slice(&1_u32.to_le_bytes())).expect("short");
    let purse = |since| BatchQuestion::Ask { since, question: question.clone() };
    ask(&mut world, 1, ReadMode::Local, &purse(2));
    ask(&mut world, 2, ReadMode::Local, &BatchQuestion::Result { id: 0, height: 2 });
    ask(&mut world, 3, ReadMode::Quorum, &purse(0));
    ask(&mut world, 4, ReadMode::Local, &purse(1 << 40));
    ask(&mut world, 5, ReadMode::Local, &purse(0));
    assert_eq!(answers(&mut world), [(3, None), (4, None), (5, None)], "no purse is open yet");
    world.run();
    let money = Bytes::copy_from_slice(&105_u64.to_le_bytes());
    assert_eq!(answers(&mut world), [(1, Some(money)), (2, Some(Bytes::from_static(&[0])))]);
    ask(&mut world, 6, ReadMode::Local, &BatchQuestion::Result { id: 1, height: 2 });
    ask(&mut world, 7, ReadMode::Local, &BatchQuestion::Standing);
    let said = answers(&mut world);
    assert_eq!(said[0], (6, Some(Bytes::new())));
    let standing = said[1].1.clone().expect("understood");
    let standing = BatchStanding::decode(standing, &Limits::default()).expect("a standing");
    let (_, root) = world.nodes[0].applied[0];
    assert_eq!(standing, BatchStanding { height: 2, checkpoint: Position(7), checkpoint_height: 2, root });
}

#[test]
fn reads_that_wait_are_bounded_and_go_with_their_peer() {
    let mut world = World::new(1, 3, 0, 1);
    world.log = vec![Handed::Batch(batch(2, 9, &[(0, 1, 5)]))];
    for id in 0..100 {
        ask(&mut world, id, ReadMode::Local, &BatchQuestion::Result { id: 0, height: 2 });
    }
    world.run();
    assert_eq!(answers(&mut world).len(), 64, "one peer has its share");
    ask(&mut world, 1, ReadMode::Local, &BatchQuestion::Result { id: 0, height: 3 });
    world.step(0, Event::Link { peer: NodeId(1_000), link: Link::Down });
    world.log.push(Handed::Batch(batch(3, 9, &[(0, 1, 5)])));
    world.run();
    assert_eq!(world.machine(0).height(), 3);
    assert!(answers(&mut world).is_empty());
}

#[test]
fn strangers_get_no_state_and_clients_items_are_out_of_role() {
    let (mut world, position, _) = executed(8);
    world.fetch(0, NodeId(1_000), position, 0);
    let item = ClientMessage::Item(Blob::try_from(Bytes::from_static(b"pay")).expect("short"));
    world.step(0, Event::Message { from: NodeId(1_000), message: item });
    let names: Vec<&str> = world.faults.iter().map(|(_, _, fault)| fault.name).collect();
    assert_eq!(names, ["out_of_role", "out_of_role"]);
    world.fetch(0, NodeId(3), position, 1 << 20);
    world.fetch(0, NodeId(3), position + 1, 0);
    world.run();
    assert!(world.answers.is_empty(), "what is not here is not answered");
}

#[test]
fn an_executor_that_waits_for_a_lost_state_hears_of_a_newer_one() {
    let (mut world, position, root) = executed(7);
    world.nodes[1].blobs.clear();
    (0..4).for_each(|at| world.nodes[at].mute = true);
    world.limits.lag_bytes = 1_000;
    world.restart(1);
    for height in 15..40 {
        assert!(world.machine(1).room() > 0, "the jump is an input too");
        let next = batch(height, 9, &[(0, 1, 1), (5, 1, 1)]);
        world.step(1, Event::Input(BatchInput::Apply { batch: Box::new(next), awaited: false }));
    }
    assert!(world.machine(1).status().installing.is_some());
    (0..4).for_each(|at| world.nodes[at].mute = false);
    world.jump(1, position, 12, root);
    world.run();
    assert_eq!((world.machine(1).height(), world.machine(1).status().waiting), (14, 0));
    assert_eq!(world.machine(1).state().root(), world.machine(0).state().root());
}

#[test]
fn a_full_queue_takes_no_more_until_it_is_worked_off() {
    let mut world = World::new(1, 3, 0, 1);
    world.limits.lag_bytes = 1_000;
    world.restart(0);
    let mut handed = 0;
    while world.machine(0).room() > 0 {
        handed += 1;
        let next = batch(1 + handed, 9, &[(0, 1, 1), (5, 1, 1)]);
        world.step(0, Event::Input(BatchInput::Apply { batch: Box::new(next), awaited: false }));
    }
    assert!((3..9).contains(&handed), "{handed} batches of some 300 bytes, one at work");
    world.run();
    assert_eq!((world.machine(0).height(), world.machine(0).room()), (1 + handed, u32::MAX));
}

#[test]
fn whoever_awaits_a_batch_hears_of_it_once_it_is_executed_also_where_a_checkpoint_covers_it() {
    let (handed, _, last) = log(9, 13);
    let mut world = World::new(1, 3, 0, 2);
    world.log = handed;
    world.run();
    let heights: Vec<u64> = (2..15).collect();
    assert_eq!(world.nodes[0].executed, heights);
    // The server lost its mark, and hands in everything again.
    world.nodes[0].executed.clear();
    world.restart(0);
    world.nodes[0].cursor = 0;
    assert_eq!(world.machine(0).standing().checkpoint_height, 12);
    world.run();
    assert_eq!(world.nodes[0].executed, heights);
    assert_eq!(world.machine(0).state().root(), last);
}
