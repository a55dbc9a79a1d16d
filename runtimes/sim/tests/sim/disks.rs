//! Disks under whole worlds: slow, failing, lying, lost, compacted.

use synod_machine::{Condition, Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Family, Harm, Incident, Loss};

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
