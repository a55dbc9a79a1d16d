//! Property J-S3: after any failed write or sync nothing succeeds any more, and nothing is retried.

use synod_journal::memory::{Failure, MemDisk, Strike};
use synod_journal::{Config, Error, Journal, Keep, SyncMode};

mod rig;
use rig::{Deed, Model, body, config, drop_all, fresh, name_of, open};

const FAILURES: [(Strike, Failure); 8] = [
    (Strike::Write, Failure::Error),
    (Strike::Write, Failure::Full),
    (Strike::Write, Failure::Short),
    (Strike::Sync, Failure::Error),
    (Strike::Sync, Failure::Full),
    (Strike::SyncDir, Failure::Error),
    (Strike::Any, Failure::Error),
    (Strike::Any, Failure::Full),
];

/// Appends through a rotation, stores, compacts, marks.
fn work(journal: &mut Journal, model: &mut Model) -> Result<(), Error> {
    for tag in 0..5 {
        model.append(journal, Keep::LogAndSlot, body(tag, 400))?;
        model.append(journal, Keep::Log, body(tag + 10, 5000))?;
        model.sync(journal)?;
    }
    let blob = body(50, 800);
    model.perform(journal, Deed::Store { lane: 0, bytes: blob })?;
    model.sync(journal)?;
    model.compact(journal, &[vec![(Keep::LogAndSlot, body(30, 100)), (Keep::Log, body(31, 900))]])?;
    model.append(journal, Keep::Log, body(32, 100))?;
    model.sync(journal)?;
    journal.mark().map(drop)
}

fn everything_fails(journal: &mut Journal, disk: &MemDisk, code: u16) {
    let before = disk.operations();
    let codes = [
        journal.append(0, Keep::Log, body(1, 1)).expect_err("append").code(),
        journal.store(0, name_of(b"x"), "x".into()).expect_err("store").code(),
        journal.erase(0, name_of(b"x")).expect_err("erase").code(),
        journal.load(0, name_of(b"x")).expect_err("load").code(),
        journal.sync().expect_err("sync").code(),
        journal.mark().expect_err("mark").code(),
        journal.compact(&[Vec::new()]).expect_err("compact").code(),
    ];
    assert_eq!(codes, [code; 7]);
    assert_eq!(journal.failure().map(Error::code), Some(code));
    assert_eq!(disk.operations(), before, "nothing is tried again");
}

#[test]
fn every_failing_operation_ends_the_journal_and_loses_no_promise() {
    let config = config(1);
    let mut ended = 0;
    for (strike, failure) in FAILURES {
        for nth in 0.. {
            let (disk, opened) = fresh(&config);
            let (mut journal, mut model) = (opened.journal, Model::new(1));
            disk.fail(strike, nth, failure);
            let Err(error) = work(&mut journal, &mut model) else {
                assert!(nth > 1, "{strike:?} was never struck");
                break;
            };
            // Names cannot be short; those operations then succeed.
            assert_eq!(error.code(), 5004, "{error}");
            everything_fails(&mut journal, &disk, 5004);
            let durable = journal.durable();
            assert!(durable <= journal.issued());
            drop(journal);
            let disk = disk.crash(&mut drop_all);
            model.check(&disk, &config, &[body(50, 800)]);
            ended += 1;
        }
    }
    assert!(ended > 150, "{ended} failures are too few");
}

#[test]
fn a_failed_sync_is_not_repeated_and_its_records_are_not_called_durable() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    let first = journal.append(0, Keep::Log, body(1, 100)).expect("taken");
    journal.sync().expect("synced");
    journal.append(0, Keep::Log, body(2, 100)).expect("taken");
    disk.fail(Strike::Sync, 0, Failure::Error);
    assert_eq!(journal.sync().expect_err("the sync fails").code(), 5004);
    // The disk would say yes now; the data is gone all the same.
    assert_eq!(journal.sync().expect_err("it is over").code(), 5004);
    assert_eq!(journal.durable(), first);
    drop(journal);
    let disk = disk.crash(&mut drop_all);
    assert_eq!(open(&disk, &config).expect("opens").lanes[0].records, [body(1, 100)]);
}

#[test]
fn a_full_disk_in_the_midst_of_a_promise_leaves_a_clean_log() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    journal.append(0, Keep::LogAndSlot, body(1, 100)).expect("taken");
    journal.sync().expect("synced");
    journal.append(0, Keep::LogAndSlot, body(2, 2000)).expect("taken");
    disk.fail(Strike::Write, 0, Failure::Full);
    let error = journal.sync().expect_err("the disk is full");
    assert!(matches!(&error, Error::Write { step: "write", .. }), "{error}");
    drop(journal);
    let opened = open(&disk, &config).expect("opens");
    assert!(opened.torn.is_some(), "half a record is a torn tail");
    assert_eq!(opened.lanes[0].records, [body(1, 100)]);
}

#[test]
fn always_syncs_each_record_and_group_syncs_them_together() {
    for (mode, syncs) in [(SyncMode::Group, 1), (SyncMode::Always, 10), (SyncMode::NoneUnsafe, 1)] {
        let config = Config { mode, ..config(1) };
        let (disk, opened) = fresh(&config);
        let mut journal = opened.journal;
        let (before, operations) = (journal.counters().syncs, disk.operations());
        for tag in 0..10 {
            journal.append(0, Keep::Log, body(tag, 50)).expect("taken");
        }
        assert_eq!(journal.sync().expect("synced"), journal.issued());
        assert_eq!(journal.counters().syncs - before, syncs, "{mode:?}");
        let expected = match mode {
            SyncMode::Group => 2,
            SyncMode::Always => 20,
            SyncMode::NoneUnsafe | SyncMode::VolatileUnsafe => 1,
        };
        assert_eq!(disk.operations() - operations, expected, "{mode:?}: writes and syncs");
    }
}

#[test]
fn a_mark_is_written_once_when_idle_and_only_over_synced_records() {
    let config = config(1);
    let (_, opened) = fresh(&config);
    let mut journal = opened.journal;
    assert!(!journal.mark().expect("marks"), "opening has marked");
    journal.append(0, Keep::Log, body(1, 10)).expect("taken");
    assert!(!journal.mark().expect("marks"), "there is work queued");
    journal.sync().expect("synced");
    assert!(journal.mark().expect("marks"));
    assert!(!journal.mark().expect("marks"), "once is enough");
    assert_eq!(journal.counters().marks, 1);
}
