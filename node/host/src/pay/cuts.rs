//! The certified cuts that a node keeps, with the accounts behind each, so that it can prove and state how an account stood.
//!
//! *Rows*, in a file of their own. `c` number: the root record, its certificate, and how far the index was. `s` account, number from the
//! highest down: how the account stood behind the cut, written where it is not as behind the cut before. `d` number, account: nothing; the
//! account has such a row, which is empty where it is not there any more. `n`: how many there are. `m`: whose file it is. The first row of an account at a number or below is how
//! it stood there, so the accounts behind any cut that is kept can be put together, and their root is held against what a quorum signed.
//!
//! *Bounds.* [`CUTS_MAX`] cuts, and [`ROWS_MAX`] rows of accounts beyond one of each: the oldest cuts go. The newest accounts are in
//! memory, as the replica has them, and those of one older cut that was asked for.

mod log;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_astro::{Accounts, CutCertificate, Proof, RootRecord, StoodAt};
use synod_config::{SynError, code};
use synod_ledger::{AccountId, Standing, Total};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore as _};
use synod_store::{Options, Pace, Reader, Store};
use synod_wire::{Bytes, Limits, Wire, wire};

use super::claim::Claim;
use super::index::Index;
use super::rows::{key, read_place};
use log::COUNTS;
pub(super) use log::LOG;

/// Most cuts that are kept: a day of one each 30 seconds.
pub const CUTS_MAX: u64 = 2_880;
/// Most rows of accounts beyond one of each: some 250 bytes each.
const ROWS_MAX: u64 = 1 << 20;
/// The file in the node's data directory.
const FILE: &str = "cuts.redb";
/// Its page cache.
const CACHE_BYTES: usize = 16 << 20;
/// Longest row: a record of 1,024 ledgers.
const ROW_BYTES_MAX: u32 = 4 << 20;
/// Rows that are read at once.
const PAGE: usize = 4_096;

wire! {
    /// A cut that is kept.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KeptCut {
        /// The state that a quorum signed.
        pub record: RootRecord,
        /// That it did.
        pub certificate: CutCertificate,
        /// When this node heard of it, in ms of Unix time: this node's word.
        pub heard_ms: u64,
        /// Whatever the cut counts stands in the index up to this position.
        pub position: u64,
        /// Whatever stands in the index up to this position is counted.
        pub below: u64,
    }
}

/// A cut with all accounts behind it.
#[derive(Debug)]
pub(super) struct Behind {
    cut: KeptCut,
    accounts: Arc<Accounts>,
}

/// Why something is not told of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The cluster makes no cuts.
    Off,
    /// The cut is not here yet; none is, where no number is said. The newest that is here; 0: none.
    NotYet(Option<u64>, u64),
    /// The cut is not here any more, or was never: the oldest and the newest that are.
    NotKept(u64, (u64, u64)),
    /// There is no such ledger or account behind it.
    Nothing(u64),
    /// What settled up to the cut of this number is not all in the index, or is something else.
    Lacks(u64),
    /// One would end before it begins.
    Backwards,
}

/// See the module.
pub struct Cuts {
    reader: Reader,
    /// Whoever keeps has it.
    store: Mutex<Store>,
    bounds: Bounds,
    newest: Mutex<Option<Arc<Behind>>>,
    /// Of the older cut that was asked for last.
    older: Mutex<Option<Arc<Behind>>>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) cuts: u64,
    pub(super) rows: u64,
}

/// The row of how an account stood behind a cut, or the first one below.
fn stood_key(account: AccountId, number: u64) -> Bytes {
    key(b's', &[&account.to_be_bytes(), &(!number).to_be_bytes()])
}

fn read<T: Wire>(bytes: Bytes) -> Option<T> {
    T::decode(bytes, &Limits { frame_max: ROW_BYTES_MAX }).ok()
}

fn number_in(key: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(at..at + 8)?.try_into().ok()?))
}

