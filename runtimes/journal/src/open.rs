//! Making a journal, opening one, and declaring one damaged.
//!
//! Opening makes durable what was read before anybody acts on it: directory and log are synced, a torn
//! tail is zeroed, safety records found only in a slot go back to the log, and a mark says that all of
//! this is synced. A damaged log is never written again; it goes on in a new segment that carries the
//! damage from one opening to the next.

use bytes::Bytes;

use crate::blobs::Held;
use crate::config::{self, Condition, Config, SyncMode};
use crate::disk::Disk;
use crate::error::Error;
use crate::record::{self, Chain, HEADER_BYTES, Kind};
use crate::recover::{End, Recovery, Spot};
use crate::rotate::{self, build, publish};
use crate::segment::{self, Header, Origin, SlotRecord};
use crate::survey::{FRESH, Survey};
use crate::walk::Ending;
use crate::writer::{self, Active, Journal, LaneSlots, Parts};

/// A lane as it was recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneLog {
    /// Whether the records are all that were durable.
    pub condition: Condition,
    /// The records from the newest snapshot on, in order. A safety record that survived only in its slot
    /// comes last.
    pub records: Vec<Bytes>,
}

/// A recovered journal.
#[derive(Debug)]
pub struct Opened {
    /// Ready to be written to.
    pub journal: Journal,
    /// Every lane's log.
    pub lanes: Vec<LaneLog>,
    /// The first damaged place, if this opening found one.
    pub damage: Option<Spot>,
    /// Where a torn tail was cut.
    pub torn: Option<Spot>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("Journal");
        out.field("segment", &self.active.number).field("issued", &self.issued()).finish_non_exhaustive()
    }
}

impl Journal {
    /// Makes an empty journal that no machine has used: `synod init`. Repeating an interrupted call is
    /// safe.
    ///
    /// # Errors
    /// [`Error::AlreadyInitialised`] if there is a journal, [`Error::Locked`], or what the disk says.
    pub fn create(mut disk: Box<dyn Disk>, config: &Config) -> Result<(), Error> {
        config.check();
        claim(&mut *disk)?;
        let survey = Survey::take(&mut *disk, config)?;
        if !survey.headers.is_empty() {
            return Err(Error::AlreadyInitialised);
        }
        remove(&mut *disk, &survey.temporaries)?;
        if !survey.fresh {
            disk.create(FRESH, 0).map_err(|error| Error::write("create", FRESH, error))?;
            writer::sync_dir(&mut *disk)?;
        }
        found(&mut *disk, config, Origin::Continued, 0)
    }

    /// Recovers the journal of a data directory.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Foreign`] and [`Error::Newer`] refuse the directory;
    /// [`Error::Corrupt`] says that there is no journal at all, which only `synod node recover` answers;
    /// [`Error::Read`] and [`Error::Write`] are the disk's. Damage is not an error: it is the condition of
    /// the lanes.
    pub fn open(mut disk: Box<dyn Disk>, config: Config) -> Result<Opened, Error> {
        config.check();
        claim(&mut *disk)?;
        open_claimed(disk, config, 0)
    }

    /// Makes every lane Damaged, with what can still be read, or an empty Damaged journal where there is
    /// none: `synod node recover`. A lost disk is amnesia, not a first start.
    ///
    /// # Errors
    /// As [`Journal::open`], without the one for a missing journal.
    pub fn reset_damaged(mut disk: Box<dyn Disk>, config: Config) -> Result<(), Error> {
        config.check();
        claim(&mut *disk)?;
        let survey = Survey::take(&mut *disk, &config)?;
        if survey.headers.is_empty() {
            let mut leftovers = survey.temporaries;
            leftovers.extend(survey.fresh.then(|| FRESH.to_owned()));
            remove(&mut *disk, &leftovers)?;
            return found(&mut *disk, &config, Origin::Restarted, config.all_lanes());
        }
        let all = config.all_lanes();
        open_claimed(disk, config, all).map(drop)
    }
}

fn claim(disk: &mut dyn Disk) -> Result<(), Error> {
    match disk.lock().map_err(|error| Error::write("lock", crate::disk::LOCK, error))? {
        None => Ok(()),
        Some(pid) => Err(Error::Locked { pid }),
    }
}

/// Builds segment 1.
fn found(disk: &mut dyn Disk, config: &Config, origin: Origin, damaged: u64) -> Result<(), Error> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&config.cluster).update(&config.member.to_le_bytes()).update(&config.salt.to_le_bytes());
    let mut chain = [0; 16];
    chain.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    let header = Header {
        cluster: config.cluster,
        member: config.member,
        lanes: config.lanes,
        number: 1,
        origin,
        first: 1,
        durable: 0,
        chain: Chain(chain),
        damaged,
        bytes: rotate::size_for(config, 0),
        kept: Vec::new(),
        parts: 0,
    };
    build(disk, &header, &mut [], 0)?;
    publish(disk, header.number)
}

