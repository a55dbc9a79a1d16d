//! The real journal under drawn power cuts: prefixes, torn tails, compaction, lies.

use std::collections::BTreeSet;

use super::*;
use crate::draw::Draws;

fn stream(entity: u64) -> Stream {
    Draws::new(5).stream("block test", entity)
}

fn opened(lanes: usize) -> BlockJournal {
    let mut journal = BlockJournal::new(NodeId(0), lanes);
    let logs = journal.open().expect("a new journal opens");
    assert!(logs.iter().all(|log| log.condition == Condition::Fresh && log.records.is_empty()));
    journal
}

/// Writes records of 600 bytes, so that each spans sectors.
fn write(journal: &mut BlockJournal, lane: u8, value: u8) {
    let lsn = journal.reserve(lane);
    journal.write(lane, lsn, Written::Record(Keep::Log, Bytes::from(vec![value; 600])));
}

fn write_all(journal: &mut BlockJournal, values: core::ops::Range<u8>) {
    for value in values {
        write(journal, 0, value);
    }
}

fn sync(journal: &mut BlockJournal) -> Vec<(u8, Lsn)> {
    assert!(journal.begin());
    journal.commit().expect("the disk takes it")
}

/// What a start finds, per lane; every lane is clean.
fn found(journal: &mut BlockJournal) -> Vec<Vec<u8>> {
    let logs = journal.open().expect("the journal opens");
    logs.into_iter()
        .map(|log| {
            assert_eq!(log.condition, Condition::Clean);
            log.records.iter().map(|record| record[0]).collect()
        })
        .collect()
}

#[test]
fn a_power_cut_keeps_a_prefix_no_shorter_than_the_last_sync() {
    let (mut lengths, mut lost) = (BTreeSet::new(), 0);
    for entity in 0..150 {
        let mut journal = opened(1);
        write_all(&mut journal, 0..5);
        assert_eq!(sync(&mut journal), [(0, 5)]);
        write_all(&mut journal, 5..10);
        assert!(journal.begin());
        write_all(&mut journal, 10..12);
        let counted = journal.crash(Loss::Drawn, &mut stream(entity));
        let kept = found(&mut journal).remove(0);
        assert_eq!(kept, (0..12).take(kept.len()).collect::<Vec<u8>>(), "cut {entity}");
        assert!((5..=10).contains(&kept.len()), "cut {entity} kept {}", kept.len());
        assert_eq!(counted, Lost { unsynced: 7, lost: 12 - kept.len() as u64, torn: counted.torn });
        lost += u32::from(kept.len() < 10);
        lengths.insert(kept.len());
    }
    assert!(lengths.len() >= 4 && lost > 30, "{lengths:?}, {lost} cuts lost something");
}

#[test]
fn named_outcomes_keep_what_they_name() {
    for (loss, kept) in [(Loss::Durable, 1), (Loss::Nothing, 4), (Loss::Keep(2), 3), (Loss::Keep(9), 4)] {
        let mut journal = opened(1);
        write(&mut journal, 0, 0);
        sync(&mut journal);
        write_all(&mut journal, 1..4);
        let lost = journal.crash(loss, &mut stream(0));
        assert_eq!((lost.unsynced, lost.lost), (3, 4 - kept as u64), "{loss:?}");
        assert_eq!(found(&mut journal)[0].len(), kept, "{loss:?}");
    }
}

