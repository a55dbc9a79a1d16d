//! One replica's money: the book, the open ends of its logs, and who waits for what.
//!
//! Pure: no messages, no clock. An entry is *accepted* when this replica may endorse it ([`Ledger::accept`]), *certified* when a
//! certificate of it or of a later entry of its chain is known ([`Ledger::certify`]), and *settled* when the book has it
//! ([`Ledger::settle`]). Nothing blocks: whatever has to wait has one place under what can release it ([`Waits`]): a log for its
//! next entry, and a batch for the first entry of each log that was left out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Hash, PublicKey, near};
use synod_ledger::{
    AccountId, Book, Class, Code, Entry, EntryId, Kind, Opening, Overwrote, Owner, Total, Units, judge,
};
use synod_machine::broadcast::Lot;
use synod_machine::planted;

use crate::batch::{Auth, Line};
use crate::borders::Borders;
use crate::config::Profile;
use crate::credits::Credits;
use crate::logs::Logs;
use crate::torn::TwoEntries;
use crate::views::Pin;
use crate::waits::{Cause, Waiter, Waits};
use crate::xlog::{Base, Lots, Slot, Xlog};

/// How many entries before it is needed a thing is asked for: so many take the time that memory takes.
const AHEAD: usize = 4;

/// An entry that settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) line: Line,
    pub(crate) digest: Hash,
    /// Batches whose certificates certified it.
    pub(crate) lots: Lots,
    /// Whether none of them did: a later entry's certificate settled it.
    pub(crate) by_descent: bool,
    /// What it overwrote in the book.
    pub(crate) overwrote: Overwrote,
    /// Whether it did what it says; what is rejected takes its place alone.
    pub(crate) is_paid: bool,
}

/// What settling led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) entries: Vec<Settled>,
    /// Entries of batches whose exception may be gone.
    pub(crate) again: Vec<Left>,
    /// Entries of other shards that are credited now that their accounts are open.
    pub(crate) imported: Vec<(Arc<Entry>, Hash)>,
}

/// An entry that was left out of a batch, the first of its log there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) lot: Lot,
    pub(crate) spender: AccountId,
    /// Which of the batch's entries.
    pub(crate) at: u32,
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
    profile: Profile,
    book: Book,
    window: u64,
    pub(crate) borders: Borders,
    open: Logs,
    /// Money under way; none but in profile II.
    credits: Option<Box<Credits>>,
    pub(crate) waits: Waits,
    /// What happened and somebody waits for, who was not woken yet.
    stirred: BTreeSet<Cause>,
    /// Whether owners may sign for their accounts.
    owners_sign: bool,
    /// Places of which older views tell what may be accepted; empty in the first.
    pins: BTreeMap<EntryId, Pin>,
    /// See [`Ledger::torn`].
    torn: BTreeMap<AccountId, Arc<TwoEntries>>,
    /// What settled with its certificate, which [`Self::settle`] gives. Its memory is used again.
    settled: Vec<Settled>,
}

impl Ledger {
    pub(crate) fn new(profile: Profile, book: Book, window: u64, shards: BTreeSet<u16>) -> Self {
        let (open, credits) = (Logs::new(book.shard()), profile.credits().then(Box::default));
        let (borders, waits) = (Borders::new(shards), Waits::default());
        Self {
            profile,
            book,
            window,
            borders,
            open,
            credits,
            waits,
            stirred: BTreeSet::new(),
            owners_sign: true,
            pins: BTreeMap::new(),
            torn: BTreeMap::new(),
            settled: Vec::new(),
        }
    }

    /// With accounts of owners who sign, or those of institutions alone.
    pub(crate) fn of_owners(self, owners_sign: bool) -> Self {
        Self { owners_sign, ..self }
    }

    pub(crate) const fn book(&self) -> &Book {
        &self.book
    }

    pub(crate) const fn window(&self) -> u64 {
        self.window
    }

    pub(crate) const fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    /// Opens an account.
    ///
    /// # Errors
    /// Those of [`Book::open`].
    pub(crate) fn open_account(&mut self, opening: &Opening) -> Result<(), Code> {
        self.book.open(opening)?;
        self.stir(Cause::Opening(opening.id));
        Ok(())
    }

