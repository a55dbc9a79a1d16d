//! The book: all accounts of a shard, dense by registrar, with open holds and the money that left and came.

use std::collections::BTreeMap;

use synod_crypto::near;
use synod_wire::wire;

use crate::account::{CLOSED, FROZEN};
use crate::used::Used;
use crate::{Account, AccountId, Code, EntryId, Opening, Run, Terms, Total, Units};

/// Most registrars of a shard: members and institutions that open accounts.
pub const REGISTRARS_MAX: usize = 1_024;

wire! {
    /// Money set aside.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hold {
        /// Whom it would pay.
        pub to: AccountId,
        /// The most it would pay.
        pub amount: Units,
        /// Whose log decides.
        pub resolver: AccountId,
        /// See [`crate::Kind::Hold`].
        pub expires_at: u64,
    }

    /// What crossed the border to or from a shard in one ledger.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Border {
        /// The other shard.
        pub shard: u16,
        /// The ledger.
        pub ledger: u32,
    }
}

/// Terms that some accounts share.
#[derive(Clone, Debug)]
struct Shared {
    terms: Terms,
    limit_max: Units,
    accounts: u32,
}

/// The accounts of one registrar: local number 1 first.
#[derive(Clone, Debug, Default)]
struct Opened {
    accounts: Vec<Account>,
    terms: Vec<Shared>,
}

/// The accounts of one shard.
#[derive(Clone, Debug)]
pub struct Book {
    shard: u16,
    registrars: Vec<(u32, Opened)>,
    holds: BTreeMap<EntryId, Hold>,
    exported: BTreeMap<Border, Total>,
    imported: BTreeMap<Border, Total>,
    used: Used,
}

impl Book {
    /// An empty book.
    #[must_use]
    pub fn new(shard: u16) -> Self {
        Self {
            shard,
            registrars: Vec::new(),
            holds: BTreeMap::new(),
            exported: BTreeMap::new(),
            imported: BTreeMap::new(),
            used: Used::default(),
        }
    }

    /// The shard whose accounts these are.
    #[must_use]
    pub const fn shard(&self) -> u16 {
        self.shard
    }

    /// Opens an account.
    ///
    /// # Errors
    /// [`Code::WrongShard`]; [`Code::SequenceConflict`] and [`Code::SequenceGap`] unless it is the registrar's next;
    /// [`Code::LimitNotCosigned`] for limits out of order; [`Code::Busy`] beyond [`REGISTRARS_MAX`].
    pub fn open(&mut self, opening: &Opening) -> Result<(), Code> {
        if opening.id.shard != self.shard {
            return Err(Code::WrongShard);
        }
        if !opening.is_sound() {
            return Err(Code::LimitNotCosigned);
        }
        let next =
            self.opened(opening.id.registrar).map_or(0, |of| of.accounts.len() as u64).saturating_add(1);
        if opening.id.local != next {
            return Err(if opening.id.local < next { Code::SequenceConflict } else { Code::SequenceGap });
        }
        let at = match self.registrars.binary_search_by_key(&opening.id.registrar, |(id, _)| *id) {
            Ok(at) => at,
            Err(_) if self.registrars.len() >= REGISTRARS_MAX => return Err(Code::Busy),
            Err(at) => {
                self.registrars.insert(at, (opening.id.registrar, Opened::default()));
                at
            }
        };
        self.registrars[at].1.open(opening);
        Ok(())
    }

    /// Where a registrar stands. Members are numbered 0, 1, 2 and so on, so nearly all stand where their number says.
    #[inline]
    fn standing_at(&self, registrar: u32) -> Option<usize> {
        let guess = usize::try_from(registrar).ok()?;
        if self.registrars.get(guess).is_some_and(|(id, _)| *id == registrar) {
            return Some(guess);
        }
        self.registrars.binary_search_by_key(&registrar, |(id, _)| *id).ok()
    }

    #[inline]
    fn opened(&self, registrar: u32) -> Option<&Opened> {
        self.registrars.get(self.standing_at(registrar)?).map(|(_, opened)| opened)
    }

    #[inline]
    fn opened_mut(&mut self, registrar: u32) -> Option<&mut Opened> {
        let at = self.standing_at(registrar)?;
        self.registrars.get_mut(at).map(|(_, opened)| opened)
    }