#[test]
fn a_power_cut_during_a_compaction_leaves_the_old_log_or_the_new_one() {
    let snapshot = |value: u8| vec![(Keep::Log, Bytes::from(vec![value; 600]))];
    let mut outcomes = BTreeSet::new();
    for entity in 0..150 {
        let mut journal = opened(2);
        write(&mut journal, 0, 1);
        write(&mut journal, 1, 2);
        sync(&mut journal);
        journal.compact(vec![snapshot(8), snapshot(9)]);
        write(&mut journal, 0, 3);
        assert!(journal.begin());
        journal.crash(Loss::Drawn, &mut stream(entity));
        outcomes.insert(found(&mut journal));
    }
    let old = vec![vec![1], vec![2]];
    let new = [vec![vec![8], vec![9]], vec![vec![8, 3], vec![9]]];
    assert!(outcomes.contains(&old), "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| *outcome == old || new.contains(outcome)), "{outcomes:?}");
    assert!(outcomes.len() >= 2, "{outcomes:?}");
}

#[test]
fn a_compaction_keeps_live_blobs_and_what_was_written_behind_it() {
    let (name, blob) = (Hash::of(b"kept"), Bytes::from_static(b"kept"));
    let mut journal = opened(1);
    let lsn = journal.reserve(0);
    journal.write(0, lsn, Written::Blob(name, blob.clone()));
    write(&mut journal, 0, 1);
    journal.compact(vec![vec![(Keep::LogAndSlot, Bytes::from_static(&[7]))]]);
    write(&mut journal, 0, 2);
    assert_eq!(journal.read(0, name), Some(blob.clone()), "also before it is written");
    assert_eq!(sync(&mut journal), [(0, 3)]);
    journal.crash(Loss::Durable, &mut stream(0));
    assert_eq!(found(&mut journal), [vec![7, 2]]);
    assert_eq!(journal.read(0, name), Some(blob));
}

#[test]
fn a_full_disk_fails_the_sync_and_the_restart_is_clean() {
    let mut journal = opened(1);
    write(&mut journal, 0, 1);
    sync(&mut journal);
    write(&mut journal, 0, 2);
    journal.harm(Harm::Full(true));
    assert!(journal.begin() && journal.commit().is_err());
    journal.crash(Loss::Drawn, &mut stream(3));
    let kept = found(&mut journal).remove(0);
    assert!(kept == [1] || kept == [1, 2], "{kept:?}");
}

#[test]
fn a_lying_disk_reports_success_and_loses_it() {
    let mut journal = opened(1);
    write(&mut journal, 0, 1);
    sync(&mut journal);
    journal.harm(Harm::Lie(true));
    write(&mut journal, 0, 2);
    assert_eq!(sync(&mut journal), [(0, 2)]);
    assert!(!journal.begin(), "nothing is left to report");
    journal.crash(Loss::Durable, &mut stream(0));
    journal.harm(Harm::Lie(false));
    assert_eq!(found(&mut journal), [vec![1]]);
}

#[test]
fn wiped_forgotten_and_rolled_back_disks_start_as_they_say() {
    let condition = |journal: &mut BlockJournal| journal.open().expect("opens")[0].condition;
    let mut journal = opened(1);
    write(&mut journal, 0, 1);
    sync(&mut journal);
    assert!(!journal.harm(Harm::Rollback), "there is no image yet");
    journal.harm(Harm::Image);
    write(&mut journal, 0, 2);
    sync(&mut journal);
    journal.crash(Loss::Durable, &mut stream(0));
    assert!(journal.harm(Harm::Rollback));
    assert_eq!(found(&mut journal), [vec![1]]);
    assert!(journal.harm(Harm::Wipe));
    assert_eq!(condition(&mut journal), Condition::Damaged);
    assert!(journal.harm(Harm::Forget));
    assert_eq!(condition(&mut journal), Condition::Fresh);
}

#[test]
fn a_damaged_lane_is_clean_after_readmission_and_a_compaction_and_not_before() {
    let mut journal = BlockJournal::new(NodeId(0), 2);
    journal.open().expect("opens");
    journal.harm(Harm::Wipe);
    let condition = |journal: &mut BlockJournal| {
        journal.crash(Loss::Durable, &mut stream(0));
        journal.open().expect("opens").iter().map(|log| log.condition).collect::<Vec<_>>()
    };
    assert_eq!(condition(&mut journal), [Condition::Damaged; 2]);
    journal.compact(vec![Vec::new(), Vec::new()]);
    sync(&mut journal);
    assert_eq!(condition(&mut journal), [Condition::Damaged; 2], "nobody readmitted it");
    journal.readmit(0);
    journal.compact(vec![Vec::new(), Vec::new()]);
    sync(&mut journal);
    assert_eq!(condition(&mut journal), [Condition::Clean, Condition::Damaged]);
}
