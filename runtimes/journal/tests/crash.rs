//! Crash-point enumeration on blocks: for every operation on the disk and every kept, dropped and torn
//! combination of what was not synced, recovery keeps J-S1.

use bytes::Bytes;
use synod_journal::memory::{Failure, MemDisk, Strike, Unsynced};
use synod_journal::{Condition, Config, Disk, Error, Journal, Keep, SyncMode};

mod rig;
use rig::{Choices, Deed, Model, body, config, explore, fresh, name_of, open};

type Act<'a> = dyn Fn(&mut Journal, &mut Model) -> Result<(), Error> + 'a;

/// Performs `before` undisturbed and `act` with a stop at every operation in turn, with every fate of
/// what was not synced; returns the number of crashes.
fn crash_everywhere(config: &Config, blobs: &[Bytes], before: &Act<'_>, act: &Act<'_>) -> usize {
    let prepare = || {
        let (disk, opened) = fresh(config);
        let (mut journal, mut model) = (opened.journal, Model::new(config.lanes));
        before(&mut journal, &mut model).expect("nothing disturbs the preparation");
        (disk, journal, model)
    };
    let (disk, mut journal, mut model) = prepare();
    let first = disk.operations();
    act(&mut journal, &mut model).expect("nothing disturbs the first run");
    let operations = disk.operations() - first;
    assert!(operations > 0, "the act uses the disk");
    let mut crashes = 0;
    for stop in 0..=operations {
        crashes += explore(&mut |choices: &mut Choices| {
            let (disk, mut journal, mut model) = prepare();
            disk.fail(Strike::Any, stop, Failure::Stop);
            let done = act(&mut journal, &mut model);
            assert_eq!(done.is_ok(), stop == operations, "the act ends where it is stopped");
            drop(journal);
            let disk = disk.crash(&mut |unsynced| choices.fate(unsynced));
            model.check(&disk, config, blobs);
        });
    }
    crashes
}

fn nothing(_: &mut Journal, _: &mut Model) -> Result<(), Error> {
    Ok(())
}

#[test]
fn four_records_in_two_syncs_survive_as_a_prefix_in_every_combination() {
    let crashes = crash_everywhere(&config(1), &[], &nothing, &|journal, model| {
        model.append(journal, Keep::Log, body(1, 900))?;
        model.append(journal, Keep::LogAndSlot, body(2, 700))?;
        model.sync(journal)?;
        model.append(journal, Keep::LogAndSlot, body(3, 1000))?;
        model.append(journal, Keep::Log, body(4, 800))?;
        model.sync(journal)
    });
    assert!(crashes > 200, "{crashes} combinations are too few");
}

#[test]
fn every_moment_of_a_rotation_keeps_every_promise() {
    let before: &Act<'_> = &|journal, model| {
        model.append(journal, Keep::LogAndSlot, body(1, 3000))?;
        model.append(journal, Keep::Log, body(2, 14000))?;
        model.sync(journal)
    };
    let crashes = crash_everywhere(&config(1), &[], before, &|journal, model| {
        let segments = journal.segments();
        model.append(journal, Keep::Log, body(3, 2000))?;
        model.append(journal, Keep::LogAndSlot, body(4, 2000))?;
        model.sync(journal)?;
        assert_eq!(journal.segments(), segments + 1, "the log went on in a second segment");
        model.append(journal, Keep::Log, body(5, 100))?;
        model.sync(journal)
    });
    assert!(crashes > 200, "{crashes} combinations are too few");
}

