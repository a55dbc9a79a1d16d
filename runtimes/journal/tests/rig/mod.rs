//! What the journal's tests share: small configurations, bodies, draws, exhaustive choices, and a model.
#![expect(dead_code, reason = "each test binary uses its own part of the rig")]

pub(crate) mod life;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use synod_journal::memory::{Fate, MemDisk, Unsynced};
use synod_journal::{Condition, Config, Error, Journal, Keep, LaneLog, Opened, Snapshot};

/// A configuration with segments of 20 KiB beside the slots.
pub(crate) fn config(lanes: u8) -> Config {
    let segment_bytes = 4096 * (1 + 2 * u64::from(lanes)) + 20 * 1024;
    Config { segment_bytes, salt: 0x5eed, ..Config::new([7; 32], 3, lanes) }
}

/// A new journal on a disk in memory, opened once.
pub(crate) fn fresh(config: &Config) -> (MemDisk, Opened) {
    let disk = MemDisk::new();
    Journal::create(Box::new(disk.clone()), config).expect("an empty disk takes a journal");
    let opened = open(&disk, config).expect("a new journal opens");
    (disk, opened)
}

pub(crate) fn open(disk: &MemDisk, config: &Config) -> Result<Opened, Error> {
    Journal::open(Box::new(disk.clone()), config.clone())
}

/// A body of `length` bytes that shows where it came from.
pub(crate) fn body(tag: u64, length: usize) -> Bytes {
    let mut draw = Draw(tag);
    (0..length).map(|_| draw.byte()).collect()
}

pub(crate) fn name_of(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// Keeps everything, as the kill of a process does.
pub(crate) fn keep_all(_: Unsynced<'_>) -> Fate {
    Fate::Keep
}

/// Loses everything not synced.
pub(crate) fn drop_all(_: Unsynced<'_>) -> Fate {
    Fate::Drop
}

/// A stream of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    pub(crate) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(u64::try_from(bound).expect("small"))).expect("small")
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[0]
    }

    /// Any fate, torn more often than not.
    pub(crate) fn fate(&mut self) -> Fate {
        match self.below(4) {
            0 => Fate::Keep,
            1 => Fate::Drop,
            _ => Fate::Torn(self.word()),
        }
    }
}

/// Runs `each` once for every path through its choices and returns how many there were.
pub(crate) fn explore(each: &mut dyn FnMut(&mut Choices)) -> usize {
    let mut choices = Choices { path: Vec::new(), at: 0 };
    let mut runs = 0;
    loop {
        choices.at = 0;
        each(&mut choices);
        runs += 1;
        while choices.path.last().is_some_and(|(chosen, of)| chosen + 1 == *of) {
            choices.path.pop();
        }
        match choices.path.last_mut() {
            Some((chosen, _)) => *chosen += 1,
            None => return runs,
        }
    }
}

/// The choices of one run.
pub(crate) struct Choices {
    path: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    /// One of `0..of`.
    pub(crate) fn pick(&mut self, of: usize) -> usize {
        if self.at == self.path.len() {
            self.path.push((0, of));
        }
        let (chosen, was) = self.path[self.at];
        assert_eq!(was, of, "a run depends on its choices alone");
        self.at += 1;
        chosen
    }

    /// Every subset of a small write's sectors; of a larger one all, none, each half, each single
    /// sector lost.
    pub(crate) fn fate(&mut self, unsynced: Unsynced<'_>) -> Fate {
        match unsynced {
            Unsynced::Entry { .. } => [Fate::Keep, Fate::Drop][self.pick(2)],
            Unsynced::Write { sectors, .. } if sectors <= 6 => {
                let subsets = 1usize << sectors;
                Fate::Torn(u64::try_from(self.pick(subsets)).expect("small"))
            }
            Unsynced::Write { .. } => {
                [Fate::Keep, Fate::Drop, Fate::Torn(0b1111), Fate::Torn(!0b1111), Fate::Torn(!1)]
                    [self.pick(5)]
            }
        }
    }
}

/// Something a machine asked of the journal.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Append { lane: u8, keep: Keep, body: Bytes },
    Store { lane: u8, bytes: Bytes },
    Erase { lane: u8, name: [u8; 32] },
}

/// What a journal holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) lanes: BTreeMap<u8, Vec<Bytes>>,
    pub(crate) blobs: BTreeSet<(u8, [u8; 32])>,
}

impl Contents {
    pub(crate) fn of(lanes: &[LaneLog], universe: &BTreeMap<[u8; 32], Bytes>, journal: &mut Journal) -> Self {
        let lanes = (0u8..).zip(lanes).map(|(lane, log)| (lane, log.records.clone()));
        let mut contents = Contents { lanes: lanes.collect(), blobs: BTreeSet::new() };
        for lane in contents.lanes.keys() {
            for (name, bytes) in universe {
                if let Some(loaded) = journal.load(*lane, *name).expect("an open journal loads") {
                    assert_eq!(&loaded, bytes, "a blob is the one that was stored");
                    contents.blobs.insert((*lane, *name));
                }
            }
        }
        contents
    }

    pub(crate) fn apply(&mut self, deed: &Deed) {
        match deed {
            Deed::Append { lane, body, .. } => self.lanes.entry(*lane).or_default().push(body.clone()),
            Deed::Store { lane, bytes } => {
                self.blobs.insert((*lane, name_of(bytes)));
            }
            Deed::Erase { lane, name } => {
                self.blobs.remove(&(*lane, *name));
            }
        }
    }

