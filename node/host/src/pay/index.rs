//! All that settled here, on disk: payments by name, by place, and by account in the order in which they settled.
//!
//! *Rows.* `e` payer, n: position, level, entry. `t` name, payer, n: nothing. `h` account, position: payer, n. `o` resolver, name,
//! payer, n of a hold that nobody decided over: nothing. `x` payer, n of a hold: payer, n of the entry that decided over it. Numbers
//! are big endian, so rows of an account lie in their order. `p` position: payer, n. `m`: whose index it is, see [`super::claim`].
//! What receipts are made from has rows of its own: see [`super::proofs`].
//!
//! *Threads.* One keeps; any read, and wait for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_astro::{Level, Receipt};
use synod_config::SynError;
use synod_ledger::{AccountId, Digests, Entry, EntryId, Kind};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore};
use synod_store::{Reader, Store};
use synod_wire::{Bytes, Limits, Wire};

use super::claim::Claim;
use super::proofs::{Shown, word};
use super::words::{Name, Named, Transfer};

/// Most rows of a page.
pub const PAGE_MAX: usize = 1_000;
/// Bytes of entries behind which a page takes no more.
const PAGE_BYTES: usize = 256 << 10;
/// Longest entry: 64 legs.
const ENTRY_BYTES_MAX: u32 = 8 << 10;

/// Something to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// An entry that settled, under its position.
    Settled(u64, Arc<Entry>),
    /// How sure an entry is, with the caller's name for it.
    Level(EntryId, u128, Level),
    /// A batch is certified.
    Certified(Shown),
    /// A member's word that a batch has settled there.
    Word(Receipt),
}

/// See the module.
pub struct Index {
    reader: Reader,
    /// Whoever keeps has it.
    store: Mutex<Store>,
    position: AtomicU64,
}

/// Entries of an account, in the order in which they settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// As many as were asked for, or as one answer takes.
    pub entries: Vec<Transfer>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

pub(super) fn place(id: EntryId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.spender.to_be_bytes());
    bytes[16..].copy_from_slice(&id.n.to_be_bytes());
    bytes
}

pub(super) fn read_place(bytes: &[u8]) -> Option<EntryId> {
    let (spender, n) = bytes.split_at_checked(16)?;
    let spender = AccountId::try_from(u128::from_be_bytes(spender.try_into().ok()?)).ok()?;
    Some(EntryId { spender, n: u64::from_be_bytes(n.try_into().ok()?) })
}

pub(super) fn key(kind: u8, parts: &[&[u8]]) -> Bytes {
    std::iter::once(&[kind][..]).chain(parts.iter().copied()).flatten().copied().collect()
}

const fn number(level: Level) -> u8 {
    match level {
        Level::Accepted => 0,
        Level::Certified => 1,
        Level::Settled => 2,
        Level::Stable => 3,
    }
}

const fn level(number: u8) -> Level {
    match number {
        0 => Level::Accepted,
        1 => Level::Certified,
        2 => Level::Settled,
        _ => Level::Stable,
    }
}

/// The row of a settled entry.
fn row(position: u64, sure: Level, entry: &Entry) -> Bytes {
    let head = position.to_be_bytes().into_iter().chain([number(sure)]);
    head.chain(entry.encode()).collect()
}

pub(super) fn read_row(bytes: &Bytes) -> Option<Transfer> {
    let (position, rest) = bytes.split_at_checked(8)?;
    let (sure, body) = rest.split_first()?;
    let entry = Entry::decode(Bytes::copy_from_slice(body), &Limits { frame_max: ENTRY_BYTES_MAX }).ok()?;
    let digest = Digests::default().entry(&entry);
    let position = u64::from_be_bytes(position.try_into().ok()?);
    Some(Transfer { entry: Arc::new(entry), digest, level: level(*sure), position })
}

/// Where in the row of an entry its level stands.
const LEVEL_AT: usize = 8;

/// The row of an entry that is surer than it says; `None` where it is not.
fn raised(row: &Bytes, sure: Level) -> Option<Bytes> {
    if *row.get(LEVEL_AT)? >= number(sure) {
        return None;
    }
    let mut row = row.to_vec();
    *row.get_mut(LEVEL_AT)? = number(sure);
    Some(Bytes::from(row))
}

