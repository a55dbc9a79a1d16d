//! What an account was paid and paid between two cuts: opening balance, entries, closing balance.
//!
//! Opening and closing are what a quorum signed behind the cuts. The entries are those of the index that the later cut counts and the
//! earlier one does not, in the order in which they settled at this node; their sums have to lead from the one to the other, or the
//! statement is refused.
//!
//! *Bounds.* A page of [`PAGE_MAX`] entries, and [`LOOKED_MAX`] looked at for it; the next page begins with a [`Cursor`].

use std::collections::BTreeMap;

use synod_ledger::{AccountId, Entry, EntryId, Kind, Leg, Total, Verdict};
use synod_wire::wire;

use super::cuts::{Cuts, Gap, KeptCut, nothing, stand};
use super::index::{Index, PAGE_MAX};
use super::words::Transfer;

/// Most entries of an account that are looked at for a page.
const LOOKED_MAX: usize = 16 * PAGE_MAX;

wire! {
    /// How an account stood: its n, all that it was ever paid, all that it ever paid, and what its holds set aside.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Stood {
        /// Entries of its own log.
        pub n: u64,
        /// All that it was ever paid.
        pub credits: Total,
        /// All that it ever paid.
        pub debits: Total,
        /// What its holds set aside.
        pub pending: Total,
    }

    /// Where a page begins: behind a position, and how the account stood there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cursor {
        /// Of the last entry before.
        pub position: u64,
        /// Behind it.
        pub stood: Stood,
    }
}

/// What an entry did to an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// What it was paid.
    pub credit: Total,
    /// What it paid.
    pub debit: Total,
    /// What it set aside.
    pub held: Total,
    /// What was set aside and is no more.
    pub freed: Total,
}

/// One line of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The entry.
    pub transfer: Transfer,
    /// What it did.
    pub effect: Effect,
    /// How the account stood behind it.
    pub after: Stood,
}

/// A page of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The account's ledger.
    pub ledger: u32,
    /// The cut that it begins behind; none: it begins where the account was opened.
    pub since: Option<KeptCut>,
    /// The cut that it ends with.
    pub as_of: KeptCut,
    /// How the account stood then.
    pub opening: Stood,
    /// And then.
    pub closing: Stood,
    /// In the order in which they settled here.
    pub lines: Vec<Line>,
    /// Where the next page begins; none behind the last.
    pub next: Option<Cursor>,
}

/// What a statement is asked of.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    /// Whose.
    pub account: AccountId,
    /// The cut that it begins behind; none: where the account was opened.
    pub since: Option<u64>,
    /// The cut that it ends with; none: the newest.
    pub as_of: Option<u64>,
}

/// Which entries lie between two cuts.
struct Between<'a> {
    cuts: &'a Cuts,
    since: u64,
    as_of: u64,
    /// What the two cuts count of each payer.
    counted: BTreeMap<AccountId, (u64, u64)>,
}

impl Between<'_> {
    fn has(&mut self, id: EntryId) -> bool {
        let Self { cuts, since, as_of, counted } = self;
        let at = |number| cuts.stood(id.spender, number).map_or(0, |stood| stood.standing.sequence);
        let (before, then) = *counted
            .entry(id.spender)
            .or_insert_with(|| (if *since == 0 { 0 } else { at(*since) }, at(*as_of)));
        before < id.n && id.n <= then
    }
}

impl Stood {
    /// Behind an entry that did this; `None` where a sum would be none, which no ledger allows.
    fn after(self, effect: &Effect, own: Option<u64>) -> Option<Self> {
        Some(Self {
            n: own.unwrap_or(self.n),
            credits: self.credits.checked_add(effect.credit)?,
            debits: self.debits.checked_add(effect.debit)?,
            pending: self.pending.checked_add(effect.held)?.checked_sub(effect.freed)?,
        })
    }
}

