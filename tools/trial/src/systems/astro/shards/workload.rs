//! The users of a run: customers of institutions of all shards, who pay each other and order again what was refused.

use synod_astro::{Draft, Input, Output, Refusal};
use synod_ledger::{AccountId, Class, Flags, Kind, Leg, Units, UserData};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Harness, Refused, Scenario, Stream, Told};

use super::plan::{LOCALS, Sizes, account};
use crate::params::number;
use crate::systems::astro::book::{Order, Shared, Stage};
use crate::systems::astro::plan::{EURO, REPLICA};

/// Wakes that give an order again.
const AGAIN: u64 = 1 << 32;
/// How long a refused order waits.
const PAUSE: Span = Span::millis(400);
/// How often an order without money is given.
const POOR_MAX: u32 = 6;
/// How often any order is given.
const TRIES_MAX: u32 = 200;

/// The user of a run.
pub struct Workload {
    seed: u64,
    requests: Vec<Span>,
    planned: bool,
    sizes: Sizes,
    book: Shared,
}

fn draft(spender: AccountId, kind: Kind, ticket: u64) -> Draft {
    let (user_data, flags) = (UserData::default(), Flags::default());
    Draft { spender, kind, transfer: u128::from(ticket), ledger: EURO, code: 0, user_data, flags }
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, sizes: Sizes, book: Shared) -> Self {
        let mut clock = Draws::new(scenario.seed).stream("workload", 0);
        let gap = scenario.horizon.0 * 3 / 4 / u64::from(scenario.requests.max(1));
        let burst = number(scenario, "burst", 4).max(1);
        let mut at = 0;
        let mut when = |request: u64| {
            if request.is_multiple_of(burst) {
                at += clock.exponential(gap * burst);
            }
            Span(at.min(scenario.horizon.0))
        };
        let requests = (0..u64::from(scenario.requests)).map(&mut when).collect();
        Self { seed: scenario.seed, requests, planned: false, sizes, book }
    }

    fn anybody(&self, stream: &mut Stream, locals: u64) -> AccountId {
        let below =
            |stream: &mut Stream, most: u32| u32::try_from(stream.below(u64::from(most))).unwrap_or(0);
        let (shard, registrar) = (below(stream, self.sizes.shards), below(stream, self.sizes.members));
        account(shard, registrar, LOCALS - stream.below(locals))
    }

    fn node(&self, spender: AccountId) -> NodeId {
        self.sizes.node(u32::from(spender.shard), spender.registrar)
    }

    /// Somebody orders a payment.
    fn ask(&self, request: u64, desk: &mut Desk) {
        let mut stream = Draws::new(self.seed).stream("request", request);
        let drawn = self.anybody(&mut stream, 2);
        let spender = if stream.chance(500_000) { AccountId { local: 1, ..drawn } } else { drawn };
        let count = if stream.chance(300_000) { stream.between(2, 4) } else { 1 };
        let legs = (0..count).map(|_| {
            let to = self.anybody(&mut stream, LOCALS);
            Leg { to, amount: Units(u128::from(stream.log_uniform(1, 300))) }
        });
        let legs: Vec<Leg> = legs.filter(|leg| leg.to != spender).collect();
        let kind = match legs.as_slice() {
            [] => return,
            [leg] => Kind::Pay(*leg),
            _ => match legs.try_into() {
                Ok(legs) => Kind::MultiPay(legs),
                Err(_) => return,
            },
        };
        let node = self.node(spender).0;
        let ticket = self.book.borrow_mut().order(node, spender, kind, desk.now());
        self.give(ticket, desk);
    }

    /// Gives an order to its institution, once more.
    fn give(&self, ticket: u64, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        let Some(order) = book.get_mut(ticket) else { return };
        if order.settled || order.stage == Stage::Dropped {
            return;
        }
        order.tries += 1;
        if order.tries > TRIES_MAX {
            order.stage = Stage::Dropped;
            return;
        }
        let draft = draft(order.spender, order.kind.clone(), ticket);
        desk.input(NodeId(order.node), REPLICA, Span::ZERO, Input::Order { ticket, draft });
    }

    /// One payment more from each shard of the core to the next one.
    pub fn more(&self, core: &[NodeId], now: Time) -> Vec<(NodeId, Input)> {
        let first = |shard: u32| core.iter().find(|id| u32::from(self.sizes.shard(id.0)) == shard);
        let firsts = (0..self.sizes.shards).filter_map(first);
        let all = firsts.map(|node| {
            let (shard, registrar) = (u32::from(self.sizes.shard(node.0)), node.0 % self.sizes.members);
            let spender = account(shard, registrar, 1);
            let to = account((shard + 1) % self.sizes.shards, 0, 2);
            let kind = Kind::Pay(Leg { to, amount: Units(1) });
            let ticket = self.book.borrow_mut().given(node.0, spender, kind.clone(), now);
            (*node, Input::Order { ticket, draft: draft(spender, kind, ticket) })
        });
        all.collect()
    }

    fn turned_away(&self, ticket: u64, why: Refusal, node: NodeId, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        book.add("refused", 1);
        let life = book.lives.get(&node.0).copied().unwrap_or(0);
        let Some(order) = book.get_mut(ticket) else { return };
        let transient = |code: synod_ledger::Code| code.class() == Class::Transient;
        match why {
            Refusal::Exists(id) => order.stage = Stage::Accepted(id, life),
            Refusal::Ledger(code) if transient(code) && order.tries < POOR_MAX => {
                desk.wake(PAUSE, AGAIN | ticket);
            }
            Refusal::Busy(_) => desk.wake(PAUSE, AGAIN | ticket),
            Refusal::Ledger(_) => order.stage = Stage::Dropped,
        }
    }
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        match told.output.downcast_ref::<Output>() {
            Some(Output::Accepted { ticket, entry, .. }) => {
                let mut book = self.book.borrow_mut();
                let life = book.lives.get(&told.node.0).copied().unwrap_or(0);
                if let Some(order) = book.get_mut(*ticket) {
                    order.stage = Stage::Accepted(entry.id, life);
                }
            }
            Some(Output::Refused { ticket, why }) => self.turned_away(*ticket, *why, told.node, desk),
            // Now and then the user has all but the last for good.
            Some(Output::Settled { first, entries }) => {
                let last = first + entries.len() as u64 - 1;
                let fourth = last - last % 4;
                if fourth >= *first {
                    desk.input(told.node, REPLICA, Span::ZERO, Input::Kept(fourth - 1));
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        if let Some(Input::Order { ticket, .. }) = refused.input.downcast_ref::<Input>() {
            desk.wake(PAUSE, AGAIN | *ticket);
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        match token & AGAIN {
            0 => self.ask(token, desk),
            _ => self.give(token & 0xffff_ffff, desk),
        }
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        if incarnation > 1 {
            let waits =
                |order: &Order| order.node == node.0 && !order.settled && order.stage != Stage::Dropped;
            let orders: Vec<u64> = {
                let book = self.book.borrow();
                (1..).zip(&book.orders).filter(|(_, order)| waits(order)).map(|(ticket, _)| ticket).collect()
            };
            for ticket in orders {
                if let Some(order) = self.book.borrow_mut().get_mut(ticket) {
                    order.stage = Stage::Open;
                }
                self.give(ticket, desk);
            }
        }
        if !self.planned {
            self.planned = true;
            for (at, token) in self.requests.iter().zip(0..) {
                desk.wake(*at, token);
            }
        }
    }
}
