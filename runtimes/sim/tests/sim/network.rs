//! Links: blocks, clogs, bandwidth, bounded queues, datagrams, twins, names.

use std::collections::BTreeSet;

use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{Family, Incident, Latency, Loss, Mode, Names, Options, SHAPES, Seat, Setup, Twins, World};

use crate::probe::{DEPTH, Do, Said, calm, heard, hosted, said, setup, tell, world};

fn incident(id: u32, family: Family, nodes: &[u32], amount: i64, lasts: Span) -> Incident {
    Incident { id, family, at: Span::millis(60), lasts, nodes: nodes.to_vec(), amount }
}

/// Everybody speaks to everybody; who heard whom.
fn reached(world: &mut World, count: u32, lasts: Span) -> BTreeSet<(u32, u32)> {
    for node in 0..count {
        tell(world, node, vec![Do::Send(NodeSet::first(count).without(NodeId(node)), 1)]);
    }
    let all = said(world, lasts);
    all.iter()
        .filter_map(|(who, _, s)| if let Said::Heard(from, _) = s { Some((from.0, *who)) } else { None })
        .collect()
}

#[test]
fn every_shape_blocks_exactly_what_it_says_and_lets_go_afterwards() {
    for (shape, number) in SHAPES.iter().zip(0..) {
        let mut world = world(5, 17);
        let split = incident(3, Family::NetSplit, &[], number, Span::millis(800));
        world.load(core::slice::from_ref(&split));
        said(&mut world, Span::millis(20));
        let mut stream = synod_sim::Draws::new(17).stream("incident", 3);
        let blocked: BTreeSet<(u32, u32)> = shape.blocks(&[0, 1, 2, 3, 4], &mut stream).into_iter().collect();
        assert!(!blocked.is_empty(), "{shape:?}");
        let reached = reached(&mut world, 5, Span::millis(100));
        let all = (0..5).flat_map(|a| (0..5).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let expected: BTreeSet<(u32, u32)> = all.filter(|way| !blocked.contains(way)).collect();
        assert_eq!(reached, expected, "{shape:?}");
        let late = said(&mut world, Span::secs(60));
        let late = late.iter().filter(|(_, _, s)| matches!(s, Said::Heard(..))).count();
        assert_eq!(late, blocked.len(), "{shape:?}: what was stalled comes when the cut heals");
    }
}

#[test]
fn a_long_cut_breaks_connections_which_come_back_after_it() {
    let mut world = world(2, 4);
    world.load(&[incident(1, Family::NetSplit, &[], 0, Span::secs(40))]);
    let all = said(&mut world, Span::secs(39));
    assert!(all.iter().any(|(_, _, s)| matches!(s, Said::Linked(_, false))));
    assert!(!world.linked(NodeId(0), NodeId(1)));
    said(&mut world, Span::secs(20));
    assert!(world.linked(NodeId(0), NodeId(1)));
    assert_eq!(reached(&mut world, 2, Span::millis(20)).len(), 2);
}

#[test]
fn one_way_and_busiest_cut_who_they_say() {
    let mut world = world(3, 4);
    world.load(&[incident(1, Family::NetOneWay, &[1], 0, Span::millis(500))]);
    said(&mut world, Span::millis(20));
    let reached_now = reached(&mut world, 3, Span::millis(50));
    assert_eq!(reached_now, [(0, 1), (0, 2), (2, 0), (2, 1)].into_iter().collect());

    let mut busy = crate::probe::world(3, 4);
    tell(&mut busy, 2, vec![Do::Send(NodeSet::only(NodeId(0)), 1)]);
    busy.load(&[incident(1, Family::NetSplit, &[], 6, Span::millis(500))]);
    said(&mut busy, Span::millis(20));
    assert_eq!(reached(&mut busy, 3, Span::millis(50)), [(0, 1), (1, 0)].into_iter().collect());
}

#[test]
fn a_flapping_link_opens_and_closes() {
    let mut world = world(2, 4);
    world.load(&[incident(1, Family::NetFlap, &[0, 1], 100_000, Span::secs(2))]);
    said(&mut world, Span::millis(10));
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(reached(&mut world, 2, Span::millis(50)).len());
    }
    assert!(open.contains(&0) && open.iter().any(|count| *count > 0), "{open:?}");
}

