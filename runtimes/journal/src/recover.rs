//! Reading a journal back: which segments are the log, what they hold, and whether to trust it.
//!
//! This module only reads. It gives the lanes' records, the live blobs, the first damaged place if there
//! is one, and the end of the log; `open` turns that into a journal in use.
//!
//! Bounds: one segment is in memory at a time, beside the records of the log.

use bytes::Bytes;

use crate::blobs::{Blobs, Place};
use crate::config::{self, Config};
use crate::disk::Disk;
use crate::error::Error;
use crate::record::{Chain, Found, Kind};
use crate::segment::{Header, Kept, Origin, Slot, SlotRecord};
use crate::survey::{Survey, read_image};
use crate::walk::{Cursor, Ending, Image, Standing, Walked, walk};
use crate::writer::SEAL_BYTES;

/// A place in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The segment.
    pub segment: u64,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// A lane as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lane {
    pub(crate) records: Vec<Bytes>,
    /// The newest safety record in the log.
    pub(crate) newest: Option<SlotRecord>,
    /// A safety record found in a slot only: newer than the log.
    pub(crate) rescued: Option<SlotRecord>,
    /// Which of the two slots holds the newer record.
    pub(crate) which: u8,
    /// The slots hold less than the log does.
    pub(crate) slot_stale: bool,
}

/// The last segment of the log.
pub(crate) struct End {
    pub(crate) header: Header,
    pub(crate) walked: Walked,
    /// Behind the end stand bytes to be zeroed, up to here.
    pub(crate) dirty: u64,
    /// The bytes from here to the end of the log are not known to be synced.
    pub(crate) unproven: u64,
    /// Those bytes.
    pub(crate) tail: Vec<u8>,
}

/// Everything recovery read.
pub(crate) struct Recovery {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) blobs: Blobs,
    pub(crate) damage: Option<Spot>,
    pub(crate) torn: Option<Spot>,
    pub(crate) cursor: Cursor,
    pub(crate) end: Option<End>,
    /// The mark that closes the segment before the end: the segment, the offset, the bytes.
    pub(crate) seal: Option<(u64, u64, Vec<u8>)>,
    /// Any record or blob was read.
    pub(crate) used: bool,
    /// Bytes of records in the log's segments.
    pub(crate) log_bytes: u64,
}

impl Recovery {
    /// Reads the segments the survey found.
    pub(crate) fn read(disk: &mut dyn Disk, config: &Config, survey: &Survey) -> Result<Self, Error> {
        let marks = survey.headers.values().flatten().map(|header| header.durable).max().unwrap_or(0);
        let cursor = Cursor { lsn: 0, chain: Chain::default(), group: 0, epoch: 0, marks };
        let mut recovery = Recovery {
            lanes: vec![Lane::default(); usize::from(config.lanes)],
            blobs: Blobs::default(),
            damage: None,
            torn: None,
            cursor,
            end: None,
            seal: None,
            used: false,
            log_bytes: 0,
        };
        let first = survey.base().map_or(1, |base| base.number);
        if let Some(base) = survey.base() {
            for kept in &base.kept {
                recovery.read_kept(disk, survey, kept)?;
            }
        }
        recovery.read_log(disk, survey, first)?;
        if recovery.damage.is_some() {
            for held in recovery.blobs.segments.values_mut() {
                held.suspect = true;
            }
        }
        Ok(recovery)
    }

    pub(crate) fn damaged_at(&mut self, segment: u64, offset: u64) {
        self.damage.get_or_insert(Spot { segment, offset });
    }

