//! All that settled here, on disk: payments by name, by place, and by account in the order in which they settled.
//!
//! *Rows.* `e` payer, n: position, level, entry. `t` name, payer, n: nothing. `h` account, position: payer, n. `x` payer, n of a
//! hold: payer, n of the entry that decided over it. Numbers are big
//! endian, so rows of an account lie in their order. What receipts are made from has rows of its own: see [`super::proofs`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use synod_astro::{Level, Receipt};
use synod_config::{SynError, code};
use synod_ledger::{AccountId, Digests, Entry, EntryId, Kind};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore};
use synod_store::{Options, Pace, Store};
use synod_wire::{Bytes, Limits, Wire};

use super::proofs::{Shown, word};
use super::words::Transfer;

/// The file in the node's data directory.
const FILE: &str = "pay.redb";
/// Most rows of a page.
pub const PAGE_MAX: usize = 1_000;
/// Longest entry: 64 legs.
const ENTRY_BYTES_MAX: u32 = 8 << 10;

/// Something to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// An entry that settled, under its position.
    Settled(u64, Entry),
    /// How sure an entry is, with the caller's name for it.
    Level(EntryId, u128, Level),
    /// A batch is certified.
    Certified(Shown),
    /// A member's word that a batch has settled there.
    Word(Receipt),
}

/// See the module.
pub struct Index {
    store: RwLock<Store>,
}

pub(super) fn place(id: EntryId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.spender.to_be_bytes());
    bytes[16..].copy_from_slice(&id.n.to_be_bytes());
    bytes
}

