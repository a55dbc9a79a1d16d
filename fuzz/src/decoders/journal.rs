//! The journal: records, segment headers, slots, file names.

use synod_journal::record::{self, Chain, Decoded, Head, Seed};
use synod_journal::segment::{self, Header, Kept, Origin, Slot, SlotRecord};
use synod_wire::{Bytes, Drawn};

use super::some_bytes;
use crate::check::{accept, bounded};
use crate::{Kind, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("journal-record", Kind::Decoder, record, written),
    Target::new("journal-header", Kind::Decoder, header, paged),
    Target::new("journal-slot", Kind::Decoder, slot, slotted),
    Target::new("journal-name", Kind::Decoder, name, named),
];

/// The seed of the segment that these records stand in.
const SEED: Seed = Seed(0x5eed);
/// What precedes them.
const BEFORE: Chain = Chain([3; 16]);
/// The lane whose slot is read.
const LANE: u8 = 2;

/// The remainders of single bytes for [`checksum`].
const REMAINDERS: [u32; 256] = remainders();

const fn remainders() -> [u32; 256] {
    let mut table = [0_u32; 256];
    let mut at = 0_u32;
    while at < 256 {
        let mut rest = at;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ 0x82f6_3b78 } else { rest >> 1 };
            bit += 1;
        }
        table[at as usize] = rest;
        at += 1;
    }
    table
}

/// CRC32C from a start value: what makes changed fields pass the checksum, so that the checks behind it are reached.
fn checksum(start: u32, bytes: &[u8]) -> u32 {
    let next = |sum: u32, byte: &u8| sum >> 8 ^ REMAINDERS[usize::from(sum.to_le_bytes()[0] ^ byte)];
    !bytes.iter().fold(!start, next)
}

/// Reads what stands at a place of a segment: the input as it is, then with both checksums made right.
///
/// # Panics
/// When an accepted record is not what it would be written as, or its size is not the place it takes.
pub fn record(bytes: &[u8]) {
    place(bytes);
    let mut repaired = bytes.to_vec();
    let Some((header, rest)) = repaired.split_at_mut_checked(record::HEADER_BYTES) else { return };
    let sum = checksum(SEED.0, &header[..32]);
    header[32..36].copy_from_slice(&sum.to_le_bytes());
    let length = [header[0], header[1], header[2], header[3]];
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if let Some(body) = rest.get(..length) {
        let sum = checksum(SEED.0, &header[..36]);
        let sum = checksum(checksum(sum, &header[40..]), body);
        header[36..40].copy_from_slice(&sum.to_le_bytes());
    }
    place(&repaired);
}

fn place(bytes: &[u8]) {
    let Decoded::Record(found) = bounded(bytes.len(), || record::decode(SEED, bytes)) else { return };
    assert!(found.size <= bytes.len() && found.size == record::size(found.body.len()));
    let cut = record::decode(SEED, bytes.get(..found.size - 1).unwrap_or_default());
    assert!(!matches!(cut, Decoded::Record(_)), "a record without its last byte was accepted");
    // A foreign chain cannot be written again: it is the hash of what stood before.
    if found.follows(BEFORE) {
        accept();
        let mut again = Vec::new();
        record::encode(&mut again, SEED, BEFORE, &found.head, [found.body, &[]]);
        assert!(Some(again.as_slice()) == bytes.get(..found.size), "roundtrip: {:?}", found.head);
    }
}

fn head(from: &mut Drawn) -> Head {
    let kinds = [record::Kind::Record, record::Kind::Blob, record::Kind::Erase, record::Kind::Mark];
    Head {
        kind: kinds[usize::try_from(from.below(4)).unwrap_or(0)],
        lane: LANE,
        slotted: from.below(2) == 0,
        group: u32::try_from(from.below(1 << 32)).unwrap_or(0),
        epoch: u32::try_from(from.below(9)).unwrap_or(0),
        lsn: from.next(),
        durable: from.next(),
    }
}

fn written(from: &mut Drawn) -> Vec<u8> {
    let mut out = Vec::new();
    let head = head(from);
    record::encode(&mut out, SEED, BEFORE, &head, [&some_bytes(from, 200), &some_bytes(from, 4)]);
    out
}

