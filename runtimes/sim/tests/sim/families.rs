//! Families of faults, each shown by what it does.

use std::collections::BTreeSet;

use synod_machine::host::LaneLog;
use synod_machine::{Condition, Span, Time};
use synod_quorum::NodeId;
use synod_sim::{
    BlockJournal, Family, Harm, Incident, Loss, Passage, Scenario, Script, Seat, Setup, Status, World,
};

use crate::probe::{Do, Said, calm, heard, hosted, said, setup, tell, world};

/// From 60 ms on; worlds of probes are joined at 50 ms.
fn incident(family: Family, nodes: &[u32], lasts: Span, amount: i64) -> Incident {
    Incident { id: 1, family, at: Span::millis(60), lasts, nodes: nodes.to_vec(), amount }
}

fn suffering(count: u32, incident: Incident) -> World {
    let mut world = world(count, 3);
    world.load(&[incident]);
    said(&mut world, Span::millis(20));
    world
}

fn started(all: &[(u32, Time, Said)]) -> Vec<(u32, Condition, Vec<u64>)> {
    let of = |said: &Said| if let Said::Started(c, kept) = said { Some((*c, kept.clone())) } else { None };
    all.iter().filter_map(|(who, _, said)| of(said).map(|(c, kept)| (*who, c, kept))).collect()
}

/// How long a frame of 900 bytes and ten more take from one probe to another.
fn took(world: &mut World, from: u32, to: u32) -> Span {
    let start = world.now();
    tell(world, from, (0..11).map(|value| Do::SendOn(0, NodeId(to), value)).collect());
    let all = said(world, Span::secs(20));
    all.iter().filter(|(who, ..)| *who == to).map(|(_, at, _)| at.since(start)).max().unwrap_or(Span::ZERO)
}

#[test]
fn a_band_bounds_a_link_or_a_node_as_a_whole() {
    // Eleven frames of three bytes at 33 bytes a second take a second.
    let band = |nodes: &[u32], amount| incident(Family::NetBand, nodes, Span::secs(90), amount);
    let mut pair = suffering(3, band(&[0, 1], 33));
    let slow = Span::millis(900)..Span::millis(1_100);
    assert!(slow.contains(&took(&mut pair, 0, 1)) && slow.contains(&took(&mut pair, 1, 0)));
    assert!(took(&mut pair, 0, 2) < Span::millis(10), "only the link between the two");
    let mut node = suffering(3, band(&[0], -33));
    tell(&mut node, 0, (0..11).map(|value| Do::SendOn(0, NodeId(2), value)).collect());
    said(&mut node, Span::millis(1));
    let shared = took(&mut node, 0, 1);
    assert!(shared > Span::millis(1_900), "its links share what it has: {shared}");
    assert!(took(&mut node, 1, 0) < Span::millis(10), "what comes in is free");
}

#[test]
fn what_waits_for_a_nodes_bandwidth_goes_when_the_bound_ends() {
    let mut world = suffering(2, incident(Family::NetBand, &[0], Span::millis(500), -1));
    let late = took(&mut world, 0, 1);
    assert!((Span::millis(400)..Span::millis(600)).contains(&late), "{late}");
}

#[test]
fn delays_are_log_normal_when_negative() {
    let mut world = suffering(2, incident(Family::NetDelay, &[0], Span::secs(900), -100_000));
    let mut delays: Vec<Span> = (0..60)
        .map(|value| {
            let start = world.now();
            tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value)]);
            let all = said(&mut world, Span::secs(10));
            all.iter().find(|(who, ..)| *who == 1).map(|(_, at, _)| at.since(start)).expect("it arrives")
        })
        .collect();
    delays.sort_unstable();
    assert!((Span::millis(70)..Span::millis(150)).contains(&delays[30]), "median {}", delays[30]);
    assert!(delays[0] > Span::millis(10), "unlike exponential delays, hardly any is short: {}", delays[0]);
}

#[test]
fn a_partition_follows_whoever_sends_most() {
    let mut world = suffering(3, incident(Family::NetSplit, &[], Span::secs(2), 7));
    let mut isolated = BTreeSet::new();
    for round in 0..8 {
        let leader = u32::from(round >= 4);
        for _ in 0..10 {
            tell(&mut world, leader, vec![Do::SendOn(3, NodeId(2), 1)]);
            said(&mut world, Span::millis(20));
        }
        tell(&mut world, 0, vec![Do::SendOn(3, NodeId(2), 100)]);
        tell(&mut world, 1, vec![Do::SendOn(3, NodeId(2), 101)]);
        let through = heard(&said(&mut world, Span::millis(5)), 2);
        isolated.extend([100, 101].into_iter().filter(|mark| !through.contains(mark)));
    }
    assert_eq!(isolated, BTreeSet::from([100, 101]), "first one leader, then the other");
}