    /// An account with its terms and the most that its limit can be raised to.
    #[inline]
    #[must_use]
    pub fn account_and_terms(&self, id: AccountId) -> Option<(&Account, &Terms, Units)> {
        let opened = self.opened(id.registrar)?;
        let account = opened.accounts.get(place(id, self.shard)?)?;
        let shared = opened.terms.get(usize::try_from(account.terms).ok()?)?;
        Some((account, &shared.terms, shared.limit_max))
    }

    /// An account of this shard; `None` before it is opened.
    #[inline]
    #[must_use]
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        let at = place(id, self.shard)?;
        self.opened(id.registrar)?.accounts.get(at)
    }

    /// Has an account brought nearer that is read soon. Changes nothing.
    #[inline]
    pub fn near(&self, id: AccountId) {
        if let Some(account) = self.account(id) {
            // Whichever way the fields stand, one of them is in each of the two lines.
            near(&account.head);
            near(&account.credits);
            near(&account.pending);
        }
    }

    #[inline]
    pub(crate) fn account_mut(&mut self, id: AccountId) -> Option<&mut Account> {
        let at = place(id, self.shard)?;
        self.opened_mut(id.registrar)?.accounts.get_mut(at)
    }

    /// The terms of an account, and the most its limit can be raised to.
    #[must_use]
    pub fn terms(&self, id: AccountId) -> Option<(&Terms, Units)> {
        self.account_and_terms(id).map(|(_, terms, limit_max)| (terms, limit_max))
    }

    /// Changes the terms of one account, which may have shared them.
    pub(crate) fn alter(&mut self, id: AccountId, change: impl FnOnce(&mut Terms)) {
        let at = place(id, self.shard);
        if let Some((opened, at)) = self.opened_mut(id.registrar).zip(at) {
            opened.alter(at, change);
        }
    }

    /// How many accounts a registrar has opened: they have the numbers up to this one.
    #[must_use]
    pub fn opened_by(&self, registrar: u32) -> u64 {
        self.opened(registrar).map_or(0, |opened| opened.accounts.len() as u64)
    }

    /// All registrars, lowest first.
    pub fn registrars(&self) -> impl Iterator<Item = u32> {
        self.registrars.iter().map(|(registrar, _)| *registrar)
    }

    /// What an account can spend.
    #[must_use]
    pub fn available(&self, id: AccountId) -> Option<Total> {
        self.account_and_terms(id).map(|(account, terms, _)| account.available(terms.limit))
    }

    /// Stops endorsements for an account, or lets them go on.
    ///
    /// # Errors
    /// [`Code::UnknownAccount`].
    pub fn freeze(&mut self, id: AccountId, frozen: bool) -> Result<(), Code> {
        let account = self.account_mut(id).ok_or(Code::UnknownAccount)?;
        account.marks = if frozen { account.marks | FROZEN } else { account.marks & !FROZEN };
        Ok(())
    }

    pub(crate) fn close(&mut self, id: AccountId) {
        if let Some(account) = self.account_mut(id) {
            account.marks |= CLOSED;
        }
    }

    /// An open hold.
    #[must_use]
    pub fn hold(&self, id: EntryId) -> Option<&Hold> {
        self.holds.get(&id)
    }

    pub(crate) fn put_hold(&mut self, id: EntryId, hold: Hold) {
        self.holds.insert(id, hold);
    }

    pub(crate) fn take_hold(&mut self, id: EntryId) -> Option<Hold> {
        self.holds.remove(&id)
    }

    /// All open holds, by payer.
    pub fn holds(&self) -> impl Iterator<Item = (&EntryId, &Hold)> {
        self.holds.iter()
    }

    /// What left for other shards so far.
    pub fn exported(&self) -> impl Iterator<Item = (&Border, &Total)> {
        self.exported.iter()
    }

    /// What came from other shards so far.
    pub fn imported(&self) -> impl Iterator<Item = (&Border, &Total)> {
        self.imported.iter()
    }

    pub(crate) fn exported_to(&self, border: Border) -> Total {
        self.exported.get(&border).copied().unwrap_or_default()
    }

    pub(crate) fn imported_to(&mut self, border: Border, sum: Total) {
        self.imported.insert(border, sum);
    }

    pub(crate) fn export(&mut self, border: Border, sum: Total) {
        self.exported.insert(border, sum);
    }

    pub(crate) fn imported_from(&self, border: Border) -> Total {
        self.imported.get(&border).copied().unwrap_or_default()
    }

    pub(crate) const fn used(&self) -> &Used {
        &self.used
    }

    pub(crate) fn use_up(&mut self, id: EntryId) {
        self.used.insert(id);
    }

    /// Takes in places that were used before; false if some of them are known already.
    pub(crate) fn use_again(&mut self, spender: AccountId, run: Run) -> bool {
        self.used.put(spender, run)
    }

    /// All accounts in the order of their names.
    pub fn accounts(&self) -> impl Iterator<Item = (AccountId, &Account)> {
        self.accounts_from(AccountId { shard: self.shard, registrar: 0, local: 0 })
    }

    /// The accounts from this name on, in the order of their names; none for a name of another shard.
    pub fn accounts_from(&self, from: AccountId) -> impl Iterator<Item = (AccountId, &Account)> {
        let shard = self.shard;
        let before = self.registrars.partition_point(|(id, _)| *id < from.registrar);
        let registrars = self.registrars.iter().skip(before).filter(move |_| from.shard == shard);
        registrars.flat_map(move |(registrar, opened)| {
            let first = if *registrar == from.registrar { from.local.max(1) } else { 1 };
            let at = usize::try_from(first - 1).unwrap_or(usize::MAX);
            let named = (first..).zip(opened.accounts.get(at..).unwrap_or_default());
            named.map(move |(local, account)| (AccountId { shard, registrar: *registrar, local }, account))
        })
    }

    /// Bytes that accounts, terms, holds, totals of other shards and used entries of theirs take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let opened = self.registrars.iter().map(|(_, opened)| opened.bytes()).sum::<usize>();
        let borders = (self.exported.len() + self.imported.len()) * 2 * size_of::<(Border, Total)>();
        let holds = self.holds.len() * 2 * (size_of::<EntryId>() + size_of::<Hold>());
        (opened + holds + borders + self.used.bytes()) as u64
    }
}

