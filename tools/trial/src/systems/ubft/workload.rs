//! Users of a run: operations of different lengths, bursts and idle gaps, reads.

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Harness, Refused, Scenario, Stream, Told};
use synod_ubft::client::{Input, Output};
use synod_ubft::replica;
use synod_wire::Bytes;

use super::book::Shared;
use super::ledger::COUNT;
use super::plan::{CLIENTS, REPLICA, Roles};
use crate::params::number;

/// Tokens of wishes that ask again.
const AGAIN: u64 = 1 << 32;
/// How long a refused request waits.
const PAUSE: Span = Span::millis(100);

struct Group {
    at: Span,
    node: u32,
    /// Bytes of each operation beyond its name; none of a read.
    asks: Vec<Option<usize>>,
}

/// The user of a run.
pub struct Workload {
    groups: Vec<Group>,
    is_planned: bool,
    roles: Roles,
    book: Shared,
}

/// An operation that names its request, so that whoever executes it can be asked who wanted it.
fn operation(ticket: u64, more: usize) -> Bytes {
    let mut bytes = ticket.to_le_bytes().to_vec();
    bytes.resize(8 + more, u8::try_from(ticket % 251).unwrap_or(0));
    bytes.into()
}

/// The ticket in an operation.
#[must_use]
pub fn named(op: &[u8]) -> Option<u64> {
    op.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

fn asks(stream: &mut Stream, reads: u64) -> Vec<Option<usize>> {
    let count = if stream.chance(250_000) { stream.between(2, 6) } else { 1 };
    let one = |stream: &mut Stream| {
        let more = usize::try_from(stream.log_uniform(1, 800)).unwrap_or(1);
        (stream.below(1_000) >= reads).then_some(more)
    };
    (0..count).map(|_| one(stream)).collect()
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, roles: Roles, book: Shared) -> Self {
        let draws = Draws::new(scenario.seed);
        let mut clock = draws.stream("workload", 0);
        let gap = scenario.horizon.0 * 3 / 4 / u64::from(scenario.requests.max(1));
        let burst = number(scenario, "burst", 4).max(1);
        let reads = number(scenario, "reads", 0);
        let (mut groups, mut at) = (Vec::new(), 0);
        for request in 0..u64::from(scenario.requests) {
            let mut stream = draws.stream("request", request);
            if request % burst == 0 {
                at += clock.exponential(gap * burst);
            }
            let client = u32::try_from(stream.below(u64::from(roles.clients))).unwrap_or(0);
            let asks = asks(&mut stream, reads);
            groups.push(Group { at: Span(at.min(scenario.horizon.0)), node: CLIENTS + client, asks });
        }
        Self { groups, is_planned: false, roles, book }
    }

    fn ask(&self, at: usize, desk: &mut Desk) {
        let Some(group) = self.groups.get(at) else { return };
        for more in &group.asks {
            let input = self.input(NodeId(group.node), *more, desk.now());
            desk.input(NodeId(group.node), REPLICA, Span::ZERO, input);
        }
    }

    fn input(&self, node: NodeId, more: Option<usize>, now: synod_machine::Time) -> Input {
        let op = |ticket| more.map(|more| operation(ticket, more));
        let mut book = self.book.borrow_mut();
        let ticket = book.ask(node.0, now, op);
        book.get(ticket).map_or_else(|| read(ticket), |asked| asking(ticket, asked.op.as_ref()))
    }

    /// Asks a client for one operation more.
    #[must_use]
    pub fn more(&self, node: NodeId, now: synod_machine::Time) -> Input {
        self.input(node, Some(24), now)
    }

    fn again(&self, ticket: u64, desk: &mut Desk) {
        let book = self.book.borrow();
        let Some(asked) = book.get(ticket).filter(|asked| asked.open) else { return };
        let input = asking(ticket, asked.op.as_ref());
        desk.input(NodeId(asked.node), REPLICA, Span::ZERO, input);
    }
}

fn read(ticket: u64) -> Input {
    Input::Read { ticket, question: Bytes::from_static(COUNT) }
}

fn asking(ticket: u64, op: Option<&Bytes>) -> Input {
    op.map_or_else(|| read(ticket), |op| Input::Call { ticket, op: op.clone() })
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        if let Some(replica::Output::Ready(is_ready)) = told.output.downcast_ref() {
            match is_ready {
                true => book.ready.insert(told.node.0),
                false => book.ready.remove(&told.node.0),
            };
        }
        match told.output.downcast_ref::<Output>() {
            Some(Output::Ready(session)) => drop(book.sessions.insert(told.node.0, *session)),
            Some(Output::Done { ticket, .. } | Output::Unknown { ticket, .. }) => {
                book.close(*ticket, told.time)
            }
            Some(Output::Refused { ticket }) => desk.wake(PAUSE, AGAIN | *ticket),
            None => {}
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        // It has no session yet, or its window is full.
        if let Some(Input::Call { ticket, .. } | Input::Read { ticket, .. }) = refused.input.downcast_ref() {
            desk.wake(PAUSE, AGAIN | *ticket);
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        if token & AGAIN != 0 {
            self.again(token ^ AGAIN, desk);
        } else if let Ok(at) = usize::try_from(token) {
            self.ask(at, desk);
        }
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        if incarnation > 1 {
            book.reborn.insert(node.0);
        }
        if self.roles.is_replica(node) && incarnation > 1 {
            book.ready.remove(&node.0);
        }
        if node.0 >= CLIENTS {
            book.born(node.0, incarnation);
        }
        drop(book);
        if !self.is_planned {
            self.is_planned = true;
            for (group, token) in self.groups.iter().zip(0..) {
                desk.wake(group.at, token);
            }
        }
    }
}