#[test]
fn a_clog_delays_everything_and_loses_nothing() {
    let mut world = world(2, 4);
    world.load(&[incident(1, Family::NetClog, &[0, 1], 0, Span::millis(300))]);
    said(&mut world, Span::millis(20));
    for value in 0..10 {
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value)]);
        assert_eq!(heard(&said(&mut world, Span::millis(5)), 1), [] as [u64; 0]);
    }
    assert_eq!(heard(&said(&mut world, Span::secs(1)), 1), (0..10).collect::<Vec<_>>());
}

#[test]
fn bandwidth_spaces_frames_by_their_bytes() {
    let mut world = world(2, 4);
    world.load(&[incident(1, Family::NetBand, &[0], 30, Span::secs(100))]);
    said(&mut world, Span::millis(20));
    tell(&mut world, 0, (0..10).map(|value| Do::SendOn(0, NodeId(1), value)).collect());
    let all = said(&mut world, Span::secs(10));
    let times: Vec<Time> =
        all.iter().filter(|(_, _, s)| matches!(s, Said::Heard(..))).map(|(_, at, _)| *at).collect();
    assert_eq!(times.len(), 10);
    let gap = Span::millis(100); // three bytes at thirty bytes per second
    assert!(times.windows(2).all(|two| two[1].since(two[0]) == gap), "{times:?}");
}

#[test]
fn what_waits_for_bandwidth_goes_when_the_bound_ends_or_the_core_is_healed() {
    for healed in [false, true] {
        let mut world = world(2, 4);
        let lasts = Span::millis(if healed { 100_000 } else { 300 });
        world.load(&[incident(1, Family::NetBand, &[0], 30, lasts)]);
        said(&mut world, Span::millis(20));
        tell(&mut world, 0, (0..10).map(|value| Do::SendOn(0, NodeId(1), value)).collect());
        let slow = heard(&said(&mut world, Span::millis(220)), 1);
        assert!((1..5).contains(&slow.len()), "{slow:?}");
        if healed {
            world.heal(&[NodeId(0), NodeId(1)]);
        }
        let rest = heard(&said(&mut world, Span::millis(150)), 1);
        assert_eq!([slow, rest].concat(), (0..10).collect::<Vec<_>>(), "healed {healed}");
    }
}

/// What waited for bandwidth when a node died does not keep it from its peer once the core is whole.
#[test]
fn a_node_that_died_behind_a_slow_link_is_linked_again_soon_after_healing() {
    for seed in 0..12 {
        let mut world = world(2, seed);
        world.load(&[incident(1, Family::NetBand, &[0], 1, Span::secs(100))]);
        said(&mut world, Span::millis(20));
        tell(&mut world, 0, (0..20).map(|value| Do::SendOn(0, NodeId(1), value)).collect());
        said(&mut world, Span::millis(20));
        world.crash(NodeId(1), Loss::Durable, Some(Span::millis(1)));
        said(&mut world, Span::millis(20));
        world.heal(&[NodeId(0), NodeId(1)]);
        said(&mut world, Span::millis(1_500));
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), 77)]);
        let heard = heard(&said(&mut world, Span::millis(500)), 1);
        assert!(heard.contains(&77), "seed {seed}: {heard:?}");
    }
}

#[test]
fn a_nodes_own_bandwidth_is_shared_by_its_links() {
    let options = Options { egress: 30, ..calm(4) };
    let mut world = World::new(setup(3, &[0], options));
    said(&mut world, Span::millis(50));
    tell(&mut world, 0, vec![Do::Send(NodeSet::first(3).without(NodeId(0)), 1)]);
    let all = said(&mut world, Span::secs(1));
    let times: Vec<Time> =
        all.iter().filter(|(_, _, s)| matches!(s, Said::Heard(..))).map(|(_, at, _)| *at).collect();
    assert_eq!(times[1].since(times[0]), Span::millis(100));
}

#[test]
fn each_queue_is_bounded_by_its_own_rule() {
    let flood = |queue: u8| {
        let mut world = world(2, 4);
        world.clog(NodeId(0), NodeId(1), Span::millis(100));
        let frames = u64::from(DEPTH) + 5;
        tell(&mut world, 0, (0..frames).map(|value| Do::SendOn(queue, NodeId(1), value)).collect());
        let heard = heard(&said(&mut world, Span::secs(30)), 1);
        (heard, world.stats().net)
    };
    let depth = u64::from(DEPTH);
    let (evicted, _) = flood(2);
    assert_eq!(evicted, (5..depth + 5).collect::<Vec<_>>(), "the oldest give way");
    let (dropped, _) = flood(3);
    assert_eq!(dropped, (0..depth).collect::<Vec<_>>(), "the newest are dropped");
    let (reset, stats) = flood(0);
    assert_eq!((stats.overflows, stats.resets), (1, 1), "the link closes");
    assert!(reset.len() < 25);
}

