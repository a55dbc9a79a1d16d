//! Books kept by hand: what the entries that settled at a member make of its accounts. A-S2, A-S4, A-S5, A-S6, A-S7.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId, Kind, Leg, Opening, Units, Verdict as Decision, genesis};

use super::Texts;
use super::claiming::Claims;
use crate::oracle::{Breach, Verdict, breach};

/// One account, by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purse {
    /// Settled entries.
    pub sequence: u64,
    /// The digest of the last one.
    pub head: Hash,
    /// All that came.
    pub credits: u128,
    /// All that went.
    pub debits: u128,
    /// All that is set aside.
    pub pending: u128,
    /// How far below nothing it may go.
    pub limit: u128,
    /// Its ledger.
    pub ledger: u32,
}

impl Purse {
    fn opened(opening: &Opening) -> Self {
        Self {
            sequence: 0,
            head: genesis(opening.id),
            credits: 0,
            debits: 0,
            pending: 0,
            limit: opening.terms.limit.0,
            ledger: opening.ledger,
        }
    }

    /// What it can spend.
    #[must_use]
    pub const fn available(&self) -> u128 {
        (self.credits + self.limit).saturating_sub(self.debits + self.pending)
    }

    /// Whether an entry stands behind what settled, as far as anybody showed what is between.
    #[must_use]
    pub fn leads_to(&self, texts: &Texts, id: EntryId, line: Hash) -> bool {
        let (mut at, mut n) = (line, id.n);
        while n > self.sequence {
            let Some(entry) = texts.get(&at) else { return true };
            (at, n) = (entry.prev, n - 1);
        }
        n < self.sequence || id.n <= self.sequence || at == self.head
    }

    /// Whether what settled pays for an entry and for all between, and no two of them decide over the same money. A log that leads
    /// elsewhere gave way to a certificate, and says nothing.
    ///
    /// # Errors
    /// A-S6, A-S7.
    pub fn pays(&self, texts: &Texts, id: EntryId, line: Hash) -> Verdict {
        let (mut sum, mut at, mut n) = (0_u128, line, id.n);
        let (mut decided, mut twice) = (BTreeSet::new(), None);
        while let Some(entry) = texts.get(&at).filter(|_| n > self.sequence) {
            sum = sum.saturating_add(Reckoning::taken(&entry.kind));
            if let Kind::Resolve { holds, .. } = &entry.kind {
                twice = holds.iter().find(|hold| !decided.insert(**hold)).copied().or(twice);
            }
            (at, n) = (entry.prev, n - 1);
        }
        if (n, at) != (self.sequence, self.head) {
            return Ok(());
        }
        if sum > self.available() {
            return breach("A-S6", format!("{id:?} is endorsed: {sum} of {}", self.available()));
        }
        twice.map_or(Ok(()), |hold| breach("A-S7", format!("{id:?} is endorsed: {hold:?} is decided twice")))
    }
}

/// Money set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSeen {
    /// Whom it would pay.
    pub to: AccountId,
    /// How much at most.
    pub amount: u128,
    /// Who decides.
    pub resolver: AccountId,
}

/// An account as a member's book has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingSeen {
    /// Settled entries.
    pub sequence: u64,
    /// The digest of the last one.
    pub head: Hash,
    /// All that came; `None` beyond all that runs can move.
    pub credits: Option<u128>,
    /// All that went.
    pub debits: Option<u128>,
    /// Its limit.
    pub limit: u128,
}

/// A member's book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateSeen {
    /// Accounts.
    pub accounts: BTreeMap<AccountId, StandingSeen>,
    /// Open holds.
    pub holds: BTreeMap<EntryId, HeldSeen>,
    /// Payments that nobody collected, with what each pays, and those that were collected before they settled; `None` where they
    /// are not shown.
    pub under_way: Option<(BTreeMap<Owed, u128>, BTreeSet<Owed>)>,
}

/// A beneficiary and a payment.
pub type Owed = (AccountId, EntryId);

