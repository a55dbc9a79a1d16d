//! The record-level journal: a log in memory with a durable mark.
//!
//! All lanes of a node share one log and one sync. A crash keeps what was durable and a prefix of the rest; the
//! first record behind that prefix may be torn, which recovery drops, so the log stays clean. Blobs are named by
//! their hash, which is checked when they are read.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Condition, Keep, Unrecoverable};
use synod_wire::Bytes;

use crate::draw::Stream;
use crate::storage::{Harm, Loss, Lost, Storage, WriteFailed, Written};

#[derive(Clone)]
struct Entry {
    lane: u8,
    lsn: Lsn,
    what: Written,
}

#[derive(Clone, Default)]
struct Lane {
    issued: Lsn,
    written: Lsn,
    blobs: BTreeMap<Hash, Bytes>,
    /// Promises may be missing from it.
    damaged: bool,
    /// The next compaction ends the damage.
    readmitted: bool,
}

/// A snapshot that replaces its lane's first entries once a sync covered it.
#[derive(Clone)]
struct Compaction {
    lane: u8,
    /// Entries of the log that it covers.
    covers: usize,
    records: Vec<(Keep, Bytes)>,
}

/// One node's journal, in memory. A clone is another disk with the same content, synced or not.
#[derive(Clone)]
pub struct RecordJournal {
    lanes: Vec<Lane>,
    log: Vec<Entry>,
    durable: usize,
    /// What was reported as durable; more than `durable` only while the disk lies.
    reported: usize,
    syncing: Option<usize>,
    compactions: Vec<Compaction>,
    /// Made and never opened.
    fresh: bool,
    image: Option<Vec<Entry>>,
    lies: bool,
    rots: bool,
    full: bool,
    sync_fails: bool,
    failed: bool,
}

impl RecordJournal {
    /// A journal of `lanes` lanes that was made and never opened.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        Self {
            lanes: vec![Lane::default(); lanes],
            log: Vec::new(),
            durable: 0,
            reported: 0,
            syncing: None,
            compactions: Vec::new(),
            fresh: true,
            image: None,
            lies: false,
            rots: false,
            full: false,
            sync_fails: false,
            failed: false,
        }
    }

    fn lane(&mut self, lane: u8) -> &mut Lane {
        &mut self.lanes[usize::from(lane)]
    }

    /// Makes the compactions real that the durable entries cover.
    fn settle(&mut self) {
        while self.compactions.first().is_some_and(|first| first.covers <= self.durable) {
            let first = self.compactions.remove(0);
            self.replace(first);
        }
    }

    fn replace(&mut self, compaction: Compaction) {
        let Compaction { lane, covers, records } = compaction;
        let place = self.lane(lane);
        place.damaged &= !place.readmitted;
        let covered = |at: usize, entry: &Entry| at < covers && entry.lane == lane;
        let last = self.log.iter().take(covers).filter(|e| e.lane == lane).map(|e| e.lsn).max().unwrap_or(0);
        let mut alive = BTreeMap::new();
        for entry in self.log.iter().enumerate().filter(|(at, e)| covered(*at, e)).map(|(_, e)| e) {
            match &entry.what {
                Written::Blob(name, bytes) => drop(alive.insert(*name, bytes.clone())),
                Written::Erase(name) => drop(alive.remove(name)),
                Written::Record(..) => {}
            }
        }
        let mut log: Vec<Entry> = records
            .into_iter()
            .map(|(keep, bytes)| Written::Record(keep, bytes))
            .chain(alive.into_iter().map(|(name, bytes)| Written::Blob(name, bytes)))
            .map(|what| Entry { lane, lsn: last, what })
            .collect();
        let added = log.len();
        let old = self.log.len();
        let mut at = 0;
        self.log.retain(|entry| {
            at += 1;
            !covered(at - 1, entry)
        });
        let removed = old - self.log.len();
        log.append(&mut self.log);
        self.log = log;
        // Everything covered was durable or is being made so by the sync that settles it.
        let shift = |mark: usize| mark + added - removed.min(mark + added);
        self.durable = shift(self.durable);
        self.reported = shift(self.reported);
        self.syncing = self.syncing.map(shift);
        for later in &mut self.compactions {
            later.covers = shift(later.covers);
        }
    }

    /// The log becomes `log`, all of it durable; lanes and blobs follow from it.
    fn restore(&mut self, log: Vec<Entry>) {
        for lane in &mut self.lanes {
            *lane = Lane { damaged: lane.damaged, ..Lane::default() };
        }
        self.durable = log.len();
        self.reported = self.durable;
        self.syncing = None;
        self.compactions.clear();
        for entry in &log {
            let lane = self.lane(entry.lane);
            lane.issued = lane.issued.max(entry.lsn);
            lane.written = lane.issued;
            match &entry.what {
                Written::Blob(name, bytes) => drop(lane.blobs.insert(*name, bytes.clone())),
                Written::Erase(name) => drop(lane.blobs.remove(name)),
                Written::Record(..) => {}
            }
        }
        self.log = log;
    }
}