impl Effect {
    /// What an entry did to an account; `None` where a hold that it decides over is not in the index.
    fn of(entry: &Entry, account: AccountId, held: &dyn Fn(EntryId) -> Option<Entry>) -> Option<Self> {
        let mut effect = Self::default();
        let payer = entry.id.spender;
        match &entry.kind {
            Kind::Pay(Leg { to, amount }) | Kind::Close(Leg { to, amount }) => {
                effect.pay(account, (payer, *to), amount.0)?;
            }
            Kind::MultiPay(legs) => {
                legs.iter().try_for_each(|leg| effect.pay(account, (payer, leg.to), leg.amount.0))?;
            }
            Kind::Hold { amount, .. } if payer == account => effect.held = Total::of(amount.0),
            Kind::Resolve { holds, verdict } => {
                for (at, id) in holds.iter().enumerate() {
                    let Kind::Hold { to, amount, .. } = held(*id)?.kind else { return None };
                    if let Verdict::Post(amounts) = verdict {
                        effect.pay(account, (id.spender, to), amounts.get(at)?.0)?;
                    }
                    if id.spender == account {
                        effect.freed = effect.freed.checked_add(Total::of(amount.0))?;
                    }
                }
            }
            Kind::Hold { .. } | Kind::Rekey(_) | Kind::Move(_) | Kind::SetLimit(_) => {}
        }
        Some(effect)
    }

    /// Adds what one account pays another, as far as it touches this one.
    fn pay(&mut self, account: AccountId, (from, to): (AccountId, AccountId), amount: u128) -> Option<()> {
        let amount = Total::of(amount);
        if from == account {
            self.debit = self.debit.checked_add(amount)?;
        }
        if to == account {
            self.credit = self.credit.checked_add(amount)?;
        }
        Some(())
    }
}

/// A page of the statement of an account, behind a cursor of the page before.
///
/// # Errors
/// Those of [`Cuts::cut`]; [`Gap::Backwards`]; [`Gap::Nothing`] where the account was not open; [`Gap::Lacks`] where the entries of the
/// index do not lead from the opening balance to the closing one.
pub(super) fn statement(
    (cuts, index): (&Cuts, &Index),
    period: &Period,
    (cursor, max): (Option<Cursor>, usize),
) -> Result<Statement, Gap> {
    let account = period.account;
    let as_of = cuts.cut(period.as_of)?;
    let since = period.since.filter(|since| *since > 0).map(|since| cuts.cut(Some(since))).transpose()?;
    let (first, last) = (since.as_ref().map_or(0, |cut| cut.record.number), as_of.record.number);
    if first > last {
        return Err(Gap::Backwards);
    }
    let at = |number| cuts.stood(account, number);
    let ledger = at(last).map(|stood| stood.standing.opening.ledger).ok_or(Gap::Nothing(last))?;
    let opening = if first == 0 { None } else { at(first) };
    let of = |stood: Option<synod_astro::StoodAt>| {
        let (n, [credits, debits, pending]) =
            stood.map_or_else(nothing, |stood| stand(&stood.standing, stood.pending));
        Stood { n, credits, debits, pending }
    };
    let (opening, closing) = (of(opening), of(at(last)));
    let below = since.as_ref().map_or(0, |cut| cut.below);
    let begin = cursor.unwrap_or(Cursor { position: below, stood: opening });
    let between = Between { cuts, since: first, as_of: last, counted: BTreeMap::new() };
    let lacks = Gap::Lacks(last);
    let (lines, next) =
        lines(index, (account, between), (begin, as_of.position), max.clamp(1, PAGE_MAX)).ok_or(lacks)?;
    let end = next.map_or_else(|| lines.last().map_or(begin.stood, |line| line.after), |_| closing);
    if end != closing {
        return Err(lacks);
    }
    Ok(Statement { ledger, since, as_of, opening, closing, lines, next })
}

/// Lines of an account behind a cursor, up to a position; and where there may be more.
fn lines(
    index: &Index,
    (account, mut between): (AccountId, Between<'_>),
    (begin, until): (Cursor, u64),
    max: usize,
) -> Option<(Vec<Line>, Option<Cursor>)> {
    let held = |id| index.entry(id).map(|known| (*known.entry).clone());
    let (mut lines, mut at, mut looked) = (Vec::new(), begin, 0);
    loop {
        let page = index.history(account, at.position, max);
        for transfer in page.entries {
            if transfer.position > until {
                return Some((lines, None));
            }
            if lines.len() == max || looked >= LOOKED_MAX {
                return Some((lines, Some(at)));
            }
            (at.position, looked) = (transfer.position, looked + 1);
            let id = transfer.place();
            if !between.has(id) {
                continue;
            }
            let effect = Effect::of(&transfer.entry, account, &held)?;
            let own = (id.spender == account).then_some(id.n);
            if own.is_none() && effect == Effect::default() {
                continue;
            }
            at.stood = at.stood.after(&effect, own)?;
            lines.push(Line { transfer, effect, after: at.stood });
        }
        if !page.has_more {
            return Some((lines, None));
        }
    }
}
