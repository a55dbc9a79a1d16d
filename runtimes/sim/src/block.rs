//! The block-level journal: the real journal over a disk in memory that loses power.
//!
//! Group commit, segments, slots, compaction and recovery are the production code; the simulator decides when a sync
//! ends and, at a crash, at which disk operation the power goes and which un-synced sectors and directory entries
//! survive. About ten times the cost of [`RecordJournal`](crate::RecordJournal), so a plan uses it for a share of its
//! seeds.
//!
//! Bounds: segments of 64 KiB; what was written and not synced waits here, so that a crash can keep any number of
//! writes.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_journal::memory::{Failure, Fate, MemDisk, Strike};
use synod_journal::{Config, Disk as _, Journal};
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Condition, Keep, Unrecoverable};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::draw::Stream;
use crate::storage::{Harm, Loss, Lost, Storage, WriteFailed, Written};

/// What a disk writes at once, in bytes.
const SECTOR: usize = 512;
/// Size of a segment, in bytes.
const SEGMENT_BYTES: u64 = 64 << 10;
/// Disk operations of a sync within which a drawn crash falls; most syncs have fewer.
const OPERATIONS: u64 = 8;
/// Un-synced writes of which every subset is a disk of its own.
const SUBSET: u32 = 4;
/// Syncs a lying disk answers falsely in one commit.
const LIES: u64 = 64;

/// One write that the journal has not seen yet.
struct Queued {
    lane: u8,
    lsn: Lsn,
    what: Written,
}

/// The snapshots that replace the log once this many writes of the queue are in it.
struct Compaction {
    behind: usize,
    snapshots: Vec<Vec<(Keep, Bytes)>>,
}

/// One node's real journal, on a disk in memory.
pub struct BlockJournal {
    config: Config,
    disk: MemDisk,
    journal: Option<Journal>,
    queue: VecDeque<Queued>,
    compaction: Option<Compaction>,
    syncing: Option<usize>,
    issued: Vec<Lsn>,
    /// The journal's own last position that a truthful sync covered.
    durable: u64,
    image: Option<MemDisk>,
    lies: bool,
    rots: bool,
    full: bool,
    sync_fails: bool,
    /// Failures of the disk when the journal was opened.
    failures: u64,
}

impl BlockJournal {
    /// A journal of `lanes` lanes for `node` that was made and never opened.
    ///
    /// # Panics
    /// When `lanes` is 0 or above 64.
    #[must_use]
    pub fn new(node: NodeId, lanes: usize) -> Self {
        let count = u8::try_from(lanes).expect("a journal has at most 64 lanes");
        let salt = u64::from(node.0);
        let config = Config { segment_bytes: SEGMENT_BYTES, salt, ..Config::new([7; 32], node.0, count) };
        Self { disk: made(&config), ..Self::bare(&config) }
    }

    /// A journal without a disk.
    fn bare(config: &Config) -> Self {
        Self {
            disk: MemDisk::new(),
            config: config.clone(),
            journal: None,
            queue: VecDeque::new(),
            compaction: None,
            syncing: None,
            issued: vec![0; usize::from(config.lanes)],
            durable: 0,
            image: None,
            lies: false,
            rots: false,
            full: false,
            sync_fails: false,
            failures: 0,
        }
    }

    /// Gives the journal the first `upto` writes, compacts where that is due, and syncs.
    fn settle(&mut self, upto: usize) -> Result<BTreeMap<u8, Lsn>, synod_journal::Error> {
        let Some(journal) = &mut self.journal else { return Ok(BTreeMap::new()) };
        let mut moved = BTreeMap::new();
        let due = self.compaction.take_if(|compaction| compaction.behind <= upto);
        for at in 0..=upto {
            if let Some(compaction) = due.as_ref().filter(|due| due.behind == at) {
                let lanes = compaction.snapshots.iter();
                let lane = |records: &Vec<(Keep, Bytes)>| {
                    records.iter().map(|(keep, bytes)| (kept(*keep), bytes.clone())).collect()
                };
                journal.compact(&lanes.map(lane).collect::<Vec<_>>())?;
            }
            let Some(next) = (at < upto).then(|| self.queue.pop_front()).flatten() else { break };
            let Queued { lane, lsn, what } = next;
            match what {
                Written::Record(keep, bytes) => drop(journal.append(lane, kept(keep), bytes)?),
                Written::Blob(name, bytes) => drop(journal.store(lane, name.0, bytes)?),
                Written::Erase(name) => {
                    journal.erase(lane, name.0)?;
                    continue;
                }
            }
            moved.insert(lane, lsn);
        }
        journal.sync()?;
        if let Some(later) = &mut self.compaction {
            later.behind -= upto;
        }
        if !self.lies {
            self.durable = journal.durable().0;
        }
        Ok(moved)
    }