    /// Has what the next entries of a list rest on brought nearer, while `at` is worked on: nothing of it is in a cache otherwise.
    pub(crate) fn near(&self, lines: &[Line], at: usize) {
        let ahead = |steps: usize| lines.get(at.saturating_add(steps)).map(|line| &*line.entry);
        lines.get(at.saturating_add(3 * AHEAD)).into_iter().for_each(|line| near(&line.entry.id));
        if let Some(entry) = ahead(2 * AHEAD) {
            self.open.near_place(entry.id.spender);
            self.near_accounts(entry);
        }
        ahead(AHEAD).into_iter().for_each(|entry| self.open.near_log(entry.id.spender));
    }

    fn near_accounts(&self, entry: &Entry) {
        self.near_parties(entry.id.spender, &entry.kind);
    }

    fn near_parties(&self, spender: AccountId, kind: &Kind) {
        self.book.near(spender);
        if let Kind::Pay(leg) = kind {
            self.book.near(leg.to);
        }
    }

    /// Has what an order rests on brought nearer.
    pub(crate) fn near_order(&self, spender: AccountId, kind: &Kind) {
        self.near_parties(spender, kind);
        self.open.near_place(spender);
    }

    /// The open ends of all logs that have one.
    pub(crate) fn open(&self) -> impl Iterator<Item = (AccountId, &Xlog)> {
        self.open.iter()
    }

    /// The open end of a log, if it has one.
    pub(crate) fn log(&self, id: AccountId) -> Option<&Xlog> {
        self.open.get(id)
    }

