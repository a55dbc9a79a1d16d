//! The store and its one file.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore};
use synod_wire::Bytes;

use crate::Error;

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT: &str = "format";
const POSITION: &str = "position";
const BYTES: &str = "bytes";
/// The format this build writes and the newest it reads.
const KNOWN: u64 = 1;

/// Ends the process when the file fails under a running store; should it return, the store aborts the process. The
/// default logs nothing and exits with code 9; the host gives one that logs.
pub type Fatal = Box<dyn Fn(&Error) + Send + Sync>;

/// How often batches reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each batch is synced before `commit` returns.
    Each,
    /// Every so many batches; a crash loses the batches since, whole and from the end.
    Every(u32),
}

/// How a store is opened.
pub struct Options {
    /// How often batches reach the disk.
    pub pace: Pace,
    /// Size of the page cache, in bytes.
    pub cache_bytes: usize,
    /// How the process ends when the file fails.
    pub fatal: Fatal,
}

impl Default for Options {
    /// Each batch synced, a cache of 64 MiB, exit code 9.
    fn default() -> Self {
        Self { pace: Pace::Each, cache_bytes: 64 << 20, fatal: Box::new(|_| std::process::exit(9)) }
    }
}

/// Application state in one file.
pub struct Store {
    reader: Reader,
    position: Position,
    bytes: u64,
    pace: Pace,
    unsynced: u32,
}

/// Reads a store from any thread, as the last batch left it. It never waits for a batch on its way to the disk.
#[derive(Clone)]
pub struct Reader {
    database: Arc<Database>,
    fatal: Arc<Fatal>,
}

impl Reader {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.sound(find(&self.database, key), "read")
    }

    /// At most `max` entries with keys from `from` on, in key order.
    #[must_use]
    pub fn scan(&self, from: &[u8], max: usize) -> Vec<(Bytes, Bytes)> {
        self.sound(list(&self.database, from, max), "scan")
    }

    /// The values of keys, all as one batch left them.
    #[must_use]
    pub fn get_all(&self, keys: &[Bytes]) -> Vec<Option<Bytes>> {
        let each = |table: &Rows, key: &Bytes| Ok(table.get(&**key)?.map(|value| copy(value.value())));
        self.sound(look(&self.database, keys, each), "read")
    }

    /// The first entry whose key has this beginning, for each of them, all as one batch left them.
    #[must_use]
    pub fn first_of_each(&self, beginnings: &[Bytes]) -> Vec<Option<(Bytes, Bytes)>> {
        let each = |table: &Rows, beginning: &Bytes| {
            let Some(entry) = table.range(&**beginning..)?.next() else { return Ok(None) };
            let (key, value) = entry?;
            let is_meant = key.value().starts_with(beginning);
            Ok(is_meant.then(|| (copy(key.value()), copy(value.value()))))
        };
        self.sound(look(&self.database, beginnings, each), "scan")
    }

    /// The value of a step that must not fail.
    fn sound<T>(&self, outcome: Result<T, redb::Error>, step: &'static str) -> T {
        match outcome {
            Ok(value) => value,
            Err(error) => {
                (self.fatal)(&Error::at(step)(error));
                // State that cannot be read or written is no state to go on with.
                std::process::abort()
            }
        }
    }
}

impl Store {
    /// Opens the file at `path`, or makes it.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be opened or is no state file, [`Error::Newer`] when a newer release wrote it.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let Options { pace, cache_bytes, fatal } = options;
        let database = Database::builder().set_cache_size(cache_bytes).create(path);
        let database = database.map_err(|error| Error::at("open")(error.into()))?;
        let meta = begin(&database).map_err(Error::at("read the header"))?;
        if meta.format > KNOWN {
            return Err(Error::Newer { found: meta.format, known: KNOWN });
        }
        let reader = Reader { database: Arc::new(database), fatal: Arc::new(fatal) };
        Ok(Self { reader, position: Position(meta.position), bytes: meta.bytes, pace, unsynced: 0 })
    }

    /// What reads this store beside its owner.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Syncs every batch committed so far.
    pub fn sync(&mut self) {
        if self.unsynced > 0 {
            let synced = write(&self.reader.database, Durability::Immediate, |_, _| Ok(()));
            self.reader.sound(synced, "sync");
            self.unsynced = 0;
        }
    }

    fn durability(&mut self) -> Durability {
        self.unsynced += 1;
        match self.pace {
            Pace::Every(batches) if self.unsynced < batches => Durability::None,
            _ => {
                self.unsynced = 0;
                Durability::Immediate
            }
        }
    }
}

struct Meta {
    format: u64,
    position: u64,
    bytes: u64,
}