/// The index of an account among those of its registrar.
#[inline]
fn place(id: AccountId, shard: u16) -> Option<usize> {
    let at = usize::try_from(id.local.checked_sub(1)?).ok()?;
    (id.shard == shard).then_some(at)
}

impl Opened {
    fn open(&mut self, opening: &Opening) {
        let alike = |shared: &Shared| shared.terms == opening.terms && shared.limit_max == opening.limit_max;
        let last = self.accounts.last().map(|account| account.terms);
        let shared = last.filter(|last| self.shared_mut(*last).is_some_and(|shared| alike(shared)));
        let terms = match shared {
            Some(terms) => {
                if let Some(shared) = self.shared_mut(terms) {
                    shared.accounts += 1;
                }
                terms
            }
            None => self.keep(opening.terms.clone(), opening.limit_max),
        };
        self.accounts.push(Account::opened(opening, terms));
    }

    fn shared_mut(&mut self, terms: u32) -> Option<&mut Shared> {
        self.terms.get_mut(usize::try_from(terms).ok()?)
    }

    /// Keeps terms of one account alone.
    fn keep(&mut self, terms: Terms, limit_max: Units) -> u32 {
        self.terms.push(Shared { terms, limit_max, accounts: 1 });
        u32::try_from(self.terms.len() - 1)
            .expect("as many terms as accounts at most, of which 2^32 fit in no memory")
    }

    fn alter(&mut self, at: usize, change: impl FnOnce(&mut Terms)) {
        let Some(was) = self.accounts.get(at).map(|account| account.terms) else { return };
        let Some(shared) = self.shared_mut(was) else { return };
        let (mut terms, limit_max) = (shared.terms.clone(), shared.limit_max);
        change(&mut terms);
        if shared.accounts == 1 {
            shared.terms = terms;
            return;
        }
        shared.accounts -= 1;
        let own = self.keep(terms, limit_max);
        if let Some(account) = self.accounts.get_mut(at) {
            account.terms = own;
        }
    }

    fn bytes(&self) -> usize {
        self.accounts.capacity() * size_of::<Account>() + self.terms.capacity() * size_of::<Shared>()
    }
}
