//! The journal alone: random lives on a disk of blocks that loses power, fails syncs and runs full.
//!
//! J-S1: a start finds a prefix of what was written, in the order of all lanes together, no shorter than what a sync
//! reported; beyond it at most one safety record per lane, which its slot kept. J-S3: after a failed write or sync nothing is reported as durable. A disk that only loses power is never
//! damaged: J-S2. Snapshots repeat what their lanes hold, so compaction changes nothing that a start may find.

use synod_crypto::{Hash, Hasher};
use synod_machine::{Condition, Keep};
use synod_quorum::NodeId;
use synod_sim::{BlockJournal, Draws, Harm, Loss, Scenario, Storage, Stream, Violation, Written};
use synod_wire::Bytes;

use crate::report::{Coverage, EffectiveReport, Outcome, RunReport, ratio};

/// The value of `--system`.
pub const SYSTEM: &str = "journal";

const LANES: u8 = 2;
/// Lives of a run.
const LIVES: u64 = 12;
/// Most steps of a life.
const STEPS: u64 = 60;

/// One record, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its lane.
    pub(crate) lane: u8,
    /// Whether a slot keeps it too.
    pub(crate) keep: Keep,
    /// What was written.
    pub(crate) body: Bytes,
}

/// J-S1: how many of the first records of all lanes a start found, at least `reported` and as many as possible, and what
/// it found beyond them: at most one safety record per lane, which its slot kept.
pub(crate) fn prefix(written: &[Entry], reported: usize, lanes: &[&[Bytes]]) -> Option<(usize, Vec<Entry>)> {
    let lengths = (reported..=written.len()).rev();
    lengths.map(|length| (length, beyond(written, length, lanes))).find_map(both)
}

struct Life {
    disk: BlockJournal,
    stream: Stream,
    /// Everything that a start may find, in the order of all lanes.
    written: Vec<Entry>,
    /// How many of them a start must find.
    reported: usize,
    number: u64,
    crashes: u64,
    audit: Hasher,
}

/// What the lanes hold beyond the first `length` records of all; `None` when they do not hold those, or more than a
/// slot can keep: one safety record of the rest each.
fn beyond(written: &[Entry], length: usize, lanes: &[&[Bytes]]) -> Option<Vec<Entry>> {
    let (first, rest) = written.split_at(length);
    let mut more = Vec::new();
    for (records, lane) in lanes.iter().zip(0_u8..) {
        let wanted: Vec<&Bytes> = first.iter().filter(|e| e.lane == lane).map(|e| &e.body).collect();
        let (held, beyond) = records.split_at_checked(wanted.len())?;
        if !held.iter().eq(wanted) {
            return None;
        }
        let slotted = |body: &Bytes| {
            rest.iter().find(|e| e.lane == lane && e.keep == Keep::LogAndSlot && e.body == *body).cloned()
        };
        match beyond {
            [] => {}
            [body] => more.push(slotted(body)?),
            _ => return None,
        }
    }
    Some(more)
}

fn both<T>((length, more): (usize, Option<T>)) -> Option<(usize, T)> {
    more.map(|more| (length, more))
}

fn broken(checker: &str, what: String) -> Result<(), Violation> {
    Err(Violation::new(checker, what))
}

impl Life {
    fn new(seed: u64) -> Self {
        Self {
            disk: BlockJournal::new(NodeId(0), usize::from(LANES)),
            stream: Draws::new(seed).stream("journal", 0),
            written: Vec::new(),
            reported: 0,
            number: 0,
            crashes: 0,
            audit: Hasher::new("synod trial journal"),
        }
    }

    /// Starts, and compares what is there with what may be there.
    fn open(&mut self) -> Result<(), Violation> {
        let logs = match self.disk.open() {
            Ok(logs) => logs,
            Err(refusal) => return broken("J-S1", format!("an intact disk was refused: {}", refusal.0)),
        };
        if logs.iter().any(|log| log.condition == Condition::Damaged) {
            return broken("J-S2", "a disk that only lost power counts as damaged".to_owned());
        }
        let lanes: Vec<&[Bytes]> = logs.iter().map(|log| log.records.as_slice()).collect();
        let Some((length, more)) = prefix(&self.written, self.reported, &lanes) else {
            let found: Vec<usize> = logs.iter().map(|log| log.records.len()).collect();
            let (reported, written) = (self.reported, self.written.len());
            let what = format!("{found:?} records are no prefix of {written} with at least {reported}");
            return broken("J-S1", what);
        };
        self.written.truncate(length);
        self.written.extend(more);
        self.reported = self.written.len();
        self.audit.add(&(self.reported as u64).to_le_bytes());
        Ok(())
    }

