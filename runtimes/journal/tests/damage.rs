//! Property J-S2: an invalid record inside the durable region is never taken as the end of the log.

use bytes::Bytes;
use synod_journal::memory::{Fate, MemDisk, Unsynced};
use synod_journal::record::{self, Chain, Decoded, Head, Kind, Seed};
use synod_journal::segment::{self, Header, Kept};
use synod_journal::{Condition, Config, Disk, Error, Keep, Opened, SyncMode};

mod rig;
use rig::{Draw, body, config, fresh, name_of, open};

/// Where the records of a one-lane segment begin.
fn data_at() -> usize {
    usize::try_from(segment::data_at(1)).expect("small")
}

fn wide(at: usize) -> u64 {
    u64::try_from(at).expect("small")
}

/// Offset, header and size of every record of a segment.
fn records(disk: &MemDisk, number: u64) -> Vec<(usize, Head, usize)> {
    let bytes = disk.contents(&segment::name(number)).expect("the segment is there");
    let seed = Header::decode(&bytes).expect("its header is whole").seed();
    let mut found = Vec::new();
    let mut at = data_at();
    while let Decoded::Record(record) = record::decode(seed, &bytes[at..]) {
        found.push((at, record.head, record.size));
        at += record.size;
    }
    found
}

/// A journal with five synced records, two of them safety records, and a mark.
fn written(config: &Config) -> (MemDisk, Vec<Bytes>) {
    let (disk, opened) = fresh(config);
    let mut journal = opened.journal;
    let mut bodies = Vec::new();
    for tag in 0..5 {
        let keep = if tag % 2 == 1 { Keep::LogAndSlot } else { Keep::Log };
        bodies.push(body(tag, 60));
        journal.append(0, keep, body(tag, 60)).expect("taken");
        journal.sync().expect("synced");
    }
    assert!(journal.mark().expect("marked"), "an idle journal writes a mark");
    (disk, bodies)
}

fn condition(opened: &Opened) -> Condition {
    opened.lanes[0].condition
}

#[test]
fn a_flipped_bit_in_the_durable_region_is_damage_and_never_a_shorter_log() {
    let config = config(1);
    let (disk, bodies) = written(&config);
    let records = records(&disk, 1);
    let (mark, head, _) = *records.last().expect("there are records");
    assert_eq!((head.kind, head.durable), (Kind::Mark, 5), "the last record is the idle mark");
    let mut damaged = 0;
    for at in data_at()..mark {
        for bit in 0..8 {
            let disk = disk.fork();
            assert!(disk.rot(&segment::name(1), wide(at), 1 << bit));
            let opened = open(&disk, &config).expect("damage is a condition");
            assert_eq!(condition(&opened), Condition::Damaged, "byte {at} bit {bit}");
            let spot = opened.damage.expect("the place is named");
            assert!(spot.segment == 1 && spot.offset <= wide(at), "{spot:?}");
            damaged += 1;
        }
    }
    assert!(damaged > 4000, "{damaged} flips are too few");
    // The mark itself is behind everything durable: without it the log is cut there, whole.
    for at in mark..mark + record::HEADER_BYTES {
        let disk = disk.fork();
        disk.rot(&segment::name(1), wide(at), 0x10);
        let opened = open(&disk, &config).expect("the journal opens");
        assert_eq!((condition(&opened), &opened.lanes[0].records), (Condition::Clean, &bodies));
    }
}

#[test]
fn a_flipped_bit_in_header_or_slots_costs_nothing_or_is_damage() {
    let config = config(1);
    let (disk, bodies) = written(&config);
    let mut draw = Draw(1);
    for at in 0..data_at() {
        let disk = disk.fork();
        disk.rot(&segment::name(1), wide(at), 1 << draw.below(8));
        let opened = open(&disk, &config).expect("damage is a condition");
        if at < 4096 {
            assert_eq!(condition(&opened), Condition::Damaged, "byte {at} of the header");
        } else {
            let found = (condition(&opened), &opened.lanes[0].records);
            assert_eq!(found, (Condition::Clean, &bodies), "byte {at}: the log repairs its slots");
        }
    }
}

#[test]
fn the_readable_records_of_a_damaged_lane_are_given() {
    let config = config(1);
    let (disk, bodies) = written(&config);
    let third = records(&disk, 1).into_iter().find(|(_, head, _)| head.lsn == 3).expect("it is there").0;
    disk.rot(&segment::name(1), wide(third + record::HEADER_BYTES), 1);
    let opened = open(&disk, &config).expect("damage is a condition");
    assert_eq!(condition(&opened), Condition::Damaged);
    let rest: Vec<Bytes> = bodies.iter().filter(|body| *body != &bodies[2]).cloned().collect();
    assert_eq!(opened.lanes[0].records, rest);
}