/// Makes the tables on first opening and reads what is known of the state.
fn begin(database: &Database) -> Result<Meta, redb::Error> {
    let transaction = database.begin_write()?;
    let meta = {
        let mut table = transaction.open_table(META)?;
        transaction.open_table(ENTRIES)?;
        let read =
            |table: &Table<'_, &str, u64>, name| Ok::<_, redb::Error>(table.get(name)?.map(|v| v.value()));
        let format = read(&table, FORMAT)?;
        if format.is_none() {
            table.insert(FORMAT, KNOWN)?;
        }
        Meta {
            format: format.unwrap_or(KNOWN),
            position: read(&table, POSITION)?.unwrap_or(0),
            bytes: read(&table, BYTES)?.unwrap_or(0),
        }
    };
    transaction.commit()?;
    Ok(meta)
}

type Entries<'a> = Table<'a, &'static [u8], &'static [u8]>;
type MetaTable<'a> = Table<'a, &'static str, u64>;

/// One transaction over both tables.
fn write<T>(
    database: &Database,
    durability: Durability,
    body: impl FnOnce(&mut Entries<'_>, &mut MetaTable<'_>) -> Result<T, redb::Error>,
) -> Result<T, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(durability)?;
    let value = {
        let mut entries = transaction.open_table(ENTRIES)?;
        let mut meta = transaction.open_table(META)?;
        body(&mut entries, &mut meta)?
    };
    transaction.commit()?;
    Ok(value)
}

fn size(key: &[u8], value: &[u8]) -> u64 {
    (key.len() as u64).saturating_add(value.len() as u64)
}

/// Applies changes; the bytes of keys and values afterwards.
fn apply(entries: &mut Entries<'_>, changes: &[Change], mut bytes: u64) -> Result<u64, redb::Error> {
    for change in changes {
        let (key, old) = match change {
            Change::Put(key, value) => {
                let old = entries.insert(&**key, &**value)?.map(|old| size(key, old.value()));
                bytes += size(key, value);
                (key, old)
            }
            Change::Delete(key) => (key, entries.remove(&**key)?.map(|old| size(key, old.value()))),
        };
        let old = old.unwrap_or(0);
        assert!(old <= bytes, "the entry {key:?} was counted");
        bytes -= old;
    }
    Ok(bytes)
}

type Rows = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

fn copy(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// What one transaction finds for each of these.
fn look<T>(
    database: &Database,
    keys: &[Bytes],
    each: impl Fn(&Rows, &Bytes) -> Result<Option<T>, redb::Error>,
) -> Result<Vec<Option<T>>, redb::Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let table = database.begin_read()?.open_table(ENTRIES)?;
    keys.iter().map(|key| each(&table, key)).collect()
}

fn find(database: &Database, key: &[u8]) -> Result<Option<Bytes>, redb::Error> {
    let table = database.begin_read()?.open_table(ENTRIES)?;
    Ok(table.get(key)?.map(|value| Bytes::copy_from_slice(value.value())))
}

fn list(database: &Database, from: &[u8], max: usize) -> Result<Vec<(Bytes, Bytes)>, redb::Error> {
    let table = database.begin_read()?.open_table(ENTRIES)?;
    let mut found = Vec::new();
    for entry in table.range(from..)?.take(max) {
        let (key, value) = entry?;
        found.push((Bytes::copy_from_slice(key.value()), Bytes::copy_from_slice(value.value())));
    }
    Ok(found)
}

impl StateStore for Store {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.reader.get(key)
    }

    fn scan(&self, from: &[u8], max: usize) -> Vec<(Bytes, Bytes)> {
        self.reader.scan(from, max)
    }

    fn commit(&mut self, position: Position, changes: Vec<Change>) {
        assert!(position >= self.position, "positions only rise");
        let (durability, before) = (self.durability(), self.bytes);
        let outcome = write(&self.reader.database, durability, |entries, meta| {
            let bytes = apply(entries, &changes, before)?;
            meta.insert(POSITION, position.0)?;
            meta.insert(BYTES, bytes)?;
            Ok(bytes)
        });
        self.bytes = self.reader.sound(outcome, "commit");
        self.position = position;
    }

    fn position(&self) -> Position {
        self.position
    }

    fn clear(&mut self) {
        let outcome = write(&self.reader.database, Durability::Immediate, |entries, meta| {
            entries.retain(|_, _| false)?;
            meta.insert(POSITION, 0)?;
            meta.insert(BYTES, 0)?;
            Ok(())
        });
        self.reader.sound(outcome, "clear");
        (self.position, self.bytes, self.unsynced) = (Position(0), 0, 0);
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