/// The accounts of one member, by hand.
#[derive(Clone, Debug, Default)]
pub struct Reckoning {
    pub(super) purses: BTreeMap<AccountId, Purse>,
    holds: BTreeMap<EntryId, HeldSeen>,
    /// What was told, in its order.
    order: Vec<(EntryId, Hash)>,
    told: BTreeSet<EntryId>,
    /// What a start showed in the accounts before it was told.
    shown: BTreeSet<EntryId>,
    /// Money on its way to those who collect it; `None` where what settles is credited at once.
    pub(super) claims: Option<Claims>,
}

/// What was paid an account by an entry.
#[must_use]
pub fn paid_to(entry: &Entry, to: AccountId) -> u128 {
    let own = legs(&entry.kind).iter().filter(|leg| leg.to == to);
    own.fold(0, |sum: u128, leg| sum.saturating_add(leg.amount.0))
}

/// What an entry moves: debits of its spender, set-asides, and credits.
pub fn legs(kind: &Kind) -> &[Leg] {
    match kind {
        Kind::Pay(leg) => std::slice::from_ref(leg),
        Kind::MultiPay(legs) => legs,
        Kind::Close(leg) if leg.amount.0 > 0 => std::slice::from_ref(leg),
        _ => &[],
    }
}

impl Reckoning {
    /// What an entry takes from what its spender can spend.
    #[must_use]
    pub fn taken(kind: &Kind) -> u128 {
        match kind {
            Kind::Hold { amount: Units(amount), .. } => *amount,
            kind => legs(kind).iter().fold(0, |sum: u128, leg| sum.saturating_add(leg.amount.0)),
        }
    }

    /// An account opens.
    pub fn open(&mut self, opening: &Opening) {
        self.purses.insert(opening.id, Purse::opened(opening));
    }

    /// An account.
    #[must_use]
    pub fn purse(&self, id: AccountId) -> Option<&Purse> {
        self.purses.get(&id)
    }

    /// All accounts.
    pub fn purses(&self) -> impl Iterator<Item = (AccountId, &Purse)> {
        self.purses.iter().map(|(id, purse)| (*id, purse))
    }

    /// Open holds.
    pub fn holds(&self) -> impl Iterator<Item = (EntryId, &HeldSeen)> {
        self.holds.iter().map(|(id, held)| (*id, held))
    }

    /// Whether the next entry of a log may settle.
    ///
    /// # Errors
    /// What it breaks.
    pub fn check(&self, entry: &Entry) -> Verdict {
        let purse = self.check_place(entry)?;
        let id = entry.id;
        if Self::taken(&entry.kind) > purse.available() {
            let what = format!("{id:?} takes {} of {}", Self::taken(&entry.kind), purse.available());
            return breach("A-S6", what);
        }
        let known = |to: &AccountId| self.purses.get(to).is_some_and(|to| to.ledger == purse.ledger);
        match &entry.kind {
            Kind::Hold { to, .. } if !known(to) => breach("A-S7", format!("{id:?} is for {to}, not open")),
            Kind::Resolve { holds, verdict } => self.check_resolve(id, holds, verdict),
            _ => Ok(()),
        }
    }

    /// Whether an entry is the next of its log, and pays accounts that are open.
    ///
    /// # Errors
    /// What it breaks.
    pub fn check_place(&self, entry: &Entry) -> Result<&Purse, Breach> {
        let id = entry.id;
        let broken = |checker, what: String| Err(Breach { checker, what });
        let Some(purse) = self.purses.get(&id.spender) else {
            return broken("A-S2", format!("an entry of {} settles, which is not open", id.spender));
        };
        if id.n <= purse.sequence {
            return broken("A-S2", format!("{id:?} settles again"));
        }
        if id.n != purse.sequence + 1 || entry.prev != purse.head {
            return broken("A-S4", format!("{id:?} settles behind entry {}", purse.sequence));
        }
        let known = |to: &AccountId| self.purses.get(to).is_some_and(|to| to.ledger == purse.ledger);
        let paid = legs(&entry.kind).iter().map(|leg| leg.to);
        if let Some(to) = paid.into_iter().find(|to| !known(to)) {
            return broken("A-S7", format!("{id:?} pays {to}, which is not open"));
        }
        Ok(purse)
    }

