//! All that settled here, on disk: payments by name, by place, and by account in the order in which they settled.
//!
//! *Rows.* Entries and levels: see [`super::blocks`]. What is looked for by name, place and account are records, in memory and in
//! [`super::sealed`]: of entries behind the last run they are made anew when the index is opened. `o` resolver, name,
//! payer, n of a hold that nobody decided over: nothing. `x` payer, n of a hold: payer, n of the entry that decided over it. Numbers
//! are big endian. `l` number: which batches carry entries, in records that no run has. `m`: whose index it is, see [`super::claim`].
//! What receipts are made from has rows of its own: see [`super::proofs`].
//!
//! *Threads.* One keeps; any read, and wait for nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_astro::{Level, Receipt};
use synod_config::SynError;
use synod_ledger::{AccountId, Entry, EntryId, Kind};
use synod_machine::broadcast::Position;
use synod_service::StateStore as _;
use synod_store::{Reader, Store};
use synod_wire::Bytes;

use super::Seat;
use super::blocks::{self, Looking};
use super::claim::Claim;
use super::known::{Known, SEAL};
use super::proofs::{Shown, word};
use super::rows::{Rows, changes, key, place, prefixed, read_place};
use super::sealed::{Runs, Upkeep};
use super::sorted::{self, Sorted, TABLES};
use super::words::{Name, Named, Transfer};

/// Most rows of a page.
pub const PAGE_MAX: usize = 1_000;
/// Bytes of entries behind which a page takes no more.
const PAGE_BYTES: usize = 256 << 10;
/// Own payments whose positions are remembered until they are stable.
const RECENT_MAX: usize = 1 << 18;
/// Records of runs that are written with each group, and with each news of it.
const UPKEEP: (usize, usize) = (1_024, 16);

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
    own: Seat,
    reader: Reader,
    known: Mutex<Arc<Known>>,
    /// Whoever keeps has it.
    writer: Mutex<Writing>,
    position: AtomicU64,
    /// Entries in memory that become a run.
    seal: usize,
}

/// What whoever keeps has.
pub(super) struct Writing {
    store: Store,
    upkeep: Upkeep,
    /// Where own payments stand that are not stable.
    recent: HashMap<EntryId, u64>,
    /// The number of the next row of records that no run has.
    carried: u64,
}

/// Entries of an account, in the order in which they settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// As many as were asked for, or as one answer takes.
    pub entries: Vec<Transfer>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

/// What keeping gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keeping {
    /// The position up to which entries are kept.
    pub(super) position: u64,
    /// Levels of entries that have not settled here.
    pub(super) early: Vec<(EntryId, u128, Level)>,
}

/// Accounts that an entry is told of: whose it is, and whom it pays or would pay; of a decision over holds, payers and payees of
/// those.
fn touched(entry: &Entry, holds: &[Arc<Entry>]) -> BTreeSet<AccountId> {
    let of = |entry: &Entry| -> Vec<AccountId> {
        match &entry.kind {
            Kind::Pay(leg) | Kind::Close(leg) => vec![leg.to],
            Kind::MultiPay(legs) => legs.iter().map(|leg| leg.to).collect(),
            Kind::Hold { to, .. } => vec![*to],
            Kind::Resolve { .. } | Kind::Rekey(_) | Kind::Move(_) | Kind::SetLimit(_) => Vec::new(),
        }
    };
    let held = holds.iter().flat_map(|hold| of(hold).into_iter().chain([hold.id.spender]));
    of(entry).into_iter().chain(held).chain([entry.id.spender]).collect()
}

/// The row of a hold, as long as nobody decided over it; `None` of what is no hold.
pub(super) fn open_hold(entry: &Entry) -> Option<Bytes> {
    let Kind::Hold { resolver, .. } = &entry.kind else { return None };
    Some(key(b'o', &[&resolver.to_be_bytes(), &entry.transfer.to_be_bytes(), &place(entry.id)]))
}

/// Entries that settled and are not written, with the records of them.
#[derive(Default)]
struct Fresh {
    sorted: Sorted,
    /// Holds among them.
    holds: BTreeMap<EntryId, Arc<Entry>>,
}

