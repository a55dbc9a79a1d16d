//! Users of a run: equal and different payloads, bursts and idle gaps, newcomers who sign up, clients that ask where they
//! stand.

use std::collections::BTreeMap;

use synod_chopchop::client::{Input, Output, Refusal};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Harness, Refused, Scenario, Stream, Told};

use super::book::Shared;
use super::executing::App;
use super::plan::{CLIENT, Roles};
use crate::params::number;

/// Tokens of wishes that ask again.
const AGAIN: u64 = 1 << 32;
/// Tokens of wishes of newcomers.
const ENTER: u64 = 1 << 33;
/// How long a refused broadcast waits.
const PAUSE: Span = Span::millis(700);

struct Group {
    at: Span,
    node: u32,
    payloads: Vec<[u8; 8]>,
    resync: bool,
}

/// The user of a run.
pub struct Workload {
    groups: Vec<Group>,
    planned: bool,
    roles: Roles,
    book: Shared,
    entries: BTreeMap<u32, Span>,
}

fn payload(stream: &mut Stream, request: u64, (app, clients): (App, u64)) -> [u8; 8] {
    if let Some(operation) = app.operation(clients, stream) {
        return if stream.chance(250_000) { (1_u64 << 32).to_le_bytes() } else { operation };
    }
    match stream.below(100) {
        0..45 => *b"same old",
        45..60 => [0; 8],
        60..70 => (request % 3).to_le_bytes(),
        _ => request.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(),
    }
}

/// Rounds in which almost everybody broadcasts at one moment, so that batches are large and the next one has almost the same
/// clients.
fn rounds(scenario: &Scenario, roles: &Roles, app: App) -> Vec<Group> {
    let (rounds, draws) = (number(scenario, "rounds", 0), Draws::new(scenario.seed));
    let mut groups = Vec::new();
    for round in 0..rounds {
        let mut stream = draws.stream("round", round);
        let at = Span(scenario.horizon.0 / (rounds + 1) * (round + 1));
        for (client, nth) in roles.clients.iter().zip(0..) {
            let request = (1 << 20) + round * 64 + nth;
            let one = payload(&mut stream, request, (app, roles.clients.len() as u64));
            if stream.chance(850_000) {
                groups.push(Group { at, node: client.0, payloads: vec![one], resync: false });
            }
        }
    }
    groups
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, roles: Roles, book: Shared) -> Self {
        let draws = Draws::new(scenario.seed);
        let mut clock = draws.stream("workload", 0);
        let gap = scenario.horizon.0 * 3 / 4 / u64::from(scenario.requests.max(1));
        let burst = number(scenario, "burst", 4).max(1);
        let total = roles.clients.len() as u64;
        let resync = number(scenario, "resync", 0);
        let app = App::of(scenario);
        let (mut groups, mut at) = (Vec::new(), 0);
        for request in 0..u64::from(scenario.requests) {
            let mut stream = draws.stream("request", request);
            if request % burst == 0 {
                at += clock.exponential(gap * burst);
            }
            let place = u32::try_from(stream.below(total)).unwrap_or(0);
            let count = if stream.chance(250_000) { stream.between(2, 4) } else { 1 };
            let payloads =
                (0..count).map(|nth| payload(&mut stream, request * 8 + nth, (app, total))).collect();
            let node = roles.clients.get(place as usize).map_or(0, |id| id.0);
            let resync = stream.below(1_000) < resync;
            groups.push(Group { at: Span(at.min(scenario.horizon.0)), node, payloads, resync });
        }
        groups.extend(rounds(scenario, &roles, app));
        let mut enter = draws.stream("newcomers", 0);
        let entries = roles.newcomers().map(|id| (id.0, Span(enter.below(scenario.horizon.0 / 2)))).collect();
        Self { groups, planned: false, roles, book, entries }
    }

    fn ask(&mut self, at: usize, desk: &mut Desk) {
        let Some(group) = self.groups.get(at) else { return };
        let node = NodeId(group.node);
        if group.resync {
            desk.input(node, CLIENT, Span::ZERO, Input::Resync);
        }
        for payload in &group.payloads {
            let token = self.book.borrow_mut().ask(node.0, desk.now(), *payload);
            let payload = payload.to_vec().into();
            desk.input(node, CLIENT, Span::ZERO, Input::Broadcast { token, payload });
        }
    }

    /// Asks a client for one broadcast more.
    #[must_use]
    pub fn more(&self, node: NodeId, now: synod_machine::Time) -> Input {
        let payload = if now.0.is_multiple_of(2) { *b"same old" } else { now.0.to_le_bytes() };
        let token = self.book.borrow_mut().ask(node.0, now, payload);
        Input::Broadcast { token, payload: payload.to_vec().into() }
    }

    fn again(&self, token: u64, desk: &mut Desk) {
        let book = self.book.borrow();
        let Some(asked) = book.get(token).filter(|asked| asked.open) else { return };
        let payload = asked.payload.to_vec().into();
        desk.input(NodeId(asked.node), CLIENT, Span::ZERO, Input::Broadcast { token, payload });
    }

    fn enter(&self, node: u32, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        if !book.enrolled.contains_key(&node) {
            book.entering.entry(node).or_insert(desk.now());
        }
        // One that knows its id refuses; one that forgot it in a crash asks again.
        desk.input(NodeId(node), CLIENT, Span::ZERO, Input::SignUp);
    }
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        let Some(output) = told.output.downcast_ref::<Output>() else { return };
        let mut book = self.book.borrow_mut();
        match output {
            Output::Delivered { tokens, .. } => {
                tokens.iter().for_each(|token| book.close(*token, told.time, true));
            }
            // Zero stands for requests without a name.
            Output::Refused { token, why: Refusal::Busy | Refusal::NotInDirectory } if *token > 0 => {
                desk.wake(PAUSE, AGAIN | *token);
            }
            Output::Refused { .. } | Output::Resynced { .. } => {}
            Output::SignedUp { id } => {
                book.enrolled.insert(told.node.0, *id);
                book.entering.remove(&told.node.0);
            }
            Output::CardRefused => book.add("cards_refused", 1),
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        if let Some(Input::Broadcast { token, .. }) = refused.input.downcast_ref::<Input>() {
            self.book.borrow_mut().close(*token, desk.now(), false);
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        if token & ENTER != 0 {
            self.enter(u32::try_from(token ^ ENTER).unwrap_or(0), desk);
        } else if token & AGAIN != 0 {
            self.again(token ^ AGAIN, desk);
        } else if let Ok(at) = usize::try_from(token) {
            self.ask(at, desk);
        }
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        let is_client = self.roles.clients.contains(&node);
        if is_client {
            self.book.borrow_mut().born(node.0, incarnation);
        }
        if let Some(at) = self.entries.get(&node.0) {
            let after = if incarnation == 1 { *at } else { PAUSE };
            desk.wake(after, ENTER | u64::from(node.0));
        }
        if !self.planned {
            self.planned = true;
            for (group, token) in self.groups.iter().zip(0..) {
                desk.wake(group.at, token);
            }
        }
    }
}