    /// The power goes while `upto` writes are on their way to the disk.
    fn cut(&mut self, upto: usize, loss: Loss, stream: &mut Stream) {
        let when = stream.below(OPERATIONS);
        self.disk.fail(Strike::Any, when, Failure::Stop);
        // The journal ends with the operation that the power takes; what it reports is lost with it.
        drop(self.settle(upto));
        let mut kept = if loss == Loss::Prefix { stream.below(2 * OPERATIONS) } else { 0 };
        self.disk = self.disk.crash(&mut |_| match loss {
            Loss::Prefix if kept > 0 => {
                kept -= 1;
                Fate::Keep
            }
            Loss::Prefix => Fate::Drop,
            Loss::Torn => Fate::Torn(stream.draw()),
            _ => match stream.below(3) {
                0 => Fate::Keep,
                1 => Fate::Drop,
                _ => Fate::Torn(stream.draw()),
            },
        });
    }

    /// What a start would find now, counted on a copy of the disk.
    fn reaches(&self) -> u64 {
        let opened = Journal::open(Box::new(self.disk.fork()), self.config.clone());
        opened.map_or(0, |opened| opened.journal.issued().0)
    }

    /// The last sector of a segment that holds anything is found elsewhere among the durable ones, and blank where it
    /// was.
    fn misdirect(&mut self, choice: u64) -> bool {
        let Ok(names) = self.disk.list() else { return false };
        let named: Vec<(&String, Vec<u8>)> =
            names.iter().filter_map(|name| Some((name, self.disk.contents(name)?))).collect();
        let written = |content: &[u8]| content.chunks(SECTOR).filter(|s| s.iter().any(|b| *b != 0)).count();
        let Some((name, content)) = named.iter().max_by_key(|(_, content)| written(content)) else {
            return false;
        };
        let count = written(content);
        let (Some(from), true) = (count.checked_sub(1), count > 2) else { return false };
        let to = 1 + usize::try_from(choice % (count as u64 - 2)).unwrap_or(0);
        let sector = |at: usize| content.chunks(SECTOR).nth(at).unwrap_or_default();
        for (at, byte) in sector(from).iter().enumerate() {
            let old = sector(to).get(at).copied().unwrap_or(0);
            self.disk.rot(name, (to * SECTOR + at) as u64, old ^ byte);
            self.disk.rot(name, (from * SECTOR + at) as u64, *byte);
        }
        true
    }

    /// Every disk that a start may find if the power goes while all that was written is on its way to the disk: each
    /// subset of the last four writes that no sync covered, with those before them, and the last one torn at a sector.
    /// Subset 0 keeps only what was durable.
    #[must_use]
    pub fn cuts(mut self) -> Vec<Self> {
        self.disk.fail(Strike::Sync, 0, Failure::Stop);
        // The journal ends with the sync that the power takes; what it reports is lost with it.
        drop(self.settle(self.queue.len()));
        let mut count = 0_u32;
        drop(self.disk.fork().crash(&mut |_| {
            count += 1;
            Fate::Drop
        }));
        let free = count.min(SUBSET);
        let subset = |mask: u32, torn: bool| {
            let mut at = 0;
            let disk = self.disk.fork().crash(&mut |_| {
                at += 1;
                let Some(bit) = (at + free).checked_sub(count + 1) else {
                    return if mask == 0 { Fate::Drop } else { Fate::Keep };
                };
                match mask >> bit & 1 {
                    1 if torn && at == count => Fate::Torn(0x5555_5555_5555_5555),
                    1 => Fate::Keep,
                    _ => Fate::Drop,
                }
            });
            let mut cut = Self { disk, durable: self.durable, ..Self::bare(&self.config) };
            cut.failures = cut.disk.failures();
            cut
        };
        let torn = (count > 0).then(|| subset((1 << free) - 1, true));
        (0..1_u32 << free).map(|mask| subset(mask, false)).chain(torn).collect()
    }

    fn forget_queue(&mut self) {
        self.journal = None;
        self.queue.clear();
        self.compaction = None;
        self.syncing = None;
        self.full = false;
        self.failures = self.disk.failures();
    }
}

/// A disk with an empty journal.
fn made(config: &Config) -> MemDisk {
    let disk = MemDisk::new();
    if let Err(error) = Journal::create(Box::new(disk.clone()), config) {
        unreachable!("an empty disk without faults takes a journal: {error}")
    }
    disk
}

const fn kept(keep: Keep) -> synod_journal::Keep {
    match keep {
        Keep::Log => synod_journal::Keep::Log,
        Keep::LogAndSlot => synod_journal::Keep::LogAndSlot,
    }
}

const fn condition(found: synod_journal::Condition) -> Condition {
    match found {
        synod_journal::Condition::Fresh => Condition::Fresh,
        synod_journal::Condition::Clean => Condition::Clean,
        synod_journal::Condition::Damaged => Condition::Damaged,
    }
}

impl Storage for BlockJournal {
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable> {
        self.forget_queue();
        let opened = Journal::open(Box::new(self.disk.clone()), self.config.clone())
            .map_err(|error| Unrecoverable(error.to_string()))?;
        let reached = opened.journal.issued().0;
        if reached < self.durable {
            return Err(Unrecoverable(format!("reaches {reached}, but {} was durable", self.durable)));
        }
        self.durable = reached;
        self.journal = Some(opened.journal);
        self.issued.iter_mut().for_each(|issued| *issued = reached);
        let lane = |lane: synod_journal::LaneLog| LaneLog {
            condition: condition(lane.condition),
            records: lane.records,
        };
        Ok(opened.lanes.into_iter().map(lane).collect())
    }