    /// How many open entries a log has.
    pub(crate) fn open_of(&self, id: AccountId) -> u32 {
        let count = self.open.get(id).map_or(0, Xlog::count);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(crate) fn slot(&self, id: EntryId) -> Option<&Slot> {
        self.open.get(id.spender)?.slot(id.n)
    }

    /// The last n and digest of a log, accepted entries counted.
    pub(crate) fn tip(&self, id: AccountId) -> Option<(u64, Hash)> {
        let base = self.book.account(id).map(|_| Base::of(&self.book, id))?;
        Some(self.open.get(id).map_or((base.sequence, base.head), |xlog| xlog.tip(base)))
    }

    /// Whoever owns an account at a place of its log: the entries before it, open ones too, may have changed that.
    pub(crate) fn owner(&self, id: EntryId) -> Option<Owner> {
        let (terms, _) = self.book.terms(id.spender)?;
        Some(self.open.get(id.spender).map_or(terms.owner, |xlog| xlog.owner(terms.owner, id.n)))
    }

    /// Why an account has no log here: one of this shard may open yet, and no other ever will.
    pub(crate) fn unknown(&self, id: AccountId) -> Code {
        if id.shard == self.book.shard() { Code::UnknownAccount } else { Code::WrongShard }
    }

    /// Accepts an entry if this replica may endorse it: in the window, the slot empty or its own, chained, authorized, and
    /// funded by what has settled here less what was accepted before (acknowledge rule, 4.4).
    ///
    /// # Errors
    /// The first rule that it breaks; nothing has changed then.
    pub(crate) fn accept(&mut self, line: &Line, digest: Hash, by: Authority) -> Result<(), Code> {
        let placed = self.place(&line.entry, digest, |owner| self.authorize(owner, line, by))?;
        let Some((debit, base)) = placed else { return Ok(()) };
        let (spender, line) = (line.entry.id.spender, line.alone());
        let slot = Slot { line, digest, debit, is_certified: false, lots: Lots::default() };
        self.open.or_default(spender, &self.book).put(base, slot);
        if !self.waits.is_empty() {
            self.stir_next(spender);
        }
        Ok(())
    }

    /// Forgets an entry that was accepted and not promised, with those behind it.
    pub(crate) fn unaccept(&mut self, id: EntryId, digest: Hash) {
        let base = Base::of(&self.book, id.spender);
        let Some(xlog) = self.open.get_mut(id.spender) else { return };
        if xlog.slot(id.n).is_none_or(|slot| slot.is_certified || slot.digest != digest) {
            return;
        }
        xlog.drop_accepted(base, id.n);
        if xlog.is_empty() {
            self.open.remove(id.spender);
        }
    }

    /// Who may go on and was not woken yet.
    pub(crate) const fn stirred(&self) -> &BTreeSet<Cause> {
        &self.stirred
    }

    /// All that was done since was taken back: nobody else may go on than could then.
    pub(crate) fn stirred_before(&mut self, stirred: BTreeSet<Cause>) {
        self.stirred = stirred;
    }

    fn put(&mut self, slot: Slot) {
        let spender = slot.line.entry.id.spender;
        let base = Base::of(&self.book, spender);
        self.open.or_default(spender, &self.book).put(base, slot);
    }

    /// What an entry takes that may be accepted; `None` if it was accepted before, or has settled.
    ///
    /// # Errors
    /// See [`Self::accept`].
    pub(crate) fn may_accept(&self, line: &Line, digest: Hash, by: Authority) -> Result<Option<Total>, Code> {
        let placed = self.place(&line.entry, digest, |owner| self.authorize(owner, line, by));
        Ok(placed?.map(|(debit, _)| debit))
    }

    /// What an entry takes that could be accepted once the holder of this key signed it.
    ///
    /// # Errors
    /// See [`Self::accept`].
    pub(crate) fn may_sign(
        &self,
        entry: &Entry,
        digest: Hash,
        key: PublicKey,
    ) -> Result<Option<Total>, Code> {
        Ok(self.place(entry, digest, |owner| self.is_signers(owner, entry, key))?.map(|(debit, _)| debit))
    }

    /// Whether it is for the holder of this key to sign an entry.
    ///
    /// # Errors
    /// [`Code::UnknownAccount`], [`Code::Unauthorized`], and [`Code::LimitNotCosigned`] for what owners do not decide.
    pub(crate) fn signs(&self, entry: &Entry, key: PublicKey) -> Result<(), Code> {
        if !self.owners_sign {
            return Err(Code::Unsupported);
        }
        let owner = self.owner(entry.id).ok_or_else(|| self.unknown(entry.id.spender))?;
        self.is_signers(owner, entry, key)
    }

    fn is_signers(&self, owner: Owner, entry: &Entry, key: PublicKey) -> Result<(), Code> {
        if !self.owners_sign {
            return Err(Code::Unsupported);
        }
        match owner {
            _ if matches!(entry.kind, Kind::SetLimit(_)) => Err(Code::LimitNotCosigned),
            Owner::SelfSigned(own) | Owner::Distilled { single: own, .. } if own == key => Ok(()),
            Owner::SelfSigned(_) | Owner::Distilled { .. } | Owner::Custodial(_) => Err(Code::Unauthorized),
        }
    }

    /// What an entry takes at its place, and where its log's open end begins, if it is authorized.
    fn place(
        &self,
        entry: &Entry,
        digest: Hash,
        authorize: impl FnOnce(Owner) -> Result<(), Code>,
    ) -> Result<Option<(Total, Base)>, Code> {
        let EntryId { spender, n } = entry.id;
        let (account, terms, _) =
            self.book.account_and_terms(spender).ok_or_else(|| self.unknown(spender))?;
        let (base, sn) = (Base::behind(account), account.sequence());
        if n <= sn {
            let is_last = n == sn && n > 0 && digest == account.head();
            return if is_last { Ok(None) } else { Err(Code::SequenceConflict) };
        }
        if n - sn > self.window {
            return Err(Code::SequenceGap);
        }
        let xlog = self.open.get(spender).unwrap_or(Xlog::NONE);
        let (tip, head) = xlog.tip(base);
        // Where certificates do not descend, an entry below a certified one needs its own endorsements as before.
        let is_last = xlog.last().is_none_or(|last| last <= n);
        let is_below = !self.profile.descends() && xlog.precedes(n, digest);
        let is_next = tip.checked_add(1) == Some(n) && (is_last || is_below);
        if !is_next && xlog.slot(n).is_none() {
            // The entries before it may change the owner: whether it is authorized is seen once they are here.
            return Err(Code::SequenceGap);
        }
        if self.profile.registers() && self.handover(entry.id).is_some() {
            return Err(Code::SequenceGap);
        }
        authorize(xlog.owner(terms.owner, n))?;
        self.may_leave(entry)?;
        let is_hold = matches!(entry.kind, Kind::Hold { .. } | Kind::Resolve { .. });
        let frees = matches!(entry.kind, Kind::Rekey(owner) if !matches!(owner, Owner::Custodial(_)));
        // Nothing would show that the owner has the secret of such a key.
        let is_unproven = matches!(entry.kind, Kind::Rekey(Owner::Distilled { .. }));
        if is_hold && !self.profile.has_holds() || frees && !self.owners_sign || is_unproven {
            return Err(Code::Unsupported);
        }
        if let Some(slot) = xlog.slot(n) {
            return if slot.digest == digest || planted!(A1) {
                Ok(None)
            } else {
                Err(Code::SequenceConflict)
            };
        }
        if !self.pins.is_empty() && !self.is_free(entry.id, &digest) {
            return Err(Code::SequenceConflict);
        }
        if self.is_behind_torn(entry.id) {
            return Err(Code::Conflicted);
        }
        if entry.prev != head && !planted!(A17) {
            return Err(Code::ChainMismatch);
        }
        if account.is_frozen() {
            return Err(Code::Frozen);
        }
        if self.waits_abroad(entry) {
            return Err(Code::Busy);
        }
        let owes = |slot: &Slot| slot.line.entry.names().any(|id| id == spender);
        match judge(&self.book, entry, xlog.promised()) {
            Err(Code::InsufficientFunds)
                if planted!(A33) && self.open.iter().flat_map(|(_, xlog)| xlog.slots()).any(owes) =>
            {
                Ok(Some((entry.cost(Units(0)), base)))
            }
            Err(Code::InsufficientFunds | Code::LimitBelowUse) if !self.profile.funds_first() => {
                Ok(Some((self.cost(entry), base)))
            }
            debit => debit.map(|debit| Some((debit, base))),
        }
    }

    /// Whether the account's owner, as of this entry, vouches for it (4.5).
    fn authorize(&self, owner: Owner, line: &Line, by: Authority) -> Result<(), Code> {
        if !self.owners_sign && line.auth != Auth::Institution {
            return Err(Code::Unsupported);
        }
        let is_vouched = match (owner, line.auth) {
            (Owner::Custodial(institution), Auth::Institution) => by.lane == institution || planted!(A2),
            (Owner::SelfSigned(key) | Owner::Distilled { single: key, .. }, Auth::Owner(_))
            | (Owner::Distilled { single: key, .. }, Auth::Together | Auth::Straggler(_)) => {
                by.key == Some(key)
            }
            (Owner::SelfSigned(_), Auth::Together | Auth::Straggler(_))
            | (Owner::Custodial(_), Auth::Owner(_) | Auth::Together | Auth::Straggler(_))
            | (_, Auth::Institution) => false,
        };
        let needs_registrar = matches!(line.entry.kind, Kind::SetLimit(_));
        match (is_vouched && self.may_carry(line.entry.id, owner, by.lane), needs_registrar) {
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
            self.put(self.fresh(line, digest));
            return true;
        }
        false
    }

    fn fresh(&self, line: &Line, digest: Hash) -> Slot {
        let debit = self.cost(&line.entry);
        Slot { line: line.clone(), digest, debit, is_certified: false, lots: Lots::default() }
    }

    /// What an entry takes behind the open ones of its log, whether that can pay or not.
    fn cost(&self, entry: &Entry) -> Total {
        let spender = entry.id.spender;
        let limit = self.book.terms(spender).map_or(Units(0), |(terms, _)| terms.limit);
        entry.cost(self.open.get(spender).map_or(limit, |xlog| xlog.promised().limit(limit)))
    }

    /// Takes in a slot as it was, unless it is here.
    pub(crate) fn restore(&mut self, slot: Slot) {
        if self.slot(slot.line.entry.id).is_none() {
            self.put(slot);
        }
    }

    /// What may let an entry pass that was refused for this reason; `None` where nothing can.
    pub(crate) fn cause(&self, entry: &Entry, code: Code) -> Option<Cause> {
        let EntryId { spender, n } = entry.id;
        let is_here = |account: &AccountId| account.shard == self.book.shard();
        let named = match code {
            _ if code.class() == Class::Permanent => return None,
            Code::UnknownAccount => Some(Cause::Opening(spender)),
            Code::UnknownBeneficiary => {
                let unknown = |account: &AccountId| is_here(account) && self.book.account(*account).is_none();
                entry.names().find(unknown).map(Cause::Opening)
            }
            Code::HoldNotFound => self.hold_to_come(entry).map(Cause::Entry),
            Code::Conflicted => self.torn(spender).map(|two| Cause::Entry(two.place())),
            Code::SequenceGap if self.handover(entry.id).is_some() => {
                self.handover(entry.id).map(Cause::Entry)
            }
            Code::SequenceGap if n.saturating_sub(Base::of(&self.book, spender).sequence) > self.window => {
                Some(Cause::Entry(EntryId { spender, n: n.saturating_sub(self.window) }))
            }
            Code::InsufficientFunds | Code::LimitBelowUse | Code::CloseNotEmpty | Code::Busy => {
                Some(Cause::Funds(spender))
            }
            _ => None,
        };
        Some(named.unwrap_or(Cause::Place(entry.id)))
    }

    /// The first hold that an entry decides over and that is not there yet.
    fn hold_to_come(&self, entry: &Entry) -> Option<EntryId> {
        let Kind::Resolve { holds, .. } = &entry.kind else { return None };
        let is_settled = |id: &EntryId| id.n <= Base::of(&self.book, id.spender).sequence;
        holds.iter().find(|id| self.book.hold(**id).is_none() && !is_settled(id)).copied()
    }

    /// Has entries of a batch judged again when what they wait for may have happened. Those that waited before wait no longer.
    pub(crate) fn wait(&mut self, lot: Lot, left: impl IntoIterator<Item = (AccountId, u32, Cause)>) {
        self.waits.let_go_of(lot);
        for (spender, at, cause) in left {
            self.waits.put(Waiter::Batch(lot, spender), cause, at);
        }
    }

    /// Has an entry wait that was woken for nothing.
    pub(crate) fn wait_again(&mut self, left: Left, cause: Cause) {
        self.waits.put(Waiter::Batch(left.lot, left.spender), cause, left.at);
    }

    /// Nothing of a batch is judged any more.
    pub(crate) fn let_go(&mut self, lot: Lot) {
        self.waits.let_go_of(lot);
    }

    /// Whether somebody may go on who was not woken yet.
    pub(crate) fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    pub(crate) fn stir(&mut self, cause: Cause) {
        if !self.waits.is_empty() && self.waits.has(cause) {
            self.stirred.insert(cause);
        }
    }

    /// Whoever wants the place behind the tip of a log may have it.
    fn stir_next(&mut self, spender: AccountId) {
        if self.waits.is_empty() {
            return;
        }
        if let Some((tip, _)) = self.tip(spender) {
            self.stir(Cause::Place(EntryId { spender, n: tip.saturating_add(1) }));
        }
    }

    /// Bytes held, the book's among them.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.open.iter().map(|(_, xlog)| xlog.count()).sum();
        let slots = (slots * 2 * (size_of::<Slot>() + size_of::<Entry>())) as u64;
        let beside = self.waits.bytes()
            + self.borders.bytes()
            + self.credit_bytes()
            + self.pin_bytes()
            + self.torn_bytes();
        let settled = (self.settled.capacity() * size_of::<Settled>()) as u64;
        self.book.bytes() + self.open.bytes() + slots + beside + settled
    }

    pub(crate) fn assert_sound(&self) {
        self.waits.assert_sound();
        assert!(self.settled.is_empty(), "something settled and nobody was told");
        assert!(self.open.iter().count() == self.open.count(), "logs are counted");
        for (id, xlog) in self.open.iter() {
            assert!(!xlog.is_empty(), "an open end with nothing in it");
            xlog.assert_sound(Base::of(&self.book, id), self.window, self.profile.descends());
        }
    }
}

mod carrier;
mod certify;
mod money;
mod pins;
mod settle;
mod torn;

#[cfg(test)]
mod tests;