fn account_in(key: &[u8], at: usize) -> Option<AccountId> {
    AccountId::try_from(u128::from_be_bytes(key.get(at..at + 16)?.try_into().ok()?)).ok()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuts {
    /// Opens the file in the data directory of a node, or makes it.
    ///
    /// # Errors
    /// SYN-5003 where it cannot be opened or is of another node.
    pub(super) fn open(data: &Path, claim: &Claim) -> Result<Self, SynError> {
        Self::open_bounded(data, claim, Bounds { cuts: CUTS_MAX, rows: ROWS_MAX })
    }

    pub(super) fn open_bounded(data: &Path, claim: &Claim, bounds: Bounds) -> Result<Self, SynError> {
        let path = data.join(FILE);
        let unfit = |problem: &str| {
            SynError::of(code::STATE_FILE, &[("file", &path.display().to_string()), ("problem", problem)])
        };
        let fatal = Box::new(|error: &synod_store::Error| {
            tracing::error!(%error, "cuts cannot be written: the node ends");
            std::process::exit(9);
        });
        let options = Options { pace: Pace::Each, cache_bytes: CACHE_BYTES, fatal };
        let mut store =
            Store::open(&path, options).map_err(|error| unfit("it cannot be opened").because(error))?;
        let mark = key(b'm', &[]);
        match store.get(&mark) {
            Some(known) if known[..] != claim.owner()[..] => return Err(unfit("it is of another node")),
            Some(_) => {}
            None => store.commit(Position(0), vec![Change::Put(mark, claim.owner().into())]),
        }
        let (newest, older) = (Mutex::default(), Mutex::default());
        Ok(Self { reader: store.reader(), store: Mutex::new(store), bounds, newest, older })
    }

    /// Keeps a certified cut, synced. The index has all that it counts; what is kept already is passed over.
    pub(super) fn keep(
        &self,
        (record, certificate): (RootRecord, CutCertificate),
        accounts: Arc<Accounts>,
        (index, heard_ms): (&Index, u64),
    ) {
        let (before, number) = (self.newest_behind(), record.number);
        if before.as_ref().is_some_and(|before| before.cut.record.number >= number) {
            return;
        }
        let position = index.position();
        let below = counted_below(index, position, &accounts);
        let cut = KeptCut { record, certificate, heard_ms, position, below };
        let before = before.as_deref().map(|before| &*before.accounts);
        let mut rows = self.rows();
        let mut changes = vec![Change::Put(key(b'c', &[&number.to_be_bytes()]), cut.encode())];
        for (standing, pending) in accounts.iter() {
            let id = standing.opening.id;
            let is_as_before = |(one, sum): &(Standing, Total)| one == standing && sum == pending;
            if before.and_then(|before| before.get(id)).is_some_and(is_as_before) {
                continue;
            }
            rows += 1;
            let stood = StoodAt { standing: standing.clone(), pending: *pending };
            changes.push(Change::Put(stood_key(id, number), stood.encode()));
            changes.push(Change::Put(key(b'd', &[&number.to_be_bytes(), &id.to_be_bytes()]), Bytes::new()));
        }
        // A proposer that is behind may not count that an account was opened.
        let gone =
            before.into_iter().flat_map(|before| before.iter()).map(|(standing, _)| standing.opening.id);
        for id in gone.filter(|id| accounts.get(*id).is_none()) {
            rows += 1;
            changes.push(Change::Put(stood_key(id, number), Bytes::new()));
            changes.push(Change::Put(key(b'd', &[&number.to_be_bytes(), &id.to_be_bytes()]), Bytes::new()));
        }
        changes.push(Change::Put(key(b'n', &[]), Bytes::copy_from_slice(&rows.to_be_bytes())));
        let accounts_count = accounts.iter().count() as u64;
        lock(&self.store).commit(Position(number), changes);
        *lock(&self.newest) = Some(Arc::new(Behind { cut, accounts }));
        self.trim(accounts_count);
    }

    /// Lets go of the oldest cuts until what is left is within bounds.
    fn trim(&self, accounts: u64) {
        loop {
            let mut first = self.cuts_from(0, 2).into_iter();
            let (Some(oldest), Some(next)) = (first.next(), first.next()) else { return };
            let has_room =
                self.count() <= self.bounds.cuts && self.rows() <= self.bounds.rows.saturating_add(accounts);
            if has_room {
                return;
            }
            self.forget(oldest.record.number, next.record.number);
        }
    }

    /// How many cuts are kept.
    fn count(&self) -> u64 {
        let mut from = key(b'c', &[]);
        let mut count = 0;
        loop {
            let page = self.reader.scan(&from, PAGE);
            let cuts = page.iter().take_while(|(key, _)| key.starts_with(b"c")).count();
            count += cuts as u64;
            match page.last() {
                Some((last, _)) if cuts == PAGE => from = last.iter().copied().chain([0]).collect(),
                _ => return count,
            }
        }
    }

    /// Forgets the oldest cut; what the next one replaced of it goes.
    fn forget(&self, oldest: u64, next: u64) {
        let (mut changes, mut rows) =
            (vec![Change::Delete(key(b'c', &[&oldest.to_be_bytes()]))], self.rows());
        for account in self.changed(next) {
            let behind: Bytes = stood_key(account, next).iter().copied().chain([0]).collect();
            let prefix = key(b's', &[&account.to_be_bytes()]);
            let before = self.reader.scan(&behind, 1).into_iter();
            for (before, _) in before.filter(|(key, _)| key.starts_with(&prefix)) {
                changes.push(Change::Delete(before));
                rows = rows.saturating_sub(1);
            }
        }
        let old = self.changed(oldest).into_iter();
        changes.extend(
            old.map(|account| Change::Delete(key(b'd', &[&oldest.to_be_bytes(), &account.to_be_bytes()]))),
        );
        changes.push(Change::Put(key(b'n', &[]), Bytes::copy_from_slice(&rows.to_be_bytes())));
        let mut store = lock(&self.store);
        let position = store.position();
        store.commit(position, changes);
    }

    /// Accounts that did not stand behind this cut as behind the one before it, lowest first.
    fn changed(&self, number: u64) -> Vec<AccountId> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let page = self.changed_from(number, from);
            let is_last = page.len() < COUNTS;
            all.extend(page);
            match all.last().and_then(|last: &AccountId| last.number().checked_add(1)) {
                Some(next) if !is_last => from = next,
                _ => return all,
            }
        }
    }

    /// Rows of accounts.
    fn rows(&self) -> u64 {
        self.reader.get(&key(b'n', &[])).and_then(|row| number_in(&row, 0)).unwrap_or_default()
    }

    /// Cuts from this number on, oldest first.
    #[must_use]
    pub fn cuts_from(&self, number: u64, max: usize) -> Vec<KeptCut> {
        let found = self.reader.scan(&key(b'c', &[&number.to_be_bytes()]), max).into_iter();
        found.take_while(|(key, _)| key.starts_with(b"c")).filter_map(|(_, row)| read(row)).collect()
    }

    /// The number of the newest cut; 0: none.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let kept = lock(&self.newest).as_ref().map(|behind| behind.cut.record.number);
        kept.unwrap_or_else(|| lock(&self.store).position().0)
    }

    /// The cut of a number, or the newest.
    ///
    /// # Errors
    /// [`Gap::NotYet`] and [`Gap::NotKept`].
    pub fn cut(&self, number: Option<u64>) -> Result<KeptCut, Gap> {
        let newest = self.newest();
        let wanted = number.unwrap_or(newest);
        if wanted > newest || newest == 0 {
            return Err(Gap::NotYet(number, newest));
        }
        let row = self.reader.get(&key(b'c', &[&wanted.to_be_bytes()]));
        row.and_then(read).ok_or_else(|| {
            let oldest = self.cuts_from(0, 1).first().map_or(0, |cut| cut.record.number);
            Gap::NotKept(wanted, (oldest, newest))
        })
    }

    /// How an account stood behind a cut that is kept.
    #[must_use]
    pub fn stood(&self, account: AccountId, number: u64) -> Option<StoodAt> {
        let prefix = key(b's', &[&account.to_be_bytes()]);
        let (_, row) = self
            .reader
            .scan(&stood_key(account, number), 1)
            .pop()
            .filter(|(key, _)| key.starts_with(&prefix))?;
        read(row)
    }

    /// The newest cut with its accounts; after a restart they are put together from the file.
    fn newest_behind(&self) -> Option<Arc<Behind>> {
        let mut newest = lock(&self.newest);
        if newest.is_none() {
            let number = lock(&self.store).position().0;
            *newest = self.behind(self.cut_row(number)?).map(Arc::new);
        }
        newest.clone()
    }

    fn cut_row(&self, number: u64) -> Option<KeptCut> {
        self.reader.get(&key(b'c', &[&number.to_be_bytes()])).and_then(read)
    }

    /// A cut with all accounts behind it.
    fn all_behind(&self, cut: KeptCut) -> Option<Arc<Behind>> {
        let is_it = |behind: &Arc<Behind>| behind.cut == cut;
        if let Some(newest) = self.newest_behind().filter(is_it) {
            return Some(newest);
        }
        // Whoever asks for another older one waits: all accounts are put together once at a time.
        let mut older = lock(&self.older);
        if !older.as_ref().is_some_and(is_it) {
            *older = self.behind(cut).map(Arc::new);
        }
        older.clone()
    }

    /// Puts the accounts behind a cut together; `None` where their roots are not those that a quorum signed.
    fn behind(&self, cut: KeptCut) -> Option<Behind> {
        let number = cut.record.number;
        let (mut all, mut last): (Vec<StoodAt>, Option<AccountId>) = (Vec::new(), None);
        let mut from = key(b's', &[]);
        loop {
            let page = self.reader.scan(&from, PAGE);
            for (key, row) in page.iter().filter(|(key, _)| key.starts_with(b"s")) {
                let (account, at) = (account_in(key, 1)?, !number_in(key, 17)?);
                if at <= number && last != Some(account) {
                    last = Some(account);
                    if !row.is_empty() {
                        all.push(read(row.clone())?);
                    }
                }
            }
            match page.last() {
                Some((last, _)) if last.starts_with(b"s") => from = last.iter().copied().chain([0]).collect(),
                _ => break,
            }
        }
        let accounts = Arc::new(Accounts::restore(&cut.record, all)?);
        Some(Behind { cut, accounts })
    }

    /// Proves how an account stood in a ledger behind a cut, or that it was not there; of the newest where no number is said.
    ///
    /// # Errors
    /// Those of [`Self::cut`], [`Gap::Nothing`] where nobody has an account in that ledger, [`Gap::Lacks`] where the file lost some.
    pub fn prove(&self, (ledger, account): (u32, AccountId), number: Option<u64>) -> Result<Proof, Gap> {
        let cut = self.cut(number)?;
        let number = cut.record.number;
        let behind = self.all_behind(cut).ok_or(Gap::Lacks(number))?;
        let Behind { cut, accounts } = &*behind;
        accounts.prove((ledger, account), &cut.record, &cut.certificate).ok_or(Gap::Nothing(number))
    }

    /// Proves what all accounts of a ledger were owed behind a cut.
    ///
    /// # Errors
    /// Those of [`Self::cut`], and [`Gap::Nothing`] where nobody has an account in that ledger.
    pub fn prove_liabilities(&self, ledger: u32, number: Option<u64>) -> Result<Proof, Gap> {
        let cut = self.cut(number)?;
        let proof = Proof::of_liabilities(ledger, &cut.record, &cut.certificate);
        proof.ok_or(Gap::Nothing(cut.record.number))
    }
}