#[test]
fn every_moment_of_a_compaction_keeps_every_promise() {
    let dense = body(10, 16500);
    let sparse = body(11, 2000);
    let dead = body(12, 400);
    let blobs = [dense.clone(), sparse.clone(), dead.clone()];
    let before: &Act<'_> = &|journal, model| {
        // The first segment ends up more than half live and is kept, with a dead blob in it; the second
        // is sparse and its blob is copied.
        for bytes in [&dead, &dense] {
            model.perform(journal, Deed::Store { lane: 0, bytes: bytes.clone() })?;
        }
        model.append(journal, Keep::LogAndSlot, body(1, 100))?;
        model.sync(journal)?;
        model.append(journal, Keep::Log, body(2, 5000))?;
        model.perform(journal, Deed::Store { lane: 0, bytes: sparse.clone() })?;
        model.perform(journal, Deed::Erase { lane: 0, name: name_of(&dead) })?;
        model.append(journal, Keep::Log, body(3, 100))?;
        model.sync(journal)?;
        assert_eq!(journal.segments(), 2, "the log has two segments");
        Ok(())
    };
    let crashes = crash_everywhere(&config(1), &blobs, before, &|journal, model| {
        let snapshot = vec![(Keep::Log, body(4, 300)), (Keep::LogAndSlot, body(5, 200))];
        model.compact(journal, &[snapshot])?;
        assert_eq!(journal.segments(), 2, "the dense segment stays, the sparse one goes");
        assert_eq!(journal.live_blobs(), 2, "blobs outlive a compaction");
        Ok(())
    });
    assert!(crashes > 200, "{crashes} combinations are too few");
}

/// Two lanes' snapshots that take several segments together: safety records in the first and the last, blobs copied.
fn long_snapshots() -> [Vec<(Keep, Bytes)>; 2] {
    let first =
        vec![(Keep::LogAndSlot, body(20, 400)), (Keep::Log, body(21, 9_000)), (Keep::Log, body(22, 9_000))];
    let second = vec![
        (Keep::LogAndSlot, body(23, 300)),
        (Keep::Log, body(24, 12_000)),
        (Keep::Log, body(25, 16_000)),
        (Keep::LogAndSlot, body(26, 200)),
    ];
    [first, second]
}

#[test]
fn every_moment_of_a_compaction_into_several_segments_keeps_the_old_log_or_the_new() {
    let blob = body(12, 2_000);
    let blobs = [blob.clone()];
    let before: &Act<'_> = &|journal, model| {
        model.append(journal, Keep::LogAndSlot, body(1, 500))?;
        model.perform(journal, Deed::Store { lane: 1, bytes: blob.clone() })?;
        model.perform(journal, Deed::Append { lane: 1, keep: Keep::Log, body: body(2, 15_000) })?;
        model.sync(journal)
    };
    let crashes = crash_everywhere(&config(2), &blobs, before, &|journal, model| {
        model.compact(journal, &long_snapshots())?;
        assert_eq!((journal.segments(), journal.log_bytes()), (4, 0), "the snapshots take four segments");
        Ok(())
    });
    assert!(crashes > 1_000, "{crashes} combinations are too few");
}

#[test]
fn a_compaction_cut_between_its_names_is_finished_through_any_crash_of_recovery() {
    let config = config(2);
    // The process dies when the first segment has its name and the directory is not synced behind the others'.
    let prepare = |nth| {
        let (disk, opened) = fresh(&config);
        let (mut journal, mut model) = (opened.journal, Model::new(2));
        model.append(&mut journal, Keep::LogAndSlot, body(1, 100)).expect("taken");
        model.sync(&mut journal).expect("synced");
        disk.fail(Strike::SyncDir, nth, Failure::Stop);
        model.compact(&mut journal, &long_snapshots()).expect_err("the power fails");
        drop(journal);
        (disk, model)
    };
    let mut crashes = 0;
    for nth in 0..3 {
        let power_fails = |choices: &mut Choices| {
            let (disk, model) = prepare(nth);
            (disk.crash(&mut |unsynced| choices.fate(unsynced)), model)
        };
        let mut most = 0;
        crashes += explore(&mut |choices: &mut Choices| {
            let (disk, _) = power_fails(choices);
            let before = disk.operations();
            drop(open(&disk, &config).expect("opens"));
            most = most.max(disk.operations() - before);
        });
        for stop in 0..most {
            crashes += explore(&mut |choices: &mut Choices| {
                let (disk, model) = power_fails(choices);
                disk.fail(Strike::Any, stop, Failure::Stop);
                let opened = open(&disk, &config).map(drop);
                let disk = disk.crash(&mut |unsynced| choices.fate(unsynced));
                model.check(&disk, &config, &[]);
                assert!(opened.is_ok() || stop < most);
            });
        }
    }
    assert!(crashes > 100, "{crashes} combinations are too few");
}

