//! What is bounded and what happens at the bound: rates, queues, guests, reactors that feed each other, the log.

use std::sync::mpsc::channel;

use synod_machine::{Full, Link, QueueSpec, Span};
use synod_net::{Config, Limits};
use synod_quorum::{NodeId, NodeSet};

use crate::rig::{Act, GUARD, Plan, Script, Stalled, Told, cluster, config, queue};

fn to(node: u32) -> NodeSet {
    NodeSet::only(NodeId(node))
}

#[test]
fn a_peer_above_its_rate_is_slowed_down_and_nothing_is_lost() {
    let limits = Limits { member_frames_per_second: 500, ..Limits::default() };
    let rigs = cluster(3, |own| {
        let limits = if own == 0 { limits } else { Limits::default() };
        Plan::new(Config { limits, ..config(own, 3) })
    });
    // 1,200 frames are one burst of 500 and 700 more at 500 a second; the other peer has a bucket of its own.
    rigs[1].act((0..1_200).map(|tag| Act::Send { to: to(0), queue: 0, tag, size: 0 }).collect());
    let mut heard = Vec::new();
    while heard.len() < 600 {
        heard.extend(rigs[0].hear(1));
    }
    rigs[2].act(vec![Act::Send { to: to(0), queue: 0, tag: 9_999, size: 0 }]);
    let mut other = None;
    while heard.len() < 1_201 {
        let tag = rigs[0].hear(1)[0];
        if tag == 9_999 {
            other = Some(heard.len());
        }
        heard.push(tag);
    }
    assert!(other.is_some_and(|after| after < 1_200), "the quiet peer did not wait for the loud one");
    heard.retain(|tag| *tag != 9_999);
    assert_eq!(heard, (0..1_200).collect::<Vec<u64>>());
}

#[test]
fn queues_that_drop_or_evict_keep_the_link_of_a_reader_that_stalls() {
    let specs = vec![QueueSpec::CONTROL, queue(8, Full::EvictOldest), queue(8, Full::DropNewest)];
    let limits = Limits { silence: Span::secs(3_600), ..Limits::default() };
    let plan = |own| {
        let script = Script { queues: specs.clone(), ..Script::default() };
        Plan::new(Config { limits, ..config(own, 2) }).script(script)
    };
    let a = plan(0).start();
    let mut stalled = Stalled::member(1, 2, &a, &specs);
    a.wait_link(1, Link::Up);
    let dropped = || a.handle().counters().peer(NodeId(1)).dropped_frames.get();
    for queue in [1, 2] {
        let before = dropped();
        for tag in 0.. {
            a.act(vec![Act::Send { to: to(1), queue, tag, size: 500_000 }, Act::Say(tag)]);
            a.wait_for(&Told::Said(tag));
            if dropped() >= before + 20 {
                break;
            }
        }
    }
    a.act(vec![Act::Send { to: to(1), queue: 1, tag: u64::MAX, size: 500_000 }]);
    assert!(a.quiet(), "the link stayed up");
    stalled.release();
    // The newest of the evicting queue arrives; what was dropped never does.
    while stalled.rig.hear(1) != [u64::MAX] {}
    assert_eq!(a.handle().counters().peer(NodeId(1)).resets.get(), 0);
}

#[test]
fn a_guest_that_stops_reading_is_disconnected_and_the_node_serves_on() {
    let limits = Limits { stall: Span::millis(500), silence: Span::secs(3_600), ..Limits::default() };
    let node = Plan::new(Config { limits, ..config(0, 1) }).start();
    let mut lazy = Stalled::guest(300, 1, &node);
    let lazy_id = node.next_guest();
    let good = Plan::new(config(301, 1)).start();
    good.dial(&node);
    good.wait_link(0, Link::Up);
    let good_id = node.next_guest();
    let mut down = false;
    for tag in 0.. {
        node.act(vec![
            Act::Answer { to: lazy_id, tag, size: 50_000 },
            Act::Answer { to: good_id, tag, size: 10 },
        ]);
        assert_eq!(good.hear(1), [tag]);
        while let Ok((_, told)) = node.told.try_recv() {
            assert_ne!(told, Told::Link(good_id, Link::Down));
            down |= told == Told::Link(lazy_id, Link::Down);
        }
        if down {
            break;
        }
    }
    let counters = node.handle().counters();
    assert!(counters.peer(lazy_id).dropped_frames.get() > 0, "its queue was full first");
    lazy.release();
}

