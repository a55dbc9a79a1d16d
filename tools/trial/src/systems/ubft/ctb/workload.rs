//! Users of a run of broadcasts: messages of different lengths, in bursts, signed at once or not; summaries, and bodies that are missed.

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Harness, Scenario, Stream, Told};
use synod_ubft::ctb::{Input, Output};
use synod_wire::Bytes;

use super::book::{Shared, Summing};
use super::machine::Of;
use crate::params::number;
use crate::systems::ubft::plan::{REPLICA, Roles};

/// The first byte of every body: no message of a stream of uBFT begins with it.
pub(super) const TRUE: u8 = 0xff;
/// The longest body of those that are drawn.
const LONGEST: u64 = 3_000;

/// All nodes are started by then.
const STARTED: Span = Span::millis(3);

/// One message to be sent.
struct Sent {
    at: Span,
    node: NodeId,
    length: usize,
    is_signed: bool,
}

/// The user of a run.
pub struct Workload {
    messages: Vec<Sent>,
    /// Whose messages are signed at once, from when, and until when.
    slow: Vec<(NodeId, Span, Span)>,
    is_planned: bool,
    made: u64,
    summary: Span,
    rule: Summing,
    roles: Roles,
    book: Shared,
}

/// A body that nobody else is asked to send.
fn body(node: NodeId, number: u64, length: usize) -> Bytes {
    let mut bytes = vec![TRUE, node.member().unwrap_or(u8::MAX)];
    bytes.extend(number.to_le_bytes());
    bytes.resize(bytes.len().max(length), u8::try_from(number % 251).unwrap_or(0));
    bytes.into()
}

/// Who speaks: a bit for each replica, or all of them.
fn speaker(stream: &mut Stream, roles: Roles, speakers: u64) -> NodeId {
    let all: Vec<NodeId> = roles.replicas().filter(|id| speakers >> id.0 & 1 == 1).collect();
    let anybody = NodeId(u32::try_from(stream.below(u64::from(roles.replicas))).unwrap_or(0));
    stream.pick(&all).copied().unwrap_or(anybody)
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, roles: Roles, book: Shared) -> Self {
        let draws = Draws::new(scenario.seed);
        let mut clock = draws.stream("workload", 0);
        let gap = scenario.horizon.0 * 3 / 4 / u64::from(scenario.requests.max(1));
        let (burst, speakers) = (number(scenario, "burst", 4).max(1), number(scenario, "speakers", 0));
        let signed = number(scenario, "signed_permille", 200);
        let (mut messages, mut at, mut node) = (Vec::new(), 0, NodeId(0));
        for number in 0..u64::from(scenario.requests) {
            let mut stream = draws.stream("request", number);
            if number % burst == 0 {
                at += clock.exponential(gap * burst);
                node = speaker(&mut clock, roles, speakers);
            }
            let length = usize::try_from(stream.log_uniform(10, LONGEST)).unwrap_or(10);
            let is_signed = stream.below(1_000) < signed;
            messages.push(Sent { at: Span(at.min(scenario.horizon.0)), node, length, is_signed });
        }
        let mut stream = draws.stream("slow", 0);
        let mut slow = Vec::new();
        for id in roles.replicas().filter(|_| number(scenario, "slow", 0) == 1) {
            let from = stream.below(scenario.horizon.0);
            slow.push((id, Span(from), Span(from + stream.below(scenario.horizon.0))));
        }
        let tail = number(scenario, "tail", 16);
        let rule = Summing { tail, wanted: crate::oracle::ubft::one_correct(roles.replicas) };
        let summary = Span::micros(number(scenario, "summary_us", 100));
        Self { messages, slow, is_planned: false, made: 0, summary, rule, roles, book }
    }

    fn asking(&mut self, node: NodeId, length: usize, signed: bool) -> Of<Input> {
        self.made += 1;
        let body = body(node, self.made, length);
        self.book.borrow_mut().ask(node.0, &body);
        Of { broadcaster: node, what: Input::Broadcast { body, signed } }
    }

    /// Asks a replica for one message more.
    #[must_use]
    pub fn more(&mut self, node: NodeId, signed: bool) -> Of<Input> {
        self.asking(node, 40, signed)
    }

    fn summarize(&self, told: (NodeId, NodeId, u64), desk: &mut Desk) {
        let (node, broadcaster, k) = told;
        if let Some(upto) = self.book.borrow_mut().deliver(node.0, broadcaster.0, k, self.rule) {
            let what = Input::Summarized(upto);
            desk.input(broadcaster, REPLICA, self.summary, Of { broadcaster, what });
            // Receivers that miss messages have it in their place.
            for receiver in self.roles.replicas().filter(|id| *id != broadcaster) {
                let what = Input::Covered(upto);
                desk.input(receiver, REPLICA, self.summary, Of { broadcaster, what });
            }
        }
    }
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        let Some(Of { broadcaster, what }) = told.output.downcast_ref::<Of<Output>>() else { return };
        match what {
            Output::Delivered { k, .. } => self.summarize((told.node, *broadcaster, *k), desk),
            Output::Missing { digest, .. } => {
                // Somebody who has it says it, as other replicas would.
                if let Some(body) = self.book.borrow().body(digest).cloned() {
                    let input = Of { broadcaster: *broadcaster, what: Input::Found(body) };
                    desk.input(told.node, REPLICA, self.summary, input);
                }
            }
            Output::Promised { .. }
            | Output::Refused(_)
            | Output::Equivocated(_)
            | Output::Retired { .. }
            | Output::Reborn { .. } => {}
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        let at = usize::try_from(token).unwrap_or(usize::MAX);
        let Some(Sent { node, length, is_signed, .. }) = self.messages.get(at) else { return };
        let (node, length, is_signed) = (*node, *length, *is_signed);
        let input = self.asking(node, length, is_signed);
        desk.input(node, REPLICA, Span::ZERO, input);
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        if incarnation > 1 && self.roles.is_memory(node) {
            self.book.borrow_mut().reborn.insert(node.0);
        }
        if self.is_planned {
            return;
        }
        self.is_planned = true;
        for (message, token) in self.messages.iter().zip(0..) {
            desk.wake(Span(message.at.0 + STARTED.0), token);
        }
        for (node, from, until) in &self.slow {
            for (is_slow, at) in [(true, *from), (false, *until)] {
                let what = Input::Slow(is_slow);
                desk.input(*node, REPLICA, Span(at.0 + STARTED.0), Of { broadcaster: *node, what });
            }
        }
    }
}
