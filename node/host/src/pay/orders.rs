//! Orders under way: who waits for which, and how sure it is.
//!
//! Orders of one request of many wait in [`State::queue`] until the replica takes them, at most [`GIVEN_MAX`] at a time, and in
//! [`State::held`] where their payer has as many open entries as an account may have.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use synod_astro::wallet::Log;
use synod_astro::{BundlesSeen, Input, LaneSeen, Level, Seen};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId, Opening};

use super::group::{Group, Paid};
use super::teller::{RETRY_MS, Reply};
use super::words::{Asked, Denied, Name, Transfer, Wanted};

/// Most orders that are under way at a node.
pub const ORDERS_MAX: usize = 1 << 18;
/// Most callers that wait for one order.
pub const WAITING_MAX: usize = 64;
/// Most orders of requests of many that were given to the replica and not answered: well below what its queue takes.
const GIVEN_MAX: usize = 2_048;

/// Who waits for an order.
pub(super) enum Waiter {
    /// A request of one order.
    One(Reply<Transfer>),
    /// A place in a request of many.
    Of(Arc<Group<Paid>>, usize),
}

impl Waiter {
    pub(super) fn send(self, told: Asked<Transfer>) {
        match self {
            // Who asked may have gone.
            Self::One(reply) => drop(reply.send(told)),
            Self::Of(group, at) => group.tell(at, told.map(|transfer| Paid::from(&transfer))),
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::One(reply) => reply.is_closed(),
            Self::Of(group, _) => group.is_closed(),
        }
    }
}

/// Who waits for an account.
pub(super) enum Opener {
    /// A request of one account.
    One(Reply<AccountId>),
    /// A place in a request of many.
    Of(Arc<Group<AccountId>>, usize),
}

impl Opener {
    fn is_closed(&self) -> bool {
        match self {
            Self::One(reply) => reply.is_closed(),
            Self::Of(group, _) => group.is_closed(),
        }
    }

    pub(super) fn send(self, told: Asked<AccountId>) {
        match self {
            // Who asked may have gone.
            Self::One(reply) => drop(reply.send(told)),
            Self::Of(group, at) => group.tell(at, told),
        }
    }
}

/// What waits until the replica takes it.
pub(super) enum Queued {
    Order(Name),
    Account(Box<Opening>, Opener),
}

/// An order under way: given to the replica and not yet in the index.
pub(super) struct Under {
    pub(super) order: Wanted,
    /// Whether it waits to be given to the replica.
    is_queued: bool,
    /// Whether the replica of a view before may have it: then nothing says that it did not happen.
    is_again: bool,
    /// Its place in the payer's log, once it has one.
    pub(super) place: Option<EntryId>,
    /// Its entry, once that is known.
    pub(super) known: Option<(Arc<Entry>, Hash)>,
    /// How sure the entry at a place is, which is its own as soon as it has one.
    pub(super) sure: Option<(EntryId, Level)>,
    pub(super) position: u64,
    /// Who waits, and for what.
    pub(super) waiting: Vec<(Level, Waiter)>,
}

/// Questions to the replica that are not answered.
pub(super) enum Open {
    Order(Name),
    Account(Opener),
    Look(Reply<Vec<Seen>>),
    Check(Reply<()>),
    Log(Reply<Option<Log>>),
    Lanes(Reply<Vec<LaneSeen>>),
    Bundles(Reply<BundlesSeen>),
}

impl Open {
    /// The order that it is about.
    const fn name(&self) -> Option<Name> {
        if let Self::Order(name) = self { Some(*name) } else { None }
    }

    /// Whether the replica is to take something.
    const fn is_order(&self) -> bool {
        matches!(self, Self::Order(_) | Self::Account(_))
    }
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
    pub(super) opening: BTreeMap<AccountId, Opener>,
    /// What waits until the replica takes it, oldest first.
    pub(super) queue: VecDeque<Queued>,
    /// Orders that wait until their payers have fewer open entries.
    held: BTreeMap<AccountId, VecDeque<Name>>,
    /// Orders and openings that the replica was given and has not answered.
    given: usize,
}