    fn reserve(&mut self, lane: u8) -> Lsn {
        let issued = &mut self.issued[usize::from(lane)];
        *issued += 1;
        *issued
    }

    fn write(&mut self, lane: u8, lsn: Lsn, what: Written) {
        assert!(lsn <= self.issued[usize::from(lane)], "a write has a place");
        self.queue.push_back(Queued { lane, lsn, what });
    }

    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>) {
        // A snapshot that waits is older than this one, which therefore replaces it.
        self.compaction = Some(Compaction { behind: self.queue.len(), snapshots });
    }

    fn readmit(&mut self, lane: u8) {
        if let Some(journal) = &mut self.journal {
            journal.readmit(lane);
        }
    }

    fn begin(&mut self) -> bool {
        if self.syncing.is_some() || (self.queue.is_empty() && self.compaction.is_none()) {
            return false;
        }
        self.syncing = Some(self.queue.len());
        true
    }

    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed> {
        let Some(upto) = self.syncing.take() else { return Ok(Vec::new()) };
        if self.lies {
            (0..LIES).for_each(|nth| self.disk.fail(Strike::Sync, nth, Failure::Lie));
            (0..LIES).for_each(|nth| self.disk.fail(Strike::SyncDir, nth, Failure::Lie));
        }
        if core::mem::take(&mut self.full) {
            self.disk.fail(Strike::Write, 0, Failure::Full);
        }
        if core::mem::take(&mut self.sync_fails) {
            self.disk.fail(Strike::Sync, 0, Failure::Error);
        }
        match self.settle(upto) {
            Ok(moved) => Ok(moved.into_iter().collect()),
            Err(error) => Err(WriteFailed(error.to_string())),
        }
    }

    fn read(&mut self, lane: u8, name: Hash) -> Option<Bytes> {
        if self.rots {
            return None;
        }
        for queued in self.queue.iter().rev().filter(|queued| queued.lane == lane) {
            match &queued.what {
                Written::Blob(known, bytes) if *known == name => return Some(bytes.clone()),
                Written::Erase(known) if *known == name => return None,
                _ => {}
            }
        }
        self.journal.as_mut()?.load(lane, name.0).ok().flatten()
    }

    fn crash(&mut self, loss: Loss, stream: &mut Stream) -> Lost {
        let last = self.journal.as_ref().map_or(self.durable, |journal| journal.issued().0);
        let whole = last + self.queue.len() as u64;
        let unsynced = whole.saturating_sub(self.durable);
        let keep = match loss {
            Loss::Drawn | Loss::Torn | Loss::Prefix | Loss::Durable => 0,
            Loss::Nothing => self.queue.len(),
            Loss::Keep(count) => self.queue.len().min(count as usize),
        };
        let cut = matches!(loss, Loss::Drawn | Loss::Torn | Loss::Prefix);
        if cut {
            let upto = self.syncing.unwrap_or(0);
            self.cut(upto, loss, stream);
        } else {
            if keep > 0 {
                drop(self.settle(keep));
            }
            self.disk = self.disk.crash(&mut |_| Fate::Drop);
        }
        self.forget_queue();
        let lost = whole.saturating_sub(self.reaches()).min(unsynced);
        Lost { unsynced, lost, torn: cut && lost > 0 && lost < unsynced }
    }

    fn harm(&mut self, harm: Harm) -> bool {
        match harm {
            Harm::Wipe | Harm::Forget => {
                self.forget_queue();
                self.durable = 0;
                self.disk = MemDisk::new();
                let made = if harm == Harm::Wipe {
                    Journal::reset_damaged(Box::new(self.disk.clone()), self.config.clone())
                } else {
                    Journal::create(Box::new(self.disk.clone()), &self.config)
                };
                return made.is_ok();
            }
            Harm::Image => self.image = Some(self.disk.fork().crash(&mut |_| Fate::Drop)),
            Harm::Rollback => match &self.image {
                Some(image) => {
                    let disk = image.fork();
                    self.forget_queue();
                    self.durable = 0;
                    self.disk = disk;
                }
                None => return false,
            },
            Harm::Lie(on) => self.lies = on,
            Harm::Rot(on) => self.rots = on,
            Harm::Full(on) => self.full = on,
            Harm::SyncFail(on) => self.sync_fails = on,
            Harm::Misdirect(choice) => return self.misdirect(choice),
        }
        true
    }

    fn failed(&self) -> bool {
        self.disk.failures() > self.failures
    }

    fn copy(&self) -> Option<Box<dyn Storage>> {
        let mut copy = Self { disk: self.disk.fork().crash(&mut |_| Fate::Drop), ..Self::bare(&self.config) };
        copy.failures = copy.disk.failures();
        Some(Box::new(copy))
    }

    fn bytes(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.disk_bytes())
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