#[test]
fn frames_a_paused_receiver_has_not_handled_count_as_queued() {
    let mut world = world(2, 4);
    world.pause(NodeId(1), Span::millis(200));
    for value in 0..u64::from(DEPTH) + 5 {
        tell(&mut world, 0, vec![Do::SendOn(3, NodeId(1), value)]);
        said(&mut world, Span::millis(2));
    }
    let heard = heard(&said(&mut world, Span::secs(1)), 1);
    assert_eq!(heard, (0..u64::from(DEPTH)).collect::<Vec<_>>());
}

fn datagrams(seed: u64) -> World {
    let options = Options { jitter: Span::millis(2), ..calm(seed) };
    let base = setup(2, &[0], options);
    let mut world = World::new(Setup { links: Box::new(|_, _| Some(Mode::Datagram)), ..base });
    assert_eq!(said(&mut world, Span::millis(10)).len(), 2, "no link events");
    world
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken_as_their_families_say() {
    let mut world = datagrams(6);
    let lasts = Span::secs(100);
    world.load(&[
        incident(1, Family::NetLoss, &[], 300_000, lasts),
        incident(2, Family::NetDup, &[], 500_000, lasts),
        incident(3, Family::NetReorder, &[], 10_000, lasts),
    ]);
    said(&mut world, Span::millis(100));
    for value in 0..1_000 {
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value)]);
        said(&mut world, Span::millis(1));
    }
    let stats = world.stats().net;
    assert!((250..350).contains(&stats.lost), "{stats:?}");
    assert!((300..400).contains(&stats.duplicated), "{stats:?}");
    for value in 0..20 {
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value)]);
    }
    let heard = heard(&said(&mut world, Span::secs(1)), 1);
    assert!(heard.windows(2).any(|two| two[0] > two[1]), "{heard:?}");
}

#[test]
fn a_block_stops_datagrams_for_good() {
    let mut world = datagrams(6);
    world.block(NodeId(0), NodeId(1));
    tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), 1)]);
    assert_eq!(heard(&said(&mut world, Span::secs(1)), 1), [] as [u64; 0]);
    world.unblock(NodeId(0), NodeId(1));
    tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), 2)]);
    assert_eq!(heard(&said(&mut world, Span::secs(1)), 1), [2]);
}

#[test]
fn guests_reach_members_and_not_one_another() {
    let seats = [0, 128, 129].iter().map(|id| Seat::new(NodeId(*id), &[0])).collect();
    let base = Setup::new(seats, |node, machine, log, _| hosted(node, machine, log));
    let mut world = World::new(Setup { options: calm(1), ..base });
    said(&mut world, Span::millis(50));
    tell(&mut world, 128, vec![Do::SendOn(0, NodeId(129), 1), Do::SendOn(0, NodeId(0), 2)]);
    let all = said(&mut world, Span::millis(50));
    assert_eq!((heard(&all, 0), heard(&all, 129)), (vec![2], vec![]));
    assert_eq!(world.stats().net.unlinked, 1);
}

#[test]
fn presets_place_nodes_by_their_region() {
    let latency = Latency::Two(Span::millis(66));
    let mut world = World::new(setup(3, &[0], Options { latency, ..calm(1) }));
    said(&mut world, Span::secs(1));
    let start = world.now();
    tell(&mut world, 0, vec![Do::Send(NodeSet::first(3).without(NodeId(0)), 1)]);
    let all = said(&mut world, Span::secs(1));
    let after: Vec<(u32, Span)> = all.iter().map(|(who, at, _)| (*who, at.since(start))).collect();
    assert_eq!(after, [(2, Span::micros(250)), (1, Span::millis(66))]);
}