/// What keeping gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keeping {
    /// The position up to which entries are kept.
    pub(super) position: u64,
    /// Levels of entries that have not settled here.
    pub(super) early: Vec<(EntryId, u128, Level)>,
}

/// Rows that wait to be written; those without a value go.
pub(super) type Rows = BTreeMap<Bytes, Option<Bytes>>;

/// Accounts that an entry is told of: whose it is, and whom it pays or would pay; of a decision over holds, payers and payees of
/// those.
fn touched(entry: &Entry, holds: &[Transfer]) -> BTreeSet<AccountId> {
    let of = |entry: &Entry| -> Vec<AccountId> {
        match &entry.kind {
            Kind::Pay(leg) | Kind::Close(leg) => vec![leg.to],
            Kind::MultiPay(legs) => legs.iter().map(|leg| leg.to).collect(),
            Kind::Hold { to, .. } => vec![*to],
            Kind::Resolve { .. } | Kind::Rekey(_) | Kind::Move(_) | Kind::SetLimit(_) => Vec::new(),
        }
    };
    let held = holds.iter().flat_map(|hold| of(&hold.entry).into_iter().chain([hold.entry.id.spender]));
    of(entry).into_iter().chain(held).chain([entry.id.spender]).collect()
}

/// The entry at a place, among rows that wait or that are written.
fn entry_of(reader: &Reader, rows: &Rows, id: EntryId) -> Option<Transfer> {
    let key = key(b'e', &[&place(id)]);
    read_row(&rows.get(&key).cloned().flatten().or_else(|| reader.get(&key))?)
}

/// The row of a hold, as long as nobody decided over it; `None` of what is no hold.
pub(super) fn open_hold(entry: &Entry) -> Option<Bytes> {
    let Kind::Hold { resolver, .. } = &entry.kind else { return None };
    Some(key(b'o', &[&resolver.to_be_bytes(), &entry.transfer.to_be_bytes(), &place(entry.id)]))
}