impl Fresh {
    /// Takes an entry; `find` gives those before.
    fn take(&mut self, position: u64, entry: &Arc<Entry>, find: impl Fn(EntryId) -> Option<Arc<Entry>>) {
        let id = entry.id;
        self.sorted.add(entry.transfer, id, position);
        match &entry.kind {
            Kind::Pay(leg) => {
                self.sorted.tell(id.spender, position);
                if leg.to != id.spender {
                    self.sorted.tell(leg.to, position);
                }
                return;
            }
            Kind::Hold { .. } => {
                self.holds.insert(id, Arc::clone(entry));
            }
            _ => {}
        }
        let held = self.held(entry, find);
        touched(entry, &held).into_iter().for_each(|account| self.sorted.tell(account, position));
    }

    /// The holds that an entry decides over.
    fn held(&self, entry: &Entry, find: impl Fn(EntryId) -> Option<Arc<Entry>>) -> Vec<Arc<Entry>> {
        let Kind::Resolve { holds, .. } = &entry.kind else { return Vec::new() };
        holds.iter().filter_map(|id| self.holds.get(id).cloned().or_else(|| find(*id))).collect()
    }

    /// The rows of an entry: of a hold, and of what was decided over holds.
    fn rows(&self, entry: &Entry, rows: &mut Rows, find: impl Fn(EntryId) -> Option<Arc<Entry>>) {
        if let Kind::Resolve { holds, .. } = &entry.kind {
            let at = Bytes::copy_from_slice(&place(entry.id));
            rows.extend(holds.iter().map(|id| (key(b'x', &[&place(*id)]), Some(at.clone()))));
        }
        rows.extend(self.held(entry, find).iter().filter_map(|hold| open_hold(hold)).map(|row| (row, None)));
        rows.extend(open_hold(entry).map(|row| (row, Some(Bytes::new()))));
    }
}

impl Index {
    /// Opens the index of a node in its data directory, or makes it where none can have been.
    ///
    /// # Errors
    /// SYN-5007 when the file cannot be opened, is missing, is another node's, or is not as far as the node's log says.
    pub(super) fn open(data: &Path, claim: &Claim) -> Result<Self, SynError> {
        let store = claim.open(data)?;
        Self::of(store, claim.seat, SEAL).ok_or_else(|| Claim::damaged(data))
    }

    /// The index of member `own` in a store; `None` where it is damaged.
    pub(super) fn of(store: Store, own: Seat, seal: usize) -> Option<Self> {
        let (reader, last) = (store.reader(), store.position().0);
        let runs = Runs::open(&reader)?;
        let upkeep = Upkeep::open(&reader, &runs);
        let mut index = Self {
            own,
            reader,
            known: Mutex::new(Arc::new(Known::new(runs))),
            writer: Mutex::new(Writing { store, upkeep, recent: HashMap::new(), carried: 0 }),
            position: AtomicU64::new(last),
            seal,
        };
        index.remember(last)?;
        Some(index)
    }

    /// Makes the records of entries behind the last run; `None` where one is missing.
    fn remember(&mut self, last: u64) -> Option<()> {
        let mut known = Known::clone(&self.known());
        let mut at = known.runs.position;
        while at < last {
            let mut fresh = Fresh::default();
            for (position, entry) in
                blocks::blocks(&self.reader, at + 1).iter().flat_map(blocks::Block::entries)
            {
                // A block may begin before the run ends.
                if position == at + 1 {
                    fresh.take(position, &Arc::new(entry), |id| self.entry_in(&known, id));
                    at = position;
                }
            }
            if fresh.sorted.len() == 0 {
                return None;
            }
            fresh.sorted.sort();
            known.push(fresh.sorted);
        }
        let carried = prefixed(&self.reader, b"l", usize::MAX);
        let next = carried.last().and_then(|(key, _)| key.get(1..)?.try_into().ok());
        for (_, row) in carried {
            let (records, _) = row.as_chunks::<40>();
            let records = records.iter().map(|record| sorted::read::<[u64; 5]>(record)).collect();
            known.push(Sorted { carried: records, ..Sorted::default() });
        }
        self.publish(known);
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        writer.carried = next.map_or(0, |number| u64::from_be_bytes(number) + 1);
        Some(())
    }

