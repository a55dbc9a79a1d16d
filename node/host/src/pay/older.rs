//! An index that an earlier release wrote: a row for each payment and each way to look for it. What it has is written anew beside it, and takes
//! its place whole.
//!
//! *Rows there.* `e` payer, n: position, level, entry. `p` position: payer, n; the first releases wrote none. `l` payer, n, lane, number: the batch
//! carries the entry. `b`, `a`, `c` and `w` are as they are now. What else there was follows from these.

use std::path::Path;
use std::sync::Arc;

use synod_astro::Level;
use synod_ledger::Entry;
use synod_machine::broadcast::{Lot, Position};
use synod_service::{Change, StateStore as _};
use synod_store::{Options, Reader, Store};
use synod_wire::{Bytes, Limits, Wire as _};

use super::Seat;
use super::index::{Index, Kept};
use super::known::SEAL;
use super::rows::{Rows, changes, key, read_place};
use super::sorted::{self, Sorted};

/// Rows that are read at a time.
const ROWS: usize = 4_096;
/// Longest entry: 64 legs.
const ENTRY_BYTES_MAX: u32 = 8 << 10;

/// Writes all that is in the index of member `own` anew at another path.
///
/// # Errors
/// What is missing or cannot be written, in words.
pub(super) fn rewrite(
    mut old: Store,
    path: &Path,
    (own, mark): (Seat, (Bytes, Bytes)),
) -> Result<(), String> {
    let position = old.position().0;
    if position > 0 && old.get(&key(b'p', &[&position.to_be_bytes()])).is_none() {
        number(&mut old, position);
    }
    let reader = old.reader();
    let mut new = Store::open(path, Options::default()).map_err(|error| error.to_string())?;
    carried(&reader, &mut new)?;
    for kind in *b"bacw" {
        each(&reader, kind, |rows| {
            let rows: Rows = rows.into_iter().map(|(key, row)| (key, Some(row))).collect();
            new.commit(Position(0), changes(rows));
            Ok(())
        })?;
    }
    new.commit(Position(0), vec![Change::Put(mark.0, mark.1)]);
    let index = Index::of(new, own, SEAL).ok_or("what was written of it cannot be read")?;
    each(&reader, b'p', |rows| {
        let mut news = Vec::with_capacity(rows.len() * 2);
        for (at, place) in rows {
            let settled = reader.get(&key(b'e', &[&place])).and_then(|row| read_row(&row));
            let (position, level, entry) =
                settled.ok_or_else(|| format!("the entry of row {at:?} is missing"))?;
            let (id, name) = (entry.id, entry.transfer);
            news.push(Kept::Settled(position, Arc::new(entry)));
            if level > Level::Certified {
                news.push(Kept::Level(id, name, level));
            }
        }
        index.keep(news);
        Ok(())
    })?;
    let written = index.position();
    (written == position).then_some(()).ok_or_else(|| format!("it has {written} of {position} entries"))
}

/// The position, the level and the entry of a row.
fn read_row(bytes: &Bytes) -> Option<(u64, Level, Entry)> {
    let (position, rest) = bytes.split_first_chunk::<8>()?;
    let (sure, body) = rest.split_first()?;
    let entry = Entry::decode(Bytes::copy_from_slice(body), &Limits { frame_max: ENTRY_BYTES_MAX }).ok()?;
    let level = match sure {
        0 | 1 => Level::Certified,
        2 => Level::Settled,
        _ => Level::Stable,
    };
    Some((u64::from_be_bytes(*position), level, entry))
}

/// Reads all rows of a letter, some at a time.
fn each(
    reader: &Reader,
    kind: u8,
    mut take: impl FnMut(Vec<(Bytes, Bytes)>) -> Result<(), String>,
) -> Result<(), String> {
    let mut from = key(kind, &[]);
    loop {
        let mut rows = reader.scan(&from, ROWS);
        rows.retain(|(key, _)| key.first() == Some(&kind));
        let Some((last, _)) = rows.last() else { return Ok(()) };
        from = last.iter().copied().chain([0]).collect();
        take(rows)?;
    }
}

/// Which batches carry entries, as records.
fn carried(reader: &Reader, new: &mut Store) -> Result<(), String> {
    let mut at = 0_u64;
    each(reader, b'l', |rows| {
        let mut all = Sorted::default();
        for (key, _) in rows {
            let Some((place, [source, sequence @ ..])) =
                key.get(1..).and_then(|key| key.split_at_checked(24))
            else {
                return Err(format!("row {key:?} names no batch"));
            };
            let sequence = sequence.try_into().map(u64::from_be_bytes);
            let (Some(id), Ok(sequence)) = (read_place(place), sequence) else {
                return Err(format!("row {key:?} names no entry"));
            };
            all.carry(id, Lot { source: *source, sequence });
        }
        all.sort();
        let mut row = Vec::new();
        all.carried.iter().for_each(|record| sorted::put(record, &mut row));
        new.commit(Position(0), vec![Change::Put(key(b'l', &[&at.to_be_bytes()]), row.into())]);
        at += 1;
        Ok(())
    })
}

/// Writes the places of entries by position, of an index that the first releases wrote without such rows; the last one comes last.
fn number(store: &mut Store, position: u64) {
    let (reader, mut last) = (store.reader(), Rows::new());
    let numbered = each(&reader, b'e', |page| {
        let mut rows = Rows::new();
        for (place, row) in page {
            let (Some(turn), Some(place)) = (row.get(..8), place.get(1..)) else { continue };
            let rows = if turn == position.to_be_bytes() { &mut last } else { &mut rows };
            rows.insert(key(b'p', &[turn]), Some(Bytes::copy_from_slice(place)));
        }
        store.commit(Position(position), changes(rows));
        Ok(())
    });
    debug_assert!(numbered.is_ok(), "nothing is refused here");
    store.commit(Position(position), changes(last));
}