    /// The same, with snapshots in place of the logs.
    pub(crate) fn compacted(&self, snapshots: &[Snapshot]) -> Self {
        let lanes = (0u8..).zip(snapshots);
        let lanes =
            lanes.map(|(lane, records)| (lane, records.iter().map(|(_, body)| body.clone()).collect()));
        Contents { lanes: lanes.collect(), blobs: self.blobs.clone() }
    }
}

/// What was asked, and how much of it was reported durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) base: Contents,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) synced: usize,
    /// What may be found instead, because a compaction was under way.
    pub(crate) instead: Option<Contents>,
}

impl Model {
    /// A model of what a journal with this many lanes holds at first.
    pub(crate) fn new(lanes: u8) -> Self {
        let base =
            Contents { lanes: (0..lanes).map(|lane| (lane, Vec::new())).collect(), ..Contents::default() };
        Model { base, ..Model::default() }
    }

    pub(crate) fn append(&mut self, journal: &mut Journal, keep: Keep, body: Bytes) -> Result<(), Error> {
        self.perform(journal, Deed::Append { lane: 0, keep, body })
    }

    pub(crate) fn compact(&mut self, journal: &mut Journal, snapshots: &[Snapshot]) -> Result<(), Error> {
        let after = self.all().compacted(snapshots);
        self.instead = Some(after.clone());
        journal.compact(snapshots)?;
        *self = Model { base: after, ..Model::default() };
        Ok(())
    }

    /// Every blob the model has ever heard of since its base, and `more`.
    pub(crate) fn universe(&self, more: &[Bytes]) -> BTreeMap<[u8; 32], Bytes> {
        let stored = self.deeds.iter().filter_map(|deed| match deed {
            Deed::Store { bytes, .. } => Some(bytes.clone()),
            Deed::Append { .. } | Deed::Erase { .. } => None,
        });
        stored.chain(more.iter().cloned()).map(|bytes| (name_of(&bytes), bytes)).collect()
    }

    /// Asserts that a journal opened after a crash keeps every promise, and that it is of use: what is
    /// written to it now is there when it is opened again.
    pub(crate) fn check(&self, disk: &MemDisk, config: &Config, blobs: &[Bytes]) {
        let mut opened = open(disk, config).expect("a crash leaves a journal that opens");
        assert!(opened.lanes.iter().all(|lane| lane.condition == Condition::Clean), "{:?}", opened.damage);
        let (mut journal, lanes) = (opened.journal, std::mem::take(&mut opened.lanes));
        let found = Contents::of(&lanes, &self.universe(blobs), &mut journal);
        assert!(self.allows(&found), "found {found:?}\nallowed {self:?}");
        let mut next = Model { base: found, ..Model::default() };
        next.append(&mut journal, Keep::LogAndSlot, body(99, 100)).expect("the journal takes a record");
        next.sync(&mut journal).expect("the journal syncs");
        drop(journal);
        let again = open(disk, config).expect("the journal opens again");
        let mut journal = again.journal;
        assert_eq!(Contents::of(&again.lanes, &self.universe(blobs), &mut journal), next.all());
        assert_eq!(again.lanes[0].condition, Condition::Clean);
    }

    pub(crate) fn perform(&mut self, journal: &mut Journal, deed: Deed) -> Result<(), Error> {
        self.deeds.push(deed.clone());
        match deed {
            Deed::Append { lane, keep, body } => journal.append(lane, keep, body)?,
            Deed::Store { lane, bytes } => journal.store(lane, name_of(&bytes), bytes)?,
            Deed::Erase { lane, name } => journal.erase(lane, name)?,
        };
        Ok(())
    }

    pub(crate) fn sync(&mut self, journal: &mut Journal) -> Result<(), Error> {
        let durable = journal.sync()?;
        assert_eq!(durable, journal.issued(), "a sync settles all that was given out");
        self.synced = self.deeds.len();
        Ok(())
    }

    /// Everything that was asked.
    pub(crate) fn all(&self) -> Contents {
        self.prefix(self.deeds.len())
    }

    pub(crate) fn prefix(&self, length: usize) -> Contents {
        let mut contents = self.base.clone();
        for deed in &self.deeds[..length] {
            contents.apply(deed);
        }
        contents
    }

    /// Property J-S1: a prefix, not shorter than the last successful sync; a lane may end with a safety
    /// record of the unsynced rest, which its slot kept.
    pub(crate) fn allows(&self, found: &Contents) -> bool {
        if self.instead.as_ref() == Some(found) {
            return true;
        }
        (self.synced..=self.deeds.len()).any(|length| {
            let expected = self.prefix(length);
            expected.blobs == found.blobs
                && found.lanes.iter().all(|(lane, records)| {
                    let empty = Vec::new();
                    let expected = expected.lanes.get(lane).unwrap_or(&empty);
                    expected == records || self.allows_slot(*lane, &self.deeds[length..], expected, records)
                })
        })
    }

    fn allows_slot(&self, lane: u8, rest: &[Deed], expected: &[Bytes], found: &[Bytes]) -> bool {
        let Some((last, before)) = found.split_last() else { return false };
        let in_rest = rest.iter().any(|deed| match deed {
            Deed::Append { lane: at, keep: Keep::LogAndSlot, body } => *at == lane && body == last,
            _ => false,
        });
        before == expected && in_rest
    }
}