    /// Sometimes the next sync fails, or finds the disk full.
    fn arm(&mut self) {
        match self.stream.below(6) {
            0 => drop(self.disk.harm(Harm::SyncFail(true))),
            1 => drop(self.disk.harm(Harm::Full(true))),
            _ => {}
        }
    }

    fn write(&mut self) {
        let lane = u8::try_from(self.stream.below(u64::from(LANES))).unwrap_or(0);
        let keep = if self.stream.chance(300_000) { Keep::LogAndSlot } else { Keep::Log };
        let longest = if keep == Keep::Log { 9_000 } else { 300 };
        let length = usize::try_from(self.stream.log_uniform(1, longest)).unwrap_or(1);
        self.number += 1;
        let body: Bytes = self.number.to_le_bytes().into_iter().cycle().take(8 + length).collect();
        let lsn = self.disk.reserve(lane);
        self.disk.write(lane, lsn, Written::Record(keep, body.clone()));
        self.written.push(Entry { lane, keep, body });
    }

    /// Syncs; false when the process has to end.
    fn sync(&mut self) -> Result<bool, Violation> {
        if !self.disk.begin() {
            return Ok(true);
        }
        let covered = self.written.len();
        let Ok(moved) = self.disk.commit() else { return Ok(false) };
        if self.disk.failed() {
            let what = format!("{} lanes are reported durable after a failed write or sync", moved.len());
            return broken("J-S3", what).map(|()| false);
        }
        self.reported = covered;
        Ok(true)
    }

    fn compact(&mut self) {
        let of = |lane: u8| {
            let own = self.written.iter().filter(move |entry| entry.lane == lane);
            own.map(|entry| (Keep::Log, entry.body.clone())).collect()
        };
        let snapshots = (0..LANES).map(of).collect();
        self.disk.compact(snapshots);
    }

    fn live(&mut self) -> Result<(), Violation> {
        self.open()?;
        self.arm();
        for _ in 0..self.stream.below(STEPS) {
            match self.stream.below(12) {
                0..=6 => self.write(),
                7..=10 if !self.sync()? => break,
                7..=10 => {}
                _ => self.compact(),
            }
        }
        let loss = if self.stream.chance(750_000) { Loss::Drawn } else { Loss::Durable };
        // A cut may fall into a sync.
        if self.stream.chance(500_000) {
            self.disk.begin();
        }
        self.disk.crash(loss, &mut self.stream);
        self.crashes += 1;
        Ok(())
    }
}

/// Runs a scenario of the journal; only its seed matters.
#[must_use]
pub fn run(scenario: &Scenario, token: &str) -> RunReport {
    let started = std::time::Instant::now();
    let mut life = Life::new(scenario.seed);
    let verdict = (0..LIVES).try_for_each(|_| life.live()).and_then(|()| life.open());
    let violation = verdict.err();
    RunReport {
        schema: "synod-sim-run/1",
        verdict: if violation.is_some() { Outcome::Violation } else { Outcome::Pass },
        checker: violation.as_ref().map(|v| v.checker.clone()).unwrap_or_default(),
        what: violation.map(|v| format!("{}: {}", v.checker, v.what)).unwrap_or_default(),
        token: token.to_owned(),
        scenario_hash: Hash::of(scenario.to_toml().as_bytes()).to_string(),
        audit: life.audit.finish().to_string(),
        events: life.number,
        virtual_ms: 0,
        virtual_s: 0,
        wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        families: Vec::new(),
        faults: life.crashes,
        effective: EffectiveReport { lost_suffix: life.crashes > 0, ..EffectiveReport::default() },
        cells: Vec::new(),
        rules: Coverage::default(),
        bytes_permille_max: 0,
        bytes_ratio_max: ratio(0),
        bytes_growth: 0,
        nodes: 1,
        wan: false,
        complete: true,
        views: 0,
        blocks: 0,
        delivered: 0,
        executed: 0,
        accepted: 0,
        counts: std::collections::BTreeMap::new(),
        violated_ns: 0,
        columns: String::new(),
        lines: Vec::new(),
        applied: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{SYSTEM, run};
    use synod_sim::Scenario;

    #[test]
    fn the_journal_keeps_what_it_reported_over_many_lives() {
        let (mut records, mut crashes) = (0, 0);
        for seed in 0..40 {
            let report = run(&Scenario::quiet(SYSTEM, seed), "test");
            assert!(report.passed(), "seed {seed}: {}", report.what);
            records += report.events;
            crashes += report.faults;
        }
        assert!(records > 5_000 && crashes == 480, "{records} records, {crashes} crashes");
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let audit = |seed| run(&Scenario::quiet(SYSTEM, seed), "test").audit;
        assert!(audit(3) == audit(3) && audit(3) != audit(4));
    }
}