fn read_place(bytes: &[u8]) -> Option<EntryId> {
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

fn read_row(bytes: &Bytes) -> Option<Transfer> {
    let (position, rest) = bytes.split_at_checked(8)?;
    let (sure, body) = rest.split_first()?;
    let entry = Entry::decode(Bytes::copy_from_slice(body), &Limits { frame_max: ENTRY_BYTES_MAX }).ok()?;
    let digest = Digests::default().entry(&entry);
    let position = u64::from_be_bytes(position.try_into().ok()?);
    Some(Transfer { entry, digest, level: level(*sure), position })
}

/// Rows that wait to be written.
type Rows = BTreeMap<Bytes, Bytes>;

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
fn entry_of(store: &Store, rows: &Rows, id: EntryId) -> Option<Transfer> {
    let key = key(b'e', &[&place(id)]);
    read_row(&rows.get(&key).cloned().or_else(|| store.get(&key))?)
}

/// The rows of an entry that settled.
fn settle(store: &Store, rows: &mut Rows, position: u64, entry: &Entry) {
    let at = place(entry.id);
    let holds: &[EntryId] = if let Kind::Resolve { holds, .. } = &entry.kind { holds } else { &[] };
    let held: Vec<Transfer> = holds.iter().filter_map(|id| entry_of(store, rows, *id)).collect();
    for id in holds {
        rows.insert(key(b'x', &[&place(*id)]), Bytes::copy_from_slice(&at));
    }
    rows.insert(key(b'e', &[&at]), row(position, Level::Certified, entry));
    rows.insert(key(b't', &[&entry.transfer.to_be_bytes(), &at]), Bytes::new());
    for account in touched(entry, &held) {
        let turn = position.to_be_bytes();
        rows.insert(key(b'h', &[&account.to_be_bytes(), &turn]), Bytes::copy_from_slice(&at));
    }
}

impl Index {
    /// Opens the index in the data directory, or makes it.
    ///
    /// # Errors
    /// SYN-1101 when the file cannot be opened or is no index of this release.
    pub fn open(data: &Path) -> Result<Self, SynError> {
        let path = data.join(FILE);
        let fatal = Box::new(|error: &synod_store::Error| {
            tracing::error!(%error, "the index of payments cannot be written: the node ends");
            std::process::exit(9);
        });
        let options = Options { pace: Pace::Each, fatal, ..Options::default() };
        let store = Store::open(&path, options).map_err(|error| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", &path.display().to_string())]).because(error)
        })?;
        Ok(Self { store: RwLock::new(store) })
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps whoever would write waiting.
    #[cfg(test)]
    pub(super) fn hold(&self) -> RwLockReadGuard<'_, Store> {
        self.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position of the last entry that is kept.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.read().position().0
    }

    /// Keeps all of this, synced; what was kept before is passed over. Gives the position up to which entries are kept.
    ///
    /// # Panics
    /// When an entry is missing between the last that is kept and these.
    pub fn keep(&self, news: Vec<Kept>) -> u64 {
        let mut store = self.write();
        let mut last = store.position().0;
        let mut rows = Rows::new();
        for kept in news {
            match kept {
                Kept::Settled(position, _) if position <= last => {}
                Kept::Settled(position, entry) => {
                    assert_eq!(position, last + 1, "settled entries come in their order");
                    last = position;
                    settle(&store, &mut rows, position, &entry);
                }
                Kept::Certified(shown) => shown.rows(&mut rows),
                Kept::Word(receipt) => {
                    let (key, row) = word(&receipt);
                    rows.insert(key, row);
                }
                Kept::Level(id, _, sure) => {
                    let known = entry_of(&store, &rows, id).filter(|known| known.level < sure);
                    if let Some(transfer) = known {
                        rows.insert(key(b'e', &[&place(id)]), row(transfer.position, sure, &transfer.entry));
                    }
                }
            }
        }
        if !rows.is_empty() {
            let changes = rows.into_iter().map(|(key, value)| Change::Put(key, value)).collect();
            store.commit(Position(last), changes);
        }
        last
    }

    /// The entry at a place.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<Transfer> {
        read_row(&self.read().get(&key(b'e', &[&place(id)]))?)
    }

    /// The entry that decided over the hold at a place.
    #[must_use]
    pub fn decided(&self, hold: EntryId) -> Option<Transfer> {
        let at = self.read().get(&key(b'x', &[&place(hold)]))?;
        self.entry(read_place(&at)?)
    }

    /// Entries of this name, whoever's they are; [`PAGE_MAX`] at most.
    #[must_use]
    pub fn all_named(&self, name: u128) -> Vec<Transfer> {
        let prefix = key(b't', &[&name.to_be_bytes()]);
        let found = self.read().scan(&prefix, PAGE_MAX);
        let named = found.into_iter().take_while(|(key, _)| key.starts_with(&prefix));
        named.filter_map(|(key, _)| self.entry(read_place(key.get(17..)?)?)).collect()
    }

    /// An entry of this name, whoever's it is.
    #[must_use]
    pub fn named(&self, name: u128) -> Option<Transfer> {
        self.first(&key(b't', &[&name.to_be_bytes()]))
    }

    /// The entry of this name that an account of this registrar made. Names that others use as well do not hide it, however many.
    #[must_use]
    pub fn named_by(&self, name: u128, shard: u16, registrar: u32) -> Option<Transfer> {
        self.first(&key(b't', &[&name.to_be_bytes(), &shard.to_be_bytes(), &registrar.to_be_bytes()]))
    }

    /// The entry of the first row of names that begins so.
    fn first(&self, prefix: &[u8]) -> Option<Transfer> {
        let (key, _) = self.read().scan(prefix, 1).pop().filter(|(key, _)| key.starts_with(prefix))?;
        self.entry(read_place(key.get(17..)?)?)
    }

    /// What settled of an account, as payer or payee, behind this position; `max` entries at most.
    #[must_use]
    pub fn history(&self, account: AccountId, after: u64, max: usize) -> Vec<Transfer> {
        let prefix = key(b'h', &[&account.to_be_bytes()]);
        let from = key(b'h', &[&account.to_be_bytes(), &after.saturating_add(1).to_be_bytes()]);
        let found = self.read().scan(&from, max.min(PAGE_MAX));
        let own = found.into_iter().take_while(|(key, _)| key.starts_with(&prefix));
        own.filter_map(|(_, at)| self.entry(read_place(&at)?)).collect()
    }
}