#[test]
fn a_part_of_a_long_snapshot_that_is_lost_or_spoilt_is_damage() {
    let config = config(2);
    for spoil in 0..2 {
        let (disk, opened) = fresh(&config);
        let (mut journal, mut model) = (opened.journal, Model::new(2));
        model.compact(&mut journal, &long_snapshots()).expect("compacted");
        drop(journal);
        let mut hand = disk.clone();
        let second = synod_journal::segment::name(3);
        if spoil == 0 {
            hand.remove(&second).expect("removed");
        } else {
            let at = synod_journal::segment::data_at(2) + 5_000;
            hand.write_at(&second, at, &[0xee; 64]).expect("written");
        }
        drop(hand);
        let opened = open(&disk, &config).expect("damage is a condition, not an error");
        assert!(opened.damage.is_some());
        assert!(opened.lanes.iter().all(|lane| lane.condition == Condition::Damaged));
    }
}

#[test]
fn old_segments_go_only_after_the_name_of_the_new_one_is_durable() {
    let config = config(1);
    let prepare = || {
        let (disk, opened) = fresh(&config);
        let (mut journal, mut model) = (opened.journal, Model::new(1));
        model.append(&mut journal, Keep::LogAndSlot, body(1, 100)).expect("taken");
        model.sync(&mut journal).expect("synced");
        // The process dies between the rename and the sync of the directory.
        disk.fail(Strike::SyncDir, 0, Failure::Error);
        let snapshot = vec![(Keep::LogAndSlot, body(2, 100))];
        model.compact(&mut journal, &[snapshot]).expect_err("the directory sync fails");
        drop(journal);
        (disk, model)
    };
    let (disk, _) = prepare();
    let before = disk.operations();
    drop(open(&disk, &config).expect("opens"));
    let mut crashes = 0;
    for stop in 0..disk.operations() - before {
        crashes += explore(&mut |choices: &mut Choices| {
            let (disk, model) = prepare();
            disk.fail(Strike::Any, stop, Failure::Stop);
            open(&disk, &config).expect_err("the power fails in recovery");
            let disk = disk.crash(&mut |unsynced| choices.fate(unsynced));
            model.check(&disk, &config, &[]);
        });
    }
    assert!(crashes > 10, "{crashes} combinations are too few");
}

#[test]
fn every_moment_of_recovery_can_crash_and_recovery_starts_over() {
    let config = config(1);
    // Two power failures: the first leaves a torn tail, the second comes while it is being cut.
    let prepare = || {
        let (disk, opened) = fresh(&config);
        let (mut journal, mut model) = (opened.journal, Model::new(1));
        model.append(&mut journal, Keep::LogAndSlot, body(1, 900)).expect("taken");
        model.sync(&mut journal).expect("synced");
        model.append(&mut journal, Keep::Log, body(2, 900)).expect("taken");
        model.append(&mut journal, Keep::LogAndSlot, body(3, 900)).expect("taken");
        disk.fail(Strike::Sync, 0, Failure::Stop);
        model.sync(&mut journal).expect_err("the power fails in the sync");
        drop(journal);
        // The first sector of the group is lost; the slot of the second record survives.
        let mut first = true;
        let lost = disk.crash(&mut |_| {
            let torn = std::mem::replace(&mut first, false);
            synod_journal::memory::Fate::Torn(if torn { !1 } else { u64::MAX })
        });
        (lost, model)
    };
    let (disk, model) = prepare();
    let before = disk.operations();
    let opened = open(&disk, &config).expect("the journal opens");
    assert!(opened.torn.is_some(), "there is a torn tail to be cut");
    assert_eq!(opened.lanes[0].records.len(), 2, "the slot kept the safety record");
    drop(opened);
    let operations = disk.operations() - before;
    let mut crashes = 0;
    for stop in 0..operations {
        crashes += explore(&mut |choices: &mut Choices| {
            let (disk, _) = prepare();
            disk.fail(Strike::Any, stop, Failure::Stop);
            open(&disk, &config).expect_err("the power fails in recovery");
            let disk = disk.crash(&mut |unsynced| choices.fate(unsynced));
            model.check(&disk, &config, &[]);
        });
    }
    assert!(crashes > 20, "{crashes} combinations are too few");
}

