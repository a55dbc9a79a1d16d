//! The users of a run: customers of the founders, who pay each other and order again what was refused, and whoever has members join and
//! leave.

use std::collections::BTreeSet;

use synod_astro::member::{Input, Output};
use synod_astro::{Draft, Input as Pays, Output as Paid, Refusal};
use synod_ledger::{AccountId, Class, Flags, Kind, Leg, Units, UserData};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Harness, Refused, Scenario, Stream, Told};

use super::plan::{Crew, LOCALS};
use crate::params::number;
use crate::systems::astro::book::{Shared, Stage};
use crate::systems::astro::plan::{EURO, REPLICA, account};

/// Wakes that give an order again.
const AGAIN: u64 = 1 << 32;
/// Wakes that ask for a change.
const CHANGE: u64 = 1 << 33;
/// How long a refused order waits, and a change that is not made.
const PAUSE: Span = Span::millis(400);
/// How often an order without money is given.
const POOR_MAX: u32 = 6;
/// How often any order is given.
const TRIES_MAX: u32 = 400;

/// The user of a run.
pub struct Workload {
    seed: u64,
    requests: Vec<Span>,
    planned: bool,
    crew: Crew,
    book: Shared,
    /// Changes that some view has in which somebody goes on.
    made: BTreeSet<u64>,
    /// How often each change was asked for.
    asked: u64,
}

fn draft(spender: AccountId, kind: Kind, ticket: u64) -> Draft {
    let (user_data, flags) = (UserData::default(), Flags::default());
    Draft { spender, kind, transfer: u128::from(ticket), ledger: EURO, code: 0, user_data, flags }
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, crew: Crew, book: Shared) -> Self {
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
        let made = BTreeSet::new();
        Self { seed: scenario.seed, requests, planned: false, crew, book, made, asked: 0 }
    }

    fn anybody(&self, stream: &mut Stream, locals: u64) -> AccountId {
        let registrar = u32::try_from(stream.below(u64::from(self.crew.founders))).unwrap_or(0);
        account(registrar, LOCALS - stream.below(locals))
    }

    /// Somebody orders a payment.
    fn ask(&self, request: u64, desk: &mut Desk) {
        let mut stream = Draws::new(self.seed).stream("request", request);
        let drawn = self.anybody(&mut stream, 2);
        let spender = if stream.chance(500_000) { AccountId { local: 1, ..drawn } } else { drawn };
        let to = self.anybody(&mut stream, LOCALS);
        let amount = Units(u128::from(stream.log_uniform(1, 300)));
        if to == spender {
            return;
        }
        let kind = Kind::Pay(Leg { to, amount });
        let ticket = self.book.borrow_mut().order(spender.registrar, spender, kind, desk.now());
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
        desk.input(NodeId(order.node), REPLICA, Span::ZERO, Input::Pay(Pays::Order { ticket, draft }));
    }

    /// One payment more at each founder that stays.
    pub fn more(&self, core: &[NodeId], now: Time) -> Vec<(NodeId, Input)> {
        let stays = |node: &&NodeId| node.0 < self.crew.founders && self.crew.stays(node.0);
        let all = core.iter().filter(stays).map(|node| {
            let spender = account(node.0, 1);
            let to = account((node.0 + 1) % self.crew.founders, 2);
            let kind = Kind::Pay(Leg { to, amount: Units(1) });
            let ticket = self.book.borrow_mut().given(node.0, spender, kind.clone(), now);
            let draft = draft(spender, kind, ticket);
            (*node, Input::Pay(Pays::Order { ticket, draft }))
        });
        all.collect()
    }

    /// Somebody who has a part asks the members for a change, and again until it is made.
    fn change(&mut self, number: u64, desk: &mut Desk) {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let Some((_, change)) = self.crew.changes().get(at).copied().filter(|_| !self.made.contains(&number))
        else {
            return;
        };
        self.asked += 1;
        let by = u32::try_from((number + self.asked) % u64::from(self.crew.nodes)).unwrap_or(0);
        let input = Input::Change(self.crew.endorsed(change));
        desk.input(NodeId(by), REPLICA, Span::ZERO, input);
        desk.wake(PAUSE, CHANGE | number);
    }

    /// What waits at a member is given again: entering a view is as a restart.
    fn give_again(&self, node: NodeId, desk: &mut Desk) {
        let open: Vec<u64> = {
            let mut book = self.book.borrow_mut();
            let is_open = |order: &crate::systems::astro::book::Order| {
                order.node == node.0 && !order.settled && order.stage != Stage::Dropped
            };
            let all = (1..).zip(&mut book.orders).filter(|(_, order)| is_open(order));
            let reopened = all.map(|(ticket, order)| {
                order.stage = Stage::Open;
                ticket
            });
            reopened.collect()
        };
        open.into_iter().for_each(|ticket| self.give(ticket, desk));
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

    fn paid(&self, node: NodeId, output: &Paid, desk: &mut Desk) {
        match output {
            Paid::Accepted { ticket, entry, .. } => {
                let mut book = self.book.borrow_mut();
                let life = book.lives.get(&node.0).copied().unwrap_or(0);
                if let Some(order) = book.get_mut(*ticket) {
                    order.stage = Stage::Accepted(entry.id, life);
                }
            }
            Paid::Refused { ticket, why } => self.turned_away(*ticket, *why, node, desk),
            // Now and then the user has all but the last for good.
            Paid::Settled { first, entries } => {
                let last = first + entries.len() as u64 - 1;
                let fourth = last - last % 4;
                if fourth >= *first {
                    desk.input(node, REPLICA, Span::ZERO, Input::Pay(Pays::Kept(fourth - 1)));
                }
            }
            _ => {}
        }
    }
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        match told.output.downcast_ref::<Output>() {
            Some(Output::Pay(output)) => self.paid(told.node, output, desk),
            Some(Output::Resumed(roll)) => {
                let has = |change| roll.view().contains(change);
                let made = (0..).zip(self.crew.changes()).filter(|(_, (_, change))| has(change));
                let made: Vec<u64> = made.map(|(number, _)| number).collect();
                self.made.extend(made);
                self.book.borrow_mut().add("resumed", 1);
                self.give_again(told.node, desk);
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        if let Some(Input::Pay(Pays::Order { ticket, .. })) = refused.input.downcast_ref::<Input>() {
            desk.wake(PAUSE, AGAIN | *ticket);
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        if token & CHANGE != 0 {
            self.change(token & 0xffff_ffff, desk);
        } else if token & AGAIN != 0 {
            self.give(token & 0xffff_ffff, desk);
        } else {
            self.ask(token, desk);
        }
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        if incarnation > 1 {
            self.give_again(node, desk);
        }
        if !self.planned {
            self.planned = true;
            for (at, token) in self.requests.iter().zip(0..) {
                desk.wake(*at, token);
            }
            for ((at, _), number) in self.crew.changes().iter().zip(0..) {
                desk.wake(*at, CHANGE | number);
            }
        }
    }
}
