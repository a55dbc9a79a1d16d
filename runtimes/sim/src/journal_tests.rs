//! The record journal against its promises: prefixes, marks, blobs, compaction.

use super::*;
use crate::draw::Draws;

fn stream(entity: u64) -> Stream {
    Draws::new(5).stream("journal test", entity)
}

fn record(value: u8) -> Written {
    Written::Record(Keep::Log, Bytes::from(vec![value]))
}

fn write(journal: &mut RecordJournal, lane: u8, what: Written) -> Lsn {
    let lsn = journal.reserve(lane);
    journal.write(lane, lsn, what);
    lsn
}

fn write_all(journal: &mut RecordJournal, values: core::ops::Range<u8>) {
    for value in values {
        write(journal, 0, record(value));
    }
}

/// What a start finds, per lane.
fn found(journal: &mut RecordJournal) -> Vec<Vec<u8>> {
    let logs = journal.open().expect("records in memory open");
    logs.into_iter().map(|log| log.records.iter().map(|record| record[0]).collect()).collect()
}

fn sync(journal: &mut RecordJournal) -> Vec<(u8, Lsn)> {
    assert!(journal.begin());
    journal.commit().expect("the disk takes it")
}

#[test]
fn a_crash_keeps_a_prefix_no_shorter_than_the_last_sync_and_every_such_prefix() {
    let mut lengths = std::collections::BTreeSet::new();
    let mut torn = 0;
    for entity in 0..200 {
        let mut journal = RecordJournal::new(1);
        write_all(&mut journal, 0..5);
        assert_eq!(sync(&mut journal), [(0, 5)]);
        write_all(&mut journal, 5..10);
        let lost = journal.crash(Loss::Drawn, &mut stream(entity));
        let kept = found(&mut journal).remove(0);
        assert_eq!(kept, (0..10).take(kept.len()).collect::<Vec<u8>>());
        assert_eq!((lost.unsynced, lost.lost), (5, 10 - kept.len() as u64));
        assert!(!lost.torn || lost.lost > 0);
        torn += u32::from(lost.torn);
        lengths.insert(kept.len());
    }
    assert_eq!(lengths, (5..=10).collect());
    assert!(torn > 30, "{torn} records were torn");
}

#[test]
fn named_outcomes_keep_what_they_name() {
    for (loss, kept) in [(Loss::Durable, 1), (Loss::Nothing, 4), (Loss::Keep(2), 3), (Loss::Keep(9), 4)] {
        let mut journal = RecordJournal::new(1);
        write(&mut journal, 0, record(0));
        sync(&mut journal);
        write_all(&mut journal, 1..4);
        journal.crash(loss, &mut stream(0));
        assert_eq!(found(&mut journal)[0].len(), kept, "{loss:?}");
    }
}

#[test]
fn a_sync_covers_what_was_written_when_it_began() {
    let mut journal = RecordJournal::new(2);
    write(&mut journal, 0, record(1));
    write(&mut journal, 1, record(2));
    assert!(journal.begin());
    write(&mut journal, 0, record(3));
    assert!(!journal.begin(), "one sync at a time");
    assert_eq!(journal.commit(), Ok(vec![(0, 1), (1, 1)]));
    journal.crash(Loss::Durable, &mut stream(0));
    assert_eq!(found(&mut journal), [vec![1], vec![2]]);
}

#[test]
fn the_prefix_runs_over_all_lanes_in_the_order_of_writing() {
    let mut journal = RecordJournal::new(2);
    for value in 0..6 {
        write(&mut journal, value % 2, record(value));
    }
    journal.crash(Loss::Keep(3), &mut stream(0));
    assert_eq!(found(&mut journal), [vec![0, 2], vec![1]]);
}

#[test]
fn an_erasure_is_not_reported_as_durable_but_is_synced() {
    let mut journal = RecordJournal::new(1);
    let bytes = Bytes::from_static(b"blob");
    let name = Hash::of(&bytes);
    write(&mut journal, 0, Written::Blob(name, bytes.clone()));
    write(&mut journal, 0, Written::Erase(name));
    assert_eq!(sync(&mut journal), [(0, 1)], "a gate never waits for an erasure");
    journal.crash(Loss::Durable, &mut stream(0));
    assert_eq!(journal.read(0, name), None);
    assert_eq!(journal.reserve(0), 3, "places go on behind what was kept");
}

#[test]
fn a_blob_whose_bytes_are_not_its_name_reads_as_missing() {
    let mut journal = RecordJournal::new(1);
    let bytes = Bytes::from_static(b"right");
    write(&mut journal, 0, Written::Blob(Hash::of(&bytes), bytes.clone()));
    write(&mut journal, 0, Written::Blob(Hash::ZERO, Bytes::from_static(b"wrong")));
    assert_eq!(journal.read(0, Hash::of(&bytes)), Some(bytes.clone()));
    assert_eq!(journal.read(0, Hash::ZERO), None);
    assert!(journal.harm(Harm::Rot(true)));
    assert_eq!(journal.read(0, Hash::of(&bytes)), None);
}

