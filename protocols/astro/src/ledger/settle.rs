//! From certified entries to settled ones: in the order of their logs, as far as money, holds and accounts are here.

use std::collections::VecDeque;

use synod_crypto::{Hash, near};
use synod_ledger::{AccountId, Entry, EntryId, Kind, Overwrote};
use synod_machine::broadcast::Lot;

use super::{AHEAD, Ledger, Left, Settled, Settlement};
use crate::waits::{Cause, Waiter};
use crate::xlog::{Base, Lots, Slot};

/// Settled entries whose memory is used again.
const SPARE_MAX: usize = 4_096;

impl Ledger {
    /// Settles what can be, beginning with these logs: certified entries in the order of their logs, as far as their money,
    /// holds and accounts are here (Listing 9, 4.7).
    pub(crate) fn settle(&mut self, changed: impl IntoIterator<Item = AccountId>) -> Settlement {
        let (mut work, mut out) = (VecDeque::from_iter(changed), Settlement::default());
        out.entries = std::mem::take(&mut self.settled);
        out.entries.reserve(work.len());
        loop {
            while let Some(cause) = self.stirred.pop_first() {
                self.wake(cause, &mut work, &mut out);
            }
            self.near_settling(&work);
            let Some(account) = work.pop_front() else { return out };
            self.settle_log(account, &mut out.entries);
        }
    }

    /// Settles what can be of one log; [`Self::settle`] gives it, before all else.
    pub(super) fn settle_in_turn(&mut self, account: AccountId) {
        let mut entries = std::mem::take(&mut self.settled);
        self.settle_log(account, &mut entries);
        self.settled = entries;
    }

    /// The memory of what was settled, for what settles next.
    pub(crate) fn take_back(&mut self, mut entries: Vec<Settled>) {
        entries.clear();
        entries.shrink_to(SPARE_MAX);
        if self.settled.is_empty() {
            self.settled = entries;
        }
    }

    /// Settles an entry with its certificate, if it is the next of its log, was accepted here, and neither it nor anybody else has
    /// to wait: so do nearly all, and are looked up once for it. Whether it did; nothing has changed otherwise.
    pub(super) fn settle_at_once(&mut self, entry: &Entry, digest: Hash, lot: Lot) -> bool {
        let EntryId { spender, n } = entry.id;
        if !self.waits.is_empty() || self.credits.is_some() || !self.pins.is_empty() {
            return false;
        }
        let Some(xlog) = self.open.get_mut(spender).filter(|xlog| xlog.begins_with(n, digest)) else {
            return false;
        };
        let overwrote = Overwrote::by(&self.book, entry);
        if self.book.apply(entry, digest).is_err() {
            return false;
        }
        let Slot { line, .. } = xlog.settled(n).expect("its first entry was looked at above");
        if xlog.is_empty() {
            self.open.remove(spender);
        }
        if !self.torn.is_empty() {
            self.mend(entry.id);
        }
        let lots = Lots::only(lot);
        self.settled.push(Settled { line, digest, lots, by_descent: false, overwrote, is_paid: true });
        true
    }

    fn settle_log(&mut self, id: AccountId, out: &mut Vec<Settled>) {
        if !self.waits.is_empty() {
            self.waits.let_go(Waiter::Log(id));
        }
        loop {
            let base = Base::of(&self.book, id);
            let Some(slot) = self.open.get(id).and_then(|xlog| xlog.next(base)) else { return };
            let entry = &slot.line.entry;
            // Before it settles: holds that it decides over are gone behind it.
            let causes = if self.waits.is_empty() { Vec::new() } else { self.causes(entry) };
            let overwrote = Overwrote::by(&self.book, entry);
            let applied = match &mut self.credits {
                None => self.book.apply(entry, slot.digest).map(|()| true),
                Some(credits) => credits.spend(&mut self.book, entry, slot.digest),
            };
            let is_paid = match applied {
                Ok(is_paid) => is_paid,
                Err(code) => {
                    if let Some(cause) = self.cause(entry, code) {
                        self.waits.put(Waiter::Log(id), cause, 0);
                    }
                    return;
                }
            };
            let n = entry.id.n;
            if !self.pins.is_empty() {
                self.pins.remove(&EntryId { spender: id, n });
            }
            if !self.torn.is_empty() {
                self.mend(EntryId { spender: id, n });
            }
            let xlog = self.open.get_mut(id).expect("its entry was read above");
            let slot = xlog.settled(n).expect("its entry was read above");
            let is_last = xlog.is_empty();
            if is_last {
                self.open.remove(id);
            }
            causes.into_iter().for_each(|cause| self.stir(cause));
            let by_descent = slot.lots.is_empty();
            let Slot { line, digest, lots, .. } = slot;
            out.push(Settled { line, digest, lots, by_descent, overwrote, is_paid });
            if is_last {
                return;
            }
        }
    }

    /// What an entry brings about when it settles, for whoever waits for it.
    fn causes(&self, entry: &Entry) -> Vec<Cause> {
        let mut causes = vec![Cause::Entry(entry.id)];
        match &entry.kind {
            Kind::Pay(leg) | Kind::Close(leg) => causes.push(Cause::Funds(leg.to)),
            Kind::MultiPay(legs) => causes.extend(legs.iter().map(|leg| Cause::Funds(leg.to))),
            Kind::Resolve { holds, .. } => {
                causes.extend(holds.iter().map(|id| Cause::Funds(id.spender)));
                let paid = holds.iter().filter_map(|id| self.book.hold(*id));
                causes.extend(paid.map(|hold| Cause::Funds(hold.to)));
            }
            Kind::SetLimit(_) => causes.push(Cause::Funds(entry.id.spender)),
            Kind::Hold { .. } | Kind::Rekey(_) | Kind::Move(_) => {}
        }
        causes
    }

    fn wake(&mut self, cause: Cause, work: &mut VecDeque<AccountId>, out: &mut Settlement) {
        for (waiter, at) in self.waits.take(cause) {
            match waiter {
                Waiter::Log(log) => work.push_back(log),
                Waiter::Import(id) => self.import_at_last(id, out),
                Waiter::Batch(lot, spender) => out.again.push(Left { lot, spender, at }),
            }
        }
    }

    /// The same for logs in which something may settle.
    fn near_settling(&self, work: &VecDeque<AccountId>) {
        let ahead = |steps: usize| work.get(steps).copied();
        ahead(4 * AHEAD).into_iter().for_each(|id| self.open.near_place(id));
        ahead(3 * AHEAD).into_iter().for_each(|id| self.open.near_log(id));
        let first = |id: AccountId| self.open.get(id)?.slots().next();
        ahead(2 * AHEAD).and_then(first).into_iter().for_each(|slot| near(&slot.line.entry.id));
        ahead(AHEAD).and_then(first).into_iter().for_each(|slot| self.near_accounts(&slot.line.entry));
    }
}
