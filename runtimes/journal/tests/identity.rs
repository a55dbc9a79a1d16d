//! Whose journal it is, who may open it, and what a first start is.

use bytes::Bytes;
use synod_journal::memory::MemDisk;
use synod_journal::record::{self, Decoded};
use synod_journal::segment::{self, Header};
use synod_journal::{Condition, Config, Disk, Error, Journal, Keep, Snapshot, SyncMode};

mod rig;
use rig::{body, config, fresh, name_of, open};

fn code(disk: &MemDisk, config: &Config) -> u16 {
    open(disk, config).expect_err("the directory is refused").code()
}

#[test]
fn a_journal_is_fresh_once() {
    let config = config(2);
    let (disk, opened) = fresh(&config);
    assert!(opened.lanes.iter().all(|lane| lane.condition == Condition::Fresh && lane.records.is_empty()));
    drop(opened);
    let opened = open(&disk, &config).expect("opens");
    assert!(opened.lanes.iter().all(|lane| lane.condition == Condition::Clean));
}

#[test]
fn a_directory_without_a_journal_is_refused_and_a_second_creation_too() {
    let config = config(1);
    let disk = MemDisk::new();
    assert!(matches!(open(&disk, &config), Err(Error::Corrupt { segment: 0, .. })));
    Journal::create(Box::new(disk.clone()), &config).expect("created");
    let again = Journal::create(Box::new(disk.clone()), &config).expect_err("there is one");
    assert_eq!(again.code(), 1109);
    // A wiped disk is amnesia, not a first start.
    disk.wipe();
    assert_eq!(code(&disk, &config), 5001);
}

#[test]
fn a_second_journal_of_one_directory_is_refused_by_process_number() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let Err(Error::Locked { pid }) = open(&disk, &config) else { panic!("two live journals") };
    assert_eq!(pid, std::process::id());
    assert_eq!(code(&disk, &config), 1112);
    drop(opened);
    open(&disk, &config).expect("a dropped journal frees its directory");
}

#[test]
fn another_cluster_member_or_set_of_machines_is_refused() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    drop(opened);
    let before = disk.contents(&segment::name(1)).expect("there");
    for other in [
        Config { cluster: [8; 32], ..config.clone() },
        Config { member: 4, ..config.clone() },
        Config { lanes: 2, ..config.clone() },
    ] {
        assert_eq!(code(&disk, &other), 1108);
        let reset = Journal::reset_damaged(Box::new(disk.clone()), other).expect_err("not ours to reset");
        assert_eq!(reset.code(), 1108);
    }
    assert_eq!(disk.contents(&segment::name(1)).expect("there"), before, "a refusal changes nothing");
    open(&disk, &config).expect("the owner opens it");
}

/// Writes `bytes` over a fork of the disk.
fn overwritten(disk: &MemDisk, offset: u64, bytes: &[u8]) -> MemDisk {
    let mut disk = disk.fork();
    disk.write_at(&segment::name(1), offset, bytes).expect("written");
    disk
}

#[test]
fn a_newer_format_or_an_unknown_kind_of_record_refuses_to_start() {
    let config = config(1);
    let (disk, opened) = fresh(&config);
    let mut journal = opened.journal;
    journal.append(0, Keep::Log, body(1, 64)).expect("taken");
    journal.sync().expect("synced");
    drop(journal);
    let bytes = disk.contents(&segment::name(1)).expect("there");
    let mut header = bytes[..4092].to_vec();
    header[8] = 2;
    let sum = crc32c::crc32c(&header);
    header.extend(sum.to_le_bytes());
    assert_eq!(code(&overwritten(&disk, 0, &header), &config), 1110);

    // The first record behind the mark of the first opening, with valid checksums and an unknown kind,
    // then an unknown flag.
    let seed = Header::decode(&bytes).expect("whole").seed();
    let at = usize::try_from(segment::data_at(1)).expect("small") + record::HEADER_BYTES;
    let Decoded::Record(found) = record::decode(seed, &bytes[at..]) else { panic!("a record is there") };
    for (place, value) in [(4, 9), (6, 0x81), (7, 1)] {
        let mut record = bytes[at..at + found.size].to_vec();
        record[place] = value;
        let head = crc32c::crc32c_append(seed.0, &record[..32]);
        record[32..36].copy_from_slice(&head.to_le_bytes());
        let whole = [&record[..36], &record[40..56], found.body].concat();
        let sum = crc32c::crc32c_append(seed.0, &whole);
        record[36..40].copy_from_slice(&sum.to_le_bytes());
        let newer = overwritten(&disk, u64::try_from(at).expect("small"), &record);
        assert_eq!(code(&newer, &config), 1110, "byte {place}");
    }
}

