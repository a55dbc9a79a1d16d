//! Requests of many orders: what a teller does once for all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_astro::{Input, Level};
use synod_ledger::{AccountId, Owner};

use super::Teller;
use super::group::{Gathering, Group, Paid};
use super::orders::{ORDERS_MAX, Opener, Queued, Waiter};
use super::teller::RETRY_MS;
use super::words::{Denied, Name, Order, Wanted};

/// An account that is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAccount {
    /// Who signs for it; the institution where nobody is named.
    pub owner: Option<Owner>,
    /// Its ledger.
    pub ledger: u32,
    /// The institution's reason.
    pub code: u16,
}

impl Teller {
    /// Orders many things; each is answered in its place, once it is as sure as wanted. An order whose payer has as many open entries
    /// as an account may have waits until some have settled, as long as somebody waits for it.
    pub fn pay_all(&self, orders: &[(Order, Level)]) -> Gathering<Paid> {
        let (group, gathering) = Group::new(orders.len());
        if !self.is_ready() {
            self.knock();
            (0..orders.len()).for_each(|at| group.tell(at, Err(self.unready())));
            return gathering;
        }
        let wanted = orders.iter().enumerate().map(|(at, (order, until))| (at, self.wanted(order), *until));
        let wanted: Vec<_> = wanted.collect();
        let mut fresh: Vec<Name> = Vec::with_capacity(wanted.len());
        let (mut names, mut repeated) = (BTreeSet::new(), Vec::new());
        let mut state = self.state();
        for (at, order, until) in wanted {
            let waiter = Waiter::Of(Arc::clone(&group), at);
            match order {
                Err(why) => waiter.send(Err(why)),
                // What the index knows decides which order of a name is the one.
                Ok(order) if names.contains(&order.name()) => repeated.push((order, until, waiter)),
                Ok(order) => {
                    let name = order.name();
                    if state.take(order, until, waiter) {
                        names.insert(name);
                        fresh.push(name);
                    }
                }
            }
        }
        drop(state);
        // What leaves the teller is in the index, which is read while nobody waits for the lock.
        let found = self.index().all_named_once(&fresh);
        let mut state = self.state();
        for (name, found) in fresh.into_iter().zip(found) {
            match found {
                Some(known) => state.meet(known),
                None => state.enqueue(name),
            }
        }
        drop(state);
        repeated.into_iter().for_each(|(order, until, waiter)| self.take_late(order, until, waiter));
        self.give_queued();
        gathering
    }

    /// Takes an order whose name another one of its request has.
    fn take_late(&self, order: Wanted, until: Level, waiter: Waiter) {
        let name = order.name();
        if !self.state().take(order, until, waiter) {
            return;
        }
        let found = self.index().named(name);
        let mut state = self.state();
        match found {
            Some(known) => state.meet(known),
            None => state.enqueue(name),
        }
    }

    /// Opens many accounts of this institution; each is answered in its place, once it is certified.
    pub fn open_all(&self, accounts: &[NewAccount]) -> Gathering<AccountId> {
        let (group, gathering) = Group::new(accounts.len());
        if self.has_nobody() {
            (0..accounts.len()).for_each(|at| group.tell(at, Err(Denied::NotMember)));
            return gathering;
        }
        let mut state = self.state();
        if state.queue.len() >= ORDERS_MAX {
            (0..accounts.len()).for_each(|at| group.tell(at, Err(Denied::Busy(RETRY_MS))));
            return gathering;
        }
        for (at, NewAccount { owner, ledger, code }) in accounts.iter().enumerate() {
            let opening = Box::new(self.opening(*owner, *ledger, *code));
            state.queue.push_back(Queued::Account(opening, Opener::Of(Arc::clone(&group), at)));
        }
        drop(state);
        self.give_queued();
        gathering
    }

    /// Gives the replica what waits for it, as far as it has room. With the lock held: what settles meanwhile is heard behind.
    pub(super) fn give_queued(&self) {
        let mut state = self.state();
        loop {
            let next = state.give_next();
            if next.is_empty() {
                return;
            }
            let mut next = next.into_iter();
            while let Some((ticket, input)) = next.next() {
                let again = if let Input::Open { .. } = &input { Some(input.clone()) } else { None };
                if self.give(input) {
                    continue;
                }
                // Its next word comes with room.
                let input = again.unwrap_or(Input::Kept(0));
                let refused = std::iter::once((ticket, input)).chain(next).collect();
                return state.take_back(refused);
            }
        }
    }
}
