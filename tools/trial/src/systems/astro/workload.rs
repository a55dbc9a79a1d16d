//! The users of a run: customers who order and order again, owners who sign and go to other members, institutions that open
//! accounts.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::{Draft, Input, Line, Output, Refusal};
use synod_broadcast::signed::View;
use synod_ledger::{AccountId, Class, EntryId, Flags, Kind, UserData};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Harness, Refused, Scenario, Told};

use super::book::{Shared, Stage};
use super::plan::{EURO, People, REPLICA, account};
use super::purses::{PURSE, Purses};
use super::users::{Crowd, Want};
use super::wallets::{Wallets, pays_itself};
use crate::oracle::Verdict;
use crate::params::number;

/// Wakes that give an order again.
const AGAIN: u64 = 1 << 32;
/// Wakes that take an owner's entries to another member.
const WALLET: u64 = 1 << 33;
/// Wakes that ask for an account again.
const OPEN: u64 = 1 << 34;
/// Tickets of owners' entries, which nobody reads.
const SIGNED: u64 = 1 << 40;
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
    people: People,
    wallets: Wallets,
    purses: Purses,
    book: Shared,
    /// When owners are asked again for what has not settled.
    waking: BTreeMap<AccountId, Time>,
}

const fn name(id: AccountId) -> u64 {
    (id.registrar as u64) << 16 | id.local & 0xffff
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, people: People, view: Arc<View>, book: Shared) -> Self {
        let draws = Draws::new(scenario.seed);
        let mut clock = draws.stream("workload", 0);
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
        let wallets = Wallets::new(people.clone());
        let waking = BTreeMap::new();
        let purses = Purses::new(scenario, &people, &view, book.clone());
        Self { seed: scenario.seed, requests, planned: false, people, wallets, purses, book, waking }
    }

    /// What a wallet broke.
    ///
    /// # Errors
    /// That.
    pub fn broken(&mut self) -> Verdict {
        self.purses.broken()
    }

    /// Somebody wants something.
    fn ask(&mut self, request: u64, desk: &mut Desk) {
        let mut stream = Draws::new(self.seed).stream("request", request);
        let owners: Vec<AccountId> = (0..self.people.members).flat_map(|of| self.people.owners(of)).collect();
        let first = usize::try_from(request).ok().and_then(|at| owners.get(at)).copied();
        let want = {
            let book = self.book.borrow();
            let crowd = Crowd { book: &book, people: &self.people };
            match first {
                Some(owner) => crowd.fund(owner, &mut stream),
                None => crowd.want(&mut stream),
            }
        };
        let choice = stream.draw();
        self.meet(want, choice, desk);
    }

    fn meet(&mut self, want: Want, choice: u64, desk: &mut Desk) {
        match want {
            Want::Order(spender, kind) => {
                let node = spender.registrar;
                let ticket = self.book.borrow_mut().order(node, spender, kind, desk.now());
                self.give(ticket, desk);
            }
            Want::Sign(spender, kind) => self.sign(spender, kind, choice, desk),
            Want::Double(spender, kinds) => {
                let lines = self.wallets.double(&mut self.book.borrow_mut(), spender, kinds, choice);
                self.book.borrow_mut().add("doubles", 1);
                for (line, nth) in lines.into_iter().zip([1, 2, 2]) {
                    let to = u32::try_from(choice / 7 * nth % u64::from(self.people.members)).unwrap_or(0);
                    let is_known = self.people.registers() && !choice.is_multiple_of(5);
                    let to = if is_known { spender.registrar } else { to };
                    hand(desk, to, line);
                }
            }
            Want::Open(registrar, signs) => self.open(registrar, signs, desk),
            Want::Stray(node, spender, _) if node == spender.registrar => {}
            Want::Stray(node, spender, kind) => {
                let draft = draft(spender, kind, u128::from(choice) << 65);
                desk.input(NodeId(node), REPLICA, Span::ZERO, Input::Order { ticket: SIGNED, draft });
            }
        }
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
        let (node, spender, kind) = (order.node, order.spender, order.kind.clone());
        book.facts.order(spender, u128::from(ticket), &kind);
        let draft = draft(spender, kind, u128::from(ticket));
        desk.input(NodeId(node), REPLICA, Span::ZERO, Input::Order { ticket, draft });
    }

    fn sign(&mut self, spender: AccountId, kind: Kind, choice: u64, desk: &mut Desk) {
        if self.purses.has(spender) {
            return self.purses.pay(draft(spender, kind, u128::from(choice % 2)), desk);
        }
        let lies = self.people.liar(spender.registrar) == Some(spender);
        if lies || !self.wallets.may_sign(&self.book.borrow(), spender, &kind) {
            return;
        }
        let line = self.wallets.sign(&mut self.book.borrow_mut(), spender, kind);
        let members = u64::from(self.people.members);
        let other = u32::try_from(choice % members).unwrap_or(0);
        let elsewhere = choice.is_multiple_of(3) && !self.people.registers();
        let to = if elsewhere { other } else { spender.registrar };
        hand(desk, to, line.clone());
        if choice % 5 < 2 {
            // The same entry at another member changes nothing.
            hand(desk, u32::try_from(choice / 5 % members).unwrap_or(0), line);
        }
        self.wake_wallet(spender, desk);
    }

    fn wake_wallet(&mut self, spender: AccountId, desk: &mut Desk) {
        if self.waking.get(&spender).is_none_or(|at| *at <= desk.now()) {
            self.waking.insert(spender, desk.now() + PAUSE);
            desk.wake(PAUSE, WALLET | name(spender));
        }
    }

    /// Takes what has not settled to another member.
    fn carry(&mut self, spender: AccountId, desk: &mut Desk) {
        let (lines, to) = self.wallets.unsettled(&self.book.borrow(), spender);
        if lines.is_empty() {
            return;
        }
        self.book.borrow_mut().add("carried_again", lines.len() as u64);
        lines.into_iter().for_each(|line| hand(desk, to, line));
        self.wake_wallet(spender, desk);
    }

    /// Asks an institution for its next account; one at a time.
    fn open(&self, registrar: u32, signs: bool, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        if !book.opening.contains_key(&registrar) {
            let of = book.opened.keys().filter(|id| id.registrar == registrar).map(|id| id.local).max();
            let local = of.unwrap_or(0).max(self.people.locals()) + 1;
            let opening = self.people.opening(account(registrar, local), signs);
            book.facts.want(opening.id);
            book.opening.insert(registrar, opening);
            desk.wake(PAUSE, OPEN | u64::from(registrar));
        }
        if let Some(opening) = book.opening.get(&registrar).cloned() {
            let input = Input::Open { ticket: SIGNED | u64::from(registrar), opening };
            desk.input(NodeId(registrar), REPLICA, Span::ZERO, input);
        }
    }

    fn open_again(&self, registrar: u32, desk: &mut Desk) {
        let waits = self.book.borrow().opening.contains_key(&registrar);
        if waits {
            self.open(registrar, false, desk);
            desk.wake(PAUSE, OPEN | u64::from(registrar));
        }
    }

    /// Asks for one payment more of every account that is somebody's who keeps to the rules and whose members are these.
    pub fn more(&mut self, core: &[NodeId], desk_now: Time) -> Vec<(NodeId, Input)> {
        let mut inputs = Vec::new();
        for member in core.iter().filter(|id| id.is_member()) {
            let spender = People::issuer(member.0);
            let to = account((member.0 + 1) % self.people.members, 2);
            let amount = synod_ledger::Units(1);
            let kind = Kind::Pay(synod_ledger::Leg { to, amount });
            let mut book = self.book.borrow_mut();
            let ticket = book.given(member.0, spender, kind.clone(), desk_now);
            book.facts.order(spender, u128::from(ticket), &kind);
            let draft = draft(spender, kind, u128::from(ticket));
            inputs.push((*member, Input::Order { ticket, draft }));
        }
        inputs
    }

    /// What would have a member take back what it promised: other orders under names that have their places, and entries of owners
    /// who lie.
    pub(crate) fn tempt(&mut self, node: NodeId) -> Vec<Input> {
        let mut inputs = Vec::new();
        let life = self.book.borrow().lives.get(&node.0).copied().unwrap_or(0);
        {
            let book = self.book.borrow();
            let taken = |order: &super::book::Order| {
                let is_placed = matches!(order.stage, Stage::Accepted(_, of) if of == life);
                order.node == node.0 && is_placed && !order.settled
            };
            for (ticket, order) in (1_u64..).zip(&book.orders).filter(|(_, order)| taken(order)) {
                let to = account((node.0 + 1) % self.people.members, 1);
                let kind = Kind::Pay(synod_ledger::Leg { to, amount: synod_ledger::Units(1) });
                if kind != order.kind {
                    let draft = draft(order.spender, kind, u128::from(ticket));
                    inputs.push(Input::Order { ticket: SIGNED | ticket, draft });
                }
            }
        }
        for registrar in 0..self.people.members {
            let Some(liar) = self.people.liar(registrar) else { continue };
            let kinds = [1, 2].map(|amount| {
                let to = account((registrar + 1) % self.people.members, 1);
                Kind::Pay(synod_ledger::Leg { to, amount: synod_ledger::Units(amount) })
            });
            let lines = self.wallets.double(&mut self.book.borrow_mut(), liar, kinds, u64::from(life));
            inputs.extend(lines.into_iter().map(|line| Input::Signed { ticket: SIGNED, line }));
        }
        inputs
    }

    fn answered(&self, ticket: u64, stage: Stage) {
        if let Some(order) = self.book.borrow_mut().get_mut(ticket).filter(|_| ticket < SIGNED) {
            order.stage = stage;
        }
    }

    fn turned_away(&self, ticket: u64, why: Refusal, node: NodeId, desk: &mut Desk) {
        if ticket >= SIGNED {
            return self.book.borrow_mut().add("refused_signed", 1);
        }
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

/// An owner's entry for a member.
fn hand(desk: &mut Desk, to: u32, line: Line) {
    let EntryId { n, .. } = line.entry.id;
    desk.input(NodeId(to), REPLICA, Span::ZERO, Input::Signed { ticket: SIGNED | n, line });
}

fn draft(spender: AccountId, kind: Kind, transfer: u128) -> Draft {
    let pays = pays_itself(spender, &kind) && transfer.is_multiple_of(2);
    let flags = if pays { Flags::ALLOW_SELF } else { Flags::default() };
    Draft { spender, kind, transfer, ledger: EURO, code: 0, user_data: UserData::default(), flags }
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        let Some(output) = told.output.downcast_ref::<Output>() else { return };
        if self.purses.heard(told.node, output, desk) {
            return;
        }
        match output {
            Output::Accepted { ticket, entry, .. } => {
                let life = self.book.borrow().lives.get(&told.node.0).copied().unwrap_or(0);
                self.answered(*ticket, Stage::Accepted(entry.id, life));
            }
            Output::Refused { ticket, why } => self.turned_away(*ticket, *why, told.node, desk),
            // Now and then the user has all but the last for good.
            Output::Settled { first, entries } => {
                let last = first + entries.len() as u64 - 1;
                let fourth = last - last % 4;
                if fourth >= *first {
                    desk.input(told.node, REPLICA, Span::ZERO, Input::Kept(fourth - 1));
                }
            }
            // The first two accounts of an institution are neighbours.
            Output::CutCertified { record, .. } => {
                let registrar = u32::try_from(record.number).unwrap_or(0) % self.people.members;
                for local in [1, 2] {
                    let input =
                        Input::Prove { ticket: local, ledger: EURO, account: account(registrar, local) };
                    desk.input(told.node, REPLICA, Span::ZERO, input);
                }
            }
            Output::Opened(id) => {
                let mut book = self.book.borrow_mut();
                if book.opening.get(&id.registrar).is_some_and(|opening| opening.id == *id) {
                    book.opening.remove(&id.registrar);
                    book.add("opened", 1);
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        if let Some(input) = refused.input.downcast_ref::<Input>() {
            self.purses.unheard(input);
        }
        if let Some(Input::Order { ticket, draft }) = refused.input.downcast_ref::<Input>()
            && *ticket < SIGNED
        {
            self.book.borrow_mut().facts.not_ordered(draft.spender, draft.transfer);
            desk.wake(PAUSE, AGAIN | *ticket);
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        let low = token & 0xffff_ffff;
        if token & PURSE != 0 {
            self.purses.wake(token, desk);
        } else if token & OPEN != 0 {
            self.open_again(u32::try_from(low).unwrap_or(0), desk);
        } else if token & WALLET != 0 {
            let spender = account(u32::try_from(low >> 16).unwrap_or(0), low & 0xffff);
            self.carry(spender, desk);
        } else if token & AGAIN != 0 {
            self.give(low, desk);
        } else {
            self.ask(token, desk);
        }
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        if incarnation > 1 {
            let orders: Vec<u64> = {
                let book = self.book.borrow();
                let waits = |order: &super::book::Order| {
                    order.node == node.0 && !order.settled && order.stage != Stage::Dropped
                };
                (1..).zip(&book.orders).filter(|(_, order)| waits(order)).map(|(ticket, _)| ticket).collect()
            };
            for ticket in orders {
                self.answered(ticket, Stage::Open);
                self.give(ticket, desk);
            }
        }
        if !self.planned {
            self.planned = true;
            self.purses.start(desk);
            for (at, token) in self.requests.iter().zip(0..) {
                desk.wake(*at, token);
            }
        }
    }
}
