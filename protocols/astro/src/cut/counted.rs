//! Which entries a cut counts, and the state behind exactly these.

use std::collections::{BTreeMap, VecDeque};

use synod_ledger::{AccountId, Applied, Book, Border, Code, Entry, EntryId, Hold, Past, Standing, Total};
use synod_machine::broadcast::{Context, Lot};
use synod_machine::planted;
use synod_quorum::Epoch;
use synod_wire::List;

use super::carried::{Carried, CarriedAt};
use super::words::{Cut, Exception, LaneEnd};

/// Settled entries that can be taken back.
pub(crate) const BEYOND_MAX: usize = 1 << 17;

/// The last settled entries, with what they overwrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beyond {
    entries: VecDeque<Applied>,
}

impl Beyond {
    pub(crate) fn push(&mut self, applied: Applied) {
        self.entries.push_back(applied);
        if self.entries.len() > BEYOND_MAX {
            self.entries.pop_front();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Latest first.
    fn back(&self) -> impl Iterator<Item = &Applied> {
        self.entries.iter().rev()
    }

    /// Entries in the order in which they settled.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Applied> {
        self.entries.iter()
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.entries.len() * (size_of::<Applied>() + size_of::<Entry>())) as u64
    }

    /// The most that it takes.
    pub(crate) const fn bytes_max() -> u64 {
        (BEYOND_MAX * (size_of::<Applied>() + size_of::<Entry>())) as u64 + (64 << 20)
    }
}

/// What a member has that cuts are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewed<'a> {
    pub(crate) book: &'a Book,
    pub(crate) lanes: &'a BTreeMap<u8, Carried>,
    pub(crate) beyond: &'a Beyond,
}

/// What has to come before a cut can be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A batch.
    Batch(Lot),
    /// An entry has to settle.
    Entry(EntryId),
}

/// Why a cut is never signed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCut {
    /// Something has to come first.
    Lack(Lack),
    /// What lies beyond it is not kept that long.
    TooOld,
    /// It names lanes or batches that there are not, or exceptions that are none.
    Wrong,
    /// Its entries are no closed set, or somebody has less than nothing behind them.
    NotFunded,
    /// There are more exceptions or ledgers than a cut has.
    TooMany,
}

/// The state behind a cut, not hashed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Every account with what its holds set aside, lowest first.
    pub(crate) accounts: Vec<(Standing, Total)>,
    /// Open holds, lowest first.
    pub(crate) holds: Vec<(EntryId, Hold)>,
    pub(crate) exported: BTreeMap<Border, Total>,
    pub(crate) imported: BTreeMap<Border, Total>,
}

/// Lanes at the batches of a cut.
struct Ends<'a>(BTreeMap<u32, CarriedAt<'a>>);

impl Ends<'_> {
    /// The highest place that an account's own lane carried.
    fn carried(&self, account: AccountId) -> u64 {
        self.0.get(&account.registrar).map_or(0, |lane| lane.place(account.local))
    }

    /// Whether an account was open.
    fn has(&self, account: AccountId) -> bool {
        self.0.get(&account.registrar).is_none_or(|lane| account.local <= lane.accounts)
    }
}

/// The cut of exactly what has settled here.
pub(crate) fn cut_of(
    viewed: &Viewed<'_>,
    (context, epoch): (Context, Epoch),
    (number, proposer): (u64, u8),
) -> Result<Cut, NoCut> {
    let ends: Vec<LaneEnd> = viewed.lanes.values().map(Carried::end).collect();
    let lanes = viewed
        .lanes
        .iter()
        .filter_map(|(lane, carried)| Some((u32::from(*lane), carried.at(carried.end().lot.sequence)?)));
    let places = Ends(lanes.collect());
    let exceptions = viewed.book.accounts().filter_map(|(account, settled)| {
        let (carried, counted) = (places.carried(account), settled.sequence());
        (carried != counted).then_some(Exception { account, carried, first: counted.saturating_add(1) })
    });
    let exceptions: Vec<Exception> = exceptions.collect();
    let exceptions = if planted!(A27) { Vec::new() } else { exceptions };
    Ok(Cut {
        context,
        epoch,
        number,
        proposer,
        lanes: List::try_from(ends).map_err(|_| NoCut::TooMany)?,
        exceptions: List::try_from(exceptions).map_err(|_| NoCut::TooMany)?,
    })
}

