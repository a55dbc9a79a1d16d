//! Orders under way: who waits for which, and how sure it is.

use std::collections::{BTreeMap, HashMap};

use synod_astro::wallet::Log;
use synod_astro::{Level, Seen};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId};

use super::teller::{RETRY_MS, Reply};
use super::words::{Denied, Name, Transfer, Wanted};

/// Most orders that are under way at a node.
pub const ORDERS_MAX: usize = 1 << 18;
/// Most callers that wait for one order.
pub const WAITING_MAX: usize = 64;

/// An order under way: given to the replica and not yet in the index.
pub(super) struct Under {
    pub(super) order: Wanted,
    /// Its place in the payer's log, once it has one.
    pub(super) place: Option<EntryId>,
    /// Its entry, once that is known.
    pub(super) known: Option<(Entry, Hash)>,
    /// How sure the entry at a place is, which is its own as soon as it has one.
    pub(super) sure: Option<(EntryId, Level)>,
    pub(super) position: u64,
    /// Who waits, and for what.
    pub(super) waiting: Vec<(Level, Reply<Transfer>)>,
}

/// Questions to the replica that are not answered.
pub(super) enum Open {
    Order(Name),
    Account(Reply<AccountId>),
    Look(Reply<Vec<Seen>>),
    Check(Name, Reply<()>),
    Log(Reply<Option<Log>>),
}

#[derive(Default)]
pub(super) struct State {
    /// Whether the replica has told what settled before: until then an order could be one of those.
    pub(super) is_ready: bool,
    pub(super) ticket: u64,
    pub(super) asked: HashMap<u64, Open>,
    pub(super) orders: BTreeMap<Name, Under>,
    /// Payments of this institution that settled and that the index may not have yet.
    pub(super) settled: BTreeMap<Name, Transfer>,
    pub(super) opening: BTreeMap<AccountId, Reply<AccountId>>,
}

impl State {
    pub(super) fn next(&mut self, open: Open) -> u64 {
        self.ticket += 1;
        self.asked.insert(self.ticket, open);
        self.ticket
    }

    /// Whether no order can be taken.
    pub(super) fn is_full(&mut self) -> bool {
        if self.orders.len() >= ORDERS_MAX {
            self.sweep();
        }
        self.orders.len() >= ORDERS_MAX
    }

    /// A payment settled, now or before: whoever ordered it is told, or that it has another content under its payer's name.
    pub(super) fn meet(&mut self, known: Transfer) {
        let (name, place, level) = (known.name(), known.place(), known.level);
        let Some(under) = self.orders.get_mut(&name) else { return };
        if under.known.as_ref().is_some_and(|(entry, _)| entry.id != place) {
            // What was ordered has a place of its own: that is what is waited for.
            return;
        }
        if let Some(field) = under.order.differs_from(&Wanted::from(&known.entry)) {
            for (_, reply) in self.orders.remove(&name).map(|under| under.waiting).unwrap_or_default() {
                let _ = reply.send(Err(Denied::Different(field)));
            }
            return;
        }
        (under.place, under.position) = (Some(place), known.position);
        under.known = Some((known.entry, known.digest));
        self.raise(place, name.0, level);
    }

    /// The entry at a place, of this name, is as sure as this, or surer.
    pub(super) fn raise(&mut self, id: EntryId, name: u128, level: Level) {
        let name = (name, id.spender);
        if let Some(settled) = self.settled.get_mut(&name).filter(|settled| settled.place() == id) {
            settled.level = settled.level.max(level);
        }
        if let Some(under) = self.orders.get_mut(&name) {
            under.raise(id, level);
        }
        self.let_go(name);
    }

    /// Forgets an order that settled and that nobody waits for: the index has it, or will.
    pub(super) fn let_go(&mut self, name: Name) {
        let Some(under) = self.orders.get_mut(&name) else { return };
        under.drop_closed();
        if under.is_done() {
            self.orders.remove(&name);
        }
    }

    /// Forgets all such orders.
    pub(super) fn sweep(&mut self) {
        self.orders.retain(|_, under| {
            under.drop_closed();
            !under.is_done()
        });
    }
}

impl Under {
    pub(super) fn new(order: Wanted, until: Level, reply: Reply<Transfer>) -> Self {
        Self { order, place: None, known: None, sure: None, position: 0, waiting: vec![(until, reply)] }
    }

    /// Whether it settled, and nobody waits for it.
    pub(super) const fn is_done(&self) -> bool {
        self.position > 0 && self.waiting.is_empty()
    }

    /// Forgets callers who wait no more.
    pub(super) fn drop_closed(&mut self) {
        self.waiting.retain(|(_, reply)| !reply.is_closed());
    }

    pub(super) fn transfer(&self) -> Option<Transfer> {
        let (entry, digest) = self.known.clone()?;
        let level = self.sure.filter(|(at, _)| *at == entry.id).map_or(Level::Accepted, |(_, level)| level);
        Some(Transfer { entry, digest, level, position: self.position })
    }

    /// Another call for the same name.
    pub(super) fn join(&mut self, order: &Wanted, until: Level, reply: Reply<Transfer>) {
        if let Some(field) = self.order.differs_from(order) {
            let _ = reply.send(Err(Denied::Different(field)));
            return;
        }
        self.drop_closed();
        self.waiting.push((until, reply));
        self.tell();
        if self.waiting.len() > WAITING_MAX
            && let Some((_, last)) = self.waiting.pop()
        {
            let _ = last.send(Err(Denied::Busy(RETRY_MS)));
        }
    }

    /// The entry at a place is as sure as this, or surer. Until this order has a place, that one may be its own.
    pub(super) fn raise(&mut self, id: EntryId, level: Level) {
        if self.place.is_some_and(|place| place != id) {
            return;
        }
        let before = self.sure.filter(|(at, _)| *at == id).map_or(Level::Accepted, |(_, level)| level);
        self.sure = Some((id, before.max(level)));
        self.tell();
    }

    /// Tells those whose level is reached.
    pub(super) fn tell(&mut self) {
        let Some(transfer) = self.transfer() else { return };
        for (until, reply) in std::mem::take(&mut self.waiting) {
            if until <= transfer.level {
                let _ = reply.send(Ok(transfer.clone()));
            } else {
                self.waiting.push((until, reply));
            }
        }
    }
}
