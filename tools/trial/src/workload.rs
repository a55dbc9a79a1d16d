//! Clients of a run: equal and consecutive commands, pipelines, bursts and idle gaps, sizes from one byte to the
//! largest, reads among them, patience and haste, restarts; and members that are asked to prove what they delivered.

use synod_machine::Span;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_service::{ClientInput, ClientOutput, ExecutorInput};
use synod_sim::{Desk, Draws, Harness, Refused, Scenario, Stream, Told};
use synod_wire::Bytes;

use crate::app::LONG;
use crate::book::{GUESTS, Shared};
use crate::params::number;
use crate::systems::hotstuff::EXECUTOR;

/// The client's machine number.
pub const CLIENT: u8 = 1;

/// What is asked at once.
enum What {
    /// Commands.
    Commands(Vec<Bytes>),
    /// A read, which the order may answer in the end or may not.
    Read { ordered: bool },
}

/// One group of commands asked at once, or one read.
struct Group {
    at: Span,
    guest: NodeId,
    what: What,
    deadline: Option<Span>,
    /// This member is asked for a proof at that time.
    prover: Option<NodeId>,
}

/// Reads at the heels of outcomes: somebody asks as soon as anybody knows of a command, while other members may not.
struct Heels {
    /// How many of a thousand outcomes have one.
    share: u64,
    guests: u64,
    stream: Stream,
}

impl Heels {
    /// Who asks now, and whether the order may answer in the end.
    fn next(&mut self) -> Option<(NodeId, bool)> {
        let asks = self.stream.below(1_000) < self.share;
        let guest = u32::try_from(self.stream.below(self.guests)).unwrap_or(0);
        let ordered = self.stream.chance(500_000);
        asks.then_some((NodeId(GUESTS + guest), ordered))
    }
}

/// The user of a run.
pub struct Workload {
    groups: Vec<Group>,
    planned: bool,
    /// Closed loop: the next group of a guest is asked when nothing of it is open.
    closed: bool,
    next: usize,
    heels: Heels,
    book: Shared,
}

impl Workload {
    /// The workload of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, book: Shared) -> Self {
        let draws = Draws::new(scenario.seed);
        let mut clock = draws.stream("workload", 0);
        let closed = number(scenario, "closed", 0) == 1;
        let gap = scenario.horizon.0 * 3 / 4 / u64::from(scenario.requests.max(1));
        let burst = number(scenario, "burst", 1).max(1);
        let largest = number(scenario, "largest", 2_000);
        let (reads, proofs) = (number(scenario, "reads", 0), number(scenario, "proofs", 0));
        let mut groups = Vec::new();
        let mut at = 0;
        for request in 0..u64::from(scenario.requests) {
            let mut stream = draws.stream("request", request);
            // Requests of one burst come together; the gap behind it makes up for that.
            if request % burst == 0 {
                at += clock.exponential(gap * burst);
            }
            let guest = NodeId(GUESTS + u32::try_from(stream.below(u64::from(scenario.guests))).unwrap_or(0));
            let count = if stream.chance(200_000) { stream.between(2, 8) } else { 1 };
            let bodies = (0..count).map(|_| body(&mut stream, request, largest)).collect();
            let mut other = draws.stream("read", request);
            let (read, ordered) = (other.below(1_000) < reads, other.chance(500_000));
            let what = if read { What::Read { ordered } } else { What::Commands(bodies) };
            let prover = u32::try_from(other.below(u64::from(scenario.nodes))).unwrap_or(0);
            let prover = (other.below(1_000) < proofs).then_some(NodeId(prover));
            let hasty = stream.chance(50_000).then(|| Span(stream.log_uniform(1_000_000, 2_000_000_000)));
            let at = Span(at.min(scenario.horizon.0));
            groups.push(Group { at, guest, what, deadline: hasty, prover });
        }
        let heels = Heels {
            share: number(scenario, "heels", 0),
            guests: u64::from(scenario.guests),
            stream: draws.stream("heels", 0),
        };
        Self { groups, planned: false, closed, next: 0, heels, book }
    }

    fn ask(&mut self, at: usize, desk: &mut Desk) {
        let Some(group) = self.groups.get(at) else { return };
        let mut book = self.book.borrow_mut();
        book.clock = desk.now();
        if let Some(member) = group.prover {
            let position = Position(book.reach.get(&member.0).map_or(0, |reach| reach.applied));
            desk.input(member, EXECUTOR, Span::ZERO, ExecutorInput::Prove(position));
        }
        let input = match &group.what {
            What::Commands(bodies) => book.ask(group.guest, bodies.clone(), group.deadline),
            What::Read { ordered } => book.ask_count(group.guest, *ordered, group.deadline),
        };
        desk.input(group.guest, CLIENT, Span::ZERO, input);
    }

    /// A command has its outcome: sometimes somebody reads at once.
    fn follow(&mut self, desk: &mut Desk) {
        let Some((guest, ordered)) = self.heels.next() else { return };
        let mut book = self.book.borrow_mut();
        book.clock = desk.now();
        desk.input(guest, CLIENT, Span::ZERO, book.ask_count(guest, ordered, None));
    }

    /// Closed loop: asks the next group once nothing is open.
    fn go_on(&mut self, desk: &mut Desk) {
        if self.closed && self.book.borrow().open() == 0 && self.next < self.groups.len() {
            self.next += 1;
            self.ask(self.next - 1, desk);
        }
    }
}

/// The body of one command: equal ones, short ones, ones of any size, ones with a long reply.
fn body(stream: &mut Stream, request: u64, largest: u64) -> Bytes {
    let (choice, size) = (stream.below(100), stream.log_uniform(1, largest.max(1)));
    let size = usize::try_from(size).unwrap_or(1);
    match choice {
        0..30 => Bytes::from_static(b"=="),
        30..60 => Bytes::from(request.to_le_bytes().to_vec()),
        60..70 => Bytes::from([&[LONG][..], &request.to_le_bytes()].concat()),
        70..75 => Bytes::from_static(b"1"),
        _ => Bytes::from(vec![u8::try_from(request % 251).unwrap_or(0); size]),
    }
}

impl Harness for Workload {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        if let Some(ClientOutput::Outcome { tag, .. }) = told.output.downcast_ref::<ClientOutput>() {
            let was_read = self.book.borrow().get(*tag).is_some_and(|asked| asked.read);
            self.book.borrow_mut().close(*tag);
            if !was_read {
                self.follow(desk);
            }
            self.go_on(desk);
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        let mut book = self.book.borrow_mut();
        match refused.input.downcast_ref::<ClientInput>() {
            Some(ClientInput::Submit { commands, .. }) => {
                commands.iter().for_each(|command| book.close(command.tag));
            }
            Some(ClientInput::Query { tag, .. }) => book.close(*tag),
            _ => return,
        }
        desk.wake(Span::millis(100), u64::MAX);
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        match usize::try_from(token) {
            Ok(at) if at < self.groups.len() => self.ask(at, desk),
            _ => self.go_on(desk),
        }
    }

    fn started(&mut self, node: NodeId, incarnation: u32, desk: &mut Desk) {
        if node.0 < GUESTS {
            return;
        }
        self.book.borrow_mut().born(node.0, incarnation);
        if !self.planned {
            self.planned = true;
            if self.closed {
                desk.wake(Span::millis(10), u64::MAX);
            } else {
                for (group, token) in self.groups.iter().zip(0..) {
                    desk.wake(group.at, token);
                }
            }
        } else if self.closed {
            desk.wake(Span::millis(10), u64::MAX);
        }
    }
}