/// Opens with the lanes in `condemned` made Damaged.
fn open_claimed(mut disk: Box<dyn Disk>, config: Config, condemned: u64) -> Result<Opened, Error> {
    let mut survey = Survey::take(&mut *disk, &config)?;
    survey.finish_names(&mut *disk, &config)?;
    if survey.headers.is_empty() {
        let why = "there is no journal; `synod node recover` starts one without promises";
        return Err(Error::Corrupt { segment: 0, offset: 0, why });
    }
    let mut recovery = Recovery::read(&mut *disk, &config, &survey)?;
    writer::sync_dir(&mut *disk)?;
    remove(&mut *disk, &survey.temporaries)?;

    let fresh = survey.fresh && recovery.damage.is_none() && !recovery.used;
    let inherited = survey.newest().map_or(0, |header| header.damaged);
    let lost = if recovery.damage.is_some() { config.all_lanes() } else { 0 };
    let damaged = inherited | lost | condemned;
    // Nothing will be written in this mode, so that nothing was written must be on the disk before.
    let volatile = if config.mode == SyncMode::VolatileUnsafe { config.all_lanes() } else { 0 };
    let wanted = damaged | volatile;

    let lanes = recovery.lanes.iter().zip(0u8..).map(|(lane, number)| LaneLog {
        condition: condition(fresh, (damaged | volatile) >> number & 1 == 1),
        records: lane
            .records
            .iter()
            .cloned()
            .chain(lane.rescued.iter().map(|held| held.body.clone()))
            .collect(),
    });
    let lanes = lanes.collect();
    let (spot, torn) = (recovery.damage, recovery.torn);
    let usable = recovery.end.take().filter(|end| {
        wanted & !end.header.damaged == 0
            && end.walked.damage.is_none()
            && !is_closed(end)
            && ends(&survey, end)
    });
    let mut journal = match usable {
        Some(end) => go_on(disk, config, recovery, &end)?,
        None => restart(disk, config, recovery, &survey, wanted)?,
    };
    journal.clean_up(&survey)?;
    Ok(Opened { journal, lanes, damage: spot, torn })
}

fn condition(fresh: bool, damaged: bool) -> Condition {
    match (fresh, damaged) {
        (true, _) => Condition::Fresh,
        (false, true) => Condition::Damaged,
        (false, false) => Condition::Clean,
    }
}

fn is_closed(end: &End) -> bool {
    matches!(end.walked.ending, Ending::Sealed(_))
}

/// Whether nothing stands behind the end of the log but a segment that was never used.
fn ends(survey: &Survey, end: &End) -> bool {
    let mut behind = survey.headers.range(end.header.number.saturating_add(1)..).map(|(_, header)| header);
    let abandoned = behind
        .next()
        .is_none_or(|next| next.as_ref().is_some_and(|header| header.origin == Origin::Continued));
    abandoned && behind.next().is_none()
}

/// Uses the last segment of the log further.
fn go_on(mut disk: Box<dyn Disk>, config: Config, recovery: Recovery, end: &End) -> Result<Journal, Error> {
    let cursor = recovery.cursor;
    let header = &end.header;
    let name = segment::name(header.number);
    settle_seal(&mut *disk, &recovery, end)?;
    // What was read may be only in the kernel's memory, and after a failed sync be called clean there:
    // only writing it again makes the sync mean something.
    if !end.tail.is_empty() {
        writer::write(&mut *disk, &name, end.unproven, &end.tail)?;
    }
    writer::sync(&mut *disk, &name)?;
    if end.walked.end < end.dirty {
        let zeros = vec![0; config::index(end.dirty - end.walked.end)];
        writer::write(&mut *disk, &name, end.walked.end, &zeros)?;
        writer::sync(&mut *disk, &name)?;
    }
    let active = Active {
        tail: end.walked.end,
        chain: cursor.chain,
        group: cursor.group.saturating_add(1),
        ..Active::new(header)
    };
    let slots = recovery.lanes.iter().map(|lane| LaneSlots {
        newest: lane.newest.clone(),
        which: lane.which,
        due: lane.slot_stale || lane.newest.as_ref().is_some_and(|newest| newest.lsn > cursor.marks),
    });
    let mut journal = Journal::assemble(Parts {
        disk,
        config,
        active,
        slots: slots.collect(),
        last: cursor.lsn,
        epoch: cursor.epoch.saturating_add(1),
        damaged: header.damaged,
        blobs: recovery.blobs,
        log_bytes: recovery.log_bytes,
    });
    let mut rescued: Vec<(u8, SlotRecord)> = (0u8..)
        .zip(recovery.lanes)
        .filter_map(|(number, lane)| lane.rescued.map(|held| (number, held)))
        .collect();
    rescued.sort_by_key(|(_, held)| held.lsn);
    // A slot at or before the end of the log was contradicted by it: that is damage, its lane stays so, and what it kept
    // gets a position behind the end, as in a segment begun anew.
    let mut last = cursor.lsn;
    for (_, held) in &mut rescued {
        held.lsn = held.lsn.max(last + 1);
        last = held.lsn;
    }
    journal.rescue(rescued)?;
    journal.write_mark()?;
    Ok(journal)
}

