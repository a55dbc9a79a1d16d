//! Between a machine's lane and the journal's thread, which is optional: without it records are forgotten at exit and
//! count as durable at once.
//!
//! *One sync a tick.* What a machine writes in a tick is handed over at its end, so that the journal does not begin to
//! sync the first record while the others are made.
//!
//! *A failure is final.* The station is halted before the fatal hook hears of it: what was held for the failed write
//! never leaves.
//!
//! *Bounds.* [`HELD_MAX`] writes and [`HELD_BYTES_MAX`] bytes, one write more, are held in a tick. One round of
//! snapshots at a time. A full queue of the journal makes the poller wait for the disk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use synod_crypto::Hash;
use synod_journal::Journal;
use synod_journal::thread::{JournalThread, Report, Write};
use synod_machine::Keep;
use synod_machine::host::Lsn;
use synod_wire::Bytes;

use crate::error::Error;
use crate::mailbox::{Mail, Mailbox};

/// Writes of one tick that are held.
const HELD_MAX: usize = 256;
/// Bytes of writes of one tick that are held.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Ends the process, or what a test takes for one: called once, from the thread that met the failure.
pub type Fatal = Arc<dyn Fn(&Error) + Send + Sync>;

/// The running journal of a station. It is closed after the station's poller stopped, which settles what is queued.
pub struct Keeper(JournalThread);

impl Keeper {
    /// Settles what is queued and ends the thread.
    ///
    /// # Errors
    /// [`Error::Journal`] with what ended the journal.
    pub fn close(self) -> Result<(), Error> {
        self.0.close().map_err(|error| Error::Journal(error.to_string()))
    }
}

/// Whom the journal answers.
struct Office {
    mailbox: OnceLock<(Arc<Mailbox>, Fatal)>,
    /// The machines' places, by lane.
    slots: OnceLock<BTreeMap<u8, usize>>,
    round: AtomicBool,
}

impl Office {
    fn mail(&self, lane: u8, mail: impl FnOnce(usize) -> Mail) {
        let slot = self.slots.get().and_then(|slots| slots.get(&lane));
        if let (Some((mailbox, _)), Some(slot)) = (self.mailbox.get(), slot) {
            mailbox.push(mail(*slot));
        }
    }

    /// Starts a round of snapshots unless one is under way; `except` gives its own.
    fn ask(&self, except: Option<u8>) {
        if self.round.swap(true, Ordering::AcqRel) {
            return;
        }
        let lanes = self.slots.get().into_iter().flatten().map(|(lane, _)| *lane);
        lanes
            .filter(|lane| Some(*lane) != except)
            .for_each(|lane| self.mail(lane, |slot| Mail::Snapshot { slot }));
    }