impl Storage for RecordJournal {
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable> {
        let fresh = core::mem::replace(&mut self.fresh, false);
        self.failed = false;
        let condition = |lane: &Lane| match (lane.damaged, fresh) {
            (true, _) => Condition::Damaged,
            (false, true) => Condition::Fresh,
            (false, false) => Condition::Clean,
        };
        let log = |lane: &Lane| LaneLog { condition: condition(lane), records: Vec::new() };
        let mut logs: Vec<LaneLog> = self.lanes.iter().map(log).collect();
        for entry in &self.log {
            if let Written::Record(_, bytes) = &entry.what {
                logs[usize::from(entry.lane)].records.push(bytes.clone());
            }
        }
        Ok(logs)
    }

    fn reserve(&mut self, lane: u8) -> Lsn {
        let lane = self.lane(lane);
        lane.issued += 1;
        lane.issued
    }

    fn write(&mut self, lane: u8, lsn: Lsn, what: Written) {
        let place = self.lane(lane);
        assert!(lsn > place.written && lsn <= place.issued, "writes come in the order of their places");
        place.written = lsn;
        match &what {
            Written::Blob(name, bytes) => drop(place.blobs.insert(*name, bytes.clone())),
            Written::Erase(name) => drop(place.blobs.remove(name)),
            Written::Record(..) => {}
        }
        self.log.push(Entry { lane, lsn, what });
    }

    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>) {
        assert_eq!(snapshots.len(), self.lanes.len(), "every lane gives its snapshot");
        let (covers, syncing) = (self.log.len(), self.syncing);
        self.compactions.retain(|c| syncing.is_some_and(|upto| c.covers <= upto));
        for (lane, records) in (0_u8..).zip(snapshots) {
            self.compactions.push(Compaction { lane, covers, records });
        }
    }

    fn readmit(&mut self, lane: u8) {
        self.lane(lane).readmitted = true;
    }

    fn begin(&mut self) -> bool {
        let pending = self.reported < self.log.len() || (!self.compactions.is_empty() && !self.lies);
        if self.syncing.is_none() && pending {
            self.syncing = Some(self.log.len());
            return true;
        }
        false
    }

    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed> {
        let Some(upto) = self.syncing.take() else { return Ok(Vec::new()) };
        if core::mem::take(&mut self.full) {
            self.failed = true;
            return Err(WriteFailed("no space left".to_owned()));
        }
        if core::mem::take(&mut self.sync_fails) {
            self.failed = true;
            return Err(WriteFailed("a sync failed".to_owned()));
        }
        let mut moved = BTreeMap::new();
        for entry in self.log.iter().take(upto).skip(self.reported) {
            if !matches!(entry.what, Written::Erase(_)) {
                moved.insert(entry.lane, entry.lsn);
            }
        }
        self.reported = upto;
        if !self.lies {
            self.durable = upto;
            self.settle();
        }
        Ok(moved.into_iter().collect())
    }

    fn read(&mut self, lane: u8, name: Hash) -> Option<Bytes> {
        let rots = self.rots;
        let bytes = self.lane(lane).blobs.get(&name)?;
        (!rots && Hash::of(bytes) == name).then(|| bytes.clone())
    }

    fn crash(&mut self, loss: Loss, stream: &mut Stream) -> Lost {
        let unsynced = self.log.len() - self.durable;
        let kept = match loss {
            Loss::Drawn | Loss::Torn | Loss::Prefix => stream.index(unsynced + 1),
            Loss::Durable => 0,
            Loss::Nothing => unsynced,
            Loss::Keep(count) => unsynced.min(count as usize),
        };
        let torn = kept < unsynced
            && match loss {
                Loss::Drawn => stream.chance(500_000),
                loss => loss == Loss::Torn,
            };
        self.log.truncate(self.durable + kept);
        let log = core::mem::take(&mut self.log);
        self.restore(log);
        Lost { unsynced: unsynced as u64, lost: (unsynced - kept) as u64, torn }
    }

    fn harm(&mut self, harm: Harm) -> bool {
        match harm {
            Harm::Wipe | Harm::Forget => {
                self.restore(Vec::new());
                self.fresh = harm == Harm::Forget;
                self.lanes.iter_mut().for_each(|lane| lane.damaged = harm == Harm::Wipe);
            }
            Harm::Image => self.image = Some(self.log.iter().take(self.durable).cloned().collect()),
            Harm::Rollback => match self.image.clone() {
                Some(image) => self.restore(image),
                None => return false,
            },
            Harm::Lie(on) => self.lies = on,
            Harm::Rot(on) => self.rots = on,
            Harm::Full(on) => self.full = on,
            Harm::SyncFail(on) => self.sync_fails = on,
            // Records have no sectors.
            Harm::Misdirect(_) => return false,
        }
        true
    }

    fn failed(&self) -> bool {
        self.failed
    }

    fn copy(&self) -> Option<Box<dyn Storage>> {
        let mut copy = Self::new(self.lanes.len());
        copy.fresh = false;
        copy.lanes.iter_mut().zip(&self.lanes).for_each(|(copy, lane)| copy.damaged = lane.damaged);
        copy.restore(self.log.iter().take(self.durable).cloned().collect());
        Some(Box::new(copy))
    }

    fn bytes(&self) -> u64 {
        self.log
            .iter()
            .map(|entry| match &entry.what {
                Written::Record(_, bytes) | Written::Blob(_, bytes) => bytes.len() as u64 + 32,
                Written::Erase(_) => 32,
            })
            .sum()
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
