//! The store on disk against the store in memory, and across restarts and crashes.

use std::path::PathBuf;

use synod_machine::broadcast::Position;
use synod_service::{Change, MemoryStore, StateStore};
use synod_store::{Options, Pace, Store};
use synod_wire::{Bytes, Drawn};

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("synod-store-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state.redb")
    }

    fn open(&self, pace: Pace) -> Store {
        let options = Options { pace, ..Options::default() };
        Store::open(&self.file(), options).expect("a sound file")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn put(key: &str, value: &str) -> Change {
    Change::Put(Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
}

fn delete(key: &str) -> Change {
    Change::Delete(Bytes::copy_from_slice(key.as_bytes()))
}

/// A batch over few keys, so that overwriting and deleting happen.
fn batch(from: &mut Drawn) -> Vec<Change> {
    let count = from.below(12);
    let changes = (0..count).map(|_| {
        let key = format!("k{}", from.below(40));
        if from.below(3) == 0 { delete(&key) } else { put(&key, &"v".repeat(from.length(50))) }
    });
    changes.collect()
}

#[test]
fn the_disk_store_equals_the_memory_store() {
    let folder = Folder::new("equal");
    let (mut disk, mut memory) = (folder.open(Pace::Every(8)), MemoryStore::default());
    let mut from = Drawn::new(7);
    for position in 1..=120 {
        let changes = batch(&mut from);
        disk.commit(Position(position), changes.clone());
        memory.commit(Position(position), changes);
        assert_eq!(disk.bytes(), memory.bytes());
        let key = format!("k{}", from.below(40));
        assert_eq!(disk.get(key.as_bytes()), memory.get(key.as_bytes()));
        let max = from.length(20);
        assert_eq!(disk.scan(key.as_bytes(), max), memory.scan(key.as_bytes(), max));
    }
    assert!(memory.bytes() > 0, "the drawn batches left something");
    assert_eq!(disk.scan(b"", usize::MAX), memory.scan(b"", usize::MAX));
    assert_eq!(disk.position(), Position(120));
    disk.clear();
    memory.clear();
    assert_eq!((disk.position(), disk.bytes()), (memory.position(), memory.bytes()));
    assert!(disk.scan(b"", usize::MAX).is_empty());
}

#[test]
fn a_reopened_store_goes_on_at_its_position() {
    let folder = Folder::new("reopen");
    let mut store = folder.open(Pace::Each);
    assert_eq!(store.position(), Position(0));
    store.commit(Position(3), vec![put("a", "1"), put("b", "22")]);
    store.commit(Position(9), vec![delete("a")]);
    drop(store);
    let store = folder.open(Pace::Each);
    assert_eq!((store.position(), store.bytes()), (Position(9), 3));
    assert_eq!(store.scan(b"", 9), [(Bytes::from_static(b"b"), Bytes::from_static(b"22"))]);
}

#[test]
fn a_crash_loses_whole_batches_from_the_end_and_never_more_than_the_pace() {
    let folder = Folder::new("crash");
    let mut store = folder.open(Pace::Every(4));
    for position in 1..=10 {
        store.commit(Position(position), vec![put("count", &position.to_string())]);
    }
    // The file as a crash would leave it: nothing is flushed or closed.
    let crashed = Folder::new("crashed");
    std::fs::copy(folder.file(), crashed.file()).expect("the file is readable");
    let again = crashed.open(Pace::Each);
    assert_eq!(again.position(), Position(8), "the newest synced batch");
    assert_eq!(again.get(b"count").as_deref(), Some(&b"8"[..]), "and exactly its state");
    store.sync();
    std::fs::copy(folder.file(), crashed.0.join("later.redb")).expect("the file is readable");
    let later = Store::open(&crashed.0.join("later.redb"), Options::default()).expect("a sound file");
    assert_eq!(later.position(), Position(10));
}

#[test]
fn a_file_that_is_no_state_file_is_refused_with_5003() {
    let folder = Folder::new("foreign");
    std::fs::write(folder.file(), vec![7; 10_000]).expect("a writable folder");
    let error = Store::open(&folder.file(), Options::default()).err().expect("not a state file");
    assert_eq!(error.code(), 5_003);
    let error = Store::open(&folder.0.join("no/such/folder"), Options::default()).err().expect("no folder");
    assert_eq!(error.code(), 5_003);
}

#[test]
fn a_newer_format_is_refused_with_1110() {
    let folder = Folder::new("newer");
    drop(folder.open(Pace::Each));
    let database = redb::Database::create(folder.file()).expect("a sound file");
    let transaction = database.begin_write().expect("nobody else writes");
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).expect("the table").insert("format", 2).expect("written");
    transaction.commit().expect("written");
    drop(database);
    let error = Store::open(&folder.file(), Options::default()).err().expect("newer than this build");
    assert_eq!(error.code(), 1_110);
}

#[test]
#[should_panic(expected = "positions only rise")]
fn a_position_never_falls() {
    let folder = Folder::new("fall");
    let mut store = folder.open(Pace::Each);
    store.commit(Position(5), vec![put("a", "1")]);
    store.commit(Position(4), vec![put("a", "2")]);
}

#[test]
fn two_processes_cannot_share_a_file() {
    let folder = Folder::new("shared");
    let first = folder.open(Pace::Each);
    let error = Store::open(&folder.file(), Options::default()).err().expect("the file is locked");
    assert_eq!(error.code(), 5_003);
    drop(first);
}

/// Threads read while another commits: each sees whole batches, in their order.
#[test]
fn a_reader_sees_whole_batches_while_others_are_committed() {
    let folder = Folder::new("reader");
    let mut store = folder.open(Pace::Each);
    store.commit(Position(1), vec![put("a", "1"), put("b", "1")]);
    let reader = store.reader();
    let seen = std::thread::spawn(move || {
        let mut last = 0_u32;
        while last < 20 {
            let rows = reader.scan(b"", 9);
            let values: Vec<&[u8]> = rows.iter().map(|(_, value)| &**value).collect();
            assert_eq!(values[0], values[1], "a batch is seen whole");
            let now = std::str::from_utf8(values[0]).expect("text").parse().expect("a number");
            assert!(last <= now, "batches are seen in their order");
            last = now;
        }
        last
    });
    for position in 2..=20_u64 {
        let value = position.to_string();
        store.commit(Position(position), vec![put("a", &value), put("b", &value)]);
    }
    assert_eq!(seen.join().expect("it ends"), 20);
}

#[test]
fn many_questions_are_answered_by_one_batch_each_in_its_place() {
    let folder = Folder::new("many");
    let mut store = folder.open(Pace::Each);
    store.commit(Position(1), vec![put("ab", "1"), put("b1", "2"), put("b2", "3")]);
    let reader = store.reader();
    let keys = |all: &[&'static str]| -> Vec<Bytes> {
        all.iter().map(|key| Bytes::from_static(key.as_bytes())).collect()
    };
    let values = reader.get_all(&keys(&["b2", "a", "ab"]));
    let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
    assert_eq!(values, [Some(&b"3"[..]), None, Some(b"1")]);
    let first = reader.first_of_each(&keys(&["b", "a", "aa", "c"]));
    let first: Vec<Option<&[u8]>> = first.iter().map(|found| found.as_ref().map(|(key, _)| &**key)).collect();
    assert_eq!(first, [Some(&b"b1"[..]), Some(b"ab"), None, None]);
    assert_eq!(reader.get_all(&[]), Vec::<Option<Bytes>>::new());
}