    fn hear(&self, report: Report, log_bytes_max: u64) {
        match report {
            Report::Durable(durable) => {
                let slots = self.slots.get();
                if let (Some((mailbox, _)), Some(slots)) = (self.mailbox.get(), slots) {
                    for (lane, count) in &durable.lanes {
                        let gauge = slots.get(lane).and_then(|slot| mailbox.gauges.get(*slot));
                        if let Some((_, gauge)) = gauge {
                            gauge.raise(*count);
                        }
                    }
                    mailbox.ring();
                }
                if durable.log_bytes > log_bytes_max {
                    self.ask(None);
                }
            }
            // The name is checked here, so that a journal cannot hand out other bytes under it.
            Report::Loaded { lane, name, bytes } => {
                let (name, bytes) = (Hash(name), bytes.filter(|bytes| Hash::of(bytes).0 == name));
                self.mail(lane, |slot| Mail::Loaded { slot, name, bytes });
            }
            Report::Compacted { .. } => self.round.store(false, Ordering::Release),
            Report::Marked { .. } => {}
            Report::SnapshotDropped { lane } => self.mail(lane, |slot| Mail::Snapshot { slot }),
            Report::Failed(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &synod_journal::Error) {
        if let Some((mailbox, fatal)) = self.mailbox.get()
            && mailbox.halt()
        {
            fatal(&Error::Journal(error.to_string()));
        }
    }
}

/// The lanes of one journal, to be given to a station's machines in order.
pub struct Lanes {
    office: Arc<Office>,
    lanes: Vec<(u8, synod_journal::thread::Lane)>,
}

/// Starts the thread of `journal`, which is compacted when its log holds more than `log_bytes_max` bytes.
///
/// # Errors
/// [`Error::Thread`] when the system grants none.
pub fn keep(journal: Journal, log_bytes_max: u64) -> Result<(Keeper, Lanes), Error> {
    let office =
        Arc::new(Office { mailbox: OnceLock::new(), slots: OnceLock::new(), round: AtomicBool::new(false) });
    let heard = Arc::clone(&office);
    let report = Box::new(move |report| heard.hear(report, log_bytes_max));
    let (thread, lanes) =
        synod_journal::thread::spawn(journal, report).map_err(|error| Error::Thread(error.to_string()))?;
    Ok((Keeper(thread), Lanes { office, lanes: (0..).zip(lanes).collect() }))
}

impl Lanes {
    /// Tells the journal whom it answers, and gives each of `slots` its lane.
    pub(crate) fn open(self, slots: usize, mailbox: &Arc<Mailbox>, fatal: Fatal) -> Result<Vec<Lane>, Error> {
        let Self { office, lanes } = self;
        if lanes.len() != slots {
            return Err(Error::Plan("a journal has one lane for each machine"));
        }
        let known = office.mailbox.set((Arc::clone(mailbox), fatal)).is_err();
        let numbers = lanes.iter().map(|(lane, _)| *lane).zip(0..).collect();
        assert!(!known && office.slots.set(numbers).is_ok(), "a journal has one station");
        let kept = |(number, lane)| {
            let office = Arc::clone(&office);
            Lane::Kept(Kept { number, lane, office, lost: 0, held: Vec::new(), held_bytes: 0 })
        };
        Ok(lanes.into_iter().map(kept).collect())
    }
}

/// A machine's lane.
pub(crate) enum Lane {
    /// Forgets everything at exit.
    Volatile { issued: Lsn, blobs: BTreeMap<Hash, Bytes>, asked: Vec<Hash> },
    /// With the journal.
    Kept(Kept),
}

/// What a tick wrote, on its way to the journal.
pub(crate) struct Kept {
    number: u8,
    lane: synod_journal::thread::Lane,
    office: Arc<Office>,
    lost: Lsn,
    held: Vec<Write>,
    held_bytes: usize,
}

impl Kept {
    /// The place of a write, which is held until the tick ends; after a failure a place that never becomes durable.
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
        if self.held.is_empty() {
            return;
        }
        self.held_bytes = 0;
        let held = core::mem::take(&mut self.held);
        let count = held.len() as u64;
        if let Err(error) = self.lane.submit_all(held) {
            self.office.fail(&error);
            self.lost += count;
        }
    }

    fn or_fail(&self, done: Result<(), synod_journal::Error>) {
        if let Err(error) = done {
            self.office.fail(&error);
        }
    }
}

const fn keep_of(keep: Keep) -> synod_journal::Keep {
    match keep {
        Keep::Log => synod_journal::Keep::Log,
        Keep::LogAndSlot => synod_journal::Keep::LogAndSlot,
    }
}

impl Lane {
    pub(crate) const fn volatile() -> Self {
        Self::Volatile { issued: 0, blobs: BTreeMap::new(), asked: Vec::new() }
    }

    pub(crate) fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        match self {
            Self::Volatile { issued, .. } => {
                *issued += 1;
                *issued
            }
            Self::Kept(kept) => {
                let bytes = record.len();
                kept.hold(Write::Append(keep_of(keep), record), bytes)
            }
        }
    }

    pub(crate) fn store(&mut self, name: Hash, body: Bytes) -> Lsn {
        match self {
            Self::Volatile { issued, blobs, .. } => {
                blobs.insert(name, body);
                *issued += 1;
                *issued
            }
            Self::Kept(kept) => {
                let bytes = body.len();
                kept.hold(Write::Store(name.0, body), bytes)
            }
        }
    }

    pub(crate) fn erase(&mut self, name: Hash) {
        match self {
            Self::Volatile { blobs, .. } => drop(blobs.remove(&name)),
            Self::Kept(kept) => drop(kept.hold(Write::Erase(name.0), 0)),
        }
    }

    pub(crate) fn load(&mut self, name: Hash) {
        match self {
            Self::Volatile { asked, .. } => asked.push(name),
            Self::Kept(kept) => {
                kept.hand_over();
                let asked = kept.lane.load(name.0);
                kept.or_fail(asked);
            }
        }
    }

    /// What was loaded without a journal, for the machine.
    pub(crate) fn loaded(&mut self) -> Option<(Hash, Option<Bytes>)> {
        let Self::Volatile { blobs, asked, .. } = self else { return None };
        let name = if asked.is_empty() { None } else { Some(asked.remove(0)) }?;
        Some((name, blobs.get(&name).cloned()))
    }

    /// Gives the journal records equivalent to the whole lane.
    pub(crate) fn compact(&mut self, snapshot: Vec<(Keep, Bytes)>) {
        if let Self::Kept(kept) = self {
            kept.hand_over();
            let records = snapshot.into_iter().map(|(keep, body)| (keep_of(keep), body)).collect();
            let given = kept.lane.snapshot(records);
            kept.or_fail(given);
            kept.office.ask(Some(kept.number));
        }
    }

    pub(crate) fn readmit(&mut self) {
        if let Self::Kept(kept) = self {
            kept.hand_over();
            let said = kept.lane.readmit();
            kept.or_fail(said);
        }
    }

    /// What is durable of what was issued.
    pub(crate) fn durable(&self, reported: Lsn) -> Lsn {
        match self {
            Self::Volatile { issued, .. } => *issued,
            Self::Kept(_) => reported,
        }
    }

    /// The tick is over: what was appended may be committed as one group.
    pub(crate) fn flush(&mut self) {
        if let Self::Kept(kept) = self {
            kept.hand_over();
        }
    }
}