/// The position up to which all that settled here is counted by a cut, all of which has settled here.
fn counted_below(index: &Index, position: u64, accounts: &Accounts) -> u64 {
    let counted = accounts.iter().fold(0_u64, |sum, (standing, _)| sum.saturating_add(standing.sequence));
    let is_counted = |row: &Bytes| {
        read_place(row)
            .is_some_and(|id| accounts.get(id.spender).is_some_and(|(standing, _)| id.n <= standing.sequence))
    };
    let (mut beyond, mut end) = (position.saturating_sub(counted), position);
    // What is not counted settled lately, mostly.
    while beyond > 0 && end > 0 {
        let from = end.saturating_sub(PAGE as u64);
        let rows = index.read().scan(&key(b'p', &[&from.saturating_add(1).to_be_bytes()]), PAGE);
        let rows = rows.iter().filter_map(|(key, place)| {
            let at = number_in(key, 1).filter(|at| key.starts_with(b"p") && *at <= end)?;
            Some((at, place))
        });
        for (at, place) in rows.collect::<Vec<_>>().into_iter().rev() {
            if !is_counted(place) {
                beyond -= 1;
                if beyond == 0 {
                    return at.saturating_sub(1);
                }
            }
        }
        end = from;
    }
    end
}

/// How an account stands that was not open yet.
pub(super) fn nothing() -> (u64, [Total; 3]) {
    (0, [Total::ZERO; 3])
}

/// Its n, and its credits, debits and what its holds set aside.
pub(super) fn stand(standing: &Standing, pending: Total) -> (u64, [Total; 3]) {
    (standing.sequence, [standing.credits, standing.debits, pending])
}