#[test]
fn damage_stays_until_the_machine_is_readmitted_and_a_snapshot_replaces_the_log() {
    let config = config(2);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    for tag in 0..3 {
        journal.append(0, Keep::Log, body(tag, 40)).expect("taken");
        journal.sync().expect("synced");
    }
    drop(journal);
    disk.rot(&segment::name(1), segment::data_at(2) + 120, 1);
    let conditions = |opened: &Opened| [opened.lanes[0].condition, opened.lanes[1].condition];
    for round in 0..3 {
        let mut opened = open(&disk, &config).expect("damage is a condition");
        assert_eq!(conditions(&opened), [Condition::Damaged; 2], "opening {round}");
        opened
            .journal
            .append(1, Keep::LogAndSlot, body(10 + round, 40))
            .expect("a damaged lane is written to");
        opened.journal.sync().expect("synced");
        // A snapshot alone readmits nobody.
        opened.journal.compact(&[vec![(Keep::Log, body(20, 9))], Vec::new()]).expect("compacted");
    }
    let mut opened = open(&disk, &config).expect("damage is a condition");
    opened.journal.readmit(1);
    drop(opened);
    let mut opened = open(&disk, &config).expect("damage is a condition");
    assert_eq!(conditions(&opened), [Condition::Damaged; 2], "readmission counts with its snapshot");
    opened.journal.readmit(1);
    opened
        .journal
        .compact(&[vec![(Keep::Log, body(20, 9))], vec![(Keep::Log, body(21, 9))]])
        .expect("compacted");
    drop(opened);
    let opened = open(&disk, &config).expect("the journal opens");
    assert_eq!(conditions(&opened), [Condition::Damaged, Condition::Clean]);
    assert_eq!(opened.lanes[1].records, [body(21, 9)]);
}

#[test]
fn a_missing_segment_is_damage_wherever_it_was() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    for tag in 0..10 {
        journal.append(0, Keep::Log, body(tag, 5000)).expect("taken");
        journal.sync().expect("synced");
    }
    assert_eq!(journal.segments(), 3);
    drop(journal);
    for number in 1..=3 {
        let mut disk = disk.fork();
        disk.remove(&segment::name(number)).expect("removed");
        let opened = open(&disk, &config).expect("damage is a condition");
        assert_eq!(condition(&opened), Condition::Damaged, "segment {number}");
        assert!(!opened.lanes[0].records.is_empty(), "the others are read");
    }
}

#[test]
fn a_segment_under_another_name_and_a_cut_file_are_damage() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    for tag in 0..5 {
        journal.append(0, Keep::Log, body(tag, 5000)).expect("taken");
        journal.sync().expect("synced");
    }
    drop(journal);
    let renamed = &mut disk.fork();
    renamed.rename(&segment::name(2), &segment::name(3)).expect("renamed");
    assert_eq!(condition(&open(renamed, &config).expect("opens")), Condition::Damaged);
    let cut = &mut disk.fork();
    let bytes = cut.contents(&segment::name(2)).expect("there");
    cut.remove(&segment::name(2)).expect("removed");
    cut.create(&segment::name(2), wide(bytes.len() - 512)).expect("made");
    cut.write_at(&segment::name(2), 0, &bytes[..bytes.len() - 512]).expect("written");
    assert_eq!(condition(&open(cut, &config).expect("opens")), Condition::Damaged);
}

#[test]
fn a_record_written_to_the_wrong_place_is_damage() {
    let config = config(1);
    let (disk, bodies) = written(&config);
    let places = records(&disk, 1);
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let data: Vec<_> = places.iter().filter(|(_, head, _)| head.kind == Kind::Record).collect();
    let mut disk = disk.fork();
    let ((from, _, size), (to, _, _)) = (data[3], data[1]);
    disk.write_at(&segment::name(1), wide(*to), &bytes[*from..from + size]).expect("written");
    let opened = open(&disk, &config).expect("damage is a condition");
    assert_eq!(condition(&opened), Condition::Damaged, "its checksums hold and its chain is broken");
    assert!(opened.lanes[0].records.len() < bodies.len());
}

#[test]
fn a_misdirected_write_over_the_last_record_is_damage_even_before_a_mark() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    for tag in 0..2 {
        journal.append(0, Keep::Log, body(tag, 60)).expect("taken");
        journal.sync().expect("synced");
    }
    drop(journal);
    let places = records(&disk, 1);
    let [.., (from, _, size), (to, ..)] = places[..] else { unreachable!("there are three records") };
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let mut disk = disk.fork();
    disk.write_at(&segment::name(1), wide(to), &bytes[from..from + size]).expect("written");
    assert_eq!(condition(&open(&disk, &config).expect("opens")), Condition::Damaged);
}

