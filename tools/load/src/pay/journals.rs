//! Journals of replicas in this process: one each, in a folder that goes with the run, as a node has one in its data directory.
//!
//! *Bounds.* The log of a journal is compacted when it has [`LOG_BYTES_MAX`] bytes.

use super::bank::{Bank, Place};
use super::hosting::Carried;
use super::seat::Frame;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synod_crypto::Hash;
use synod_journal::thread::{JournalThread, Lane, Report, spawn};
use synod_journal::{Config, Journal, OsDisk, SyncMode};
use synod_wire::Bytes;

/// Bytes of a log that are compacted: what a node's file says unless it says otherwise.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the write that single syncs are measured with, and how many of them.
const PROBE: (usize, u32) = (4 << 10, 64);
/// What journal threads are called.
pub(super) const THREAD: &str = "journal";

/// What was written while a clock ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Syncs, or groups where nothing is synced.
    pub syncs: u64,
    /// Time of writing and syncing them.
    pub syncing: Duration,
    /// Bytes of records and blobs with their frames.
    pub bytes: u64,
    /// Processor time of the threads that write.
    pub cpu: Duration,
}

impl Written {
    /// What was written since then.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            syncs: self.syncs.saturating_sub(before.syncs),
            syncing: self.syncing.saturating_sub(before.syncing),
            bytes: self.bytes.saturating_sub(before.bytes),
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }
}

/// Where replicas keep what they promise. The folder goes with this value.
#[derive(Debug)]
pub struct Journals {
    folder: PathBuf,
    mode: SyncMode,
    /// What those of the current run tell.
    heard: Mutex<Vec<Arc<Heard>>>,
}

/// What a journal's thread told.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Writes of the lane that are durable.
    pub(super) durable: AtomicU64,
    /// Whether a snapshot is asked for.
    pub(super) is_long: AtomicBool,
    /// Whether one is on its way.
    pub(super) is_compacting: AtomicBool,
    loaded: Mutex<Vec<(Hash, Option<Bytes>)>>,
    failed: Mutex<Option<String>>,
    syncs: AtomicU64,
    sync_us: AtomicU64,
    bytes: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    /// Blobs that were read.
    pub(super) fn loaded(&self) -> Vec<(Hash, Option<Bytes>)> {
        std::mem::take(&mut locked(&self.loaded))
    }

    /// What ended the journal.
    pub(super) fn fail(&self, why: &synod_journal::Error) {
        locked(&self.failed).get_or_insert_with(|| why.to_string());
    }

    fn hear(&self, report: Report) {
        match report {
            Report::Durable(durable) => {
                let count = durable.lanes.iter().map(|(_, count)| *count).max().unwrap_or(0);
                self.durable.fetch_max(count, Ordering::AcqRel);
                self.syncs.fetch_add(1, Ordering::Relaxed);
                self.sync_us.fetch_add(durable.sync_us, Ordering::Relaxed);
                self.bytes.store(durable.counters.bytes, Ordering::Relaxed);
                if durable.log_bytes > LOG_BYTES_MAX {
                    self.is_long.store(true, Ordering::Release);
                }
            }
            Report::Loaded { name, bytes, .. } => locked(&self.loaded).push((Hash(name), bytes)),
            Report::Compacted { .. } => self.is_compacting.store(false, Ordering::Release),
            Report::SnapshotDropped { .. } => {
                self.is_compacting.store(false, Ordering::Release);
                self.is_long.store(true, Ordering::Release);
            }
            Report::Marked { .. } => {}
            Report::Failed(why) => self.fail(&why),
        }
    }
}

/// A journal that is open, with the lane of its replica.
pub(super) struct Kept {
    pub(super) thread: JournalThread,
    pub(super) lane: Lane,
    pub(super) heard: Arc<Heard>,
}

impl Journals {
    /// Journals below a folder, which is made, or emptied, and removed at the end.
    ///
    /// # Errors
    /// The folder cannot be made, in words.
    pub fn new(folder: &Path, mode: SyncMode) -> Result<Self, String> {
        let journals = Self { folder: folder.to_path_buf(), mode, heard: Mutex::default() };
        journals.clear();
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(journals)
    }

    /// How promises are kept.
    #[must_use]
    pub const fn mode(&self) -> SyncMode {
        self.mode
    }

