//! The two slots of a lane: the newer valid of slot and log wins.

use synod_journal::memory::MemDisk;
use synod_journal::record::{self, Decoded, Kind};
use synod_journal::segment::{self, Header, Slot, SlotRecord};
use synod_journal::{Condition, Disk, Keep};

mod rig;
use rig::{body, config, fresh, open};

fn slots(disk: &MemDisk, number: u64) -> [Slot; 2] {
    let bytes = disk.contents(&segment::name(number)).expect("the segment is there");
    let seed = Header::decode(&bytes).expect("its header is whole").seed();
    [0, 1].map(|which| {
        let at = usize::try_from(segment::slot_at(0, which)).expect("small");
        Slot::decode(&bytes[at..at + 4096], 0, seed)
    })
}

fn rot_slot(disk: &MemDisk, which: u8) {
    assert!(disk.rot(&segment::name(1), segment::slot_at(0, which) + 100, 0xff));
}

/// A journal whose lane voted three times, with a mark.
fn voted() -> MemDisk {
    let (disk, opened) = fresh(&config(1));
    let mut journal = opened.journal;
    for tag in 1..=3 {
        journal.append(0, Keep::LogAndSlot, body(tag, 200)).expect("taken");
        journal.append(0, Keep::Log, body(10 + tag, 300)).expect("taken");
        journal.sync().expect("synced");
    }
    journal.mark().expect("marked");
    disk
}

#[test]
fn slots_alternate_and_hold_the_two_newest_safety_records() {
    let held = slots(&voted(), 1);
    let bodies: Vec<_> = held
        .iter()
        .map(|slot| match slot {
            Slot::Full(SlotRecord { body, lsn, .. }) => (*lsn, body.clone()),
            other => panic!("a slot is empty: {other:?}"),
        })
        .collect();
    assert_eq!(bodies, [(5, body(3, 200)), (3, body(2, 200))]);
}

#[test]
fn damaged_slots_are_repaired_from_an_intact_log() {
    for rotten in [&[0u8][..], &[1], &[0, 1]] {
        let disk = voted();
        for which in rotten {
            rot_slot(&disk, *which);
        }
        let opened = open(&disk, &config(1)).expect("opens");
        assert_eq!(opened.lanes[0].condition, Condition::Clean);
        assert_eq!(opened.lanes[0].records.len(), 6);
        let newest = slots(&disk, 1).into_iter().any(|slot| match slot {
            Slot::Full(held) => held.body == body(3, 200),
            Slot::Empty | Slot::Damaged => false,
        });
        assert!(newest, "the newest safety record is in a slot again");
    }
}

#[test]
fn a_slot_newer_than_the_log_gives_its_record_back_for_good() {
    let (disk, opened) = fresh(&config(1));
    let mut journal = opened.journal;
    journal.append(0, Keep::Log, body(1, 300)).expect("taken");
    journal.sync().expect("synced");
    journal.append(0, Keep::Log, body(2, 300)).expect("taken");
    journal.append(0, Keep::LogAndSlot, body(3, 200)).expect("taken");
    journal.sync().expect("synced and sent");
    drop(journal);
    // The last group rots before a mark covered it: for the log alone this is a torn tail.
    let at = segment::data_at(1) + 56 + 360;
    disk.rot(&segment::name(1), at + 10, 1);
    disk.rot(&segment::name(1), at + 360 + 10, 1);
    for _ in 0..3 {
        let opened = open(&disk, &config(1)).expect("opens");
        assert_eq!(opened.lanes[0].condition, Condition::Clean);
        assert_eq!(opened.lanes[0].records, [body(1, 300), body(3, 200)], "the vote is not forgotten");
    }
    let mut journal = open(&disk, &config(1)).expect("opens").journal;
    journal.append(0, Keep::LogAndSlot, body(4, 200)).expect("taken");
    journal.sync().expect("synced");
    drop(journal);
    let opened = open(&disk, &config(1)).expect("opens");
    assert_eq!(opened.lanes[0].records, [body(1, 300), body(3, 200), body(4, 200)]);
}

#[test]
fn slot_and_log_that_disagree_at_one_generation_are_damage() {
    let disk = voted();
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let seed = Header::decode(&bytes).expect("whole").seed();
    // At 5 the log has another vote, and so has the first slot; at 6 the log has a record that is no vote.
    for (lsn, which) in [(5, 0), (5, 1), (6, 1)] {
        let mut disk = disk.fork();
        let forged = SlotRecord { lsn, durable: 4, body: body(77, 200) };
        let page = Slot::encode(&forged, 0, 1, seed);
        disk.write_at(&segment::name(1), segment::slot_at(0, which), &page).expect("written");
        let opened = open(&disk, &config(1)).expect("opens");
        assert_eq!(opened.lanes[0].condition, Condition::Damaged, "generation {lsn} in slot {which}");
    }
}

#[test]
fn a_slot_that_calls_lost_records_synced_is_evidence_of_damage() {
    let (disk, opened) = fresh(&config(1));
    let mut journal = opened.journal;
    for tag in 1..=2 {
        journal.append(0, Keep::LogAndSlot, body(tag, 200)).expect("taken");
        journal.sync().expect("synced");
    }
    drop(journal);
    // Both records of the log are gone; the second slot was written when the first was synced.
    let mut disk = disk.fork();
    let data = usize::try_from(segment::data_at(1)).expect("small");
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let Decoded::Record(mark) = record::decode(Header::decode(&bytes).expect("whole").seed(), &bytes[data..])
    else {
        panic!("the log begins with the mark of its first opening")
    };
    assert_eq!(mark.head.kind, Kind::Mark);
    disk.write_at(&segment::name(1), segment::data_at(1) + 56, &[0; 1024]).expect("written");
    let opened = open(&disk, &config(1)).expect("opens");
    assert_eq!(opened.lanes[0].condition, Condition::Damaged);
    assert_eq!(opened.lanes[0].records, [body(2, 200)], "the slot still gives the newest vote");
    drop(opened);
    let again = open(&disk, &config(1)).expect("opens");
    assert_eq!(again.lanes[0].condition, Condition::Damaged);
    assert_eq!(again.lanes[0].records, [body(2, 200)]);
}

#[test]
fn the_newest_safety_record_moves_into_the_next_segment() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    journal.append(0, Keep::LogAndSlot, body(1, 4000)).expect("the largest safety record");
    for tag in 2..6 {
        journal.append(0, Keep::Log, body(tag, 5000)).expect("taken");
        journal.sync().expect("synced");
    }
    assert_eq!(journal.segments(), 2);
    assert!(matches!(&slots(&disk, 2)[0], Slot::Full(held) if held.body == body(1, 4000)));
    journal.compact(&[vec![(Keep::Log, body(7, 10))]]).expect("compacted");
    assert_eq!(slots(&disk, 3), [Slot::Empty, Slot::Empty], "a snapshot without one forgets it");
    journal.compact(&[vec![(Keep::LogAndSlot, body(8, 10)), (Keep::Log, body(9, 10))]]).expect("compacted");
    assert!(matches!(&slots(&disk, 4)[0], Slot::Full(held) if held.body == body(8, 10)));
}