    fn check_resolve(&self, id: EntryId, holds: &[EntryId], verdict: &Decision) -> Verdict {
        for (at, hold) in holds.iter().enumerate() {
            let Some(held) = self.holds.get(hold).filter(|_| !holds[..at].contains(hold)) else {
                return breach("A-S7", format!("{id:?} decides over {hold:?}, which is not open"));
            };
            if held.resolver != id.spender {
                return breach("A-S2", format!("{id:?} decides over {hold:?}, which is not its"));
            }
            let posted = posted(verdict, at);
            if posted > held.amount {
                return breach("A-S6", format!("{id:?} posts {posted} of {}", held.amount));
            }
        }
        Ok(())
    }

    /// Whether nothing here speaks against an entry that its institution carries: a payment that comes next in its log, which has
    /// the money, to accounts that are open.
    #[must_use]
    pub fn welcomes(&self, entry: &Entry) -> bool {
        let Some(purse) = self.purses.get(&entry.id.spender) else { return false };
        let is_open = |to: AccountId| self.purses.get(&to).is_some_and(|to| to.ledger == purse.ledger);
        let is_sound = |leg: &Leg| is_open(leg.to) && leg.amount.0 > 0 && leg.amount.0 < 1 << 96;
        matches!(entry.kind, Kind::Pay(_) | Kind::MultiPay(_))
            && legs(&entry.kind).iter().all(is_sound)
            && !legs(&entry.kind).is_empty()
            && (entry.id.n, entry.prev, entry.ledger) == (purse.sequence + 1, purse.head, purse.ledger)
            && (self.claims.is_some() || Self::taken(&entry.kind) <= purse.available())
    }