#[test]
fn an_interrupted_creation_can_be_repeated_and_a_finished_one_is_fresh() {
    let config = config(1);
    let whole = MemDisk::new();
    Journal::create(Box::new(whole.clone()), &config).expect("an empty disk takes a journal");
    for stop in 0..whole.operations() {
        explore(&mut |choices: &mut Choices| {
            let disk = MemDisk::new();
            disk.fail(Strike::Any, stop, Failure::Stop);
            Journal::create(Box::new(disk.clone()), &config).expect_err("the power fails");
            let disk = disk.crash(&mut |unsynced| choices.fate(unsynced));
            match Journal::create(Box::new(disk.clone()), &config) {
                Ok(()) | Err(Error::AlreadyInitialised) => {}
                Err(error) => panic!("creation cannot be repeated: {error}"),
            }
            let opened = open(&disk, &config).expect("the journal opens");
            assert_eq!(opened.lanes[0].condition, synod_journal::Condition::Fresh);
        });
    }
}

#[test]
fn what_a_failed_sync_left_in_memory_is_made_durable_before_it_is_shown() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    journal.append(0, Keep::LogAndSlot, body(1, 50)).expect("taken");
    disk.fail(Strike::Sync, 0, Failure::Error);
    journal.sync().expect_err("the sync fails");
    drop(journal);
    // The kernel calls the page clean, so another sync alone would not write it.
    let opened = open(&disk, &config).expect("the journal opens");
    assert_eq!(opened.lanes[0].records, [body(1, 50)]);
    drop(opened);
    let disk = disk.crash(&mut rig::drop_all);
    let opened = open(&disk, &config).expect("the journal opens");
    assert_eq!(opened.lanes[0].records, [body(1, 50)]);
}

#[test]
fn a_closing_mark_whose_sync_failed_is_made_durable_before_the_next_segment_is_used() {
    let config = config(1);
    // The syncs of the rotation: the old segment's group, the new segment, the closing mark.
    for nth in 0..3 {
        let (disk, opened) = fresh(&config);
        let (mut journal, mut model) = (opened.journal, Model::new(1));
        model.append(&mut journal, Keep::Log, body(1, 15000)).expect("taken");
        model.append(&mut journal, Keep::Log, body(2, 15000)).expect("taken");
        disk.fail(Strike::Sync, nth, Failure::Error);
        model.sync(&mut journal).expect_err("a sync fails");
        drop(journal);
        // The process starts again on the same machine, goes on, and then the power fails.
        let mut opened = open(&disk, &config).expect("opens");
        let lanes = [(0, opened.lanes[0].records.clone())].into();
        let mut model =
            Model { base: rig::Contents { lanes, ..rig::Contents::default() }, ..Model::default() };
        model.append(&mut opened.journal, Keep::Log, body(3, 9000)).expect("taken");
        model.sync(&mut opened.journal).expect("synced");
        drop(opened);
        let disk = disk.crash(&mut rig::drop_all);
        model.check(&disk, &config, &[]);
    }
}

#[test]
fn what_recovery_showed_survives_a_power_failure_right_after() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    drop(opened);
    // Written and never synced, then the process is killed: the record is in the kernel's memory only.
    let unsafe_config = Config { mode: SyncMode::NoneUnsafe, ..config.clone() };
    let mut journal = open(&disk, &unsafe_config).expect("the journal opens").journal;
    journal.append(0, Keep::Log, body(1, 50)).expect("taken");
    journal.sync().expect("written");
    drop(journal);
    let opened = open(&disk, &config).expect("the journal opens");
    assert_eq!(opened.lanes[0].records, [body(1, 50)]);
    drop(opened);
    let disk = disk
        .crash(&mut |write: Unsynced<'_>| unreachable!("an opened journal has nothing unsynced: {write:?}"));
    assert_eq!(open(&disk, &config).expect("the journal opens").lanes[0].records, [body(1, 50)]);
}