/// The rows of an entry that settled.
fn settle(reader: &Reader, rows: &mut Rows, position: u64, entry: &Entry) {
    let at = place(entry.id);
    let holds: &[EntryId] = if let Kind::Resolve { holds, .. } = &entry.kind { holds } else { &[] };
    let held: Vec<Transfer> = holds.iter().filter_map(|id| entry_of(reader, rows, *id)).collect();
    for id in holds {
        rows.insert(key(b'x', &[&place(*id)]), Some(Bytes::copy_from_slice(&at)));
    }
    rows.extend(held.iter().filter_map(|hold| open_hold(&hold.entry)).map(|row| (row, None)));
    rows.extend(open_hold(entry).map(|row| (row, Some(Bytes::new()))));
    rows.insert(key(b'e', &[&at]), Some(row(position, Level::Certified, entry)));
    rows.insert(key(b'p', &[&position.to_be_bytes()]), Some(Bytes::copy_from_slice(&at)));
    rows.insert(key(b't', &[&entry.transfer.to_be_bytes(), &at]), Some(Bytes::new()));
    for account in touched(entry, &held) {
        let turn = position.to_be_bytes();
        rows.insert(key(b'h', &[&account.to_be_bytes(), &turn]), Some(Bytes::copy_from_slice(&at)));
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

impl Index {
    /// Opens the index of a node in its data directory, or makes it where none can have been.
    ///
    /// # Errors
    /// SYN-5007 when the file cannot be opened, is missing, is another node's, or is not as far as the node's log says.
    pub(super) fn open(data: &Path, claim: &Claim) -> Result<Self, SynError> {
        let store = claim.open(data)?;
        let position = AtomicU64::new(store.position().0);
        Ok(Self { reader: store.reader(), store: Mutex::new(store), position })
    }

    pub(super) const fn read(&self) -> &Reader {
        &self.reader
    }

    fn write(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps whoever would write waiting, as one who writes does.
    #[cfg(test)]
    pub(super) fn hold(&self) -> MutexGuard<'_, Store> {
        self.write()
    }

    /// The position of the last entry that is kept.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Keeps all of this, synced; what was kept before is passed over. Gives the position up to which entries are kept.
    ///
    /// # Panics
    /// When an entry is missing between the last that is kept and these.
    pub fn keep(&self, news: Vec<Kept>) -> u64 {
        self.keep_known(news).position
    }

    /// The same, and tells which levels are of entries that are not here.
    pub(super) fn keep_known(&self, news: Vec<Kept>) -> Keeping {
        let mut store = self.write();
        let mut last = store.position().0;
        let (mut rows, mut levels) = (Rows::new(), Vec::new());
        for kept in news {
            match kept {
                Kept::Settled(position, _) if position <= last => {}
                Kept::Settled(position, entry) => {
                    assert_eq!(position, last + 1, "settled entries come in their order");
                    last = position;
                    settle(&self.reader, &mut rows, position, &entry);
                }
                Kept::Certified(shown) => shown.rows(&mut rows, |key| self.reader.get(key).is_some()),
                Kept::Word(receipt) => {
                    let (key, row) = word(&receipt);
                    rows.insert(key, Some(row));
                }
                Kept::Level(id, name, sure) => levels.push((id, name, sure)),
            }
        }
        let early = self.raise(&mut rows, levels);
        if !rows.is_empty() {
            store.commit(Position(last), changes(rows));
            self.position.store(last, Ordering::Release);
        }
        Keeping { position: last, early }
    }

    /// Puts levels into the rows of their entries, which wait or are written; gives those without a row.
    fn raise(&self, rows: &mut Rows, levels: Vec<(EntryId, u128, Level)>) -> Vec<(EntryId, u128, Level)> {
        let keys: Vec<Bytes> = levels.iter().map(|(id, ..)| key(b'e', &[&place(*id)])).collect();
        let written: Vec<Bytes> = keys.iter().filter(|key| !rows.contains_key(*key)).cloned().collect();
        let found = written.iter().zip(self.reader.get_all(&written));
        let found: BTreeMap<&Bytes, Bytes> = found.filter_map(|(key, row)| Some((key, row?))).collect();
        let mut early = Vec::new();
        for (key, level) in keys.iter().zip(levels) {
            let Some(row) = rows.get(key).and_then(Option::as_ref).or_else(|| found.get(key)) else {
                early.push(level);
                continue;
            };
            if let Some(row) = raised(row, level.2) {
                rows.insert(key.clone(), Some(row));
            }
        }
        early
    }

    /// The entry at a place.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<Transfer> {
        read_row(&self.reader.get(&key(b'e', &[&place(id)]))?)
    }

    /// The entry that decided over the hold at a place.
    #[must_use]
    pub fn decided(&self, hold: EntryId) -> Option<Transfer> {
        let at = self.reader.get(&key(b'x', &[&place(hold)]))?;
        self.entry(read_place(&at)?)
    }

    /// The payers who have a payment of this name, lowest first: two at most, which is enough to know that there are several.
    #[must_use]
    pub fn payers(&self, id: u128) -> Vec<AccountId> {
        let first = self.payer_from(id, 0);
        let behind = first.and_then(|payer| payer.number().checked_add(1));
        first.into_iter().chain(behind.and_then(|from| self.payer_from(id, from))).collect()
    }

    /// The first payer of a name from this number of an account on.
    fn payer_from(&self, id: u128, from: u128) -> Option<AccountId> {
        let id = id.to_be_bytes();
        let (key, _) = self.reader.scan(&key(b't', &[&id, &from.to_be_bytes()]), 1).pop()?;
        let at = key.strip_prefix(b"t").and_then(|rest| rest.strip_prefix(&id[..]));
        at.and_then(read_place).map(|place| place.spender)
    }

    /// The first entry of this name in the log of its payer.
    pub(super) fn named(&self, (id, payer): Name) -> Option<Transfer> {
        let prefix = key(b't', &[&id.to_be_bytes(), &payer.to_be_bytes()]);
        let (key, _) = self.reader.scan(&prefix, 1).pop().filter(|(key, _)| key.starts_with(&prefix))?;
        self.entry(read_place(key.get(17..)?)?)
    }

    /// The first entry of each of these names in the log of its payer, in one look.
    pub(super) fn all_named_once(&self, names: &[Name]) -> Vec<Option<Transfer>> {
        let beginning = |(id, payer): &Name| key(b't', &[&id.to_be_bytes(), &payer.to_be_bytes()]);
        let found = self.reader.first_of_each(&names.iter().map(beginning).collect::<Vec<_>>());
        let found = found.into_iter();
        found.map(|found| found.and_then(|(key, _)| self.entry(read_place(key.get(17..)?)?))).collect()
    }

    /// What settled here behind this position, in the order in which it settled; `max` entries at most, [`PAGE_MAX`] at most, and
    /// fewer where they are long.
    #[must_use]
    pub fn changes(&self, after: u64, max: usize) -> History {
        let from = key(b'p', &[&after.saturating_add(1).to_be_bytes()]);
        let found = self.reader.scan(&from, max.min(PAGE_MAX) + 1).into_iter();
        self.page(found.take_while(|(key, _)| key.starts_with(b"p")).map(|(_, at)| at), max.min(PAGE_MAX))
    }

    /// The holds of this name over which this account decides and nobody has decided: two at most, the payers' oldest first.
    /// What others pay under the name hides none.
    pub(super) fn open_holds(&self, hold: &Named, resolver: AccountId) -> Vec<Transfer> {
        let payer = hold.payer.map(|payer| payer.to_be_bytes());
        let payer: &[u8] = payer.as_ref().map_or(&[], |payer| payer);
        let prefix = key(b'o', &[&resolver.to_be_bytes(), &hold.id.to_be_bytes(), payer]);
        let found = self.reader.scan(&prefix, 2).into_iter();
        let found = found.take_while(|(key, _)| key.starts_with(&prefix));
        found.filter_map(|(key, _)| self.entry(read_place(key.get(33..)?)?)).collect()
    }

    /// Entries of this name, of one payer where that is said; [`PAGE_MAX`] at most.
    pub(super) fn all_named(&self, named: &Named) -> Vec<Transfer> {
        let payer = named.payer.map(|payer| payer.to_be_bytes());
        let payer: &[u8] = payer.as_ref().map_or(&[], |payer| payer);
        let prefix = key(b't', &[&named.id.to_be_bytes(), payer]);
        let found = self.reader.scan(&prefix, PAGE_MAX).into_iter();
        let found = found.take_while(|(key, _)| key.starts_with(&prefix));
        found.filter_map(|(key, _)| self.entry(read_place(key.get(17..)?)?)).collect()
    }

    /// What settled of an account, as payer or payee, behind this position; `max` entries at most, [`PAGE_MAX`] at most, and fewer
    /// where they are long: at least one, and none behind the first 256 KiB.
    #[must_use]
    pub fn history(&self, account: AccountId, after: u64, max: usize) -> History {
        let max = max.min(PAGE_MAX);
        let prefix = key(b'h', &[&account.to_be_bytes()]);
        let from = key(b'h', &[&account.to_be_bytes(), &after.saturating_add(1).to_be_bytes()]);
        let found = self.reader.scan(&from, max + 1).into_iter();
        self.page(found.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, at)| at), max)
    }

    /// The entries at these places, as many as a page takes.
    fn page(&self, places: impl Iterator<Item = Bytes>, max: usize) -> History {
        let keys = places.filter_map(|at| Some(key(b'e', &[&place(read_place(&at)?)])));
        let keys: Vec<Bytes> = keys.collect();
        let (mut entries, mut bytes, mut has_more) = (Vec::new(), 0, false);
        for row in self.reader.get_all(&keys) {
            if entries.len() == max || bytes >= PAGE_BYTES {
                has_more = true;
                break;
            }
            bytes += row.as_ref().map_or(0, Bytes::len);
            entries.extend(row.as_ref().and_then(read_row));
        }
        History { entries, has_more }
    }
}