    /// Indexes the blobs of an older segment, which must end as it did when it was kept.
    fn read_kept(&mut self, disk: &mut dyn Disk, survey: &Survey, kept: &Kept) -> Result<(), Error> {
        let Some(Some(header)) = survey.headers.get(&kept.number) else {
            self.damaged_at(kept.number, 0);
            return Ok(());
        };
        let image = read_image(disk, header)?;
        let mut cursor = self.cursor;
        cursor.enter(header);
        // Its marks and epochs are older than the compaction; only its own consistency counts.
        cursor.epoch = 0;
        cursor.marks = 0;
        let number = kept.number;
        let walked = walk(&image, Standing::Kept(kept.lsn, kept.chain), &mut cursor, &mut |at, found| {
            if found.head.kind != Kind::Record {
                self.take(number, at, found);
            }
        })?;
        self.hold(&image, &walked);
        if let Some(offset) = walked.damage {
            self.damaged_at(number, offset);
        } else if walked.last != (kept.lsn, kept.chain) {
            self.damaged_at(number, walked.end);
        }
        Ok(())
    }

    /// Reads the log from segment `first` on.
    fn read_log(&mut self, disk: &mut dyn Disk, survey: &Survey, first: u64) -> Result<(), Error> {
        let mut expected = first;
        let mut sealed_for = None;
        let mut entries = survey.headers.range(first..).peekable();
        while let Some((&number, header)) = entries.next() {
            if number != expected {
                self.damaged_at(expected, 0);
            }
            expected = number.saturating_add(1);
            let Some(header) = header else {
                self.damaged_at(number, 0);
                continue;
            };
            let image = read_image(disk, header)?;
            let abandoned = header.origin == Origin::Continued
                && number != first
                && entries.peek().is_none()
                && sealed_for != Some(number)
                && image.is_blank();
            if abandoned {
                // The crash came between the birth of this segment and the end of the one before it.
                return Ok(());
            }
            let follower = entries.peek().map(|(number, header)| (**number, header.as_ref()));
            let standing = standing(disk, follower, survey)?;
            let walked = self.read_segment(&image, standing)?;
            sealed_for = match walked.ending {
                Ending::Sealed(next) => Some(next),
                Ending::Open | Ending::Torn => None,
            };
        }
        if let Some(next) = sealed_for
            && !survey.headers.contains_key(&next)
        {
            self.damaged_at(next, 0);
        }
        if survey.headers.range(first..).next().is_none() {
            self.damaged_at(first, 0);
        }
        Ok(())
    }