/// The input as a page with the right checksum at its end.
fn sealed(bytes: &[u8], seed: Seed) -> Vec<u8> {
    let mut page = bytes.to_vec();
    page.resize(4_092, 0);
    let sum = checksum(seed.0, &page);
    page.extend(sum.to_le_bytes());
    page
}

/// Reads the header of a segment.
///
/// # Panics
/// When an accepted header is not what it would be written as.
pub fn header(bytes: &[u8]) {
    let bare = bounded(bytes.len(), || Header::decode(bytes));
    assert!(bare.is_err() || bytes.len() >= 4_096, "a header without its end");
    let page = sealed(bytes, Seed(0));
    let Ok(header) = bounded(page.len(), || Header::decode(&page)) else { return };
    accept();
    assert!(header.kept.len() <= segment::KEPT_MAX);
    assert_eq!(
        Header::decode(&header.encode()),
        Ok(header.clone()),
        "roundtrip: a header does not come back"
    );
    let _seed = header.seed();
}

fn paged(from: &mut Drawn) -> Vec<u8> {
    let chain = |from: &mut Drawn| {
        let mut bytes = [0; 16];
        bytes.iter_mut().for_each(|byte| *byte = from.next().to_le_bytes()[0]);
        Chain(bytes)
    };
    let origins = [Origin::Continued, Origin::Compacted, Origin::Restarted];
    let kept = (0..from.below(5)).map(|_| Kept { number: from.next(), lsn: from.next(), chain: chain(from) });
    let kept = kept.collect();
    Header {
        cluster: [7; 32],
        member: u32::try_from(from.below(4)).unwrap_or(0),
        lanes: from.below(65).to_le_bytes()[0],
        number: from.next(),
        origin: origins[usize::try_from(from.below(3)).unwrap_or(0)],
        first: from.next(),
        durable: from.next(),
        chain: chain(from),
        damaged: from.next(),
        bytes: from.next(),
        kept,
        parts: u16::try_from(from.below(1 << 16)).unwrap_or(0),
    }
    .encode()
}

/// Reads a lane's slot.
///
/// # Panics
/// When an accepted slot is not what it would be written as, or is of another lane.
pub fn slot(bytes: &[u8]) {
    let bare = bounded(bytes.len(), || Slot::decode(bytes, LANE, SEED));
    assert!(!matches!(bare, Slot::Full(_)) || bytes.len() >= 4_096, "a slot without its end");
    let page = sealed(bytes, SEED);
    match bounded(page.len(), || Slot::decode(&page, LANE, SEED)) {
        Slot::Empty | Slot::Damaged => {}
        Slot::Full(held) => {
            accept();
            assert!(held.body.len() <= segment::SLOT_BODY_MAX);
            let again = Slot::decode(&Slot::encode(&held, LANE, 0, SEED), LANE, SEED);
            assert_eq!(again, Slot::Full(held), "roundtrip: a slot does not come back");
            assert!(!matches!(Slot::decode(&page, LANE + 1, SEED), Slot::Full(_)), "a slot of another lane");
            assert_eq!(Slot::decode(&page, LANE, Seed(1)), Slot::Damaged, "a slot of another segment");
        }
    }
}

fn slotted(from: &mut Drawn) -> Vec<u8> {
    let body = Bytes::from(some_bytes(from, 4_000));
    Slot::encode(&SlotRecord { lsn: from.next(), durable: from.next(), body }, LANE, 3, SEED)
}

/// Reads the name of a file as that of a segment.
///
/// # Panics
/// When an accepted name is not the one the segment has.
pub fn name(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    if let Some(number) = segment::number_of(text) {
        accept();
        assert_eq!(segment::name(number), text, "roundtrip: the name of a segment");
    }
}

fn named(from: &mut Drawn) -> Vec<u8> {
    let number = from.next() >> from.below(64);
    let name = if from.below(8) == 0 { segment::temporary(number) } else { segment::name(number) };
    name.into_bytes()
}
