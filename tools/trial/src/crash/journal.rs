//! The journal alone: 200 steps of writes, syncs and compactions, the power cut at each of them.
//!
//! J-S1: a start finds a prefix of what was written, no shorter than what a sync reported, and at most one safety record
//! per lane beyond it. J-S2: a disk that only lost power is not damaged.

use synod_machine::{Condition, Keep};
use synod_quorum::NodeId;
use synod_sim::{BlockJournal, Draws, Loss, RecordJournal, Storage, Stream, Written};
use synod_wire::Bytes;

use super::enumerate::Manner;
use super::point::Point;
use super::report::{FAILURES_MAX, Failure, SystemReport};
use crate::run::commit;
use crate::systems::journal::{Entry, SYSTEM, prefix};

const LANES: u8 = 2;
/// Steps of the conversation.
const STEPS: u32 = 200;

/// One step of it.
#[derive(Clone)]
enum Act {
    Write(Entry),
    Begin,
    Commit,
    Compact(Vec<Vec<(Keep, Bytes)>>),
}

/// The conversation: what its user does, one thing after the other.
fn conversation() -> Vec<Act> {
    let mut stream = Draws::new(9).stream("journal crash", 0);
    let (mut acts, mut written, mut syncing) = (Vec::new(), Vec::new(), false);
    for number in 0..u64::from(STEPS) {
        let act = match stream.below(10) {
            0..=5 => {
                let entry = entry(&mut stream, number);
                written.push(entry.clone());
                Act::Write(entry)
            }
            _ if syncing => {
                syncing = false;
                Act::Commit
            }
            6..=8 => {
                syncing = true;
                Act::Begin
            }
            _ => Act::Compact(snapshots(&written)),
        };
        acts.push(act);
    }
    acts
}

fn entry(stream: &mut Stream, number: u64) -> Entry {
    let lane = u8::try_from(stream.below(u64::from(LANES))).unwrap_or(0);
    let keep = if stream.chance(300_000) { Keep::LogAndSlot } else { Keep::Log };
    let longest = if keep == Keep::Log { 3_000 } else { 300 };
    let length = usize::try_from(stream.log_uniform(1, longest)).unwrap_or(1);
    let body = number.to_le_bytes().into_iter().cycle().take(8 + length).collect();
    Entry { lane, keep, body }
}

fn snapshots(written: &[Entry]) -> Vec<Vec<(Keep, Bytes)>> {
    let of = |lane: u8| {
        let own = written.iter().filter(move |entry| entry.lane == lane);
        own.map(|entry| (Keep::Log, entry.body.clone())).collect()
    };
    (0..LANES).map(of).collect()
}

/// The disk after the first acts, and how many records a sync had reported.
fn played<D: Storage>(mut disk: D, acts: &[Act]) -> (D, Vec<Entry>, usize) {
    let (mut written, mut covered, mut reported) = (Vec::new(), 0, 0);
    if let Err(refusal) = disk.open() {
        unreachable!("an empty journal opens: {}", refusal.0)
    }
    for act in acts {
        match act {
            Act::Write(entry) => {
                let lsn = disk.reserve(entry.lane);
                disk.write(entry.lane, lsn, Written::Record(entry.keep, entry.body.clone()));
                written.push(entry.clone());
            }
            Act::Begin => {
                if disk.begin() {
                    covered = written.len();
                }
            }
            Act::Commit => match disk.commit() {
                Ok(_) => reported = covered,
                Err(failed) => unreachable!("a disk in order takes what is written: {}", failed.0),
            },
            Act::Compact(snapshots) => disk.compact(snapshots.clone()),
        }
    }
    (disk, written, reported)
}

fn outcomes(acts: &[Act], blocks: bool) -> (Vec<Box<dyn Storage>>, Vec<Entry>, usize) {
    if blocks {
        let (disk, written, reported) = played(BlockJournal::new(NodeId(0), usize::from(LANES)), acts);
        let disks = disk.cuts().into_iter().map(|disk| Box::new(disk) as Box<dyn Storage>).collect();
        return (disks, written, reported);
    }
    let (disk, written, reported) = played(RecordJournal::new(usize::from(LANES)), acts);
    let mut stream = Draws::new(0).stream("crash", 0);
    let unsynced = disk.clone().crash(Loss::Durable, &mut stream).unsynced;
    let kept = |kept: u64| {
        let mut disk = disk.clone();
        disk.crash(Loss::Keep(u32::try_from(kept).unwrap_or(u32::MAX)), &mut stream);
        Box::new(disk) as Box<dyn Storage>
    };
    ((0..=unsynced).map(kept).collect(), written, reported)
}

/// Why what a start finds is wrong.
fn wrong(mut disk: Box<dyn Storage>, written: &[Entry], reported: usize) -> Option<(&'static str, String)> {
    let logs = match disk.open() {
        Ok(logs) => logs,
        Err(refusal) => return Some(("J-S1", format!("an intact disk was refused: {}", refusal.0))),
    };
    if logs.iter().any(|log| log.condition == Condition::Damaged) {
        return Some(("J-S2", "a disk that only lost power counts as damaged".to_owned()));
    }
    let lanes: Vec<&[Bytes]> = logs.iter().map(|log| log.records.as_slice()).collect();
    if prefix(written, reported, &lanes).is_some() {
        return None;
    }
    let found: Vec<usize> = lanes.iter().map(|lane| lane.len()).collect();
    let all = written.len();
    Some(("J-S1", format!("{found:?} records are no prefix of {all} with at least {reported}")))
}

/// Cuts the power at every step.
pub(super) fn enumerate(manner: Manner) -> SystemReport {
    let mut report = SystemReport { system: SYSTEM.to_owned(), ..SystemReport::default() };
    let acts = conversation();
    for boundary in 0..=STEPS {
        let elsewhere = manner.only.is_some_and(|(wanted, _)| wanted != boundary);
        if elsewhere || !boundary.is_multiple_of(manner.stride) {
            continue;
        }
        report.points += 1;
        let upto = usize::try_from(boundary).unwrap_or(usize::MAX).min(acts.len());
        let (disks, written, reported) = outcomes(&acts[..upto], manner.blocks);
        for (outcome, disk) in (0_u32..).zip(disks) {
            if manner.only.is_some_and(|(_, wanted)| wanted != outcome) {
                continue;
            }
            report.outcomes += 1;
            let Some((checker, what)) = wrong(disk, &written, reported) else { continue };
            report.gate_violations += 1;
            if report.failures.len() < FAILURES_MAX {
                let (system, blocks) = (SYSTEM.to_owned(), manner.blocks);
                let point = Point { system, member: 0, boundary, outcome, blocks, commit: commit() };
                let token = point.to_string();
                report.failures.push(Failure { token, checker: checker.to_owned(), what });
            }
        }
    }
    report
}