impl State {
    pub(super) fn next(&mut self, open: Open) -> u64 {
        self.ticket += 1;
        self.given += usize::from(open.is_order());
        self.asked.insert(self.ticket, open);
        self.ticket
    }

    /// The question that an answer is to.
    pub(super) fn answered(&mut self, ticket: u64) -> Option<Open> {
        let open = self.asked.remove(&ticket)?;
        self.given -= usize::from(open.is_order());
        Some(open)
    }

    /// Takes an order of many; `true` where nothing is known of it here: it is in the index, or it is new.
    pub(super) fn take(&mut self, order: Wanted, until: Level, waiter: Waiter) -> bool {
        let name = order.name();
        if let Some(under) = self.orders.get_mut(&name) {
            under.join(&order, until, waiter);
            return false;
        }
        if self.is_full() {
            waiter.send(Err(Denied::Busy(RETRY_MS)));
            return false;
        }
        self.orders.insert(name, Under::new(order, until, waiter));
        let Some(known) = self.settled.get(&name).cloned() else { return true };
        self.meet(known);
        false
    }

    /// Puts orders that are new behind what waits for the replica.
    pub(super) fn enqueue(&mut self, name: Name) {
        if let Some(under) = self.orders.get_mut(&name) {
            under.is_queued = true;
            self.queue.push_back(Queued::Order(name));
        }
    }

    /// What the replica is given next, with its tickets: nothing while it has half of what it may have. What nobody waits for any more
    /// is given up: it did not happen.
    pub(super) fn give_next(&mut self) -> Vec<(u64, Input)> {
        let mut next = Vec::new();
        if self.given > GIVEN_MAX / 2 {
            return next;
        }
        while self.given < GIVEN_MAX
            && let Some(queued) = self.queue.pop_front()
        {
            match queued {
                Queued::Order(name) => {
                    let Some(under) = self.orders.get_mut(&name).filter(|under| under.is_queued) else {
                        continue;
                    };
                    under.is_queued = false;
                    if under.position > 0 {
                        // It settled meanwhile.
                        continue;
                    }
                    under.drop_closed();
                    if under.waiting.is_empty() {
                        self.orders.remove(&name);
                        continue;
                    }
                    let draft = under.order.draft();
                    let ticket = self.next(Open::Order(name));
                    next.push((ticket, Input::Order { ticket, draft }));
                }
                Queued::Account(_, opener) if opener.is_closed() => {}
                Queued::Account(opening, opener) => {
                    let ticket = self.next(Open::Account(opener));
                    next.push((ticket, Input::Open { ticket, opening: *opening }));
                }
            }
        }
        next
    }

    /// A view began, which is to the replica as a restart: what has not settled and is not on its way to it is ordered again under its
    /// name. Nothing is known of its place: it may have another one now.
    pub(super) fn again(&mut self) {
        let given: BTreeSet<Name> = self.asked.values().filter_map(Open::name).collect();
        self.orders.retain(|name, under| {
            under.drop_closed();
            under.position > 0 || given.contains(name) || !under.waiting.is_empty()
        });
        let is_open = |(name, under): &(&Name, &mut Under)| {
            under.position == 0 && !under.is_queued && !given.contains(name)
        };
        for (name, under) in self.orders.iter_mut().filter(is_open) {
            (under.place, under.known, under.sure) = (None, None, None);
            (under.is_queued, under.is_again) = (true, true);
            self.queue.push_back(Queued::Order(*name));
        }
        self.release_each();
    }

    /// Whether something waits for the replica, which was given nothing that it would answer.
    pub(super) fn is_stuck(&self) -> bool {
        self.given == 0 && !self.queue.is_empty()
    }

    /// The replica had no room for these: they are first again.
    pub(super) fn take_back(&mut self, refused: Vec<(u64, Input)>) {
        for (ticket, input) in refused.into_iter().rev() {
            match (self.answered(ticket), input) {
                (Some(Open::Order(name)), _) => {
                    if let Some(under) = self.orders.get_mut(&name) {
                        under.is_queued = true;
                        self.queue.push_front(Queued::Order(name));
                    }
                }
                (Some(Open::Account(opener)), Input::Open { opening, .. }) => {
                    self.queue.push_front(Queued::Account(Box::new(opening), opener));
                }
                _ => {}
            }
        }
    }