/// Before the first record of a segment, makes durable the mark that closed the one before it: the
/// process may have died between writing and syncing it.
fn settle_seal(disk: &mut dyn Disk, recovery: &Recovery, end: &End) -> Result<(), Error> {
    let unused = end.walked.end == segment::data_at(end.header.lanes);
    match &recovery.seal {
        Some((number, at, seal)) if unused && number + 1 == end.header.number => {
            let name = segment::name(*number);
            writer::write(disk, &name, *at, seal)?;
            writer::sync(disk, &name)
        }
        _ => Ok(()),
    }
}

/// Leaves what was read as it is and goes on in a new segment.
fn restart(
    mut disk: Box<dyn Disk>,
    config: Config,
    recovery: Recovery,
    survey: &Survey,
    damaged: u64,
) -> Result<Journal, Error> {
    let cursor = recovery.cursor;
    let seen = recovery.lanes.iter().filter_map(|lane| lane.rescued.as_ref()).map(|held| held.lsn);
    let last = seen.chain([cursor.lsn, cursor.marks]).max().unwrap_or(0);
    let number = survey.headers.keys().next_back().map_or(1, |last| last.saturating_add(1));
    let epoch = cursor.epoch.saturating_add(1);
    let mut lsn = last;
    let mut rescued = Vec::new();
    let mut slots = Vec::new();
    for (lane, read) in (0u8..).zip(&recovery.lanes) {
        let newest = match &read.rescued {
            Some(held) => {
                lsn += 1;
                let held = SlotRecord { lsn, ..held.clone() };
                rescued.push((lane, held.clone()));
                Some(held)
            }
            None => read.newest.clone(),
        };
        slots.push(LaneSlots { newest, which: 0, due: false });
    }
    let header = Header {
        cluster: config.cluster,
        member: config.member,
        lanes: config.lanes,
        number,
        origin: Origin::Restarted,
        first: last + 1,
        durable: last,
        chain: cursor.chain,
        damaged,
        bytes: rotate::size_for(&config, 0),
        kept: Vec::new(),
        parts: 0,
    };
    build(&mut *disk, &header, &mut slots, epoch)?;
    publish(&mut *disk, number)?;
    let (mut blobs, log_bytes) = (recovery.blobs, recovery.log_bytes);
    blobs.segments.insert(number, Held { bytes: header.bytes, ..Held::default() });
    let active = Active::new(&header);
    let mut journal =
        Journal::assemble(Parts { disk, config, active, blobs, slots, last, epoch, damaged, log_bytes });
    journal.rescue(rescued)?;
    journal.write_mark()?;
    Ok(journal)
}

fn remove(disk: &mut dyn Disk, files: &[String]) -> Result<(), Error> {
    for file in files {
        disk.remove(file).map_err(|error| Error::write("remove", file, error))?;
    }
    if files.is_empty() { Ok(()) } else { writer::sync_dir(disk) }
}

impl Journal {
    /// Puts safety records that only their slots kept back into the log, at the positions they had: a
    /// crash in the midst of this finds the same slots and does it again.
    fn rescue(&mut self, rescued: Vec<(u8, SlotRecord)>) -> Result<(), Error> {
        let mut buffer = Vec::new();
        for (lane, held) in rescued {
            let need = config::bytes(buffer.len() + HEADER_BYTES + record::size(held.body.len()));
            if self.active.tail + need + writer::SEAL_BYTES > self.active.bytes {
                self.write_group(&mut buffer)?;
                self.rotate(need)?;
            }
            if held.lsn > self.written + 1 {
                self.advance(held.lsn - 1);
                self.encode_own(&mut buffer, Kind::Mark, 0, &[]);
            }
            self.advance(held.lsn);
            self.encode_own(&mut buffer, Kind::Record, lane, &held.body);
            self.slots[usize::from(lane)].newest = Some(held);
        }
        self.write_group(&mut buffer)
    }

    fn encode_own(&mut self, buffer: &mut Vec<u8>, kind: Kind, lane: u8, body: &[u8]) {
        let head = self.head(kind, lane, kind == Kind::Record);
        self.active.chain = record::encode(buffer, self.active.seed, self.active.chain, &head, [body, &[]]);
    }

    /// Removes what no longer counts: the sign of a new journal, segments before the compaction, and one
    /// whose birth a crash interrupted.
    fn clean_up(&mut self, survey: &Survey) -> Result<(), Error> {
        let stale = survey.headers.keys().filter(|number| !self.blobs.segments.contains_key(*number));
        let base = survey.base().map_or(0, |base| base.number);
        let kept = survey.base().map_or(&[][..], |base| &base.kept);
        let mut files: Vec<String> = stale
            .filter(|number| !kept.iter().any(|kept| kept.number == **number))
            .filter(|number| **number < base || (self.damaged == 0 && **number > self.active.number))
            .map(|number| segment::name(*number))
            .collect();
        files.extend(survey.fresh.then(|| FRESH.to_owned()));
        remove(&mut *self.disk, &files)
    }
}
