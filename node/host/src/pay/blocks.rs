//! Entries as they settled, many in a row of the index, and how sure they are.
//!
//! *Rows.* `s` last position: a block of entries, at most [`ENTRIES_MAX`] of them and [`BYTES`] bytes and one entry more: how many, where each
//! begins, their bytes. `v` number: how sure [`LEVELS`] entries are, two bits each.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::Level;
use synod_ledger::{Digests, Entry};
use synod_store::Reader;
use synod_wire::{Bytes, Limits, Wire as _, Writer};

use super::rows::{Rows, key};
use super::words::Transfer;

/// Most entries of a block.
const ENTRIES_MAX: usize = 64;
/// Bytes behind which a block takes no more.
const BYTES: usize = 8 << 10;
/// Entries whose levels are one row.
const LEVELS: u64 = 4_096;
/// Entries of a byte of such a row.
const LEVELS_OF_BYTE: u64 = 4;
/// Longest entry: 64 legs.
const ENTRY_BYTES_MAX: u32 = 8 << 10;
/// Blocks that are read at once where one follows the other.
const BLOCKS: usize = 16;

/// Levels beyond certified, which an entry of the index is.
const fn number(level: Level) -> u8 {
    match level {
        Level::Accepted | Level::Certified => 0,
        Level::Settled => 1,
        Level::Stable => 2,
    }
}

const fn level(number: u8) -> Level {
    match number {
        0 => Level::Certified,
        1 => Level::Settled,
        _ => Level::Stable,
    }
}

/// A block as it is read.
#[derive(Clone, Debug)]
pub(super) struct Block {
    first: u64,
    count: u64,
    row: Bytes,
}

impl Block {
    /// The block of a row; `None` where the row is none.
    fn read(at: &[u8], row: Bytes) -> Option<Self> {
        let last = u64::from_be_bytes(at.strip_prefix(b"s")?.try_into().ok()?);
        let count = u64::from(number_at(&row, 0)?);
        Some(Self { first: last.checked_sub(count)?.checked_add(1)?, count, row })
    }

    /// The bytes of the entry that settled there.
    fn bytes(&self, position: u64) -> Option<Bytes> {
        let at = position.checked_sub(self.first).filter(|at| *at < self.count)?;
        let at = usize::try_from(at).ok()?;
        let begin = usize::try_from(number_at(&self.row, at + 1)?).ok()?;
        let end = match number_at(&self.row, at + 2) {
            Some(end) if (at as u64) + 1 < self.count => usize::try_from(end).ok()?,
            _ => self.row.len(),
        };
        (begin <= end && end <= self.row.len()).then(|| self.row.slice(begin..end))
    }

    fn entry(&self, position: u64) -> Option<Entry> {
        Entry::decode(self.bytes(position)?, &Limits { frame_max: ENTRY_BYTES_MAX }).ok()
    }

    /// The entries with their positions.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Entry)> {
        let positions = (0..self.count).map(|at| self.first + at);
        positions.filter_map(|position| Some((position, self.entry(position)?)))
    }
}

/// The number in a row's head: how many, then where each begins.
fn number_at(row: &[u8], at: usize) -> Option<u32> {
    let bytes = row.get(at * 4..at * 4 + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// The rows of entries that settled one after the other, the first at this position.
pub(super) fn put(rows: &mut Rows, first: u64, entries: &[Arc<Entry>]) {
    let mut position = first;
    let mut left = entries;
    while !left.is_empty() {
        let (mut body, mut begins) = (Writer::with_capacity(BYTES + 512), Vec::new());
        for entry in left.iter().take(ENTRIES_MAX) {
            begins.push(body.len());
            entry.write(&mut body);
            if body.len() >= BYTES {
                break;
            }
        }
        let count = begins.len();
        let head = (count + 1) * 4;
        let mut row = Vec::with_capacity(head + body.len());
        let small = |length: usize| u32::try_from(length).expect("a block is short");
        row.extend_from_slice(&small(count).to_be_bytes());
        begins.iter().for_each(|begin| row.extend_from_slice(&small(head + begin).to_be_bytes()));
        row.extend_from_slice(&body.freeze());
        position += count as u64;
        rows.insert(key(b's', &[&(position - 1).to_be_bytes()]), Some(row.into()));
        left = left.get(count..).unwrap_or_default();
    }
}

/// Blocks from that of a position on, as many as are read at once.
pub(super) fn blocks(reader: &Reader, from: u64) -> Vec<Block> {
    let found = reader.scan(&key(b's', &[&from.to_be_bytes()]), BLOCKS).into_iter();
    found.map_while(|(at, row)| Block::read(&at, row)).collect()
}

/// Reads entries by their positions; what was read last is at hand.
pub(super) struct Looking<'a> {
    reader: &'a Reader,
    block: Option<Block>,
    levels: Option<(u64, Option<Bytes>)>,
    digests: Digests,
}

impl<'a> Looking<'a> {
    pub(super) fn at(reader: &'a Reader) -> Self {
        Self { reader, block: None, levels: None, digests: Digests::default() }
    }

    /// The entry that settled there, and its bytes.
    pub(super) fn find(&mut self, position: u64) -> Option<(Transfer, usize)> {
        let is_there = |block: &&Block| block.first <= position && position < block.first + block.count;
        if self.block.as_ref().filter(is_there).is_none() {
            let found = self.reader.scan(&key(b's', &[&position.to_be_bytes()]), 1).pop();
            self.block = found.and_then(|(at, row)| Block::read(&at, row));
        }
        let block = self.block.as_ref()?;
        let bytes = block.bytes(position)?.len();
        let entry = block.entry(position)?;
        let digest = self.digests.entry(&entry);
        let level = self.level(position);
        Some((Transfer { entry: Arc::new(entry), digest, level, position }, bytes))
    }

    fn level(&mut self, position: u64) -> Level {
        let row = position / LEVELS;
        if self.levels.as_ref().is_none_or(|(at, _)| *at != row) {
            self.levels = Some((row, self.reader.get(&level_row(row))));
        }
        let levels = self.levels.as_ref().and_then(|(_, levels)| levels.as_ref());
        let (at, shift) = level_at(position);
        level(levels.and_then(|levels| levels.get(at)).map_or(0, |byte| byte >> shift & 3))
    }
}

fn level_row(row: u64) -> Bytes {
    key(b'v', &[&row.to_be_bytes()])
}

/// The byte in its row, and how far the bits are shifted there.
fn level_at(position: u64) -> (usize, u32) {
    let at = position % LEVELS;
    let shift = u32::try_from(at % LEVELS_OF_BYTE).unwrap_or(0) * 2;
    (usize::try_from(at / LEVELS_OF_BYTE).unwrap_or(0), shift)
}

/// The rows of entries that are surer than was written: none falls.
pub(super) fn raise(reader: &Reader, rows: &mut Rows, levels: impl Iterator<Item = (u64, Level)>) {
    let mut touched: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (position, sure) in levels {
        let row = touched.entry(position / LEVELS).or_insert_with_key(|row| {
            let known = reader.get(&level_row(*row)).map(|known| known.to_vec());
            known.unwrap_or_else(|| vec![0; usize::try_from(LEVELS / LEVELS_OF_BYTE).unwrap_or(0)])
        });
        let (at, shift) = level_at(position);
        if let Some(byte) = row.get_mut(at)
            && *byte >> shift & 3 < number(sure)
        {
            *byte = *byte & !(3 << shift) | number(sure) << shift;
        }
    }
    rows.extend(touched.into_iter().map(|(row, levels)| (level_row(row), Some(levels.into()))));
}
