//! May an entry be endorsed, and may it settle? One rule for both (Listing 3 `approve`, Listing 6 with the text's checks).
//!
//! To endorse is to promise that the entry can be paid, so what was endorsed before and has not settled counts as spent:
//! [`Promised`]. To settle, nothing is promised. Credits only grow, so whoever has seen fewer of them refuses for a while and
//! never wrongly agrees.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::planted;

use crate::account::Account;
use crate::{
    AccountId, Amount, Book, Border, Code, Entry, EntryId, Hold, Kind, Leg, Owner, Total, Units, Verdict,
};

/// What an account's endorsed and unsettled entries have taken, in the order of its log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Promised {
    debits: Total,
    /// What few of them do beside; none once nothing of it is left.
    rare: Option<Box<Rare>>,
}

/// What entries promise that do more than pay.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Rare {
    holds: u16,
    closed: bool,
    /// Owners that were endorsed, by place: each stands behind its own.
    owners: BTreeMap<u64, Owner>,
    /// Limits that were endorsed, by place: an entry behind them must stand all of them.
    limits: BTreeMap<u64, Units>,
    resolved: BTreeSet<EntryId>,
}

impl Promised {
    /// Nothing.
    pub const NONE: Self = Self { debits: Total::ZERO, rare: None };

    /// Counts an entry that [`judge`] let pass and that was endorsed, with what that call returned.
    pub fn add(&mut self, entry: &Entry, debit: Total) {
        self.debits = self.debits.checked_add(debit).unwrap_or(Total::MAX);
        match &entry.kind {
            Kind::Pay(_) | Kind::MultiPay(_) | Kind::Move(_) => {}
            kind => self.rare.get_or_insert_default().add(entry.id.n, kind),
        }
    }

    /// Takes the first of the counted entries out again, since it has settled.
    pub fn settled(&mut self, entry: &Entry, debit: Total) {
        self.debits = self.debits.saturating_sub(debit);
        if let Some(rare) = &mut self.rare {
            rare.settled(entry);
            self.rare.take_if(|rare| **rare == Rare::default());
        }
    }

    /// Whoever owns the account at a place, if one of these entries before it changes that.
    #[inline]
    #[must_use]
    pub fn owner_at(&self, n: u64) -> Option<Owner> {
        self.rare.as_ref()?.owners.range(..n).next_back().map(|(_, owner)| *owner)
    }

    /// The largest limit that an entry behind these may find, where `settled` is the one that stands: what a lower one takes
    /// away is counted from there.
    #[must_use]
    pub fn limit(&self, settled: Units) -> Units {
        self.rare.iter().flat_map(|rare| rare.limits.values()).copied().fold(settled, Units::max)
    }

    /// What they debit together.
    #[must_use]
    pub const fn debits(&self) -> Total {
        self.debits
    }

    fn holds(&self) -> u16 {
        self.rare.as_ref().map_or(0, |rare| rare.holds)
    }

    fn is_closed(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.closed)
    }

    fn resolves(&self, hold: &EntryId) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.resolved.contains(hold))
    }
}

impl Rare {
    fn add(&mut self, n: u64, kind: &Kind) {
        match kind {
            Kind::Hold { .. } => self.holds = self.holds.saturating_add(1),
            Kind::Resolve { holds, .. } => self.resolved.extend(holds.iter().copied()),
            Kind::Close(_) => self.closed = true,
            Kind::Rekey(owner) => drop(self.owners.insert(n, *owner)),
            Kind::SetLimit(limit) => drop(self.limits.insert(n, *limit)),
            Kind::Pay(_) | Kind::MultiPay(_) | Kind::Move(_) => {}
        }
    }

    fn settled(&mut self, entry: &Entry) {
        match &entry.kind {
            Kind::Hold { .. } => self.holds = self.holds.saturating_sub(1),
            Kind::Resolve { holds, .. } => self.resolved.retain(|hold| !holds.contains(hold)),
            Kind::Rekey(_) => drop(self.owners.remove(&entry.id.n)),
            Kind::SetLimit(_) => drop(self.limits.remove(&entry.id.n)),
            // A closed account stays closed, so whether this closed it again is all the same.
            Kind::Close(_) | Kind::Pay(_) | Kind::MultiPay(_) | Kind::Move(_) => {}
        }
    }
}

/// What an entry takes from its spender beside what is set aside already, if it may be endorsed behind `promised`, or settled
/// with nothing promised. Order, chain and authorization are not looked at here; nor is [`Account::is_frozen`].
///
/// # Errors
/// The first rule that it breaks.
pub fn judge(book: &Book, entry: &Entry, promised: &Promised) -> Result<Total, Code> {
    let spender = entry.id.spender;
    let (account, terms, limit_max) = book.account_and_terms(spender).ok_or(Code::UnknownAccount)?;
    if entry.ledger != account.ledger {
        return Err(Code::LedgerMismatch);
    }
    let is_closed = account.is_closed() || promised.is_closed();
    if is_closed && !matches!(entry.kind, Kind::Resolve { .. } | Kind::Close(_)) {
        return Err(Code::AccountClosed);
    }
    let case = Case { book, entry, account, promised };
    let debit = match &entry.kind {
        Kind::Pay(leg) => case.pay(std::slice::from_ref(leg))?,
        Kind::MultiPay(legs) => case.pay(legs)?,
        Kind::Hold { to, amount, resolver, .. } => case.hold(*to, *amount, *resolver)?,
        Kind::Resolve { holds, verdict } => case.resolve(holds, verdict)?,
        Kind::Close(leg) => case.close(leg)?,
        Kind::Rekey(_) | Kind::Move(_) => Total::ZERO,
        Kind::SetLimit(limit) if *limit > limit_max => return Err(Code::LimitNotCosigned),
        Kind::SetLimit(limit) => Total::of(promised.limit(terms.limit).0).saturating_sub(Total::of(limit.0)),
    };
    let taken = debit.checked_add(promised.debits).ok_or(Code::Overflow)?;
    if taken > account.available(terms.limit) {
        let lowers = matches!(entry.kind, Kind::SetLimit(_));
        return Err(if lowers { Code::LimitBelowUse } else { Code::InsufficientFunds });
    }
    if account.debits.checked_add(taken).and_then(|sum| sum.checked_add(account.pending)).is_none() {
        return Err(Code::Overflow);
    }
    Ok(debit)
}

