//! Rows of the index that wait to be written together.

use std::collections::BTreeMap;

use synod_ledger::{AccountId, EntryId};
use synod_service::Change;
use synod_store::Reader;
use synod_wire::Bytes;

/// Rows that are read at a time: those behind the last that is wanted are read for nothing.
const ROWS: usize = 16;

/// Rows that wait to be written; those without a value go.
pub(super) type Rows = BTreeMap<Bytes, Option<Bytes>>;

/// The key of a row: its letter, and what follows.
pub(super) fn key(kind: u8, parts: &[&[u8]]) -> Bytes {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut key = Vec::with_capacity(length);
    key.push(kind);
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key.into()
}

/// A place as part of a key.
pub(super) fn place(id: EntryId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.spender.to_be_bytes());
    bytes[16..].copy_from_slice(&id.n.to_be_bytes());
    bytes
}

/// The place that is part of a key.
pub(super) fn read_place(bytes: &[u8]) -> Option<EntryId> {
    let (spender, n) = bytes.split_at_checked(16)?;
    let spender = AccountId::try_from(u128::from_be_bytes(spender.try_into().ok()?)).ok()?;
    Some(EntryId { spender, n: u64::from_be_bytes(n.try_into().ok()?) })
}

/// The rows whose keys begin so, the first `max`.
pub(super) fn prefixed(reader: &Reader, prefix: &[u8], max: usize) -> Vec<(Bytes, Bytes)> {
    let (mut found, mut from) = (Vec::new(), Bytes::copy_from_slice(prefix));
    loop {
        let rows = reader.scan(&from, ROWS);
        let is_whole = rows.len() == ROWS;
        for row in rows {
            if found.len() == max || !row.0.starts_with(prefix) {
                return found;
            }
            found.push(row);
        }
        match found.last().filter(|_| is_whole) {
            Some((last, _)) => from = last.iter().copied().chain([0]).collect(),
            None => return found,
        }
    }
}

/// Rows as changes of a store.
pub(super) fn changes(rows: Rows) -> Vec<Change> {
    let change = |(key, value)| match value {
        Some(value) => Change::Put(key, value),
        None => Change::Delete(key),
    };
    rows.into_iter().map(change).collect()
}
