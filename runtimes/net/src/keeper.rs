//! The journal thread behind the lanes of a node.
//!
//! *What it gives.* [`keep`] starts the thread of `synod-journal` and gives one [`Lane`] per machine. Durability,
//! blobs and failures reach the machines through their reports. When one machine asks for compaction, or the log
//! outgrows its bound, every lane is asked for its snapshot, because the journal compacts all lanes together.
//!
//! *One sync per turn.* What a machine writes in a turn is handed over at the turn's end, so that the thread does not
//! start to sync the first record while the others are being made.
//!
//! *Bounds.* One round of snapshots at a time. At most [`HELD_MAX`] writes and [`HELD_BYTES_MAX`] bytes, one write more,
//! are held in a turn. A full queue of the journal makes the reactor wait for the disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use synod_crypto::Hash;
use synod_journal::Journal;
use synod_journal::thread::{Durable, JournalThread, Report, Write};
use synod_machine::Keep;
use synod_machine::host::Lsn;
use synod_wire::Bytes;

use crate::Error;
use crate::journal::{Lane, LaneWriter, Reports};

/// Writes of one turn that are held.
const HELD_MAX: usize = 256;
/// Bytes of writes of one turn that are held.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Hears of each sync, on the journal thread: for metrics. It must return at once.
pub type Synced = Box<dyn Fn(&Durable) + Send>;

/// The running journal thread of a node. It is closed after the node stopped, which settles what is queued.
pub struct Keeper {
    thread: JournalThread,
}

impl Keeper {
    /// Settles what is queued and ends the thread.
    ///
    /// # Errors
    /// [`Error::Journal`] with what ended the journal.
    pub fn close(self) -> Result<(), Error> {
        self.thread.close().map_err(|error| Error::Journal { machine: u8::MAX, why: error.to_string() })
    }
}

#[derive(Default)]
struct Shared {
    reports: Vec<OnceLock<Arc<Reports>>>,
    round: AtomicBool,
}

impl Shared {
    fn lane(&self, lane: u8) -> Option<&Arc<Reports>> {
        self.reports.get(usize::from(lane)).and_then(OnceLock::get)
    }

    /// Starts a round of snapshots unless one is under way; `except` gives its own.
    fn ask(&self, except: Option<u8>) {
        if self.round.swap(true, Ordering::AcqRel) {
            return;
        }
        for (lane, reports) in (0_u8..).zip(&self.reports) {
            if let Some(reports) = reports.get().filter(|_| Some(lane) != except) {
                reports.snapshot();
            }
        }
    }

    fn hear(&self, report: Report, log_bytes_max: u64, synced: &Synced) {
        match report {
            Report::Durable(durable) => {
                for (lane, count) in &durable.lanes {
                    if let Some(reports) = self.lane(*lane) {
                        reports.durable(*count);
                    }
                }
                if durable.log_bytes > log_bytes_max {
                    self.ask(None);
                }
                synced(&durable);
            }
            Report::Loaded { lane, name, bytes } => {
                if let Some(reports) = self.lane(lane) {
                    reports.loaded(Hash(name), bytes);
                }
            }
            Report::Compacted { .. } => self.round.store(false, Ordering::Release),
            Report::Marked { .. } => {}
            Report::SnapshotDropped { lane } => {
                if let Some(reports) = self.lane(lane) {
                    reports.snapshot();
                }
            }
            Report::Failed(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &synod_journal::Error) {
        if let Some(reports) = self.reports.iter().find_map(OnceLock::get) {
            reports.failed(&error.to_string());
        }
    }
}

/// Starts the thread of `journal` and gives its lanes, in order; the host hands each to its machine. The log is
/// compacted when it holds more than `log_bytes_max` bytes.
///
/// # Errors
/// [`Error::Thread`] when the system grants no thread.
pub fn keep(journal: Journal, log_bytes_max: u64, synced: Synced) -> Result<(Keeper, Vec<Lane>), Error> {
    let reports = (0..synod_journal::LANES_MAX).map(|_| OnceLock::new()).collect();
    let shared = Arc::new(Shared { reports, round: AtomicBool::new(false) });
    let heard = shared.clone();
    let report = Box::new(move |report| heard.hear(report, log_bytes_max, &synced));
    let (thread, lanes) =
        synod_journal::thread::spawn(journal, report).map_err(|error| Error::Thread(error.to_string()))?;
    let lanes = (0_u8..).zip(lanes).map(|(number, lane)| {
        let shared = shared.clone();
        let make: Lane = Box::new(move |reports| {
            if let Some(place) = shared.reports.get(usize::from(number)) {
                assert!(place.set(reports).is_ok(), "a lane has one machine");
            }
            Box::new(Kept { number, lane, shared, lost: 0, held: Vec::new(), held_bytes: 0 })
        });
        make
    });
    Ok((Keeper { thread }, lanes.collect()))
}

struct Kept {
    number: u8,
    lane: synod_journal::thread::Lane,
    shared: Arc<Shared>,
    lost: Lsn,
    /// What this turn wrote, and its bytes.
    held: Vec<Write>,
    held_bytes: usize,
}

impl Kept {
    /// The place of a write, which is held until the turn ends; after a failure a place that never becomes durable.
    fn hold(&mut self, write: Write, bytes: usize) -> Lsn {
        self.held.push(write);
        self.held_bytes += bytes;
        let place = self.lane.issued() + self.held.len() as u64 + self.lost;
        if self.held.len() >= HELD_MAX || self.held_bytes >= HELD_BYTES_MAX {
            self.hand_over();
        }
        place
    }

    fn hand_over(&mut self) {
        self.held_bytes = 0;
        let held = core::mem::take(&mut self.held);
        let count = held.len() as u64;
        if let Err(error) = self.lane.submit_all(held) {
            self.shared.fail(&error);
            self.lost += count;
        }
    }
}

const fn keep_of(keep: Keep) -> synod_journal::Keep {
    match keep {
        Keep::Log => synod_journal::Keep::Log,
        Keep::LogAndSlot => synod_journal::Keep::LogAndSlot,
    }
}

impl LaneWriter for Kept {
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        let bytes = record.len();
        self.hold(Write::Append(keep_of(keep), record), bytes)
    }

    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        let length = bytes.len();
        self.hold(Write::Store(name.0, bytes), length)
    }

    fn erase(&mut self, name: Hash) {
        self.hold(Write::Erase(name.0), 0);
    }

    fn load(&mut self, name: Hash) {
        self.hand_over();
        if let Err(error) = self.lane.load(name.0) {
            self.shared.fail(&error);
        }
    }

    fn compact(&mut self, snapshot: Vec<(Keep, Bytes)>) {
        self.hand_over();
        let records = snapshot.into_iter().map(|(keep, body)| (keep_of(keep), body)).collect();
        if let Err(error) = self.lane.snapshot(records) {
            self.shared.fail(&error);
        }
        self.shared.ask(Some(self.number));
    }

    fn readmit(&mut self) {
        self.hand_over();
        if let Err(error) = self.lane.readmit() {
            self.shared.fail(&error);
        }
    }

    fn flush(&mut self) {
        self.hand_over();
    }
}
