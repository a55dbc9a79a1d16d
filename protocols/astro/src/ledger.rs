//! One replica's money: the book, the open ends of its logs, and who waits for what.
//!
//! Pure: no messages, no clock. An entry is *accepted* when this replica may endorse it ([`Ledger::accept`]), *certified* when a
//! certificate of it or of a later entry of its chain is known ([`Ledger::certify`]), and *settled* when the book has it
//! ([`Ledger::settle`]). Nothing blocks: whatever has to wait is an entry of a map keyed by the account that can release it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, PublicKey};
use synod_ledger::{AccountId, Book, Code, Entry, EntryId, Kind, Owner, Units, judge};
use synod_machine::broadcast::Lot;

use crate::batch::{Auth, Line};
use crate::xlog::{Base, Certified, Slot, Xlog};

/// What waits for an account to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    /// The next entry of this log, to settle.
    Log(AccountId),
    /// A batch, to be judged again.
    Batch(Lot),
}

/// An entry that settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) line: Line,
    pub(crate) digest: Hash,
    /// Batches whose certificates certified it.
    pub(crate) lots: Vec<Lot>,
    /// Whether none of them did: a later entry's certificate settled it.
    pub(crate) by_descent: bool,
}

/// What settling led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) entries: Vec<Settled>,
    /// Batches with exceptions that may be gone.
    pub(crate) again: BTreeSet<Lot>,
}

/// In what capacity an entry came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The lane that carries it.
    pub(crate) lane: u8,
    /// The key that its owner's signature was found good under.
    pub(crate) key: Option<PublicKey>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    book: Book,
    window: u64,
    open: BTreeMap<AccountId, Xlog>,
    waits: BTreeMap<AccountId, BTreeSet<Waiting>>,
}

impl Ledger {
    pub(crate) const fn new(book: Book, window: u64) -> Self {
        Self { book, window, open: BTreeMap::new(), waits: BTreeMap::new() }
    }

    pub(crate) const fn book(&self) -> &Book {
        &self.book
    }

    pub(crate) const fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    /// The open ends of all logs that have one.
    pub(crate) fn open(&self) -> impl Iterator<Item = (AccountId, &Xlog)> {
        self.open.iter().map(|(id, xlog)| (*id, xlog))
    }