#[test]
fn twins_share_an_id_and_are_heard_by_their_masks() {
    let mut seats: Vec<Seat> = (0..3).map(|id| Seat::new(NodeId(id), &[0])).collect();
    seats.push(Seat { twin: 1, ..Seat::new(NodeId(2), &[0]) });
    let twins = Twins {
        id: NodeId(2),
        round: Span::secs(10),
        masks: vec![[vec![NodeId(0)], vec![NodeId(1)]], [vec![NodeId(0), NodeId(1)], vec![]]],
        again: false,
        matched: false,
    };
    let base = Setup::new(seats, |node, machine, log, _| hosted(node, machine, log));
    let mut world = World::new(Setup { twins: vec![twins], options: calm(1), ..base });
    said(&mut world, Span::millis(50));
    tell(&mut world, 0, vec![Do::SendOn(0, NodeId(2), 10)]);
    tell(&mut world, 1, vec![Do::SendOn(0, NodeId(2), 11)]);
    said(&mut world, Span::millis(50));
    let heard = |twin: u8, world: &World| {
        let lines = world.trace().last().filter(|line| line.node == NodeId(2) && line.twin == twin);
        lines.filter(|line| line.what().starts_with("from")).map(|line| line.what()).collect::<Vec<_>>()
    };
    assert_eq!(heard(0, &world), ["from 0 q0 3B"]);
    assert_eq!(heard(1, &world), ["from 1 q0 3B"]);
    assert!(!world.honest(NodeId(2)) && world.honest(NodeId(0)));
    said(&mut world, Span::secs(10));
    tell(&mut world, 1, vec![Do::SendOn(0, NodeId(2), 12)]);
    said(&mut world, Span::millis(50));
    assert_eq!((heard(0, &world).len(), heard(1, &world).len()), (2, 1), "the second round reaches one twin");
}

#[test]
fn matched_pairs_of_twins_keep_two_halves_apart() {
    let mut seats: Vec<Seat> = (0..3).map(|id| Seat::new(NodeId(id), &[0])).collect();
    seats.extend([1, 2].map(|id| Seat { twin: 1, ..Seat::new(NodeId(id), &[0]) }));
    let pair = |id: u32| Twins {
        id: NodeId(id),
        round: Span::secs(10),
        masks: vec![[(0..3).map(NodeId).collect(), vec![NodeId(1), NodeId(2)]]],
        again: false,
        matched: true,
    };
    let base = Setup::new(seats, |node, machine, log, _| hosted(node, machine, log));
    let mut world = World::new(Setup { twins: vec![pair(1), pair(2)], options: calm(1), ..base });
    said(&mut world, Span::millis(50));
    tell(&mut world, 1, vec![Do::SendOn(0, NodeId(2), 10), Do::SendOn(0, NodeId(0), 11)]);
    said(&mut world, Span::millis(50));
    let lines = world.trace().last().filter(|line| line.what().starts_with("from"));
    let heard: Vec<(u32, u8)> = lines.map(|line| (line.node.0, line.twin)).collect();
    assert!(heard.contains(&(2, 0)) && heard.contains(&(0, 0)), "{heard:?}");
    assert!(
        !heard.contains(&(2, 1)),
        "the first twin of one pair speaks with the first of the other: {heard:?}"
    );
}

/// Two clusters of two; each counts its own members from 0 and calls the others 1,000 and 1,001.
struct Clusters;

impl Names for Clusters {
    fn global(&self, viewer: NodeId, local: NodeId) -> Option<NodeId> {
        let (own, other) = (viewer.0 / 2 * 2, 2 - viewer.0 / 2 * 2);
        Some(NodeId(if local.0 >= 1_000 { other + local.0 - 1_000 } else { own + local.0 }))
    }
    fn local(&self, viewer: NodeId, global: NodeId) -> NodeId {
        if viewer.0 / 2 == global.0 / 2 { NodeId(global.0 % 2) } else { NodeId(1_000 + global.0 % 2) }
    }
}

#[test]
fn linked_clusters_use_their_own_names() {
    let base = setup(4, &[0], calm(1));
    let factory = |node: NodeId, machine, log, _| hosted(NodeId(node.0 % 2), machine, log);
    let mut world = World::new(Setup { names: Some(Box::new(Clusters)), factory: Box::new(factory), ..base });
    said(&mut world, Span::millis(50));
    tell(&mut world, 3, vec![Do::Send(NodeSet::first(2), 5), Do::SendOn(0, NodeId(1_001), 6)]);
    let all = said(&mut world, Span::millis(50));
    let got: Vec<(u32, Said)> = all.into_iter().map(|(who, _, s)| (who, s)).collect();
    assert_eq!(got.len(), 3);
    assert!(got.contains(&(3, Said::Heard(NodeId(1), 5))), "itself, by loop-back: {got:?}");
    assert!(got.contains(&(2, Said::Heard(NodeId(1), 5))), "its cluster");
    assert!(got.contains(&(1, Said::Heard(NodeId(1_001), 6))), "the other cluster");
}