#[test]
fn a_guest_may_not_speak_to_machines_that_are_not_open_to_it() {
    let mut plan = Plan::new(config(0, 1));
    plan.machines.push((1, Script::default(), 0, None));
    let node = plan.start();
    let mut plan = Plan::new(config(300, 1));
    plan.machines[0].0 = 1;
    let guest = plan.start();
    guest.dial(&node);
    guest.wait_link(0, Link::Up);
    guest.act_at(1, vec![Act::Send { to: to(0), queue: 0, tag: 1, size: 0 }]);
    guest.wait_link(0, Link::Down);
    assert_eq!(node.failure().code, 4_003);
}

#[test]
fn guests_beyond_the_maximum_are_turned_away() {
    let limits = Limits { guests_max: 1, ..Limits::default() };
    let node = Plan::new(Config { limits, ..config(0, 1) }).start();
    let first = Plan::new(config(300, 1)).start();
    first.dial(&node);
    first.wait_link(0, Link::Up);
    let id = node.next_guest();
    let second = Plan::new(config(301, 1)).start();
    second.dial(&node);
    second.wait_link(0, Link::Up);
    second.wait_link(0, Link::Down);
    drop(first);
    node.wait_for(&Told::Link(id, Link::Down));
    node.next_guest();
    second.wait_link(0, Link::Up);
}

#[test]
fn what_a_connector_delivers_waits_for_room_and_its_source_pauses() {
    let mut plan = Plan::new(config(0, 1));
    plan.machines.push((1, Script { room: 0, ..Script::default() }, 1, None));
    let rig = plan.start();
    rig.act((0..2_000).map(Act::Pass).chain([Act::Say(1)]).collect());
    rig.wait_for(&Told::Said(1));
    // Machine 1 takes nothing, so machine 0 is soon closed to the outside.
    while rig.handle().input(0, vec![Act::Say(2)]).is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(rig.handle().room(0), 0);
}

#[test]
fn the_log_is_compacted_from_every_machines_snapshot() {
    let journal = synod_journal::Config::new([1; 32], 0, 2);
    let disk = synod_journal::memory::MemDisk::new();
    synod_journal::Journal::create(Box::new(disk.clone()), &journal).expect("an empty disk");
    let opened =
        synod_journal::Journal::open(Box::new(disk.clone()), journal.clone()).expect("a fresh journal");
    let (tell, compactions) = channel();
    let synced = Box::new(move |durable: &synod_journal::thread::Durable| {
        let _ = tell.send(durable.log_bytes);
    });
    let (keeper, lanes) = synod_net::keep(opened.journal, 20_000, synced).expect("a thread");
    let mut lanes = lanes.into_iter();
    let mut plan = Plan::new(config(0, 1));
    plan.machines[0].3 = lanes.next();
    plan.machines.push((1, Script::default(), 1, lanes.next()));
    let rig = plan.start();
    // The log grows past its bound, then falls: both lanes gave their snapshots, on two reactors.
    let mut highest = 0;
    for n in 0.. {
        rig.act(vec![Act::Persist(n), Act::Say(n)]);
        rig.act_at(1, vec![Act::Persist(n)]);
        rig.wait_for(&Told::Said(n));
        let now = compactions.try_iter().last().unwrap_or(highest);
        if now < highest / 2 && highest > 20_000 {
            break;
        }
        highest = highest.max(now);
    }
    rig.node.stop().expect("no thread panicked");
    keeper.close().expect("a memory disk does not fail");
    let again = synod_journal::Journal::open(Box::new(disk), journal).expect("a sound journal");
    assert!(again.lanes.iter().all(|lane| lane.condition == synod_journal::Condition::Clean));
    assert!(again.lanes[0].records.len() < 10_000);
}

#[test]
fn a_disk_that_fails_ends_the_node_with_5004() {
    let journal = synod_journal::Config::new([1; 32], 0, 1);
    let disk = synod_journal::memory::MemDisk::new();
    synod_journal::Journal::create(Box::new(disk.clone()), &journal).expect("an empty disk");
    let opened = synod_journal::Journal::open(Box::new(disk.clone()), journal).expect("a fresh journal");
    let (keeper, mut lanes) = synod_net::keep(opened.journal, 1 << 30, Box::new(|_| {})).expect("a thread");
    let (fatal, ended) = channel();
    let mut plan = Plan::new(config(0, 1)).lane(lanes.remove(0));
    plan.fatal = Some(fatal);
    let rig = plan.start();
    assert_eq!(rig.next(), Told::Started);
    use synod_journal::memory::{Failure, Strike};
    disk.fail(Strike::Sync, 0, Failure::Error);
    rig.act(vec![Act::Persist(1), Act::Say(1)]);
    assert_eq!(ended.recv_timeout(GUARD), Ok(5_004));
    rig.node.wait().expect("the reactor ended by itself");
    assert_eq!(rig.told.try_recv().ok(), None, "what waited for the record never left");
    assert!(keeper.close().is_err());
}