    /// How many open entries a log has.
    pub(crate) fn open_of(&self, id: AccountId) -> u32 {
        let count = self.open.get(&id).map_or(0, |xlog| xlog.slots().count());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(crate) fn slot(&self, id: EntryId) -> Option<&Slot> {
        self.open.get(&id.spender)?.slot(id.n)
    }

    /// The last n and digest of a log, accepted entries counted.
    pub(crate) fn tip(&self, id: AccountId) -> Option<(u64, Hash)> {
        let base = self.book.account(id).map(|_| Base::of(&self.book, id))?;
        Some(self.open.get(&id).map_or((base.sequence, base.head), |xlog| xlog.tip(base)))
    }

    /// Whoever owns an account behind its open entries.
    pub(crate) fn owner(&self, id: AccountId) -> Option<Owner> {
        let (terms, _) = self.book.terms(id)?;
        Some(self.open.get(&id).map_or(terms.owner, |xlog| xlog.owner(terms.owner)))
    }

    /// Accepts an entry if this replica may endorse it: in the window, the slot empty or its own, chained, authorized, and
    /// funded by what has settled here less what was accepted before (acknowledge rule, 4.4).
    ///
    /// # Errors
    /// The first rule that it breaks; nothing has changed then.
    pub(crate) fn accept(&mut self, line: &Line, digest: Hash, by: Authority) -> Result<(), Code> {
        let entry = &line.entry;
        let EntryId { spender, n } = entry.id;
        let account = self.book.account(spender).ok_or(Code::UnknownAccount)?;
        let (base, sn) = (Base::of(&self.book, spender), account.sequence());
        if n <= sn {
            let is_last = n == sn && n > 0 && digest == account.head();
            return if is_last { Ok(()) } else { Err(Code::SequenceConflict) };
        }
        if n - sn > self.window {
            return Err(Code::SequenceGap);
        }
        self.authorize(line, by)?;
        if entry.names().any(|account| account.shard != self.book.shard()) {
            return Err(Code::WrongShard);
        }
        let none = Xlog::default();
        let xlog = self.open.get(&spender).unwrap_or(&none);
        if let Some(slot) = xlog.slot(n) {
            return if slot.digest == digest { Ok(()) } else { Err(Code::SequenceConflict) };
        }
        let (tip, head) = xlog.tip(base);
        if tip.checked_add(1) != Some(n) || xlog.slots().last().is_some_and(|slot| slot.line.entry.id.n > n) {
            return Err(Code::SequenceGap);
        }
        if entry.prev != head {
            return Err(Code::ChainMismatch);
        }
        if account.is_frozen() {
            return Err(Code::Frozen);
        }
        let debit = judge(&self.book, entry, xlog.promised())?;
        let slot = Slot { line: line.clone(), digest, debit, is_certified: false, lots: Vec::new() };
        self.open.entry(spender).or_default().put(slot);
        Ok(())
    }

    /// Whether the account's owner, as of this entry, vouches for it (4.5).
    fn authorize(&self, line: &Line, by: Authority) -> Result<(), Code> {
        let owner = self.owner(line.entry.id.spender).ok_or(Code::UnknownAccount)?;
        let is_vouched = match (owner, line.auth) {
            (Owner::Custodial(institution), Auth::Institution) => by.lane == institution,
            (Owner::SelfSigned(key) | Owner::Distilled { single: key, .. }, Auth::Owner(_)) => {
                by.key == Some(key)
            }
            (Owner::Custodial(_), Auth::Owner(_)) | (_, Auth::Institution) => false,
        };
        let needs_registrar = matches!(line.entry.kind, Kind::SetLimit(_));
        match (is_vouched, needs_registrar) {
            (true, false) => Ok(()),
            (true, true) => self.registrar(line.entry.id.spender, by.lane),
            (false, _) => Err(Code::Unauthorized),
        }
    }

    /// A limit is raised or lowered in its registrar's lane alone, whose signature on the batch is the second one.
    fn registrar(&self, account: AccountId, lane: u8) -> Result<(), Code> {
        if account.registrar == u32::from(lane) { Ok(()) } else { Err(Code::LimitNotCosigned) }
    }

    /// Takes in an entry that an earlier life accepted, unless it has settled or is here; false where it has no place, which
    /// contradicts the log.
    pub(crate) fn accept_again(&mut self, line: &Line, digest: Hash) -> bool {
        let id = line.entry.id;
        let base = Base::of(&self.book, id.spender);
        if id.n <= base.sequence || self.slot(id).is_some_and(|slot| slot.digest == digest) {
            return true;
        }
        let is_next = self.tip(id.spender).is_some_and(|(n, head)| id.n == n + 1 && line.entry.prev == head);
        if is_next && self.slot(id).is_none() {
            let slot = self.fresh(line, digest);
            self.open.entry(id.spender).or_default().put(slot);
            return true;
        }
        false
    }

    fn fresh(&self, line: &Line, digest: Hash) -> Slot {
        let spender = line.entry.id.spender;
        let limit = self.book.terms(spender).map_or(Units(0), |(terms, _)| terms.limit);
        let limit = self.open.get(&spender).map_or(limit, |xlog| xlog.promised().limit(limit));
        let debit = line.entry.cost(limit);
        Slot { line: line.clone(), digest, debit, is_certified: false, lots: Vec::new() }
    }

    /// Takes in a slot as it was, unless it is here.
    pub(crate) fn restore(&mut self, slot: Slot) {
        if self.slot(slot.line.entry.id).is_none() {
            self.open.entry(slot.line.entry.id.spender).or_default().put(slot);
        }
    }

    /// Counts a certificate for an entry, in a batch or by descent; what settles by it, [`Self::settle`] says.
    pub(crate) fn certify(&mut self, line: &Line, digest: Hash, lot: Option<Lot>) -> Certified {
        let EntryId { spender, n } = line.entry.id;
        let base = Base::of(&self.book, spender);
        if n <= base.sequence {
            let contradicts = n == 0 || n == base.sequence && digest != base.head;
            return if contradicts { Certified::Contradicts } else { Certified::Whole };
        }
        let slot = self.fresh(line, digest);
        self.open.entry(spender).or_default().certify(base, slot, lot)
    }

    /// The entries that logs lack below certified ones.
    pub(crate) fn missing(&self) -> Vec<(EntryId, Hash)> {
        self.open.iter().flat_map(|(id, xlog)| xlog.gaps(Base::of(&self.book, *id))).collect()
    }

    /// The account whose change may let an entry be accepted that was refused for this reason.
    pub(crate) fn released_by(&self, entry: &Entry, code: Code) -> AccountId {
        let unknown = |account: &AccountId| self.book.account(*account).is_none();
        let named = match code {
            Code::UnknownBeneficiary => entry.names().find(unknown),
            Code::HoldNotFound => entry.names().next(),
            _ => None,
        };
        named.unwrap_or(entry.id.spender)
    }

    /// Has a batch judged again when any of these accounts changes.
    pub(crate) fn wait(&mut self, lot: Lot, accounts: impl IntoIterator<Item = AccountId>) {
        for account in accounts {
            self.waits.entry(account).or_default().insert(Waiting::Batch(lot));
        }
    }

    /// Settles what can be, beginning with these accounts: certified entries in the order of their logs, as far as their money,
    /// holds and accounts are here (Listing 9, 4.7).
    pub(crate) fn settle(&mut self, changed: impl IntoIterator<Item = AccountId>) -> Settlement {
        let (mut work, mut out) = (VecDeque::new(), Settlement::default());
        for account in changed {
            work.push_back(account);
            self.wake(account, &mut work, &mut out);
        }
        while let Some(account) = work.pop_front() {
            self.settle_log(account, &mut work, &mut out);
        }
        out
    }

    fn settle_log(&mut self, id: AccountId, work: &mut VecDeque<AccountId>, out: &mut Settlement) {
        loop {
            let base = Base::of(&self.book, id);
            let Some(slot) = self.open.get(&id).and_then(|xlog| xlog.next(base)) else { return };
            let (entry, digest) = (slot.line.entry.clone(), slot.digest);
            let touched: Vec<AccountId> = self.touched(&entry).collect();
            if self.book.apply(&entry, digest).is_err() {
                for account in touched {
                    self.waits.entry(account).or_default().insert(Waiting::Log(id));
                }
                return;
            }
            let xlog = self.open.get_mut(&id).expect("its entry was read above");
            let slot = xlog.settled(entry.id.n).expect("its entry was read above");
            if xlog.is_empty() {
                self.open.remove(&id);
            }
            let by_descent = slot.lots.is_empty();
            out.entries.push(Settled { line: slot.line, digest, lots: slot.lots, by_descent });
            for account in touched {
                self.wake(account, work, out);
            }
        }
    }

    /// The spender, whoever the entry names, and whom its holds would pay: accounts of this shard that it changes or needs.
    fn touched<'a>(&'a self, entry: &'a Entry) -> impl Iterator<Item = AccountId> + 'a {
        let holds: &[EntryId] = match &entry.kind {
            Kind::Resolve { holds, .. } => holds,
            _ => &[],
        };
        let paid = holds.iter().filter_map(|id| self.book.hold(*id)).map(|hold| hold.to);
        let all = [entry.id.spender].into_iter().chain(entry.names()).chain(paid);
        all.filter(|account| account.shard == self.book.shard())
    }

    fn wake(&mut self, account: AccountId, work: &mut VecDeque<AccountId>, out: &mut Settlement) {
        for waiting in self.waits.remove(&account).unwrap_or_default() {
            match waiting {
                Waiting::Log(log) => work.push_back(log),
                Waiting::Batch(lot) => {
                    out.again.insert(lot);
                }
            }
        }
    }

    /// Bytes held, the book's among them.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.open.values().map(|xlog| xlog.slots().count()).sum();
        let waits: usize = self.waits.values().map(BTreeSet::len).sum();
        let small = self.open.len() * size_of::<(AccountId, Xlog)>()
            + self.waits.len() * size_of::<AccountId>()
            + waits * size_of::<Waiting>();
        self.book.bytes() + (2 * small + slots * 2 * size_of::<Slot>()) as u64
    }

    pub(crate) fn assert_sound(&self) {
        for (id, xlog) in &self.open {
            assert!(!xlog.is_empty(), "an open end with nothing in it");
            xlog.assert_sound(Base::of(&self.book, *id), self.window);
        }
    }
}