#[test]
fn a_compaction_replaces_the_log_at_the_next_sync_and_not_before() {
    let snapshot = |value| vec![(Keep::Log, Bytes::from(vec![value]))];
    let (name, blob) = (Hash::of(b"kept"), Bytes::from_static(b"kept"));
    let (gone, other) = (Hash::of(b"gone"), Bytes::from_static(b"gone"));
    for settled in [false, true] {
        let mut journal = RecordJournal::new(2);
        write(&mut journal, 0, record(1));
        write(&mut journal, 1, record(2));
        write(&mut journal, 0, Written::Blob(name, blob.clone()));
        write(&mut journal, 0, Written::Blob(gone, other.clone()));
        write(&mut journal, 0, Written::Erase(gone));
        sync(&mut journal);
        let before = journal.bytes();
        journal.compact(vec![snapshot(98), snapshot(99)]);
        write(&mut journal, 0, record(3));
        if settled {
            assert_eq!(sync(&mut journal), [(0, 5)]);
            assert!(journal.bytes() < before + 33, "what was replaced is gone");
        }
        write(&mut journal, 1, record(4));
        journal.crash(Loss::Durable, &mut stream(0));
        let expected = if settled { [vec![98, 3], vec![99]] } else { [vec![1], vec![2]] };
        assert_eq!(found(&mut journal), expected);
        assert_eq!(journal.read(0, name), Some(blob.clone()));
        assert_eq!(journal.read(0, gone), None);
    }
}

#[test]
fn two_compactions_in_one_sync_keep_all_that_came_later() {
    let snapshot = |value| vec![(Keep::Log, Bytes::from(vec![value]))];
    let mut journal = RecordJournal::new(2);
    for value in 0..10 {
        write(&mut journal, value % 2, record(value));
    }
    assert!(journal.begin());
    journal.compact(vec![snapshot(100), snapshot(101)]);
    write(&mut journal, 0, record(10));
    journal.compact(vec![snapshot(102), snapshot(103)]);
    write(&mut journal, 1, record(11));
    journal.commit().expect("the disk takes it");
    sync(&mut journal);
    write(&mut journal, 0, record(12));
    assert_eq!(found(&mut journal), [vec![102, 12], vec![103, 11]]);
    journal.crash(Loss::Durable, &mut stream(0));
    assert_eq!(found(&mut journal), [vec![102], vec![103, 11]]);
}

#[test]
fn a_full_disk_fails_the_sync_and_reports_nothing() {
    let mut journal = RecordJournal::new(1);
    write(&mut journal, 0, record(1));
    journal.harm(Harm::Full(true));
    assert!(journal.begin() && journal.commit().is_err());
    journal.crash(Loss::Durable, &mut stream(0));
    assert_eq!(found(&mut journal), [[] as [u8; 0]]);
}

#[test]
fn fresh_is_only_the_first_start_and_a_wiped_disk_is_damaged() {
    let condition = |journal: &mut RecordJournal| journal.open().expect("opens")[0].condition;
    let mut journal = RecordJournal::new(1);
    assert_eq!(condition(&mut journal), Condition::Fresh);
    assert_eq!(condition(&mut journal), Condition::Clean);
    write(&mut journal, 0, record(1));
    assert!(journal.harm(Harm::Wipe));
    assert_eq!((condition(&mut journal), found(&mut journal)), (Condition::Damaged, vec![vec![]]));
    assert!(journal.harm(Harm::Forget));
    assert_eq!(condition(&mut journal), Condition::Fresh);
}

#[test]
fn a_rollback_brings_the_durable_part_of_the_image_back() {
    let mut journal = RecordJournal::new(1);
    assert!(!journal.harm(Harm::Rollback), "there is no image yet");
    write(&mut journal, 0, record(1));
    sync(&mut journal);
    write(&mut journal, 0, record(2));
    journal.harm(Harm::Image);
    sync(&mut journal);
    journal.harm(Harm::Rollback);
    assert_eq!(found(&mut journal), [vec![1]]);
}

#[test]
fn a_lying_disk_reports_success_once_and_keeps_nothing() {
    let mut journal = RecordJournal::new(1);
    journal.harm(Harm::Lie(true));
    write(&mut journal, 0, record(1));
    assert_eq!(sync(&mut journal), [(0, 1)]);
    assert!(!journal.begin(), "nothing is left to report");
    write(&mut journal, 0, record(2));
    assert_eq!(sync(&mut journal), [(0, 2)]);
    journal.crash(Loss::Durable, &mut stream(0));
    assert_eq!(found(&mut journal), [[] as [u8; 0]]);
}

#[test]
fn a_damaged_lane_is_clean_after_readmission_and_a_compaction_and_not_before() {
    let mut journal = RecordJournal::new(2);
    journal.open().expect("opens");
    journal.harm(Harm::Wipe);
    let condition = |journal: &mut RecordJournal| {
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
