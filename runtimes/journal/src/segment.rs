//! A segment file: a 4 KiB header, two 4 KiB slots per lane, then records.
//!
//! The header says whose the segment is, where it continues the log, which lanes are damaged and, after a
//! compaction, which older segments are kept for their blobs. A slot holds the newest safety record of a
//! lane; writes alternate between the two, so a torn one never costs both. Segments are built under a
//! temporary name, so one with its final name always had a whole header.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use bytes::Bytes;

use crate::record::{self, Chain, Decoded, Head, Seed, field};

/// Bytes of the header, and of a slot.
pub const PAGE_BYTES: u64 = 4096;

/// Largest body of a record kept in a slot, in bytes.
pub const SLOT_BODY_MAX: usize = 4000;

/// Older segments a compaction may keep; blobs of further ones are copied.
pub const KEPT_MAX: usize = 96;

const MAGIC: [u8; 8] = *b"SYNODJNL";
const FORMAT: u32 = 1;
const KEPT_AT: usize = 128;
const SUM_AT: usize = 4092;
const PAGE: usize = 4096;

/// How a segment came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The one before it was full.
    Continued,
    /// A compaction: it holds every lane's snapshot, and nothing older counts but the blobs of `kept`.
    Compacted,
    /// Recovery found damage: the log goes on here, without a chain to what was read.
    Restarted,
}

/// An older segment kept for its blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub number: u64,
    /// The last lsn in it.
    pub lsn: u64,
    /// The chain value there.
    pub chain: Chain,
}

/// A segment's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The cluster id.
    pub cluster: [u8; 32],
    /// The member.
    pub member: u32,
    /// Number of lanes, hence of slots.
    pub lanes: u8,
    /// Its number; the file is named after it.
    pub number: u64,
    /// How it came to be.
    pub origin: Origin,
    /// The lsn of its first record.
    pub first: u64,
    /// Highest lsn known synced when it was made.
    pub durable: u64,
    /// The chain value it continues.
    pub chain: Chain,
    /// Lanes whose machines have not been readmitted since damage, one bit each.
    pub damaged: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Older segments kept for their blobs, at most [`KEPT_MAX`]; empty unless compacted.
    pub kept: Vec<Kept>,
    /// Segments behind this one that belong to the same compaction; 0 unless compacted.
    pub parts: u16,
}

/// Why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadHeader {
    /// It is not what was written.
    Damaged,
    /// A newer release wrote it.
    Newer,
}

impl Header {
    /// The page that holds it.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.kept.len() <= KEPT_MAX, "a compaction keeps at most {KEPT_MAX} segments");
        let mut page = Vec::with_capacity(PAGE);
        page.extend(MAGIC);
        page.extend(FORMAT.to_le_bytes());
        page.extend(self.member.to_le_bytes());
        page.extend(self.cluster);
        page.extend(self.number.to_le_bytes());
        page.extend(self.first.to_le_bytes());
        page.extend(self.durable.to_le_bytes());
        page.extend(self.chain.0);
        let origin = match self.origin {
            Origin::Continued => 0,
            Origin::Compacted => 1,
            Origin::Restarted => 2,
        };
        page.extend([self.lanes, origin]);
        page.extend(self.parts.to_le_bytes());
        page.extend(u32::try_from(self.kept.len()).unwrap_or(u32::MAX).to_le_bytes());
        page.extend(self.damaged.to_le_bytes());
        page.extend(self.bytes.to_le_bytes());
        page.resize(KEPT_AT, 0);
        for kept in &self.kept {
            page.extend(kept.number.to_le_bytes());
            page.extend(kept.lsn.to_le_bytes());
            page.extend(kept.chain.0);
        }
        close(page, Seed(0))
    }

    /// Reads a header from the beginning of a segment; total on any bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let page = open(bytes, Seed(0)).ok_or(BadHeader::Damaged)?;
        if field(page, 0) != Some(MAGIC) {
            return Err(BadHeader::Damaged);
        }
        if field(page, 8).map(u32::from_le_bytes) != Some(FORMAT) {
            return Err(BadHeader::Newer);
        }
        Self::parse(page).ok_or(BadHeader::Newer)
    }

    fn parse(page: &[u8]) -> Option<Self> {
        let [lanes, origin] = field(page, 88)?;
        let origin = match origin {
            0 => Origin::Continued,
            1 => Origin::Compacted,
            2 => Origin::Restarted,
            _ => return None,
        };
        let count = usize::try_from(u32::from_le_bytes(field(page, 92)?)).ok()?;
        if count > KEPT_MAX {
            return None;
        }
        let mut kept = Vec::with_capacity(count);
        for entry in page.get(KEPT_AT..)?.chunks_exact(32).take(count) {
            kept.push(Kept {
                number: number(entry, 0)?,
                lsn: number(entry, 8)?,
                chain: Chain(field(entry, 16)?),
            });
        }
        Some(Header {
            cluster: field(page, 16)?,
            member: u32::from_le_bytes(field(page, 12)?),
            lanes,
            number: number(page, 48)?,
            origin,
            first: number(page, 56)?,
            durable: number(page, 64)?,
            chain: Chain(field(page, 72)?),
            damaged: number(page, 96)?,
            bytes: number(page, 104)?,
            kept,
            parts: u16::from_le_bytes(field(page, 90)?),
        })
    }

    /// What the checksums of this segment start from.
    pub fn seed(&self) -> Seed {
        Seed::of(self.chain, self.number)
    }
}