#[test]
fn a_record_exchanged_for_one_with_valid_checksums_breaks_the_chain() {
    let config = config(1);
    let (disk, _) = written(&config);
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let seed = Header::decode(&bytes).expect("whole").seed();
    let mut previous = Header::decode(&bytes).expect("whole").chain;
    for (at, head, size) in records(&disk, 1) {
        let Decoded::Record(found) = record::decode(seed, &bytes[at..]) else { unreachable!("it decoded") };
        if head.kind == Kind::Record {
            // The right position, group and chain before it: only the record behind it can tell.
            let mut forged = Vec::new();
            record::encode(&mut forged, seed, previous, &head, [&body(500, found.body.len()), &[]]);
            assert_eq!(forged.len(), size);
            let mut disk = disk.fork();
            disk.write_at(&segment::name(1), wide(at), &forged).expect("written");
            assert_eq!(condition(&open(&disk, &config).expect("opens")), Condition::Damaged, "{}", head.lsn);
        }
        previous = found.chain;
    }
}

#[test]
fn without_syncs_a_hole_before_a_later_group_is_damage_too() {
    let config = Config { mode: SyncMode::NoneUnsafe, ..config(1) };
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    for tag in 0..3 {
        journal.append(0, Keep::Log, body(tag, 600)).expect("taken");
        journal.sync().expect("written");
    }
    drop(journal);
    let mut nth = 0;
    let disk = disk.crash(&mut |_| {
        nth += 1;
        if nth == 2 { Fate::Drop } else { Fate::Keep }
    });
    assert_eq!(nth, 4, "neither the mark of the opening nor three groups were synced");
    assert_eq!(condition(&open(&disk, &config).expect("opens")), Condition::Damaged);
}

/// Writes two groups, synced in memory only as far as `fates` says.
fn unsynced_tail(config: &Config, bodies: &[Bytes], fate: &mut dyn FnMut(u64) -> Fate) -> (MemDisk, Opened) {
    let (disk, opened) = fresh(config);
    let mut journal = opened.journal;
    journal.append(0, Keep::Log, body(100, 100)).expect("taken");
    journal.sync().expect("synced");
    for body in bodies {
        journal.append(0, Keep::Log, body.clone()).expect("taken");
    }
    disk.fail(synod_journal::memory::Strike::Sync, 0, synod_journal::memory::Failure::Stop);
    journal.sync().expect_err("the power fails");
    drop(journal);
    let disk = disk.crash(&mut |unsynced| match unsynced {
        Unsynced::Write { sectors, .. } => fate(sectors),
        Unsynced::Entry { .. } => Fate::Keep,
    });
    let opened = open(&disk, config).expect("a crash leaves a journal that opens");
    (disk, opened)
}

#[test]
fn a_torn_tail_is_cut_and_the_log_stays_clean() {
    let config = config(1);
    let bodies = [body(1, 600), body(2, 600), body(3, 600)];
    // The second of three records is lost, the third survives: one unsynced group, any order.
    let (disk, opened) = unsynced_tail(&config, &bodies, &mut |_| Fate::Torn(!0b10));
    assert_eq!(condition(&opened), Condition::Clean);
    assert!(opened.torn.is_some() && opened.damage.is_none());
    assert_eq!(opened.lanes[0].records[0], body(100, 100));
    assert!(opened.lanes[0].records.len() < 3, "what follows the hole is not used");
    drop(opened);
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let (last, head, size) = *records(&disk, 1).last().expect("there are records");
    assert_eq!(head.kind, Kind::Mark, "recovery says what is synced");
    assert!(bytes[last + size..].iter().all(|byte| *byte == 0), "the remains are zeroed");
}

#[test]
fn a_payload_that_looks_like_a_record_does_not_turn_a_torn_tail_into_damage() {
    let config = config(1);
    // A peer that knows the format and guesses every field, but not the salt of this journal.
    let mut forged = Vec::new();
    for seed in [Seed(0), Seed::of(Chain::default(), 1)] {
        for group in 0..20 {
            let head =
                Head { kind: Kind::Mark, lane: 0, slotted: false, group, epoch: 1, lsn: 9, durable: 9 };
            record::encode(&mut forged, seed, Chain::default(), &head, [&[], &[]]);
        }
    }
    let bodies = [Bytes::from(forged)];
    let (_, opened) = unsynced_tail(&config, &bodies, &mut |_| Fate::Torn(!1));
    assert_eq!((condition(&opened), opened.lanes[0].records.len()), (Condition::Clean, 1));
    assert!(opened.torn.is_some(), "the tail was torn");
}

