//! The journal on real files.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use synod_journal::{Condition, Config, Disk, Error, Journal, Keep, OsDisk, segment};

mod rig;
use rig::{body, config, name_of};

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// A directory of its own, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let unique =
            format!("synod-journal-{}-{}", std::process::id(), DIRECTORIES.fetch_add(1, Ordering::Relaxed));
        Directory(std::env::temp_dir().join(unique).join("journal"))
    }

    fn disk(&self) -> Box<OsDisk> {
        Box::new(OsDisk::open(&self.0).expect("the directory opens"))
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.0.join(segment::name(number))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let parent = self.0.parent().expect("it has one");
        // A test that failed before it made the directory has nothing to remove.
        drop(fs::remove_dir_all(parent));
    }
}

fn created(config: &Config) -> Directory {
    let directory = Directory::new();
    Journal::create(directory.disk(), config).expect("created");
    directory
}

#[test]
fn files_keep_records_blobs_rotations_and_compactions() {
    let config = config(2);
    let directory = created(&config);
    let opened = Journal::open(directory.disk(), config.clone()).expect("opens");
    assert_eq!(opened.lanes[0].condition, Condition::Fresh);
    let mut journal = opened.journal;
    let blob = body(50, 9000);
    journal.store(1, name_of(&blob), blob.clone()).expect("taken");
    for tag in 0..12 {
        journal.append(0, Keep::LogAndSlot, body(tag, 1000)).expect("taken");
        journal.append(1, Keep::Log, body(tag, 3000)).expect("taken");
        journal.sync().expect("synced");
    }
    assert!(journal.segments() >= 3, "the log spans segments");
    drop(journal);
    let opened = Journal::open(directory.disk(), config.clone()).expect("opens");
    assert_eq!(opened.lanes[0].records.len(), 12);
    assert_eq!(opened.lanes[1].records, (0..12).map(|tag| body(tag, 3000)).collect::<Vec<_>>());
    let mut journal = opened.journal;
    journal.compact(&[vec![(Keep::LogAndSlot, body(70, 10))], Vec::new()]).expect("compacted");
    assert_eq!(journal.load(1, name_of(&blob)).expect("loads"), Some(blob.clone()));
    drop(journal);
    let mut opened = Journal::open(directory.disk(), config).expect("opens");
    assert_eq!(opened.lanes[0].records, [body(70, 10)]);
    assert_eq!(opened.journal.load(1, name_of(&blob)).expect("loads"), Some(blob));
    assert_eq!(opened.lanes[0].condition, Condition::Clean);
    let names: Vec<_> = fs::read_dir(&directory.0)
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 2, "the lock and one segment: {names:?}");
}

#[test]
fn segments_are_preallocated_and_for_the_owner_only() {
    let config = config(1);
    let directory = created(&config);
    let metadata = fs::metadata(directory.segment(1)).expect("there");
    assert_eq!(metadata.len(), config.segment_bytes);
    assert!(metadata.blocks() * 512 >= config.segment_bytes, "its blocks are reserved");
    assert_eq!(metadata.mode() & 0o777, 0o600);
}

#[test]
fn a_second_process_would_find_the_lock_and_the_number_of_the_first() {
    let config = config(1);
    let directory = created(&config);
    let opened = Journal::open(directory.disk(), config.clone()).expect("opens");
    let Err(Error::Locked { pid }) = Journal::open(directory.disk(), config.clone()) else {
        panic!("two live journals")
    };
    assert_eq!(pid, std::process::id());
    drop(opened);
    Journal::open(directory.disk(), config).expect("a lock ends with its holder");
}

#[test]
fn a_torn_tail_on_a_real_file_is_cut_and_a_flipped_bit_is_damage() {
    let config = config(1);
    let directory = created(&config);
    let mut journal = Journal::open(directory.disk(), config.clone()).expect("opens").journal;
    for tag in 0..3 {
        journal.append(0, Keep::Log, body(tag, 100)).expect("taken");
        journal.sync().expect("synced");
    }
    drop(journal);
    let file = fs::OpenOptions::new().read(true).write(true).open(directory.segment(1)).expect("opens");
    let tail = segment::data_at(1) + 56 + 3 * 160;
    file.write_all_at(&[0x55; 700], tail).expect("written");
    let opened = Journal::open(directory.disk(), config.clone()).expect("opens");
    assert_eq!(opened.torn.map(|spot| spot.offset), Some(tail));
    assert_eq!((opened.lanes[0].condition, opened.lanes[0].records.len()), (Condition::Clean, 3));
    drop(opened);
    let mut byte = [0];
    let at = segment::data_at(1) + 200;
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    let opened = Journal::open(directory.disk(), config).expect("opens");
    assert_eq!(opened.lanes[0].condition, Condition::Damaged);
}

#[test]
fn a_production_segment_is_made_written_and_opened() {
    let config = Config::new([1; 32], 0, 3);
    let directory = created(&config);
    let mut journal = Journal::open(directory.disk(), config.clone()).expect("opens").journal;
    let large = body(1, 1 << 20);
    journal.append(2, Keep::Log, large.clone()).expect("taken");
    journal.sync().expect("synced");
    drop(journal);
    let opened = Journal::open(directory.disk(), config).expect("opens");
    assert_eq!(opened.lanes[2].records, [large]);
}

#[test]
fn the_disk_itself_refuses_what_the_journal_must_not_do() {
    let directory = Directory::new();
    let mut disk = directory.disk();
    disk.create("a", 4096).expect("made");
    assert!(disk.create("a", 4096).is_err(), "a name is made once");
    assert!(disk.read_at("a", 4000, &mut [0; 97]).is_err(), "reads end at the end of the file");
    disk.write_at("a", 10, b"xyz").expect("written");
    disk.rename("a", "b").expect("renamed");
    let mut bytes = [0; 5];
    disk.read_at("b", 9, &mut bytes).expect("read");
    assert_eq!(&bytes, b"\0xyz\0");
    assert!(disk.length("a").is_err());
    assert_eq!(disk.length("b").expect("there"), 4096);
    disk.sync("b").expect("synced");
    disk.sync_dir().expect("synced");
    disk.remove("b").expect("removed");
    assert!(disk.list().expect("listed").is_empty());
}