#[test]
fn a_torn_crash_loses_a_suffix_and_leaves_a_clean_log() {
    let mut lost = 0;
    for seed in 0..20 {
        let mut world = world(1, seed);
        world.load(&[incident(Family::DiskTorn, &[0], Span::millis(10), 1)]);
        said(&mut world, Span::millis(9));
        tell(&mut world, 0, (0..9).map(Do::Persist).collect());
        said(&mut world, Span::micros(900));
        let again = started(&said(&mut world, Span::millis(100)));
        let (_, condition, kept) = again.first().expect("it started again");
        assert_eq!((*condition, kept), (Condition::Clean, &(0..kept.len() as u64).collect()));
        lost += u64::from(kept.len() < 9);
        assert!(world.honest(NodeId(0)));
    }
    assert!(lost > 10, "{lost} of 20 lost something");
}

#[test]
fn crashes_that_keep_prefixes_are_drawn_by_negative_amounts() {
    for amount in [-5, 5] {
        let whole = Incident { id: 2, ..incident(Family::DiskUnsynced, &[], Span::secs(9), amount) };
        let mut world = world(1, 3);
        world.load(&[whole, incident(Family::NodeCrash, &[0], Span::millis(10), 3)]);
        said(&mut world, Span::millis(20));
        tell(&mut world, 0, (0..9).map(Do::Persist).collect());
        let again = started(&said(&mut world, Span::secs(2)));
        assert_eq!(again.len(), 1, "it crashed in the middle of nine writes");
        assert!(again[0].2.len() <= 3, "{again:?}");
    }
}

#[test]
fn a_share_of_the_reads_rots() {
    let bytes = vec![7; 100];
    let name = synod_crypto::Hash::of(&bytes);
    let mut world = suffering(1, incident(Family::DiskRot, &[0], Span::secs(20), 300_000));
    tell(&mut world, 0, vec![Do::Store(bytes)]);
    said(&mut world, Span::millis(20));
    for _ in 0..200 {
        tell(&mut world, 0, vec![Do::Load(name)]);
    }
    let all = said(&mut world, Span::secs(1));
    let rotten = all.iter().filter(|(_, _, said)| *said == Said::Loaded(None)).count();
    assert!((30..90).contains(&rotten), "{rotten} of 200 reads");
    assert!(world.honest(NodeId(0)), "what reads back damaged is noticed");
}

#[test]
fn a_misdirected_sector_is_noticed_and_counts_as_faulty() {
    let disks = |node, lanes| Box::new(BlockJournal::new(node, lanes)) as Box<dyn synod_sim::Storage>;
    let mut world = World::new(Setup { disks: Box::new(disks), ..setup(1, &[0], calm(3)) });
    said(&mut world, Span::millis(50));
    for value in 0..60 {
        tell(&mut world, 0, vec![Do::Persist(value)]);
        said(&mut world, Span::millis(5));
    }
    assert!(world.harm(NodeId(0), Harm::Misdirect(5)));
    world.crash(NodeId(0), Loss::Nothing, Some(Span::millis(1)));
    let again = started(&said(&mut world, Span::millis(50)));
    let whole: Vec<u64> = (0..60).collect();
    let lies = |(_, condition, kept): &(u32, Condition, Vec<u64>)| {
        *condition != Condition::Damaged && *kept != whole
    };
    assert!(!again.iter().any(lies), "damage is called damage, or the node halts: {again:?}");
    assert!(!world.honest(NodeId(0)));
    let mut records = crate::probe::world(1, 3);
    assert!(!records.harm(NodeId(0), Harm::Misdirect(5)), "lists of records have no sectors");
}

#[test]
fn another_release_runs_on_the_same_disk_and_gives_way_again() {
    let base = setup(1, &[0], calm(3));
    // The other release remembers nothing but its own mark.
    let other =
        |node, machine, log: LaneLog, _| hosted(node, machine, LaneLog { records: Vec::new(), ..log });
    let mut world = World::new(Setup { other: Some(Box::new(other)), ..base });
    said(&mut world, Span::millis(20));
    tell(&mut world, 0, vec![Do::Persist(4)]);
    said(&mut world, Span::millis(30));
    world.load(&[incident(Family::NodeVersion, &[0], Span::millis(500), 1)]);
    let all = started(&said(&mut world, Span::millis(300)));
    assert_eq!(all, [(0, Condition::Clean, vec![])], "the other release");
    let all = started(&said(&mut world, Span::secs(1)));
    assert_eq!(all, [(0, Condition::Clean, vec![4])], "its own again");
    assert!(world.honest(NodeId(0)));
}

/// Three probes, and a seat for a second instance of the first.
fn doubled() -> World {
    let mut seats: Vec<Seat> = (0..3).map(|id| Seat::new(NodeId(id), &[0])).collect();
    seats.push(Seat { twin: 1, ..Seat::new(NodeId(0), &[0]) });
    let base = Setup::new(seats, |node, machine, log, _| hosted(node, machine, log));
    let mut world = World::new(Setup { options: calm(3), ..base });
    said(&mut world, Span::millis(50));
    world
}

