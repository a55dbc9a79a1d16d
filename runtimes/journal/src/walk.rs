//! Reading one segment from front to back, and telling a torn tail from damage.
//!
//! A place that holds no valid continuation of the log is a torn tail only if nothing in the journal says
//! otherwise: no mark, header or slot calls its position synced, and no valid record of a later group
//! stands behind it. Records of its own unsynced group may have survived in any order. Everything else is
//! damage; reading goes on behind it with whatever still has valid checksums.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use crate::config;
use crate::error::Error;
use crate::record::{self, Chain, Decoded, Found, Kind, Seed, field};
use crate::segment::{self, Header};

/// A segment in memory.
pub(crate) struct Image {
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
}

impl Image {
    /// The bytes behind the slots.
    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.get(config::index(segment::data_at(self.header.lanes))..).unwrap_or(&[])
    }

    /// Whether no record was ever written to it.
    pub(crate) fn is_blank(&self) -> bool {
        self.data().iter().all(|byte| *byte == 0)
    }

    /// One of a lane's slots.
    pub(crate) fn slot(&self, lane: u8, which: u8) -> segment::Slot {
        let page = self.bytes.get(config::index(segment::slot_at(lane, which))..);
        let page = page.and_then(|bytes| bytes.get(..config::index(segment::PAGE_BYTES))).unwrap_or(&[1]);
        segment::Slot::decode(page, lane, self.header.seed())
    }
}

/// How far the log has been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) lsn: u64,
    pub(crate) chain: Chain,
    pub(crate) group: u32,
    pub(crate) epoch: u32,
    /// The highest lsn anything read so far calls synced.
    pub(crate) marks: u64,
}

impl Cursor {
    /// Stands before the first record of a segment.
    pub(crate) fn enter(&mut self, header: &Header) {
        self.lsn = header.first.saturating_sub(1);
        self.chain = header.chain;
        self.group = 0;
    }

    fn takes(&self, found: &Found<'_>) -> bool {
        let head = &found.head;
        let placed = match head.kind {
            Kind::Mark => head.lsn >= self.lsn,
            Kind::Record | Kind::Blob | Kind::Erase => Some(head.lsn) == self.lsn.checked_add(1),
        };
        placed && head.group >= self.group && head.epoch >= self.epoch && found.follows(self.chain)
    }

    fn pass(&mut self, found: &Found<'_>) {
        self.lsn = found.head.lsn;
        self.chain = found.chain;
        self.group = found.head.group;
        self.epoch = self.epoch.max(found.head.epoch);
        self.marks = self.marks.max(found.head.durable);
    }
}

/// How the records of a segment end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Behind the last record there are zeros, or nothing readable.
    Open,
    /// Behind the last record stands what a crash left of an unsynced group.
    Torn,
    /// A mark closes the segment and names the next.
    Sealed(u64),
}

/// Where a segment stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The end: a crash can have torn its tail.
    Newest,
    /// Another one follows: all of it was synced.
    Inner,
    /// It is kept for its blobs and ends at this lsn and chain value, whatever a crash left behind them.
    Kept(u64, Chain),
}

/// What reading a segment found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walked {
    pub(crate) ending: Ending,
    /// The offset behind the last record, the closing mark not counted.
    pub(crate) end: u64,
    /// The last lsn and chain value, the closing mark not counted.
    pub(crate) last: (u64, Chain),
    /// The first damaged place.
    pub(crate) damage: Option<u64>,
}

/// Reads a segment and shows `visit` each record with its offset.
pub(crate) fn walk(
    image: &Image,
    standing: Standing,
    cursor: &mut Cursor,
    visit: &mut dyn FnMut(u64, &Found<'_>),
) -> Result<Walked, Error> {
    let seed = image.header.seed();
    let mut at = segment::data_at(image.header.lanes);
    let mut damage = None;
    loop {
        let last = (cursor.lsn, cursor.chain);
        if standing == Standing::Kept(cursor.lsn, cursor.chain) {
            return Ok(Walked { ending: Ending::Open, end: at, last, damage });
        }
        let rest = image.bytes.get(config::index(at)..).unwrap_or(&[]);
        let decoded = record::decode(seed, rest);
        match decoded {
            Decoded::Record(found) if cursor.takes(&found) => {
                cursor.pass(&found);
                if let Some(next) = closes(&found) {
                    return Ok(Walked { ending: Ending::Sealed(next), end: at, last, damage });
                }
                visit(at, &found);
                at = at.saturating_add(config::bytes(found.size));
                continue;
            }
            Decoded::Unknown => {
                let what = "a kind of record this release does not know";
                return Err(Error::Newer { segment: image.header.number, offset: at, what });
            }
            Decoded::Record(_) | Decoded::Broken { .. } | Decoded::Nothing => {}
        }
        let synced_here = cursor.marks > cursor.lsn;
        if !synced_here && rest.iter().all(|byte| *byte == 0) {
            return Ok(Walked { ending: Ending::Open, end: at, last, damage });
        }
        if standing == Standing::Newest && !synced_here && is_torn(seed, rest, cursor, decoded) {
            return Ok(Walked { ending: Ending::Torn, end: at, last, damage });
        }
        damage = damage.or(Some(at));
        let Some((skipped, found)) = records(seed, rest).find(|(_, found)| found.head.lsn > cursor.lsn)
        else {
            return Ok(Walked { ending: Ending::Open, end: at, last, damage });
        };
        cursor.pass(&found);
        at = at.saturating_add(config::bytes(skipped));
        visit(at, &found);
        at = at.saturating_add(config::bytes(found.size));
    }
}

/// Whether what stands behind the cursor can be the remains of a group that was never synced.
fn is_torn(seed: Seed, rest: &[u8], cursor: &Cursor, decoded: Decoded<'_>) -> bool {
    let group = match decoded {
        // Its checksums hold and it does not continue the log: no crash does that.
        Decoded::Record(_) | Decoded::Unknown => return false,
        Decoded::Broken { group } => group,
        Decoded::Nothing => cursor.group.saturating_add(1),
    };
    records(seed, rest).all(|(_, found)| found.head.group <= group && found.head.durable <= cursor.lsn)
}

/// The next segment, if this record is a mark that closes one.
fn closes(found: &Found<'_>) -> Option<u64> {
    (found.head.kind == Kind::Mark).then(|| field(found.body, 0).map(u64::from_le_bytes)).flatten()
}

/// The records with valid checksums at any place of `bytes`, each with its offset. One inside another is
/// not seen.
fn records(seed: Seed, bytes: &[u8]) -> impl Iterator<Item = (usize, Found<'_>)> {
    let mut at = 0usize;
    std::iter::from_fn(move || {
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let here = at;
            if let Decoded::Record(found) = record::decode(seed, rest) {
                at = at.saturating_add(found.size);
                return Some((here, found));
            }
            at = at.saturating_add(8);
        }
        None
    })
}
