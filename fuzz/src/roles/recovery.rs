//! The journal across crashes and rot: what comes back is what was written, nothing durable is lost to a crash.

use synod_journal::memory::{Fate, MemDisk, Unsynced};
use synod_journal::{Condition, Config, Error, Journal, Keep, Lsn, Opened};
use synod_wire::Bytes;

use crate::check::accept;
use crate::tape::Tape;

const LANES: u8 = 2;

fn config() -> Config {
    let segment_bytes = 4_096 * (1 + 2 * u64::from(LANES)) + 20 * 1_024;
    Config { segment_bytes, salt: 0x5eed, ..Config::new([7; 32], 3, LANES) }
}

/// Appends, syncs, cuts the power, flips bytes, opens again.
///
/// # Panics
/// When a record comes back that was not written there, or, without rot, is out of order, or a durable one is missing.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let disk = MemDisk::new();
    let created = Journal::create(Box::new(disk.clone()), &config());
    assert!(created.is_ok(), "an empty disk takes a journal: {created:?}");
    let Ok(opened) = Journal::open(Box::new(disk.clone()), config()) else {
        unreachable!("a new journal opens")
    };
    let mut story = Story { disk, journal: opened.journal, lanes: Default::default(), rotten: false };
    while !tape.is_over() {
        if !story.step(&mut tape) {
            return;
        }
    }
    accept();
}

struct Story {
    disk: MemDisk,
    journal: Journal,
    /// What was appended to each lane, in order.
    lanes: [Vec<(Lsn, Bytes)>; LANES as usize],
    rotten: bool,
}

impl Story {
    /// One thing happens; false when the journal is gone for good.
    fn step(&mut self, tape: &mut Tape<'_>) -> bool {
        match tape.below(10) {
            0..=5 => self.append(tape),
            6 => self.journal.sync().is_ok(),
            7 => self.journal.mark().is_ok(),
            8 => {
                let name = format!("{:016x}.seg", 1 + tape.below(2));
                let at = u64::from(tape.word());
                self.rotten |= self.disk.rot(&name, at % (28 << 10), tape.byte());
                true
            }
            _ => self.crash(tape),
        }
    }

    fn append(&mut self, tape: &mut Tape<'_>) -> bool {
        let lane = tape.below(usize::from(LANES));
        let keep = if tape.byte().is_multiple_of(4) { Keep::LogAndSlot } else { Keep::Log };
        let body =
            Bytes::copy_from_slice(tape.short()).repeat(1 + usize::from(tape.byte().is_multiple_of(5)) * 8);
        let body = Bytes::from(body);
        match self.journal.append(u8::try_from(lane).unwrap_or(0), keep, body.clone()) {
            Ok(lsn) => {
                self.lanes[lane].push((lsn, body));
                true
            }
            Err(_) => false,
        }
    }

    fn crash(&mut self, tape: &mut Tape<'_>) -> bool {
        let durable = self.journal.durable();
        let mut fate = |_: Unsynced<'_>| match tape.byte() % 4 {
            0 => Fate::Keep,
            1 => Fate::Drop,
            _ => Fate::Torn(u64::from(tape.word()) * 0x9e37_79b9_7f4a_7c15),
        };
        self.disk = self.disk.crash(&mut fate);
        match Journal::open(Box::new(self.disk.clone()), config()) {
            Ok(opened) => self.compare(opened, durable),
            Err(error) => {
                let corrupt =
                    matches!(error, Error::Corrupt { .. } | Error::Newer { .. } | Error::Foreign { .. });
                assert!(self.rotten && corrupt, "a crash alone costs the journal: {error}");
                false
            }
        }
    }

    fn compare(&mut self, opened: Opened, durable: Lsn) -> bool {
        for (lane, log) in self.lanes.iter_mut().zip(&opened.lanes) {
            // Rot hides records and a second flip of the same bit shows them again, so only their origin is known.
            let known = log.records.iter().all(|record| lane.iter().any(|(_, body)| body == record));
            assert!(known, "a record came back that was not written there");
            if self.rotten {
                continue;
            }
            assert_eq!(log.condition, Condition::Clean, "a crash alone damages nothing");
            let prefix = lane.iter().zip(&log.records).all(|((_, body), record)| body == record);
            assert!(prefix, "records came back out of order");
            let kept = lane.iter().filter(|(lsn, _)| *lsn <= durable).count();
            assert!(log.records.len() >= kept, "{} records came back of {kept} durable", log.records.len());
            lane.truncate(log.records.len());
        }
        self.journal = opened.journal;
        true
    }
}