    /// An entry settles.
    ///
    /// # Errors
    /// What it breaks.
    pub fn settle(&mut self, entry: &Entry, digest: Hash) -> Verdict {
        self.check(entry)?;
        let spender = entry.id.spender;
        let moved = legs(&entry.kind).to_vec();
        let sum: u128 = moved.iter().map(|leg| leg.amount.0).sum();
        if let Some(purse) = self.purses.get_mut(&spender) {
            purse.sequence = entry.id.n;
            purse.head = digest;
            purse.debits += sum;
        }
        moved.iter().for_each(|leg| self.credit(leg.to, leg.amount.0));
        match &entry.kind {
            Kind::Hold { to, amount, resolver, .. } => {
                let held = HeldSeen { to: *to, amount: amount.0, resolver: *resolver };
                self.holds.insert(entry.id, held);
                if let Some(purse) = self.purses.get_mut(&spender) {
                    purse.pending += amount.0;
                }
            }
            Kind::Resolve { holds, verdict } => {
                for (at, hold) in holds.iter().enumerate() {
                    self.decide(*hold, posted(verdict, at));
                }
            }
            Kind::SetLimit(limit) => {
                if let Some(purse) = self.purses.get_mut(&spender) {
                    purse.limit = limit.0;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn credit(&mut self, to: AccountId, amount: u128) {
        if let Some(purse) = self.purses.get_mut(&to) {
            purse.credits += amount;
        }
    }

    fn decide(&mut self, hold: EntryId, posted: u128) {
        let Some(held) = self.holds.remove(&hold) else { return };
        if let Some(payer) = self.purses.get_mut(&hold.spender) {
            payer.pending = payer.pending.saturating_sub(held.amount);
            payer.debits += posted;
        }
        self.credit(held.to, posted);
    }

    /// Compares a member's book with this one, once what settled there and was not told is added; gives those entries.
    ///
    /// # Errors
    /// A-S4: the book is behind what was told, or its logs are no chains; A-S5, A-S7: its sums are others; what the entries break.
    pub fn meet(&mut self, texts: &Texts, state: &StateSeen) -> Result<Vec<(Entry, Hash)>, Breach> {
        let new = self.untold(texts, state)?;
        if self.claims.is_some() && new.values().any(|log| !log.is_empty()) {
            // Which of these were paid only their order says, in which they are told.
            return Ok(Vec::new());
        }
        let settled = self.settle_all(new)?;
        self.shown.extend(settled.iter().map(|(entry, _)| entry.id));
        let (mut credits, mut debits) = (0_u128, 0_u128);
        for (id, standing) in &state.accounts {
            let purse = self.purses.get(id);
            let own = purse.map(|purse| (Some(purse.credits), Some(purse.debits), purse.limit));
            if own != Some((standing.credits, standing.debits, standing.limit)) {
                let what = format!("account {id} has {standing:?}, and its entries make {purse:?}");
                return Err(Breach { checker: "A-S7", what });
            }
            credits += standing.credits.unwrap_or(0);
            debits += standing.debits.unwrap_or(0);
        }
        if state.accounts.len() != self.purses.len() {
            let what = format!("{} accounts of {} are open", state.accounts.len(), self.purses.len());
            return Err(Breach { checker: "A-S2", what });
        }
        if state.holds != self.holds {
            let what = format!("holds {:?}, and entries make {:?}", state.holds, self.holds);
            return Err(Breach { checker: "A-S7", what });
        }
        let (owed, ahead) = self.under_way(state)?;
        if credits + owed != debits + ahead {
            let what = format!("{credits} came and {owed} will, {debits} went and {ahead} will");
            return Err(Breach { checker: "A-S5", what });
        }
        Ok(settled)
    }

    /// The entries that a book has beyond what was told, by log.
    fn untold(
        &self,
        texts: &Texts,
        state: &StateSeen,
    ) -> Result<BTreeMap<AccountId, VecDeque<(Entry, Hash)>>, Breach> {
        let broken = |what: String| Breach { checker: "A-S4", what };
        let mut new = BTreeMap::new();
        for (id, purse) in &self.purses {
            let Some(standing) = state.accounts.get(id) else {
                return Err(broken(format!("account {id} was open and is not")));
            };
            if standing.sequence < purse.sequence {
                let what = format!("{id} had {} entries and has {}", purse.sequence, standing.sequence);
                return Err(broken(what));
            }
            let (mut at, mut log) = (standing.head, VecDeque::new());
            for n in (purse.sequence + 1..=standing.sequence).rev() {
                let place = EntryId { spender: *id, n };
                let entry = texts.get(&at).filter(|entry| entry.id == place);
                let entry =
                    entry.ok_or_else(|| broken(format!("nobody showed what settled at {place:?}")))?;
                let prev = entry.prev;
                log.push_front((entry.clone(), at));
                at = prev;
            }
            if at != purse.head {
                return Err(broken(format!("the log of {id} is another up to {}", purse.sequence)));
            }
            new.insert(*id, log);
        }
        Ok(new)
    }

    /// Whether what is told under a position changes the accounts: a member that started again tells what its user may lack once
    /// more, and its accounts show it before.
    ///
    /// # Errors
    /// A-S4 where something is left out, or told again as something else; A-S2 where it has two positions.
    pub fn is_news(&mut self, position: u64, id: EntryId, digest: Hash) -> Result<bool, Breach> {
        let known = position.checked_sub(1).and_then(|at| self.order.get(usize::try_from(at).ok()?));
        match known {
            Some(known) if *known == (id, digest) => Ok(false),
            None if position == self.order.len() as u64 + 1 => {
                self.order.push((id, digest));
                if !self.told.insert(id) {
                    return breach("A-S2", format!("{id:?} settles again")).map(|()| false);
                }
                Ok(!self.shown.remove(&id))
            }
            other => {
                let what =
                    format!("{id:?} is told as number {position} behind {}: {other:?}", self.order.len());
                breach("A-S4", what).map(|()| false)
            }
        }
    }

    /// Settles logs in any order in which everything is paid for.
    fn settle_all(
        &mut self,
        mut logs: BTreeMap<AccountId, VecDeque<(Entry, Hash)>>,
    ) -> Result<Vec<(Entry, Hash)>, Breach> {
        let mut settled = Vec::new();
        loop {
            let before = settled.len();
            for log in logs.values_mut() {
                while let Some((entry, digest)) = log.pop_front_if(|(entry, _)| self.check(entry).is_ok()) {
                    self.settle(&entry, digest)?;
                    settled.push((entry, digest));
                }
            }
            if settled.len() == before {
                break;
            }
        }
        let stuck = logs.values().find_map(VecDeque::front);
        stuck.map_or(Ok(()), |(entry, _)| self.check(entry)).map(|()| settled)
    }
}

/// What a verdict posts of one of its holds.
fn posted(verdict: &Decision, at: usize) -> u128 {
    match verdict {
        Decision::Post(amounts) => amounts.get(at).map_or(0, |amount| amount.0),
        Decision::Void => 0,
    }
}
