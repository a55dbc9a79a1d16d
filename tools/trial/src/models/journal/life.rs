//! One life of a journal on a disk in memory, up to the moment the power goes.

use synod_journal::memory::{Failure, Fate, MemDisk, Strike, Unsynced};
use synod_journal::{Condition, Config, Disk as _, Journal, Lsn};
use synod_machine::Keep;
use synod_wire::Bytes;

use super::instance::Instance;
use crate::oracle::Breach;
use crate::systems::journal::{Entry, prefix};

/// Lanes of the journal.
const LANES: u8 = 2;
/// Sectors of a write of which every subset is tried; of a longer one all, none, each half.
const SUBSETS: u64 = 4;

/// What happens in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    /// A record of this kind is appended.
    Append(u8),
    /// A sync that nothing disturbs.
    Sync,
    /// The power goes at this operation of a sync.
    Stop(u64),
    /// This operation of a sync fails; the process goes on asking, then the power goes. Of a write half is taken.
    Fail(u64),
    /// The power goes.
    Off,
    /// The power goes and a bit of this record rots, which was reported durable before the last sync.
    Rot(u8),
}

/// A journal at work.
struct Life {
    disk: MemDisk,
    journal: Journal,
    written: Vec<Entry>,
    /// The position of each record.
    positions: Vec<Lsn>,
    reported: usize,
}

/// A disk without power, and what may be found on it.
pub(super) struct Wreck {
    disk: MemDisk,
    written: Vec<Entry>,
    reported: usize,
    rotten: bool,
    /// Fates of each write and directory entry that was not synced.
    pub(super) choices: Vec<u8>,
}

fn config(instance: &Instance) -> Config {
    let segment_bytes = 4096 * (1 + 2 * u64::from(LANES)) + instance.room;
    Config { segment_bytes, salt: 0x5eed, ..Config::new([7; 32], 3, LANES) }
}

fn broken(checker: &'static str, what: String) -> Breach {
    Breach { checker, what }
}

/// Kinds of records.
pub(super) const KINDS: u8 = 3;

/// The record of a kind: a short promise, which a slot keeps too, a longer record of another lane, one of five sectors.
fn entry(kind: u8, number: usize) -> Entry {
    let (lane, keep, length) = match kind {
        0 => (0, Keep::LogAndSlot, 200),
        1 => (1, Keep::Log, 700),
        _ => (0, Keep::Log, 2_300),
    };
    let tag = u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes();
    Entry { lane, keep, body: tag.into_iter().chain([0x5a, kind]).cycle().take(length).collect() }
}

const fn kept(keep: Keep) -> synod_journal::Keep {
    match keep {
        Keep::Log => synod_journal::Keep::Log,
        Keep::LogAndSlot => synod_journal::Keep::LogAndSlot,
    }
}

impl Life {
    fn new(instance: &Instance) -> Result<Self, Breach> {
        let disk = MemDisk::new();
        let refused =
            |error: synod_journal::Error| broken("J-S1", format!("an empty disk is refused: {error}"));
        Journal::create(Box::new(disk.clone()), &config(instance)).map_err(refused)?;
        let opened = Journal::open(Box::new(disk.clone()), config(instance)).map_err(refused)?;
        let (journal, written, positions) = (opened.journal, Vec::new(), Vec::new());
        Ok(Self { disk, journal, written, positions, reported: 0 })
    }

    fn append(&mut self, kind: u8) -> Result<(), synod_journal::Error> {
        let entry = entry(kind, self.written.len());
        let lsn = self.journal.append(entry.lane, kept(entry.keep), entry.body.clone())?;
        self.written.push(entry);
        self.positions.push(lsn);
        Ok(())
    }

    /// What the journal reports as durable now must be found by every start.
    fn report(&mut self) {
        let durable = self.journal.durable();
        self.reported = self.positions.iter().filter(|lsn| **lsn <= durable).count();
    }

    /// J-S3: once an operation failed, the sync is no success, nothing more is taken and nothing more counts as durable.
    fn fail(&mut self, nth: u64) -> Result<(), Breach> {
        let before = self.disk.failures();
        self.disk.fail(Strike::Any, nth, Failure::Full);
        let done = self.journal.sync();
        if self.disk.failures() == before {
            return Err(broken("J-S3", format!("operation {nth} of a sync was not met again")));
        }
        if done.is_ok() {
            return Err(broken("J-S3", format!("a sync whose operation {nth} failed is reported as done")));
        }
        self.report();
        let durable = self.journal.durable();
        if self.append(0).is_ok() || self.journal.sync().is_ok() {
            return Err(broken(
                "J-S3",
                format!("the journal goes on after operation {nth} of a sync failed"),
            ));
        }
        if self.journal.durable() != durable || self.reported == self.written.len() {
            return Err(broken(
                "J-S3",
                format!("operation {nth} of a sync failed and all counts as durable"),
            ));
        }
        Ok(())
    }

    /// Flips a bit of a record on the disk; false when it is not there.
    fn rot(&mut self, record: u8) -> bool {
        let Some(entry) = self.written.get(usize::from(record)) else { return false };
        for name in self.disk.list().unwrap_or_default() {
            let bytes = self.disk.contents(&name).unwrap_or_default();
            let at = bytes.windows(entry.body.len()).rposition(|window| window == entry.body);
            if let Some(at) = at {
                return self.disk.rot(&name, at as u64, 1);
            }
        }
        false
    }