    fn read_segment(&mut self, image: &Image, standing: Standing) -> Result<Walked, Error> {
        let header = &image.header;
        let begins = header.origin != Origin::Continued || header.number == 1;
        let continues =
            header.first == self.cursor.lsn.saturating_add(1) && header.chain == self.cursor.chain;
        if !begins && !continues {
            self.damaged_at(header.number, 0);
        }
        self.cursor.enter(header);
        let slots = read_slots(image);
        for slot in slots.iter().flatten() {
            if let Slot::Full(held) = slot {
                self.cursor.marks = self.cursor.marks.max(held.durable);
            }
        }
        let mut cursor = self.cursor;
        let number = header.number;
        let mut places = Vec::new();
        let walked = walk(image, standing, &mut cursor, &mut |at, found| {
            places.push((found.head.lsn, at));
            self.take(number, at, found);
        })?;
        self.cursor = cursor;
        self.hold(image, &walked);
        self.log_bytes += walked.end - crate::segment::data_at(header.lanes);
        if let Some(offset) = walked.damage {
            self.damaged_at(number, offset);
        }
        if let Ending::Sealed(next) = walked.ending
            && next == number.saturating_add(1)
        {
            let seal = image.bytes.get(config::index(walked.end)..).unwrap_or(&[]);
            let seal = seal.get(..config::index(SEAL_BYTES)).unwrap_or(&[]);
            self.seal = Some((number, walked.end, seal.to_vec()));
        }
        if walked.ending == Ending::Torn {
            self.torn = Some(Spot { segment: number, offset: walked.end });
        }
        self.reconcile(number, &slots);
        let dirty = image.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| config::bytes(last + 1));
        let unproven = places.iter().find(|(lsn, _)| *lsn > cursor.marks).map_or(walked.end, |(_, at)| *at);
        let tail =
            image.bytes.get(config::index(unproven)..config::index(walked.end)).unwrap_or(&[]).to_vec();
        self.end = Some(End { header: header.clone(), walked, dirty, unproven, tail });
        Ok(walked)
    }

    /// Takes one record in.
    fn take(&mut self, segment: u64, at: u64, found: &Found<'_>) {
        let head = found.head;
        let Some(lane) = self.lanes.get_mut(usize::from(head.lane)) else {
            self.damaged_at(segment, at);
            return;
        };
        let name = found.body.first_chunk::<32>().copied();
        self.used |= head.kind != Kind::Mark;
        match (head.kind, name) {
            (Kind::Mark, _) => {}
            (Kind::Record, _) => {
                let body = Bytes::copy_from_slice(found.body);
                if head.slotted {
                    let record = SlotRecord { lsn: head.lsn, durable: head.durable, body: body.clone() };
                    lane.newest = Some(record);
                }
                lane.records.push(body);
            }
            (Kind::Blob, Some(name)) => {
                let offset = at + config::bytes(crate::record::HEADER_BYTES + name.len());
                let length = config::bytes(found.body.len() - name.len());
                self.blobs.insert((head.lane, name), Place { segment, offset, length });
            }
            (Kind::Erase, Some(name)) => self.blobs.erase((head.lane, name)),
            (Kind::Blob | Kind::Erase, None) => self.damaged_at(segment, at),
        }
    }

    fn hold(&mut self, image: &Image, walked: &Walked) {
        let held = self.blobs.segments.entry(image.header.number).or_default();
        held.bytes = image.header.bytes;
        held.end = walked.last;
        let read = config::bytes(image.bytes.len());
        if read < image.header.bytes {
            self.damaged_at(image.header.number, read);
        }
    }

    /// Compares each lane's slots with its log: the newer valid one wins.
    fn reconcile(&mut self, segment: u64, slots: &[[Slot; 2]]) {
        let end = self.cursor.lsn;
        let mut contradicted = false;
        for (lane, slots) in self.lanes.iter_mut().zip(slots) {
            let (which, held) = match slots {
                [Slot::Full(first), Slot::Full(second)] => {
                    contradicted |= first.lsn == second.lsn && first.body != second.body;
                    if second.lsn > first.lsn { (1, Some(second)) } else { (0, Some(first)) }
                }
                [Slot::Full(first), _] => (0, Some(first)),
                [_, Slot::Full(second)] => (1, Some(second)),
                [first, _] => (u8::from(*first == Slot::Empty), None),
            };
            lane.which = which;
            lane.rescued = None;
            let in_log = lane.newest.as_ref().map_or(0, |newest| newest.lsn);
            lane.slot_stale = held.map_or(0, |held| held.lsn) < in_log;
            let Some(held) = held else { continue };
            let same = lane.newest.as_ref().is_some_and(|newest| newest.body == held.body);
            contradicted |= held.lsn == in_log && !same;
            if held.lsn > in_log {
                // Within the log, a record at this position would have been read.
                contradicted |= held.lsn <= end;
                lane.rescued = Some(held.clone());
            }
        }
        if contradicted {
            self.damaged_at(segment, crate::segment::PAGE_BYTES);
        }
    }
}

/// Whether a segment is the end of the log: nothing follows, or only one that was never used.
fn standing(
    disk: &mut dyn Disk,
    follower: Option<(u64, Option<&Header>)>,
    survey: &Survey,
) -> Result<Standing, Error> {
    let Some((number, header)) = follower else { return Ok(Standing::Newest) };
    let last = survey.headers.keys().next_back() == Some(&number);
    let Some(header) = header.filter(|header| last && header.origin == Origin::Continued) else {
        return Ok(Standing::Inner);
    };
    let blank = read_image(disk, header)?.is_blank();
    Ok(if blank { Standing::Newest } else { Standing::Inner })
}

fn read_slots(image: &Image) -> Vec<[Slot; 2]> {
    (0..image.header.lanes).map(|lane| [image.slot(lane, 0), image.slot(lane, 1)]).collect()
}
