//! All that settled here, on disk: payments by name, by place, and by account in the order in which they settled.
//!
//! *Rows.* `e` payer, n: position, level, entry. `t` name, payer, n: nothing. `h` account, position: payer, n. Numbers are big
//! endian, so rows of an account lie in their order.

use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use synod_astro::Level;
use synod_config::{SynError, code};
use synod_ledger::{AccountId, Digests, Entry, EntryId, Kind};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore};
use synod_store::{Options, Pace, Store};
use synod_wire::{Bytes, Limits, Wire};

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
}

/// See the module.
pub struct Index {
    store: RwLock<Store>,
}

fn place(id: EntryId) -> [u8; 24] {
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

fn key(kind: u8, parts: &[&[u8]]) -> Bytes {
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

/// Whom an entry pays.
fn payees(entry: &Entry) -> Vec<AccountId> {
    let mut payees: Vec<AccountId> = match &entry.kind {
        Kind::Pay(leg) => vec![leg.to],
        Kind::MultiPay(legs) => legs.iter().map(|leg| leg.to).collect(),
        Kind::Close(leg) => vec![leg.to],
        _ => Vec::new(),
    };
    payees.sort_unstable();
    payees.dedup();
    payees.retain(|payee| *payee != entry.id.spender);
    payees
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

    fn read(&self) -> RwLockReadGuard<'_, Store> {
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
        let mut rows: std::collections::BTreeMap<Bytes, Bytes> = std::collections::BTreeMap::new();
        for kept in news {
            match kept {
                Kept::Settled(position, _) if position <= last => {}
                Kept::Settled(position, entry) => {
                    assert_eq!(position, last + 1, "settled entries come in their order");
                    last = position;
                    let at = place(entry.id);
                    rows.insert(key(b'e', &[&at]), row(position, Level::Certified, &entry));
                    rows.insert(key(b't', &[&entry.transfer.to_be_bytes(), &at]), Bytes::new());
                    for account in payees(&entry).into_iter().chain([entry.id.spender]) {
                        let turn = position.to_be_bytes();
                        rows.insert(key(b'h', &[&account.to_be_bytes(), &turn]), Bytes::copy_from_slice(&at));
                    }
                }
                Kept::Level(id, _, sure) => {
                    let key = key(b'e', &[&place(id)]);
                    let known = rows.get(&key).cloned().or_else(|| store.get(&key));
                    if let Some(transfer) =
                        known.as_ref().and_then(read_row).filter(|known| known.level < sure)
                    {
                        rows.insert(key, row(transfer.position, sure, &transfer.entry));
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