/// A lane's newest safety record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRecord {
    /// Its generation: the lsn it has in the log.
    pub lsn: u64,
    /// Highest lsn known synced when the slot was written.
    pub durable: u64,
    /// The record.
    pub body: Bytes,
}

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// Never written.
    Empty,
    /// Not what was written.
    Damaged,
    /// A record.
    Full(SlotRecord),
}

impl Slot {
    /// The page that holds `held` for a lane.
    pub fn encode(held: &SlotRecord, lane: u8, epoch: u32, seed: Seed) -> Vec<u8> {
        assert!(held.body.len() <= SLOT_BODY_MAX, "a slot holds at most {SLOT_BODY_MAX} bytes");
        let head = Head {
            kind: record::Kind::Record,
            lane,
            slotted: true,
            group: 0,
            epoch,
            lsn: held.lsn,
            durable: held.durable,
        };
        let mut page = Vec::with_capacity(PAGE);
        page.extend(held.lsn.to_le_bytes());
        record::encode(&mut page, seed, Chain::default(), &head, [&held.body, &[]]);
        close(page, seed)
    }

    /// Reads a lane's slot from its page; total on any bytes.
    pub fn decode(bytes: &[u8], lane: u8, seed: Seed) -> Slot {
        if bytes.iter().all(|byte| *byte == 0) {
            return Slot::Empty;
        }
        let Some(page) = open(bytes, seed) else { return Slot::Damaged };
        let Decoded::Record(found) = record::decode(seed, page.get(8..).unwrap_or(&[])) else {
            return Slot::Damaged;
        };
        let head = found.head;
        if head.lane != lane || !head.slotted || number(page, 0) != Some(head.lsn) {
            return Slot::Damaged;
        }
        Slot::Full(SlotRecord {
            lsn: head.lsn,
            durable: head.durable,
            body: Bytes::copy_from_slice(found.body),
        })
    }
}

/// Where a lane's slot begins, in bytes; `which` is 0 or 1.
pub fn slot_at(lane: u8, which: u8) -> u64 {
    let page = u64::from(lane).saturating_mul(2).saturating_add(u64::from(which)).saturating_add(1);
    PAGE_BYTES.saturating_mul(page)
}

/// Where the records begin, in bytes.
pub fn data_at(lanes: u8) -> u64 {
    slot_at(lanes, 0)
}

/// The file of a segment.
pub fn name(number: u64) -> String {
    format!("{number:016x}.seg")
}

/// The file a segment is built in.
pub fn temporary(number: u64) -> String {
    format!("{number:016x}.tmp")
}

/// The segment a file holds; None for any other file.
pub fn number_of(file: &str) -> Option<u64> {
    let digits = file.strip_suffix(".seg").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().filter(|number| name(*number) == file)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// Fills a page up with zeros and its checksum.
fn close(mut page: Vec<u8>, seed: Seed) -> Vec<u8> {
    assert!(page.len() <= SUM_AT, "the fields of a page leave room for its checksum");
    page.resize(SUM_AT, 0);
    page.extend(crc32c::crc32c_append(seed.0, &page).to_le_bytes());
    page
}

/// The fields of a page whose checksum holds.
fn open(bytes: &[u8], seed: Seed) -> Option<&[u8]> {
    let fields = bytes.get(..SUM_AT)?;
    let sum = field(bytes, SUM_AT).map(u32::from_le_bytes)?;
    (crc32c::crc32c_append(seed.0, fields) == sum).then_some(fields)
}