    pub(super) const fn read(&self) -> &Reader {
        &self.reader
    }

    pub(super) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    fn write(&self) -> MutexGuard<'_, Writing> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps whoever would write waiting, as one who writes does.
    #[cfg(test)]
    pub(super) fn hold(&self) -> MutexGuard<'_, Writing> {
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
        let mut writer = self.write();
        let known = self.known();
        let (first, count) = (writer.store.position().0, news.len());
        let find = |id| self.entry_in(&known, id);
        let (mut rows, mut levels, mut fresh, mut entries) =
            (Rows::new(), Vec::new(), Fresh::default(), Vec::new());
        for kept in news {
            match kept {
                Kept::Settled(position, entry) => {
                    let last = first + entries.len() as u64;
                    if position <= last {
                        continue;
                    }
                    assert_eq!(position, last + 1, "settled entries come in their order");
                    fresh.take(position, &entry, find);
                    fresh.rows(&entry, &mut rows, find);
                    if self.own.owns(entry.id.spender) && writer.recent.len() < RECENT_MAX {
                        writer.recent.insert(entry.id, position);
                    }
                    entries.push(entry);
                }
                Kept::Certified(shown) => {
                    shown.rows(&mut rows, &mut fresh.sorted, |key| self.reader.get(key).is_some());
                }
                Kept::Word(receipt) => {
                    let (key, row) = word(&receipt);
                    rows.insert(key, Some(row));
                }
                Kept::Level(id, name, sure) => levels.push((id, name, sure)),
            }
        }
        blocks::put(&mut rows, first + 1, &entries);
        fresh.sorted.sort();
        let (raised, early) = writer.positions(levels, &fresh.sorted, |id| known.position(&self.reader, id));
        blocks::raise(&self.reader, &mut rows, raised.into_iter());
        let last = first + entries.len() as u64;
        if !rows.is_empty() {
            drop(entries);
            let known = self.add(&mut writer, (Known::clone(&known), fresh.sorted), (last, count), &mut rows);
            writer.store.commit(Position(last), changes(rows));
            self.publish(known);
            self.position.store(last, Ordering::Release);
        }
        Keeping { position: last, early }
    }

    /// What is known once these records and rows are written.
    fn add(
        &self,
        writer: &mut Writing,
        (mut known, sorted): (Known, Sorted),
        (last, count): (u64, usize),
        rows: &mut Rows,
    ) -> Known {
        if !sorted.carried.is_empty() {
            let mut row = Vec::with_capacity(sorted.carried.len() * TABLES[3].1);
            sorted.carried.iter().for_each(|record| sorted::put(record, &mut row));
            rows.insert(key(b'l', &[&writer.carried.to_be_bytes()]), Some(row.into()));
            writer.carried += 1;
        }
        known.push(sorted);
        if known.in_memory() >= self.seal {
            let all = known.take();
            writer.upkeep.seal(&mut known.runs, &all, (last, self.own.bits()), rows);
            // What the rows said is in the run.
            rows.retain(|key, _| !key.starts_with(b"l"));
            rows.extend(prefixed(&self.reader, b"l", usize::MAX).into_iter().map(|(key, _)| (key, None)));
            return known;
        }
        let records = UPKEEP.0 + UPKEEP.1 * count;
        writer.upkeep.work(&self.reader, &mut known.runs, (records, self.own.bits()), rows);
        known
    }

    /// The entry at a place.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<Transfer> {
        let position = self.known().position(&self.reader, id)?;
        self.at(position)
    }

    fn entry_in(&self, known: &Known, id: EntryId) -> Option<Arc<Entry>> {
        let position = known.position(&self.reader, id)?;
        self.at(position).map(|known| known.entry)
    }

    /// The entry that settled there.
    fn at(&self, position: u64) -> Option<Transfer> {
        Looking::at(&self.reader).find(position).map(|(known, _)| known)
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
        let known = self.known();
        let first = known.payer_from(&self.reader, id, 0);
        let behind = first.and_then(|payer| payer.number().checked_add(1));
        first.into_iter().chain(behind.and_then(|from| known.payer_from(&self.reader, id, from))).collect()
    }

    /// The first entry of this name in the log of its payer.
    pub(super) fn named(&self, name: Name) -> Option<Transfer> {
        let position = self.known().named(&self.reader, name, self.is_own(name))?;
        self.at(position)
    }

    /// Whether the log of an account is of this node's shard.
    pub(super) const fn keeps_log_of(&self, account: AccountId) -> bool {
        account.shard == self.own.shard
    }

    fn is_own(&self, (_, payer): Name) -> bool {
        self.own.owns(payer)
    }

    /// The first entry of each of these names in the log of its payer, in one look.
    pub(super) fn all_named_once(&self, names: &[Name]) -> Vec<Option<Transfer>> {
        let (known, mut looking) = (self.known(), Looking::at(&self.reader));
        let found = names.iter().map(|name| {
            let position = known.named(&self.reader, *name, self.is_own(*name))?;
            looking.find(position).map(|(known, _)| known)
        });
        found.collect()
    }

    /// What settled here behind this position, in the order in which it settled; `max` entries at most, [`PAGE_MAX`] at most, and
    /// fewer where they are long.
    #[must_use]
    pub fn changes(&self, after: u64, max: usize) -> History {
        let max = max.min(PAGE_MAX);
        let (from, last) = (after.saturating_add(1), self.position());
        self.page((from..=last).take(max + 1), max)
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
        let found = self.known().all_named(&self.reader, named.id, named.payer, PAGE_MAX);
        let mut looking = Looking::at(&self.reader);
        found.into_iter().filter_map(|position| looking.find(position)).map(|(known, _)| known).collect()
    }

    /// What settled of an account, as payer or payee, behind this position; `max` entries at most, [`PAGE_MAX`] at most, and fewer
    /// where they are long: at least one, and none behind the first 256 KiB.
    #[must_use]
    pub fn history(&self, account: AccountId, after: u64, max: usize) -> History {
        let max = max.min(PAGE_MAX);
        let found = self.known().of_account(&self.reader, account, after, max + 1);
        self.page(found.into_iter(), max)
    }

    /// The entries at these positions, as many as a page takes.
    fn page(&self, positions: impl Iterator<Item = u64>, max: usize) -> History {
        let (mut entries, mut bytes, mut has_more) = (Vec::new(), 0, false);
        let mut looking = Looking::at(&self.reader);
        for position in positions {
            if entries.len() == max || bytes >= PAGE_BYTES {
                has_more = true;
                break;
            }
            let Some((known, length)) = looking.find(position) else { continue };
            bytes += length;
            entries.push(known);
        }
        History { entries, has_more }
    }
}

/// Levels with where their entries stand, and those whose entries are not here.
type Positions = (Vec<(u64, Level)>, Vec<(EntryId, u128, Level)>);

impl Writing {
    /// Where entries stand whose levels are told.
    fn positions(
        &mut self,
        levels: Vec<(EntryId, u128, Level)>,
        fresh: &Sorted,
        find: impl Fn(EntryId) -> Option<u64>,
    ) -> Positions {
        let (mut raised, mut early) = (Vec::with_capacity(levels.len()), Vec::new());
        for (id, name, sure) in levels {
            let recent =
                if sure == Level::Stable { self.recent.remove(&id) } else { self.recent.get(&id).copied() };
            let written = recent.or_else(|| {
                let [payer, of] = sorted::halves(id.spender.number());
                let fresh = fresh.range::<sorted::Places>(&[payer, of, id.n, 0], 3, 1);
                fresh.first().map(|[.., position]| *position).or_else(|| find(id))
            });
            match written {
                Some(position) => raised.push((position, sure)),
                None => early.push((id, name, sure)),
            }
        }
        (raised, early)
    }
}