    /// What one sync of a write of 4 KiB takes here, the median of some.
    ///
    /// # Errors
    /// The file cannot be written, in words.
    pub fn sync_time(&self) -> Result<Duration, String> {
        let path = self.folder.join("probe");
        let probe = || -> std::io::Result<Duration> {
            let mut file = std::fs::File::create(&path)?;
            let mut took = Vec::new();
            for _ in 0..PROBE.1 {
                let begun = Instant::now();
                std::io::Write::write_all(&mut file, &[1; PROBE.0])?;
                file.sync_data()?;
                took.push(begun.elapsed());
            }
            took.sort_unstable();
            Ok(took.get(took.len() / 2).copied().unwrap_or_default())
        };
        let took = probe().map_err(|error| format!("{}: {error}", path.display()));
        // It goes with the folder where it cannot go now.
        let _ = std::fs::remove_file(&path);
        took
    }

    /// What is left of runs before goes.
    pub(super) fn clear(&self) {
        locked(&self.heard).clear();
        let folders = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for folder in folders.filter(|entry| entry.path().is_dir()) {
            // A journal of a folder that stays says so when it is opened.
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }

    /// The empty journal of a replica, whose reports ring at its inbox.
    pub(super) fn open(&self, bank: &Bank, at: Place, bell: Sender<Frame>) -> Result<Kept, String> {
        let (number, view) = (bank.number(at), bank.view(at.shard).ok_or("a member of no shard")?);
        let folder = self.folder.join(format!("replica-{number}"));
        let disk = || OsDisk::open(&folder).map_err(|error| format!("{}: {error}", folder.display()));
        let member = u32::try_from(number).unwrap_or(u32::MAX);
        let config = Config { mode: self.mode, ..Config::new(view.cluster.0, member, 1) };
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let opened = Journal::create(Box::new(disk()?), &config).and_then(|()| {
            Journal::open(Box::new(disk().map_err(|_| synod_journal::Error::Closed)?), config)
        });
        let opened = opened.map_err(|error| error.to_string())?;
        let heard = Arc::new(Heard::default());
        let told = Arc::clone(&heard);
        let report = Box::new(move |report| {
            told.hear(report);
            // A replica that ended hears no more.
            let _ = bell.send((number, Carried::bell()));
        });
        let (thread, mut lanes) = spawn(opened.journal, report).map_err(|error| error.to_string())?;
        locked(&self.heard).push(Arc::clone(&heard));
        let lane = lanes.pop().ok_or("a journal has a lane")?;
        Ok(Kept { thread, lane, heard })
    }

    /// The position of the last entry that has settled at a replica, by its journal alone.
    #[cfg(test)]
    pub(super) fn last(&self, bank: &Bank, at: Place) -> Option<u64> {
        use synod_machine::host::{Host, HostConfig, LaneLog};
        type Replica = synod_astro::Replica<synod_broadcast::SignedBroadcast<synod_astro::Batches>>;
        let (number, view) = (bank.number(at), bank.view(at.shard)?);
        let disk = OsDisk::open(&self.folder.join(format!("replica-{number}"))).ok()?;
        let member = u32::try_from(number).ok()?;
        let config = Config { mode: self.mode, ..Config::new(view.cluster.0, member, 1) };
        let records = Journal::open(Box::new(disk), config).ok()?.lanes.pop()?.records;
        let log = LaneLog { condition: synod_machine::Condition::Clean, records };
        let own = synod_quorum::NodeId(u32::from(at.id));
        let config = HostConfig { own, machine: 0, seed: 1, jobs_max: 64, checked: true };
        let host = Host::<Replica>::open(config, bank.setup(at)?, log).ok()?;
        Some(host.machine().last())
    }

    /// What has been written in the current run.
    pub(super) fn written(&self, cpu: Duration) -> Written {
        let heard = locked(&self.heard);
        let sum =
            |of: fn(&Heard) -> &AtomicU64| heard.iter().map(|one| of(one).load(Ordering::Relaxed)).sum();
        let (syncs, bytes) = (sum(|one| &one.syncs), sum(|one| &one.bytes));
        Written { syncs, bytes, syncing: Duration::from_micros(sum(|one| &one.sync_us)), cpu }
    }

    /// What ended a journal.
    pub(super) fn failed(&self) -> Option<String> {
        locked(&self.heard).iter().find_map(|heard| locked(&heard.failed).clone())
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        // A folder of a temporary place that stays is an annoyance and nothing else.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
