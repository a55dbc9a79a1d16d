//! One node's random life on one disk.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_journal::memory::{Failure, MemDisk, Strike};
use synod_journal::{Condition, Config, Error, Journal, Keep, Opened, Snapshot};

use super::{Contents, Deed, Draw, Model, body, config, name_of, open};

const LANES: u8 = 2;

/// One node's life on one disk.
pub(crate) struct Life {
    draw: Draw,
    config: Config,
    disk: MemDisk,
    model: Model,
    universe: BTreeMap<[u8; 32], Bytes>,
    pub(crate) crashes: u64,
    pub(crate) compactions: u64,
    pub(crate) rotations: u64,
}

impl Life {
    pub(crate) fn new(seed: u64) -> Self {
        let config = config(LANES);
        let disk = MemDisk::new();
        Journal::create(Box::new(disk.clone()), &config).expect("an empty disk takes a journal");
        let draw = Draw(seed);
        let (model, universe) = (Model::new(LANES), BTreeMap::new());
        Life { draw, config, disk, model, universe, crashes: 0, compactions: 0, rotations: 0 }
    }

    fn deed(&mut self) -> Deed {
        let lane = u8::try_from(self.draw.below(u64::from(LANES))).expect("small");
        let tag = self.draw.word();
        match self.draw.below(8) {
            0..=2 => {
                let length = self.draw.index(1500);
                Deed::Append { lane, keep: Keep::Log, body: body(tag, length) }
            }
            3 | 4 => {
                let length = self.draw.index(300);
                Deed::Append { lane, keep: Keep::LogAndSlot, body: body(tag, length) }
            }
            5 | 6 => {
                // Few different blobs, so that names are stored again after they were erased.
                let bytes = body(self.draw.below(6), [40, 700, 3000, 9000][self.draw.index(4)]);
                self.universe.insert(name_of(&bytes), bytes.clone());
                Deed::Store { lane, bytes }
            }
            _ => {
                let names: Vec<_> = self.universe.keys().copied().collect();
                let name = if names.is_empty() { [0; 32] } else { names[self.draw.index(names.len())] };
                Deed::Erase { lane, name }
            }
        }
    }

    /// Snapshots that keep the last records of each lane.
    fn compact(&mut self, journal: &mut Journal) -> Result<(), Error> {
        let all = self.model.all();
        let snapshots: Vec<Snapshot> = all
            .lanes
            .values()
            .map(|records| {
                let keep = [Keep::Log, Keep::LogAndSlot];
                let last = records.iter().rev().take(self.draw.index(4)).rev();
                last.map(|body| (keep[self.draw.index(2)], body.clone())).collect()
            })
            .collect();
        self.model.compact(journal, &snapshots)?;
        self.compactions += 1;
        Ok(())
    }

    fn live(&mut self, journal: &mut Journal) -> Result<(), Error> {
        for _ in 0..self.draw.below(60) {
            match self.draw.below(12) {
                0..=6 => {
                    let deed = self.deed();
                    self.model.perform(journal, deed)?;
                }
                7..=9 => self.model.sync(journal)?,
                10 => {
                    journal.mark()?;
                }
                _ => self.compact(journal)?,
            }
        }
        Ok(())
    }

    /// Opens, perhaps through crashes during recovery, and checks what is there.
    fn reopen(&mut self) -> Journal {
        loop {
            if self.draw.below(3) == 0 {
                let nth = self.draw.below(12);
                self.disk.fail(Strike::Any, nth, Failure::Stop);
            }
            match open(&self.disk, &self.config) {
                Ok(opened) => return self.accept(opened),
                Err(error) => {
                    assert_eq!(error.code(), 5004, "only the crash ends recovery: {error}");
                    self.crash();
                }
            }
        }
    }

    fn accept(&mut self, opened: Opened) -> Journal {
        let Opened { mut journal, lanes, damage, .. } = opened;
        assert!(lanes.iter().all(|lane| lane.condition != Condition::Damaged), "{damage:?}");
        let found = Contents::of(&lanes, &self.universe, &mut journal);
        assert!(self.model.allows(&found), "found {found:?}\nallowed {:?}", self.model);
        self.model = Model { base: found, ..Model::default() };
        journal
    }

    fn crash(&mut self) {
        let mut draw = Draw(self.draw.word());
        self.disk = self.disk.crash(&mut |_| draw.fate());
        self.crashes += 1;
    }

    /// Most often the power fails; sometimes the disk does.
    fn arm(&mut self) {
        let nth = self.draw.below(120);
        let (strike, failure) = match self.draw.below(8) {
            0 => (Strike::Write, Failure::Full),
            1 => (Strike::Write, Failure::Short),
            2 => (Strike::Sync, Failure::Error),
            3 => (Strike::SyncDir, Failure::Error),
            _ => (Strike::Any, Failure::Stop),
        };
        let nth = if strike == Strike::Any { nth } else { nth / 8 };
        self.disk.fail(strike, nth, failure);
    }

    pub(crate) fn run(&mut self, incarnations: u64) {
        for _ in 0..incarnations {
            let mut journal = self.reopen();
            self.arm();
            let lived = self.live(&mut journal);
            self.rotations += journal.counters().segments - journal.counters().compactions;
            if lived.is_ok() && self.draw.below(2) == 0 {
                // The process is killed and the machine stays up: what was written stays.
                drop(journal);
            } else {
                drop(journal);
                self.crash();
            }
        }
    }
}
