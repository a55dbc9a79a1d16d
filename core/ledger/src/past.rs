//! A book as it was before some of its entries: what replicas that settled different sets of entries compute about a set that all
//! of them have.
//!
//! Debits follow the chain of their log and credits commute, so the state after a set of entries is a function of that set. Whoever
//! has settled more than the set takes the entries beyond it back, last of each log first, and stands where everybody stands who
//! settled exactly the set. Sums are taken back by subtraction; what an entry overwrote is kept beside it ([`Applied`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_wire::{List, wire};

use crate::account::CLOSED;
use crate::entry::HOLDS_MAX;
use crate::{
    Account, AccountId, Book, Border, Code, Entry, EntryId, Hold, Kind, Leg, Owner, Standing, Terms, Total,
    Units, Verdict,
};

wire! {
    /// What an entry overwrote.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Overwrote {
        /// Nothing but sums.
        0 = Sums,
        /// Whether its spender was closed.
        1 = Closed(bool),
        /// Who could append.
        2 = Owner(Box<Owner>),
        /// The member that carried its entries.
        3 = Representative(u8),
        /// The limit.
        4 = Limit(Units),
        /// The holds that it decided over, in its order.
        5 = Holds(List<Hold, HOLDS_MAX>),
    }

    /// An entry that a book has, with what it overwrote there.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Applied {
        /// The entry.
        pub entry: Arc<Entry>,
        /// See there.
        pub overwrote: Overwrote,
    }
}

impl Overwrote {
    /// What an entry will overwrite in a book that it can be applied to.
    #[must_use]
    pub fn by(book: &Book, entry: &Entry) -> Self {
        let spender = entry.id.spender;
        let terms = || book.terms(spender).map(|(terms, _)| terms);
        match &entry.kind {
            Kind::Pay(_) | Kind::MultiPay(_) | Kind::Hold { .. } => Self::Sums,
            Kind::Close(_) => Self::Closed(book.account(spender).is_some_and(Account::is_closed)),
            Kind::Rekey(_) => terms().map_or(Self::Sums, |terms| Self::Owner(Box::new(terms.owner))),
            Kind::Move(_) => Self::Representative(book.account(spender).map_or(0, Account::representative)),
            Kind::SetLimit(_) => terms().map_or(Self::Sums, |terms| Self::Limit(terms.limit)),
            Kind::Resolve { holds, .. } => {
                let holds: Vec<Hold> = holds.iter().filter_map(|id| book.hold(*id).copied()).collect();
                List::try_from(holds).map_or(Self::Sums, Self::Holds)
            }
        }
    }
}

/// An account that differs from the book's.
#[derive(Clone, Debug)]
struct Was {
    account: Account,
    terms: Terms,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Past<'a> {
    book: &'a Book,
    accounts: BTreeMap<AccountId, Was>,
    /// Holds that were open and are not, and the other way round.
    holds: BTreeMap<EntryId, Option<Hold>>,
    exported: BTreeMap<Border, Total>,
}

impl<'a> Past<'a> {
    /// A book as it is.
    #[must_use]
    pub const fn new(book: &'a Book) -> Self {
        Self { book, accounts: BTreeMap::new(), holds: BTreeMap::new(), exported: BTreeMap::new() }
    }

    /// Takes an entry back that is the last one of its log here.
    ///
    /// # Errors
    /// [`Code::SequenceConflict`] where another one is the last, [`Code::Overflow`] where somebody has not what it brought: entries
    /// that rest on it are still here. Nothing can be said of this state then.
    pub fn undo(&mut self, applied: &Applied) -> Result<(), Code> {
        let entry = &*applied.entry;
        let EntryId { spender, n } = entry.id;
        let was = self.was(spender)?;
        if was.account.sn != n || n == 0 {
            return Err(Code::SequenceConflict);
        }
        (was.account.sn, was.account.head) = (n - 1, entry.prev);
        match (&entry.kind, &applied.overwrote) {
            (Kind::Pay(leg), Overwrote::Sums) => self.unpay(entry, std::slice::from_ref(leg)),
            (Kind::MultiPay(legs), Overwrote::Sums) => self.unpay(entry, legs),
            (Kind::Close(leg), Overwrote::Closed(closed)) => {
                was.account.marks =
                    if *closed { was.account.marks | CLOSED } else { was.account.marks & !CLOSED };
                self.unpay(entry, if leg.amount.0 == 0 { &[] } else { std::slice::from_ref(leg) })
            }
            (Kind::Hold { amount, .. }, Overwrote::Sums) => {
                was.account.pending = less(was.account.pending, *amount)?;
                was.account.holds = was.account.holds.checked_sub(1).ok_or(Code::Overflow)?;
                if self.hold(entry.id).is_none() {
                    return Err(Code::HoldResolved);
                }
                self.holds.insert(entry.id, None);
                Ok(())
            }
            (Kind::Resolve { holds, verdict }, Overwrote::Holds(were)) if holds.len() == were.len() => {
                for (at, (id, hold)) in holds.iter().zip(were).enumerate() {
                    let posted = match verdict {
                        Verdict::Post(amounts) => amounts.get(at).copied().unwrap_or_default(),
                        Verdict::Void => Units::default(),
                    };
                    self.undecide(*id, hold, (entry.ledger, posted))?;
                }
                Ok(())
            }
            (Kind::Rekey(_), Overwrote::Owner(owner)) => {
                was.terms.owner = **owner;
                Ok(())
            }
            (Kind::Move(_), Overwrote::Representative(member)) => {
                was.account.representative = *member;
                Ok(())
            }
            (Kind::SetLimit(_), Overwrote::Limit(limit)) => {
                was.terms.limit = *limit;
                Ok(())
            }
            _ => Err(Code::Overflow),
        }
    }