    /// An order that the replica has no room for waits for its payer's entries to settle, if only requests of many wait for it.
    pub(super) fn hold(&mut self, ticket: u64) -> bool {
        let Some(Open::Order(name)) = self.asked.get(&ticket) else { return false };
        let name = *name;
        let is_of_many =
            |under: &&mut Under| under.waiting.iter().all(|(_, waiter)| matches!(waiter, Waiter::Of(..)));
        let may_wait = |under: &&mut Under| under.is_again || is_of_many(under);
        let Some(under) = self.orders.get_mut(&name).filter(may_wait) else { return false };
        under.is_queued = true;
        self.answered(ticket);
        self.held.entry(name.1).or_default().push_back(name);
        true
    }

    /// An entry of this payer settled: the next of its orders that wait may be taken now.
    pub(super) fn release(&mut self, payer: AccountId) {
        let Some(names) = self.held.get_mut(&payer) else { return };
        self.queue.extend(names.pop_front().map(Queued::Order));
        if names.is_empty() {
            self.held.remove(&payer);
        }
    }

    /// Something was kept: one order of each payer may be taken now.
    pub(super) fn release_each(&mut self) {
        let payers: Vec<AccountId> = self.held.keys().copied().collect();
        payers.into_iter().for_each(|payer| self.release(payer));
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
        if let Some(field) = under.order.differs_from(&Wanted::from(&*known.entry)) {
            for (_, waiter) in self.orders.remove(&name).map(|under| under.waiting).unwrap_or_default() {
                waiter.send(Err(Denied::Different(field)));
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
            !under.is_done() && !under.is_given_up()
        });
        let orders = &self.orders;
        let waits = |name: &Name| orders.get(name).is_some_and(|under| under.is_queued);
        self.queue.retain(|queued| !matches!(queued, Queued::Order(name) if !waits(name)));
        self.held.retain(|_, names| {
            names.retain(waits);
            !names.is_empty()
        });
    }
}

impl Under {
    pub(super) fn new(order: Wanted, until: Level, waiter: Waiter) -> Self {
        let waiting = vec![(until, waiter)];
        Self {
            order,
            is_queued: false,
            is_again: false,
            place: None,
            known: None,
            sure: None,
            position: 0,
            waiting,
        }
    }

    /// Whether it was not given to the replica, and nobody waits for it.
    const fn is_given_up(&self) -> bool {
        self.is_queued && self.waiting.is_empty()
    }

    /// Whether it settled, and nobody waits for it.
    pub(super) const fn is_done(&self) -> bool {
        self.position > 0 && self.waiting.is_empty()
    }

    /// Forgets callers who wait no more.
    pub(super) fn drop_closed(&mut self) {
        self.waiting.retain(|(_, waiter)| !waiter.is_closed());
    }

    pub(super) fn transfer(&self) -> Option<Transfer> {
        let (entry, digest) = self.known.clone()?;
        Some(Transfer { entry, digest, level: self.level(), position: self.position })
    }

    /// How sure its entry is.
    fn level(&self) -> Level {
        let at = self.known.as_ref().map(|(entry, _)| entry.id);
        self.sure.filter(|(id, _)| Some(*id) == at).map_or(Level::Accepted, |(_, level)| level)
    }

    /// Another call for the same name.
    pub(super) fn join(&mut self, order: &Wanted, until: Level, waiter: Waiter) {
        if let Some(field) = self.order.differs_from(order) {
            return waiter.send(Err(Denied::Different(field)));
        }
        self.drop_closed();
        self.waiting.push((until, waiter));
        self.tell();
        if self.waiting.len() > WAITING_MAX
            && let Some((_, last)) = self.waiting.pop()
        {
            last.send(Err(Denied::Busy(RETRY_MS)));
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
        let level = self.level();
        if self.known.is_none() || self.waiting.iter().all(|(until, _)| *until > level) {
            return;
        }
        let Some(transfer) = self.transfer() else { return };
        for (until, waiter) in std::mem::take(&mut self.waiting) {
            if until <= transfer.level {
                waiter.send(Ok(transfer.clone()));
            } else {
                self.waiting.push((until, waiter));
            }
        }
    }
}