/// The state behind a cut.
///
/// # Errors
/// [`NoCut::Lack`] names what has to come first; the others are for good.
pub(crate) fn count(viewed: &Viewed<'_>, cut: &Cut) -> Result<Counted, NoCut> {
    let ends = ends(viewed, cut)?;
    exceptions_hold(viewed, &ends, cut)?;
    let counted = |account: AccountId| match cut.exception(account) {
        Some(exception) => exception.first.saturating_sub(1),
        None if planted!(A27) => {
            viewed.book.account(account).map_or(0, |here| here.sequence()).min(ends.carried(account))
        }
        None => ends.carried(account),
    };
    for (account, here) in viewed.book.accounts().filter(|(account, _)| ends.has(*account)) {
        let n = counted(account);
        if here.sequence() < n {
            return Err(NoCut::Lack(Lack::Entry(EntryId { spender: account, n })));
        }
    }
    let mut past = Past::new(viewed.book);
    for applied in viewed.beyond.back() {
        let EntryId { spender, n } = applied.entry.id;
        let is_beyond = !ends.has(spender) || n > counted(spender);
        match if is_beyond { past.undo(applied) } else { Ok(()) } {
            Ok(()) => {}
            // An entry above it is older than what is kept.
            Err(Code::SequenceConflict) => return Err(NoCut::TooOld),
            Err(_) => return Err(NoCut::NotFunded),
        }
    }
    state(viewed, &past, (&ends, counted))
}

/// The lanes at the batches that the cut names.
fn ends<'a>(viewed: &Viewed<'a>, cut: &Cut) -> Result<Ends<'a>, NoCut> {
    if !cut.lanes.iter().map(|end| end.lot.source).eq(viewed.lanes.keys().copied()) {
        return Err(NoCut::Wrong);
    }
    let mut ends = BTreeMap::new();
    for (end, carried) in cut.lanes.iter().zip(viewed.lanes.values()) {
        if carried.end().lot.sequence < end.lot.sequence {
            return Err(NoCut::Lack(Lack::Batch(end.lot)));
        }
        let at = carried.at(end.lot.sequence).ok_or(NoCut::TooOld)?;
        if at.end != *end {
            return Err(NoCut::Wrong);
        }
        ends.insert(u32::from(end.lot.source), at);
    }
    Ok(Ends(ends))
}

/// Exceptions stand in order, of accounts that are open, and say what the lanes carried and something else.
fn exceptions_hold(viewed: &Viewed<'_>, ends: &Ends<'_>, cut: &Cut) -> Result<(), NoCut> {
    let is_sorted = cut.exceptions.is_sorted_by(|one, next| one.account < next.account);
    let is_true = |one: &Exception| {
        viewed.book.account(one.account).is_some()
            && ends.has(one.account)
            && ends.carried(one.account) == one.carried
            && one.first.checked_sub(1).is_some_and(|counted| counted != one.carried)
    };
    if is_sorted && cut.exceptions.iter().all(is_true) { Ok(()) } else { Err(NoCut::Wrong) }
}

fn state(
    viewed: &Viewed<'_>,
    past: &Past<'_>,
    (ends, counted): (&Ends<'_>, impl Fn(AccountId) -> u64),
) -> Result<Counted, NoCut> {
    let mut accounts = Vec::new();
    for (account, _) in viewed.book.accounts() {
        let (standing, pending) = past.standing(account).ok_or(NoCut::Wrong)?;
        if !ends.has(account) {
            // It opened later: nothing of it may be left.
            let is_new = standing.sequence == 0 && standing.credits == Total::ZERO;
            if is_new { continue } else { return Err(NoCut::NotFunded) }
        }
        if standing.sequence != counted(account) {
            return Err(NoCut::TooOld);
        }
        if !is_funded(&standing, pending) {
            return Err(NoCut::NotFunded);
        }
        accounts.push((standing, pending));
    }
    let crossed = |all: &mut dyn Iterator<Item = (Border, Total)>| {
        all.filter(|(_, total)| *total > Total::ZERO).collect::<BTreeMap<_, _>>()
    };
    Ok(Counted {
        accounts,
        holds: past.holds().into_iter().collect(),
        exported: crossed(&mut past.exported().into_iter()),
        imported: crossed(&mut viewed.book.imported().map(|(border, total)| (*border, *total))),
    })
}

/// Whether an account has at least what it spent and set aside.
pub(crate) fn is_funded(standing: &Standing, pending: Total) -> bool {
    let has = standing.credits.checked_add(Total::of(standing.opening.terms.limit.0));
    let spent = standing.debits.checked_add(pending);
    has.zip(spent).is_some_and(|(has, spent)| has >= spent)
}