/// Most open holds of one payer.
pub const HOLDS_OPEN_MAX: u16 = 1_024;

struct Case<'a> {
    book: &'a Book,
    entry: &'a Entry,
    account: &'a Account,
    promised: &'a Promised,
}

impl Case<'_> {
    /// The sum of the legs, if each can be paid out.
    fn pay(&self, legs: &[Leg]) -> Result<Total, Code> {
        if legs.is_empty() {
            return Err(Code::TooManyLegs);
        }
        let mut sum = 0_u128;
        for leg in legs {
            let amount = Amount::new(leg.amount)?;
            // 64 legs of 96 bits.
            sum = sum.checked_add(amount.units()).ok_or(Code::Overflow)?;
        }
        let sum = if planted!(A11) { sum & Amount::MAX.units() } else { sum };
        for leg in legs {
            self.beneficiary(leg.to, Total::of(sum))?;
        }
        Ok(Total::of(sum))
    }

    /// Whether an account can take so much: one of this shard is open, of this ledger, and its credits do not wrap. What other
    /// shards keep, they look at.
    fn beneficiary(&self, to: AccountId, sum: Total) -> Result<(), Code> {
        if to.shard != self.book.shard() {
            let border = Border { shard: to.shard, ledger: self.entry.ledger };
            return self.book.exported_to(border).checked_add(sum).map(|_| ()).ok_or(Code::Overflow);
        }
        let account = self.book.account(to).ok_or(Code::UnknownBeneficiary)?;
        if account.ledger != self.entry.ledger {
            return Err(Code::LedgerMismatch);
        }
        account.credits.checked_add(sum).map(|_| ()).ok_or(Code::Overflow)
    }

    fn hold(&self, to: AccountId, amount: Units, resolver: AccountId) -> Result<Total, Code> {
        let amount = Amount::new(amount)?;
        if resolver.shard != self.book.shard() {
            return Err(Code::WrongShard);
        }
        self.beneficiary(to, amount.into())?;
        if self.account.holds.saturating_add(self.promised.holds()) >= HOLDS_OPEN_MAX {
            return Err(Code::Busy);
        }
        Ok(amount.into())
    }

    fn close(&self, leg: &Leg) -> Result<Total, Code> {
        if self.account.holds > 0 || self.promised.holds() > 0 {
            return Err(Code::CloseNotEmpty);
        }
        match Amount::new(leg.amount) {
            Ok(amount) => self.beneficiary(leg.to, amount.into()).map(|()| amount.into()),
            Err(Code::AmountZero) => Ok(Total::ZERO),
            Err(code) => Err(code),
        }
    }

    /// The spender decides and pays nothing: the holds' payers do, of what is set aside.
    fn resolve(&self, holds: &[EntryId], verdict: &Verdict) -> Result<Total, Code> {
        if holds.is_empty() {
            return Err(Code::TooManyLegs);
        }
        let mut posted = 0_u128;
        for (at, id) in holds.iter().enumerate() {
            let hold = self.open_hold(*id, holds.get(..at).unwrap_or(&[]))?;
            let Verdict::Post(amounts) = verdict else { continue };
            let amount = *amounts.get(at).ok_or(Code::HoldAmountExceeded)?;
            let amount = Amount::new(amount)?;
            if amount.units() > hold.amount.0 {
                return Err(Code::HoldAmountExceeded);
            }
            posted = posted.checked_add(amount.units()).ok_or(Code::Overflow)?;
        }
        match verdict {
            Verdict::Post(amounts) if amounts.len() != holds.len() => return Err(Code::HoldAmountExceeded),
            Verdict::Post(_) | Verdict::Void => {}
        }
        for id in holds {
            let to = self.book.hold(*id).ok_or(Code::HoldNotFound)?.to;
            self.beneficiary(to, Total::of(posted))?;
        }
        Ok(Total::ZERO)
    }

    /// A hold that nobody decided over, neither an entry endorsed before nor this one further ahead.
    fn open_hold(&self, id: EntryId, ahead: &[EntryId]) -> Result<&Hold, Code> {
        if id.spender.shard != self.book.shard() {
            return Err(Code::WrongShard);
        }
        if ahead.contains(&id) || (self.promised.resolves(&id) && !planted!(A34)) {
            return Err(Code::HoldResolved);
        }
        let Some(hold) = self.book.hold(id) else {
            // A hold of a settled entry that is not open was decided over, or never was one: either way it never will be.
            let is_settled = self.book.account(id.spender).is_some_and(|payer| id.n <= payer.sn);
            return Err(if is_settled { Code::HoldResolved } else { Code::HoldNotFound });
        };
        let is_ours = hold.resolver == self.entry.id.spender;
        let payer = self.book.account(id.spender).ok_or(Code::HoldNotFound)?;
        if !is_ours {
            return Err(Code::HoldWrongResolver);
        }
        if payer.ledger != self.entry.ledger { Err(Code::LedgerMismatch) } else { Ok(hold) }
    }
}
