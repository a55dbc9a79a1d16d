//! Disks under whole worlds: slow, failing, lying, lost, compacted.

use synod_machine::{Condition, Span, Time};
use synod_quorum::NodeId;
use synod_sim::{BlockJournal, Family, Harm, Incident, Loss, Setup, World};

use crate::counter::{Manner, run};
use crate::probe::{Do, Said, said, tell, world};

fn started(all: &[(u32, Time, Said)]) -> Option<(Condition, Vec<u64>)> {
    all.iter()
        .find_map(|(_, _, s)| if let Said::Started(c, kept) = s { Some((*c, kept.clone())) } else { None })
}

fn incident(family: Family, lasts: Span, amount: i64) -> Incident {
    Incident { id: 1, family, at: Span::millis(60), lasts, nodes: vec![0], amount }
}

#[test]
fn everything_that_was_told_is_there_after_a_crash() {
    for seed in 0..30 {
        let mut world = world(1, seed);
        for value in 0..20 {
            tell(&mut world, 0, vec![Do::Persist(value), Do::Output(value)]);
            if said(&mut world, Span::micros(400)).len() > 100 {
                break;
            }
        }
        let before = said(&mut world, Span::micros(seed * 100));
        world.crash(NodeId(0), Loss::Drawn, Some(Span::millis(1)));
        let printed = before.iter().filter(|(_, _, s)| matches!(s, Said::Printed(_))).count();
        let (condition, kept) = started(&said(&mut world, Span::millis(50))).expect("it started again");
        assert_eq!(condition, Condition::Clean);
        assert_eq!(kept, (0..kept.len() as u64).collect::<Vec<_>>());
        assert!(kept.len() >= printed, "seed {seed} told {printed} and kept {}", kept.len());
    }
}

#[test]
fn a_slow_disk_holds_what_waits_for_it() {
    let mut world = world(1, 3);
    world.slow_disk(NodeId(0), Span::secs(2));
    tell(&mut world, 0, vec![Do::Persist(1), Do::Output(1)]);
    assert_eq!(said(&mut world, Span::secs(1)), []);
    assert_eq!(said(&mut world, Span::secs(2)).len(), 1);
}

#[test]
fn a_failed_sync_ends_the_node_before_anything_leaves() {
    let mut world = world(1, 3);
    world.load(&[incident(Family::DiskSyncFail, Span::millis(10), 0)]);
    said(&mut world, Span::millis(20));
    tell(&mut world, 0, vec![Do::Persist(1), Do::Output(77)]);
    let all = said(&mut world, Span::millis(100));
    assert!(started(&all).is_some() && !all.iter().any(|(_, _, s)| *s == Said::Printed(77)));
    assert!(world.honest(NodeId(0)), "a node that stops is not faulty");
}

#[test]
fn a_lost_disk_starts_damaged_and_a_forgetful_one_fresh() {
    for (harm, condition) in [(Harm::Wipe, Condition::Damaged), (Harm::Forget, Condition::Fresh)] {
        let mut world = world(1, 3);
        tell(&mut world, 0, vec![Do::Persist(1)]);
        said(&mut world, Span::millis(20));
        world.crash(NodeId(0), Loss::Nothing, Some(Span::millis(1)));
        assert!(world.harm(NodeId(0), harm));
        assert_eq!(started(&said(&mut world, Span::millis(20))), Some((condition, vec![])));
        assert!(!world.honest(NodeId(0)));
    }
}

#[test]
fn a_rolled_back_disk_forgets_what_it_told_and_counts_as_faulty() {
    let mut world = world(1, 3);
    tell(&mut world, 0, vec![Do::Persist(1)]);
    said(&mut world, Span::millis(5));
    world.load(&[incident(Family::DiskRollback, Span::millis(40), 0)]);
    said(&mut world, Span::millis(20));
    tell(&mut world, 0, vec![Do::Persist(2), Do::Output(2)]);
    let all = said(&mut world, Span::secs(1));
    assert!(all.iter().any(|(_, _, s)| *s == Said::Printed(2)), "the second record was durable");
    assert_eq!(started(&all), Some((Condition::Clean, vec![1])));
    assert!(!world.honest(NodeId(0)));
}

#[test]
fn a_lying_disk_loses_what_it_reported() {
    let mut world = world(1, 3);
    world.load(&[incident(Family::DiskLie, Span::millis(40), 0)]);
    said(&mut world, Span::millis(20));
    tell(&mut world, 0, vec![Do::Persist(2), Do::Output(2)]);
    let all = said(&mut world, Span::secs(1));
    assert!(all.iter().any(|(_, _, s)| *s == Said::Printed(2)));
    assert_eq!(started(&all), Some((Condition::Clean, vec![])));
    assert!(!world.honest(NodeId(0)));
}

#[test]
fn a_compacted_lane_recovers_to_the_same_state() {
    let mut world = world(1, 3);
    for value in 0..50 {
        tell(&mut world, 0, vec![Do::Persist(value), Do::Compact]);
        said(&mut world, Span::millis(1));
    }
    said(&mut world, Span::millis(50));
    world.crash(NodeId(0), Loss::Durable, Some(Span::millis(1)));
    let kept = started(&said(&mut world, Span::millis(50)));
    assert_eq!(kept, Some((Condition::Clean, (0..50).collect())));
}

#[test]
fn a_world_on_the_real_journal_keeps_every_promise_over_many_crashes() {
    let (mut lost, mut crashes) = (0, 0);
    for seed in 0..10 {
        let options = synod_sim::Options { seed, ..synod_sim::Options::default() };
        let mut world = counters_on(options);
        world.load(&storms(seed));
        let world = run(world, Span::secs(10)).unwrap_or_else(|v| unreachable!("seed {seed}: {v}"));
        lost += world.stats().lost_suffixes;
        crashes += world.stats().crashes;
    }
    assert!(crashes > 100 && lost > 20, "{crashes} crashes, {lost} lost a suffix");
}

fn counters_on(options: synod_sim::Options) -> World {
    let seats = (0..4).map(|id| synod_sim::Seat::new(NodeId(id), &[0])).collect();
    let base = Setup::new(seats, |node, _, log, _| crate::counter::hosted(Manner::Careful, node, log));
    let promises = crate::counter::Promises { gate: true, ..Default::default() };
    World::new(Setup {
        disks: Box::new(|node, lanes| Box::new(BlockJournal::new(node, lanes))),
        checkers: vec![Box::new(promises)],
        options,
        ..base
    })
}

fn storms(seed: u64) -> Vec<Incident> {
    let everywhere = |id: u32, family, at: u64, lasts| Incident {
        id,
        family,
        at: Span::millis(at),
        lasts,
        nodes: if family == Family::DiskFull { vec![id % 4] } else { vec![] },
        amount: 0,
    };
    let mut incidents = vec![everywhere(1, Family::DiskUnsynced, 0, Span::secs(60))];
    for id in 2..8 {
        let at = 1_000 * u64::from(id) + seed * 17;
        incidents.push(everywhere(id, Family::NodeStorm, at, Span::millis(200)));
        incidents.push(everywhere(100 + id, Family::DiskFull, at + 500, Span::millis(100)));
    }
    incidents
}