    fn was(&mut self, id: AccountId) -> Result<&mut Was, Code> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.accounts.entry(id) {
            let account = self.book.account(id).ok_or(Code::UnknownAccount)?.clone();
            let (terms, _) = self.book.terms(id).ok_or(Code::UnknownAccount)?;
            place.insert(Was { account, terms: terms.clone() });
        }
        self.accounts.get_mut(&id).ok_or(Code::UnknownAccount)
    }

    fn unpay(&mut self, entry: &Entry, legs: &[Leg]) -> Result<(), Code> {
        for leg in legs {
            self.uncredit(leg.to, entry.ledger, leg.amount)?;
            let was = self.was(entry.id.spender)?;
            was.account.debits = less(was.account.debits, leg.amount)?;
        }
        Ok(())
    }

    fn uncredit(&mut self, to: AccountId, ledger: u32, amount: Units) -> Result<(), Code> {
        if to.shard == self.book.shard() {
            let was = self.was(to)?;
            was.account.credits = less(was.account.credits, amount)?;
        } else {
            let border = Border { shard: to.shard, ledger };
            let crossed = self.exported.get(&border).copied();
            let crossed = crossed.unwrap_or_else(|| self.book.exported_to(border));
            self.exported.insert(border, less(crossed, amount)?);
        }
        Ok(())
    }

    fn undecide(&mut self, id: EntryId, hold: &Hold, (ledger, posted): (u32, Units)) -> Result<(), Code> {
        if posted.0 > 0 {
            self.uncredit(hold.to, ledger, posted)?;
        }
        let was = self.was(id.spender)?;
        was.account.debits = less(was.account.debits, posted)?;
        was.account.pending =
            was.account.pending.checked_add(Total::of(hold.amount.0)).ok_or(Code::Overflow)?;
        was.account.holds = was.account.holds.checked_add(1).ok_or(Code::Overflow)?;
        self.holds.insert(id, Some(*hold));
        Ok(())
    }

    /// An account as it was; `None` before it is opened.
    #[must_use]
    pub fn account(&self, id: AccountId) -> Option<(&Account, &Terms)> {
        match self.accounts.get(&id) {
            Some(was) => Some((&was.account, &was.terms)),
            None => Some((self.book.account(id)?, self.book.terms(id)?.0)),
        }
    }

    /// An account as it stood, with what its holds set aside; `None` before it is opened.
    #[must_use]
    pub fn standing(&self, id: AccountId) -> Option<(Standing, Total)> {
        let mut standing = self.book.standing(id)?;
        let (account, terms) = self.account(id)?;
        (standing.sequence, standing.head) = (account.sn, account.head);
        (standing.credits, standing.debits) = (account.credits, account.debits);
        (standing.is_closed, standing.is_frozen) = (account.is_closed(), account.is_frozen());
        standing.opening.representative = account.representative;
        standing.opening.terms = terms.clone();
        Some((standing, account.pending))
    }

    /// A hold that was open.
    #[must_use]
    pub fn hold(&self, id: EntryId) -> Option<Hold> {
        self.holds.get(&id).copied().unwrap_or_else(|| self.book.hold(id).copied())
    }

    /// All holds that were open, by payer.
    #[must_use]
    pub fn holds(&self) -> BTreeMap<EntryId, Hold> {
        let mut holds: BTreeMap<EntryId, Hold> = self.book.holds().map(|(id, hold)| (*id, *hold)).collect();
        for (id, hold) in &self.holds {
            match hold {
                Some(hold) => drop(holds.insert(*id, *hold)),
                None => drop(holds.remove(id)),
            }
        }
        holds
    }

    /// What had left for other shards.
    #[must_use]
    pub fn exported(&self) -> BTreeMap<Border, Total> {
        let mut exported: BTreeMap<Border, Total> =
            self.book.exported().map(|(border, total)| (*border, *total)).collect();
        exported.extend(self.exported.iter().map(|(border, total)| (*border, *total)));
        exported
    }
}

fn less(sum: Total, amount: Units) -> Result<Total, Code> {
    sum.checked_sub(Total::of(amount.0)).ok_or(Code::Overflow)
}
