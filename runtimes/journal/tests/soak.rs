//! Long random lives: appends, blobs, syncs, rotations, compactions, and a crash at a random operation
//! with a random fate for each unsynced write. After every crash the journal must hold what J-S1 allows.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_journal::memory::{Failure, MemDisk, Strike};
use synod_journal::{Condition, Config, Error, Journal, Keep, Snapshot};

mod rig;
use rig::{Contents, Deed, Draw, Model, body, config, name_of};

const LANES: u8 = 2;

/// One node's life on one disk.
struct Life {
    draw: Draw,
    config: Config,
    disk: MemDisk,
    model: Model,
    /// What the journal may hold instead, because a compaction was under way.
    instead: Option<Contents>,
    universe: BTreeMap<[u8; 32], Bytes>,
    crashes: u64,
    compactions: u64,
}

impl Life {
    fn new(seed: u64) -> Self {
        let config = config(LANES);
        let disk = MemDisk::new();
        Journal::create(Box::new(disk.clone()), &config).expect("an empty disk takes a journal");
        let draw = Draw(seed);
        let (model, universe) = (Model::default(), BTreeMap::new());
        let mut life =
            Life { draw, config, disk, model, instead: None, universe, crashes: 0, compactions: 0 };
        for lane in 0..LANES {
            life.model.base.lanes.insert(lane, Vec::new());
        }
        life
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
        let after = all.compacted(&snapshots);
        self.instead = Some(after.clone());
        journal.compact(&snapshots)?;
        self.instead = None;
        self.model = Model { base: after, deeds: Vec::new(), synced: 0 };
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
            match rig::open(&self.disk, &self.config) {
                Ok(opened) => {
                    self.disk = self.disk.clone();
                    return self.accept(opened);
                }
                Err(error) => {
                    assert_eq!(error.code(), 5004, "only the crash ends recovery: {error}");
                    self.crash();
                }
            }
        }
    }

    fn accept(&mut self, mut opened: synod_journal::Opened) -> Journal {
        assert!(opened.lanes.iter().all(|lane| lane.condition != Condition::Damaged), "{:?}", opened.damage);
        let mut journal = std::mem::replace(&mut opened.journal, rig::fresh(&self.config).1.journal);
        let found = Contents::of(&opened, &self.universe, &mut journal);
        let allowed = self.model.allows(&found) || self.instead.as_ref() == Some(&found);
        assert!(allowed, "found {found:?}\nallowed {:?}\ninstead {:?}", self.model, self.instead);
        self.model = Model { base: found, deeds: Vec::new(), synced: 0 };
        self.instead = None;
        journal
    }

    fn crash(&mut self) {
        let mut draw = Draw(self.draw.word());
        self.disk = self.disk.crash(&mut |_| draw.fate());
        self.crashes += 1;
    }

    fn run(&mut self, incarnations: u64) {
        for _ in 0..incarnations {
            let mut journal = self.reopen();
            let nth = self.draw.below(120);
            self.disk.fail(Strike::Any, nth, Failure::Stop);
            let lived = self.live(&mut journal);
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

#[test]
fn no_crash_of_a_long_life_loses_what_was_synced() {
    let (mut crashes, mut compactions) = (0, 0);
    for seed in 0..400 {
        let mut life = Life::new(seed);
        life.run(12);
        crashes += life.crashes;
        compactions += life.compactions;
    }
    assert!(crashes > 3000, "{crashes} crashes are too few to mean anything");
    assert!(compactions > 1000, "{compactions} compactions are too few to mean anything");
}