    fn perform(&mut self, act: Act) -> Result<bool, Breach> {
        match act {
            Act::Append(kind) => {
                let done = self.append(kind);
                done.map_err(|error| broken("J-S1", format!("a sound disk refuses a record: {error}")))?;
            }
            Act::Sync => {
                let done = self.journal.sync();
                done.map_err(|error| broken("J-S1", format!("a sound disk refuses a sync: {error}")))?;
                self.report();
                if self.reported < self.written.len() {
                    return Err(broken("J-S3", "a sync leaves records that are not durable".to_owned()));
                }
            }
            Act::Stop(nth) => {
                self.disk.fail(Strike::Any, nth, Failure::Stop);
                if self.journal.sync().is_ok() {
                    return Err(broken("J-S3", "a sync without power is reported as done".to_owned()));
                }
                self.report();
            }
            Act::Fail(nth) => self.fail(nth)?,
            Act::Off => {}
            Act::Rot(record) => return Ok(self.rot(record)),
        }
        Ok(true)
    }
}

/// Lives through `acts`; the operations that one more sync would take.
pub(super) fn operations(instance: &Instance, acts: &[Act]) -> u64 {
    let Ok(mut life) = Life::new(instance) else { return 0 };
    for act in acts {
        if life.perform(*act).is_err() {
            return 0;
        }
    }
    let before = life.disk.operations();
    drop(life.journal.sync());
    life.disk.operations() - before
}

/// Lives through `acts`; what is left when the power is gone.
///
/// # Errors
/// The property that the journal broke while it lived.
pub(super) fn wreck(instance: &Instance, acts: &[Act]) -> Result<Wreck, Breach> {
    let mut life = Life::new(instance)?;
    for act in acts {
        life.perform(*act)?;
    }
    let Life { disk, journal, written, reported, .. } = life;
    drop(journal);
    let mut choices = Vec::new();
    let _dark = disk.fork().crash(&mut |unsynced| {
        choices.push(of(unsynced));
        Fate::Drop
    });
    let rotten = matches!(acts.last(), Some(Act::Rot(_)));
    Ok(Wreck { disk, written, reported, rotten, choices })
}

/// How many fates something has.
const fn of(unsynced: Unsynced<'_>) -> u8 {
    match unsynced {
        Unsynced::Entry { .. } => 2,
        Unsynced::Write { sectors, .. } if sectors <= SUBSETS => 1 << sectors,
        Unsynced::Write { .. } => 4,
    }
}

fn fate(unsynced: Unsynced<'_>, chosen: u8) -> Fate {
    match (unsynced, chosen) {
        (Unsynced::Entry { .. }, _) => Fate::Torn(u64::from(chosen)),
        (Unsynced::Write { sectors, .. }, _) if sectors <= SUBSETS => Fate::Torn(u64::from(chosen)),
        (Unsynced::Write { .. }, 0) => Fate::Drop,
        (Unsynced::Write { .. }, 1) => Fate::Keep,
        (Unsynced::Write { sectors, .. }, 2) => Fate::Torn((1 << (sectors / 2)) - 1),
        (Unsynced::Write { sectors, .. }, _) => Fate::Torn(!((1 << (sectors / 2)) - 1)),
    }
}

impl Wreck {
    /// Starts again with these fates, writes one more record, and starts once more.
    ///
    /// # Errors
    /// The property that recovery broke.
    pub(super) fn recover(&self, instance: &Instance, fates: &[u8]) -> Result<(), Breach> {
        let mut chosen = fates.iter().copied();
        let disk = self.disk.fork().crash(&mut |unsynced| fate(unsynced, chosen.next().unwrap_or(0)));
        let opened = match Journal::open(Box::new(disk.clone()), config(instance)) {
            Ok(opened) => opened,
            Err(_) if self.rotten => return Ok(()),
            Err(error) => return Err(broken("J-S1", format!("a disk that lost power is refused: {error}"))),
        };
        let damaged = opened.lanes.iter().any(|lane| lane.condition == Condition::Damaged);
        if damaged && !self.rotten {
            return Err(broken("J-S2", "a disk that only lost power counts as damaged".to_owned()));
        }
        if damaged {
            return Ok(());
        }
        let checker = if self.rotten { "J-S2" } else { "J-S1" };
        let mut found = found(&self.written, self.reported, &opened.lanes, checker)?;
        let mut journal = opened.journal;
        let next = entry(0, 99);
        found.push(next.clone());
        let done = journal.append(next.lane, kept(next.keep), next.body).and_then(|_| journal.sync());
        done.map_err(|error| broken("J-S1", format!("a recovered journal takes no record: {error}")))?;
        drop(journal);
        let again = Journal::open(Box::new(disk), config(instance))
            .map_err(|error| broken("J-S1", format!("a recovered journal is refused: {error}")))?;
        self::found(&found, found.len(), &again.lanes, checker).map(drop)
    }
}

/// J-S1, and what there is.
fn found(
    written: &[Entry],
    reported: usize,
    lanes: &[synod_journal::LaneLog],
    checker: &'static str,
) -> Result<Vec<Entry>, Breach> {
    let records: Vec<&[Bytes]> = lanes.iter().map(|lane| lane.records.as_slice()).collect();
    let Some((length, more)) = prefix(written, reported, &records) else {
        let found: Vec<usize> = lanes.iter().map(|lane| lane.records.len()).collect();
        let written = written.len();
        let what = format!("{found:?} records are no prefix of {written} with at least {reported}");
        return Err(broken(checker, what));
    };
    let mut found = written.get(..length).unwrap_or_default().to_vec();
    found.extend(more);
    Ok(found)
}