#[test]
fn a_reset_journal_is_damaged_until_its_machines_are_readmitted() {
    let config = config(1);
    let wiped = MemDisk::new();
    let (held, opened) = fresh(&config);
    let mut journal = opened.journal;
    journal.append(0, Keep::LogAndSlot, body(1, 64)).expect("taken");
    journal.sync().expect("synced");
    drop(journal);
    for (disk, records) in [(wiped, 0), (held, 1)] {
        Journal::reset_damaged(Box::new(disk.clone()), config.clone()).expect("reset");
        for _ in 0..2 {
            let opened = open(&disk, &config).expect("opens");
            assert_eq!(opened.lanes[0].condition, Condition::Damaged);
            assert_eq!(opened.lanes[0].records.len(), records, "what can be read is given");
        }
        let mut journal = open(&disk, &config).expect("opens").journal;
        journal.readmit(0);
        journal.compact(&[vec![(Keep::LogAndSlot, body(2, 64))]]).expect("compacted");
        drop(journal);
        let opened = open(&disk, &config).expect("opens");
        assert_eq!(opened.lanes[0].condition, Condition::Clean);
        assert_eq!(opened.lanes[0].records, [body(2, 64)]);
    }
}

#[test]
fn a_reset_of_a_new_journal_is_never_fresh() {
    let config = config(1);
    let disk = MemDisk::new();
    Journal::create(Box::new(disk.clone()), &config).expect("created");
    Journal::reset_damaged(Box::new(disk.clone()), config.clone()).expect("reset");
    assert_eq!(open(&disk, &config).expect("opens").lanes[0].condition, Condition::Damaged);
}

#[test]
fn a_volatile_journal_forgets_and_says_so_in_every_mode() {
    let group = config(1);
    let volatile = Config { mode: SyncMode::VolatileUnsafe, ..group.clone() };
    let disk = MemDisk::new();
    Journal::create(Box::new(disk.clone()), &volatile).expect("created");
    let opened = open(&disk, &volatile).expect("opens");
    assert_eq!(opened.lanes[0].condition, Condition::Fresh);
    let mut journal = opened.journal;
    let operations = disk.operations();
    let lsn = journal.append(0, Keep::LogAndSlot, body(1, 64)).expect("taken");
    let blob = Bytes::from_static(b"a block");
    journal.store(0, name_of(&blob), blob.clone()).expect("taken");
    assert!(journal.sync().expect("taken") > lsn);
    assert_eq!(journal.load(0, name_of(&blob)).expect("loads"), Some(blob.clone()));
    journal.erase(0, name_of(&blob)).expect("taken");
    journal.sync().expect("taken");
    assert_eq!(journal.load(0, name_of(&blob)).expect("loads"), None);
    journal.compact(&[Snapshot::new()]).expect("nothing to compact");
    assert_eq!(disk.operations(), operations, "nothing is written");
    drop(journal);
    for config in [&volatile, &group, &volatile, &group] {
        let opened = open(&disk, config).expect("opens");
        assert_eq!(opened.lanes[0].condition, Condition::Damaged, "{:?}", config.mode);
        assert!(opened.lanes[0].records.is_empty());
    }
}

#[test]
fn a_durable_journal_opened_volatile_once_is_damaged_afterwards() {
    let group = config(1);
    let (disk, opened) = fresh(&group);
    let mut journal = opened.journal;
    journal.append(0, Keep::Log, body(1, 64)).expect("taken");
    journal.sync().expect("synced");
    drop(journal);
    let volatile = Config { mode: SyncMode::VolatileUnsafe, ..group.clone() };
    let opened = open(&disk, &volatile).expect("opens");
    assert_eq!(opened.lanes[0].condition, Condition::Damaged);
    assert_eq!(opened.lanes[0].records, [body(1, 64)]);
    drop(opened);
    assert_eq!(open(&disk, &group).expect("opens").lanes[0].condition, Condition::Damaged);
}

#[test]
fn the_words_of_the_sync_modes_are_those_of_the_configuration() {
    let words = ["group", "always", "none-UNSAFE", "volatile-UNSAFE"].map(SyncMode::parse);
    let modes = [SyncMode::Group, SyncMode::Always, SyncMode::NoneUnsafe, SyncMode::VolatileUnsafe];
    assert_eq!(words, modes.map(Some));
    assert_eq!(modes.map(SyncMode::durability), ["fsync", "fsync", "nosync", "volatile"]);
    assert_eq!(SyncMode::parse("none"), None, "an unsafe mode is named in full");
}