#[test]
fn a_hole_before_a_later_group_is_damage() {
    let config = config(1);
    let (disk, _) = written(&config);
    for (at, head, size) in records(&disk, 1) {
        if head.kind != Kind::Record {
            continue;
        }
        let mut disk = disk.fork();
        disk.write_at(&segment::name(1), wide(at), &vec![0; size]).expect("written");
        let opened = open(&disk, &config).expect("damage is a condition");
        assert_eq!(condition(&opened), Condition::Damaged, "record {}", head.lsn);
    }
}

#[test]
fn a_segment_full_of_zeros_where_the_next_header_promises_records_is_damage() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    for tag in 0..5 {
        journal.append(0, Keep::Log, body(tag, 5000)).expect("taken");
        journal.sync().expect("synced");
    }
    assert_eq!(journal.segments(), 2);
    drop(journal);
    let (at, ..) = records(&disk, 1)[2];
    let mut disk = disk.fork();
    let length = disk.length(&segment::name(1)).expect("there");
    disk.write_at(&segment::name(1), wide(at), &vec![0; usize::try_from(length).expect("small") - at])
        .expect("written");
    // Even if the second segment had lost its records too.
    let second = segment::data_at(1);
    disk.write_at(&segment::name(2), second, &[0; 8192]).expect("written");
    assert_eq!(condition(&open(&disk, &config).expect("opens")), Condition::Damaged);
}

#[test]
fn a_rotten_blob_is_not_loaded_and_stops_a_compaction() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    let blob = body(5, 3000);
    journal.store(0, name_of(&blob), blob.clone()).expect("taken");
    assert_eq!(journal.load(0, name_of(&blob)).expect("loads"), Some(blob.clone()), "queued");
    journal.sync().expect("synced");
    assert_eq!(journal.load(0, name_of(&blob)).expect("loads"), Some(blob.clone()), "written");
    let (at, ..) = records(&disk, 1).into_iter().find(|(_, head, _)| head.kind == Kind::Blob).expect("there");
    disk.rot(&segment::name(1), wide(at + 1000), 4);
    assert_eq!(journal.load(0, name_of(&blob)).expect("loads"), None);
    let error = journal.compact(&[Vec::new()]).expect_err("a live blob cannot be copied");
    assert_eq!(error.code(), 5001);
    assert!(matches!(error, Error::Corrupt { segment: 1, .. }), "{error}");
    assert_eq!(journal.append(0, Keep::Log, body(6, 1)).expect_err("it is over").code(), 5001);
}

#[test]
fn a_damaged_kept_segment_is_damage() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    let blob = body(5, 17000);
    journal.store(0, name_of(&blob), blob.clone()).expect("taken");
    journal.sync().expect("synced");
    journal.compact(&[vec![(Keep::Log, body(1, 10))]]).expect("compacted");
    drop(journal);
    let bytes = disk.contents(&segment::name(2)).expect("there");
    let kept: Vec<u64> =
        Header::decode(&bytes).expect("whole").kept.iter().map(|kept: &Kept| kept.number).collect();
    assert_eq!(kept, [1], "the dense segment is kept for its blob");
    let mut intact = open(&disk.fork(), &config).expect("opens");
    assert_eq!(
        (condition(&intact), intact.journal.load(0, name_of(&blob)).expect("loads")),
        (Condition::Clean, Some(blob.clone()))
    );
    // The mark that closes it was written after the compaction counted: a crash can have torn it.
    let (last, _, size) = *records(&disk, 1).last().expect("the closing mark");
    assert_eq!(size, 64);
    let mut torn = disk.fork();
    torn.write_at(&segment::name(1), wide(last + 30), &[0x5a; 34]).expect("written");
    assert_eq!(condition(&open(&torn, &config).expect("opens")), Condition::Clean);
    // Its blob is gone without a trace: it ends too early.
    let mut zeroed = disk.fork();
    let (blob_at, ..) =
        records(&disk, 1).into_iter().find(|(_, head, _)| head.kind == Kind::Blob).expect("the blob");
    zeroed.write_at(&segment::name(1), wide(blob_at), &vec![0; last + size - blob_at]).expect("written");
    assert_eq!(condition(&open(&zeroed, &config).expect("opens")), Condition::Damaged);
    let rotten = disk.fork();
    rotten.rot(&segment::name(1), segment::data_at(1) + 5000, 1);
    assert_eq!(condition(&open(&rotten, &config).expect("opens")), Condition::Damaged);
    let mut gone = disk.fork();
    gone.remove(&segment::name(1)).expect("removed");
    assert_eq!(condition(&open(&gone, &config).expect("opens")), Condition::Damaged);
}