#[test]
fn a_clone_is_a_second_instance_with_the_disk_of_the_first() {
    let mut world = doubled();
    tell(&mut world, 0, vec![Do::Persist(8)]);
    tell(&mut world, 1, vec![Do::SendOn(0, NodeId(0), 5)]);
    assert_eq!(heard(&said(&mut world, Span::millis(9)), 0), [5], "one instance until then");
    assert!(world.honest(NodeId(0)));
    world.load(&[incident(Family::NodeClone, &[0], Span::millis(300), 1)]);
    let all = started(&said(&mut world, Span::millis(50)));
    assert_eq!(all, [(0, Condition::Clean, vec![8])]);
    assert!(!world.honest(NodeId(0)) && world.honest(NodeId(1)));
    tell(&mut world, 1, vec![Do::SendOn(0, NodeId(0), 6)]);
    assert_eq!(heard(&said(&mut world, Span::millis(50)), 0), [6, 6], "both hear it");
    said(&mut world, Span::millis(400));
    tell(&mut world, 1, vec![Do::SendOn(0, NodeId(0), 7)]);
    assert_eq!(heard(&said(&mut world, Span::millis(50)), 0), [7], "the second has ended");
    assert_eq!(world.status(NodeId(0)), Status::Up);
}

#[test]
fn clients_repeat_copy_and_hold_their_requests_in_good_faith() {
    for (family, expected) in [(Family::ClientRetry, [true, false]), (Family::ClientDup, [false, true])] {
        let mut world = suffering(3, incident(family, &[0], Span::secs(9), 1_000));
        tell(&mut world, 0, (0..10).map(|value| Do::SendOn(0, NodeId(1), value)).collect());
        let all = said(&mut world, Span::millis(50));
        let (same, others) = (heard(&all, 1), heard(&all, 2));
        assert_eq!([same.len() > 10, !others.is_empty()], expected, "{family:?}");
        assert_eq!(same.iter().collect::<BTreeSet<_>>().len(), 10);
        assert!(world.honest(NodeId(0)) && world.stats().tampered == 0);
    }
    let mut world = suffering(2, incident(Family::ClientBurst, &[0], Span::secs(9), 100_000));
    let mut times = BTreeSet::new();
    for value in 0..20 {
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value)]);
        let all = said(&mut world, Span::millis(10));
        times.extend(all.iter().filter(|(who, ..)| *who == 1).map(|(_, at, _)| *at));
    }
    assert!((1..=3).contains(&times.len()), "twenty requests in 200 ms came in bursts: {times:?}");
}

/// Lets through what has an odd value.
struct Odd;

impl Script for Odd {
    fn passes(&mut self, passage: &Passage<'_>) -> bool {
        passage.body.last().is_some_and(|last| last % 2 == 1)
    }
}

#[test]
fn a_script_decides_frame_by_frame_until_the_core_is_healed() {
    let mut world = World::new(Setup { script: Some(Box::new(Odd)), ..setup(2, &[0], calm(3)) });
    said(&mut world, Span::millis(50));
    tell(&mut world, 0, (0..6).map(|value| Do::SendOn(0, NodeId(1), value)).collect());
    assert_eq!(heard(&said(&mut world, Span::millis(50)), 1), [1, 3, 5]);
    assert_eq!(world.stats().net.lost, 3);
    world.heal(&[NodeId(0), NodeId(1)]);
    tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), 2)]);
    assert_eq!(heard(&said(&mut world, Span::millis(50)), 1), [2]);
}

#[test]
fn cells_count_what_liars_touched_by_strategy_and_kind() {
    let kinds =
        |_: u8, body: &synod_wire::Bytes| body.last().map(|last| if *last < 9 { "low" } else { "high" });
    let mut world = World::new(Setup { kinds: Box::new(kinds), ..setup(3, &[0], calm(3)) });
    world.load(&[incident(Family::ByzReplay, &[0], Span::secs(9), 1)]);
    said(&mut world, Span::millis(100));
    for value in 0..60 {
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value)]);
        said(&mut world, Span::millis(5));
    }
    let stats = world.stats();
    let cells: Vec<_> = stats.cells.keys().copied().collect();
    assert_eq!(cells, [("byz.B3", "high"), ("byz.B3", "low")]);
    assert_eq!(stats.cells.values().sum::<u64>(), stats.swallowed);
    assert!(stats.swallowed < 40, "what it sent as it should counts for nothing: {}", stats.swallowed);
}

#[test]
fn the_new_families_survive_being_stored() {
    let families = [Family::NodeClone, Family::NodeVersion, Family::DiskTorn, Family::DiskMisdirect];
    let numbered = |(family, id)| Incident { id, ..incident(family, &[1], Span::secs(1), -3) };
    let incidents = families.into_iter().zip(1..).map(numbered).collect();
    let scenario = Scenario { incidents, ..Scenario::quiet("probe", 5) };
    assert_eq!(Scenario::from_toml(&scenario.to_toml()), Ok(scenario));
}
