//! Cases that show when a journal is opened: whose it is, what is damaged in it, what it holds that nobody knows.

use synod_journal::memory::MemDisk;
use synod_journal::{Condition, Config, Error, Journal, Keep, Opened};
use synod_machine::host::LaneLog;
use synod_wire::Bytes;

use crate::crash::control::{Woken, wake};

type Outcome = Result<String, String>;

/// The lane of safety records.
const LANE: u8 = 0;
/// Where the slots begin, and how long one is: behind the header's page.
const SLOTS: u64 = 4_096;
/// Records that are durable.
const RECORDS: u8 = 6;

fn config(member: u32, cluster: u8) -> Config {
    Config::new([cluster; 32], member, 2)
}

/// A disk with some safety records, all synced, and their bodies.
fn written() -> Result<(MemDisk, Vec<Bytes>), String> {
    let disk = MemDisk::new();
    let failed = |error: Error| error.to_string();
    Journal::create(Box::new(disk.clone()), &config(1, 7)).map_err(failed)?;
    let mut journal = open(&disk, config(1, 7)).map_err(failed)?.journal;
    let mut bodies = Vec::new();
    for number in 0..RECORDS {
        let body = Bytes::from(vec![b'a' + number; 100]);
        journal.append(LANE, Keep::LogAndSlot, body.clone()).map_err(failed)?;
        journal.sync().map_err(failed)?;
        bodies.push(body);
    }
    // A mark shows that all before it is durable, as an idle journal writes one.
    journal.mark().map_err(failed)?;
    journal.sync().map_err(failed)?;
    drop(journal);
    Ok((disk.crash(&mut |_| synod_journal::memory::Fate::Drop), bodies))
}

fn open(disk: &MemDisk, config: Config) -> Result<Opened, Error> {
    Journal::open(Box::new(disk.clone()), config)
}

fn segment(disk: &MemDisk) -> Result<String, String> {
    let mut disk = disk.clone();
    let names = synod_journal::Disk::list(&mut disk).map_err(|error| error.to_string())?;
    let found = names.into_iter().find(|name| disk.contents(name).is_some_and(|bytes| bytes.len() > 8_192));
    found.ok_or_else(|| "there is no segment".to_owned())
}

/// M4: a disk of another member, and one of another cluster.
pub(super) fn swapped() -> Outcome {
    let (disk, _) = written()?;
    let mut seen = Vec::new();
    for wrong in [config(2, 7), config(1, 8)] {
        match open(&disk, wrong) {
            Err(error) if error.code() == 1_108 => seen.push(error.to_string()),
            Err(error) => return Err(format!("refused for another reason: {error}")),
            Ok(_) => return Err("a foreign disk was opened".to_owned()),
        }
    }
    let intact = open(&disk, config(1, 7)).map_err(|error| error.to_string())?;
    let clean = intact.lanes.iter().all(|lane| lane.condition == Condition::Clean);
    if !clean {
        return Err("the attempt damaged the disk for its owner".to_owned());
    }
    Ok(format!("{}, exit 3; its owner finds it whole", seen.join("; ")))
}

/// M8: both slots damaged and the log whole; a durable record damaged; and a member with such a log among its peers.
pub(super) fn damaged(pack: &str) -> Outcome {
    let (disk, bodies) = written()?;
    let name = segment(&disk)?;
    let before = disk.contents(&name).unwrap_or_default();
    for slot in 0..2 {
        for byte in 0..64 {
            disk.rot(&name, SLOTS + slot * 4_096 + byte, 0xff);
        }
    }
    let opened = open(&disk, config(1, 7)).map_err(|error| error.to_string())?;
    let lane = opened.lanes.first().ok_or("no lane")?;
    if lane.condition != Condition::Clean || lane.records != bodies {
        return Err(format!(
            "slots damaged: the lane is {:?} with {} records",
            lane.condition,
            lane.records.len()
        ));
    }
    let mut journal = opened.journal;
    journal.append(LANE, Keep::LogAndSlot, Bytes::from_static(b"next")).map_err(|e| e.to_string())?;
    journal.sync().map_err(|e| e.to_string())?;
    drop(journal);
    let repaired = open(&disk.crash(&mut |_| synod_journal::memory::Fate::Drop), config(1, 7));
    let repaired = repaired.map_err(|error| error.to_string())?;
    if repaired.lanes.iter().any(|lane| lane.condition != Condition::Clean) {
        return Err("the repaired slots are damage at the next start".to_owned());
    }
    let spot = flipped(&before, &bodies)?;
    let listened = match wake(pack, |logs| logs.iter_mut().for_each(damage))? {
        Woken::Silent { steps } => steps,
        Woken::Promised(what) => return Err(format!("with a damaged log it promised: {what}")),
        Woken::Refused(why) => return Err(format!("with a damaged log it does not come up: {why}")),
    };
    Ok(format!(
        "slots are repaired from the log; damage at {spot} is found, and {listened} tempting steps get no promise"
    ))
}

fn damage(log: &mut LaneLog) {
    log.condition = synod_machine::Condition::Damaged;
}

/// A bit of the second durable record flips: found, with its place.
fn flipped(before: &[u8], bodies: &[Bytes]) -> Outcome {
    let (disk, _) = written()?;
    let name = segment(&disk)?;
    let body = bodies.get(1).ok_or("too few records")?;
    let behind = usize::try_from(SLOTS * 5).unwrap_or(usize::MAX);
    let at =
        before.get(behind..).and_then(|log| log.windows(body.len()).position(|window| window == &body[..]));
    let at = at.ok_or("the record is not in the log")? + behind + 7;
    if !disk.rot(&name, u64::try_from(at).unwrap_or(0), 1) {
        return Err("the disk has no such byte".to_owned());
    }
    let opened = open(&disk, config(1, 7)).map_err(|error| error.to_string())?;
    let damaged = opened.lanes.iter().all(|lane| lane.condition == Condition::Damaged);
    match opened.damage {
        Some(damage) if damaged => Ok(format!("{damage:?}")),
        _ => Err("a durable record was damaged and nobody noticed".to_owned()),
    }
}

/// M9: a record of a newer version, and one of a kind that this program does not know.
pub(super) fn newer(pack: &str) -> Outcome {
    let bump = |logs: &mut [LaneLog]| {
        let last = logs.last_mut().and_then(|log| log.records.last_mut());
        if let Some(record) = last {
            let mut bytes = record.to_vec();
            bytes[0] += 1;
            *record = bytes.into();
        }
    };
    let unknown = |logs: &mut [LaneLog]| {
        if let Some(log) = logs.last_mut() {
            let version = log.records.last().and_then(|record| record.first().copied()).unwrap_or(1);
            log.records.push(Bytes::from(vec![version, 200, 1, 2, 3]));
        }
    };
    let mut seen = Vec::new();
    for (what, woken) in [("version", wake(pack, bump)?), ("kind", wake(pack, unknown)?)] {
        match woken {
            Woken::Refused(why) => seen.push(format!("{what}: {why}")),
            Woken::Silent { .. } | Woken::Promised(_) => {
                return Err(format!("a record of an unknown {what} was read over"));
            }
        }
    }
    Ok(format!("refuses to start ({})", seen.join("; ")))
}
