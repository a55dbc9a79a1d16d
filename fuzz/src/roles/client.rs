//! The client: three nodes that tell the truth or nothing, one that says whatever the input says.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{Link, Message as _, Queue, Span, To};
use synod_quorum::{NodeId, Weights};
use synod_service::matching::Trust;
use synod_service::{
    Answer, Answered, Client, ClientConfig, ClientFrame, ClientInput, ClientMessage, ClientOutput, Command,
    CommandResult, Item, Outcome, Query, ReadMode, Refused, Reply, ReplyBatch, Results, body_digest,
    value_digest,
};
use synod_wire::{Blob, Bytes, Draw, Drawn, Limits, List, Wire};

use super::seat::Seat;
use super::{CLUSTER, keys};
use crate::check::accept;
use crate::tape::Tape;

/// The session that the nodes open.
const SESSION: u64 = 5;
/// The node that lies.
const LIAR: NodeId = NodeId(3);

fn open(log: LaneLog) -> Host<Client> {
    let trust = Trust::Members(Weights::equal(4));
    let mut config = ClientConfig::new(trust, CLUSTER, keys(20).public(), 3);
    config.window = 64;
    config.queue = 32;
    config.reads = 8;
    let own = NodeId::GUESTS;
    let place = HostConfig { own, machine: 1, seed: 1, jobs_max: 64, checked: true };
    match Host::open(place, config, log) {
        Ok(host) => host,
        Err(why) => unreachable!("a client has no log: {}", why.0),
    }
}

/// Drives a client.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, an outcome comes twice, a value is accepted that no honest
/// node gave, or an honest node is blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut world = World {
        seat: Seat::open(keys(20), open),
        asked: Vec::new(),
        outcomes: BTreeMap::new(),
        tags: 0,
        questions: BTreeMap::new(),
    };
    while !tape.is_over() {
        world.step(&mut tape);
    }
    if world.outcomes.values().any(|accepted| *accepted) {
        accept();
    }
}

struct World {
    seat: Seat<Host<Client>>,
    /// What the client sent and to whom, the newest last.
    asked: Vec<(NodeId, ClientMessage)>,
    /// Whether the request of each tag was accepted.
    outcomes: BTreeMap<u64, bool>,
    tags: u64,
    /// What was asked under a tag: a command's body or a question. Local reads are not here: they take one node's word.
    questions: BTreeMap<u64, Bytes>,
}

impl World {
    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(12) {
            0 | 1 => self.submit(tape),
            2 => self.query(tape),
            3 | 4 => self.seat.work(1 + tape.below(4)),
            5 => self.seat.wait(Span::millis(1 + u64::from(tape.byte()) * 8)),
            6..=8 => self.honest(tape),
            9 | 10 => self.lie(tape),
            _ => match tape.below(24) {
                0 => self.seat.input(Box::new(ClientInput::Close)),
                other => {
                    let link = if other % 2 == 0 { Link::Up } else { Link::Down };
                    self.seat.link(NodeId(u32::from(tape.byte() % 4)), link);
                }
            },
        }
        self.take();
    }

    fn tag(&mut self, body: Bytes) -> u64 {
        self.tags += 1;
        self.questions.insert(self.tags, body);
        self.tags
    }

    fn submit(&mut self, tape: &mut Tape<'_>) {
        let commands: Vec<Command> = (0..=tape.below(4))
            .map(|_| {
                let body = Bytes::copy_from_slice(tape.take(3));
                Command { tag: self.tag(body.clone()), body }
            })
            .collect();
        let deadline = Span::millis(100 + u64::from(tape.byte()) * 100);
        self.seat.input(Box::new(ClientInput::Submit { commands, deadline }));
    }

    fn query(&mut self, tape: &mut Tape<'_>) {
        let question = Bytes::copy_from_slice(tape.take(3));
        let tag = self.tag(question.clone());
        let mode = if tape.below(2) == 0 { ReadMode::Quorum } else { ReadMode::Local };
        if mode == ReadMode::Local {
            self.questions.remove(&tag);
        }
        let fallback = (tape.below(2) == 0).then(|| question.clone());
        let deadline = Span::millis(100 + u64::from(tape.byte()) * 100);
        self.seat.input(Box::new(ClientInput::Query { tag, question, mode, fallback, deadline }));
    }

    /// An honest node answers something it was asked.
    fn honest(&mut self, tape: &mut Tape<'_>) {
        let Some((to, message)) = self.asked.get(tape.below(self.asked.len())).cloned() else { return };
        // The order is known to all: any honest node may answer what another was asked.
        let from = if to == LIAR { NodeId(u32::from(tape.byte() % 3)) } else { to };
        if let Some(answer) = truth(&message, tape) {
            self.say(from, &answer);
        }
    }

    /// The liar says anything: drawn, like the truth, or raw.
    fn lie(&mut self, tape: &mut Tape<'_>) {
        let asked = self.asked.get(tape.below(self.asked.len())).cloned();
        let told = match (tape.below(4), asked) {
            (0, Some((_, message))) => truth(&message, tape),
            (1 | 0, _) => Some(ClientMessage::draw(&mut Drawn::new(u64::from(tape.word())))),
            (2, Some((_, message))) => truth(&message, tape).map(|answer| refuse(answer, tape)),
            _ => None,
        };
        let (queue, mut body) = match told {
            Some(message) => (message.queue(), framed(&message)),
            None => (Queue(tape.byte() % 4), tape.short().to_vec()),
        };
        for _ in 0..tape.below(3) {
            let place = usize::from(tape.word()) % body.len().max(1);
            if let Some(byte) = body.get_mut(place) {
                *byte ^= tape.byte();
            }
        }
        self.seat.frame(LIAR, queue, Bytes::from(body));
    }

    fn say(&mut self, from: NodeId, message: &ClientMessage) {
        self.seat.frame(from, message.queue(), Bytes::from(framed(message)));
    }

    fn take(&mut self) {
        for (to, _, body) in self.seat.desk.sent.drain(..) {
            let message = ClientMessage::decode(body.slice(1..), &Limits::default());
            let Ok(message) = message else { unreachable!("a client sends what nobody reads") };
            let nodes: Vec<NodeId> = match to {
                To::Node(node) => vec![node],
                To::Set(set) => set.iter().collect(),
            };
            self.asked.extend(nodes.into_iter().map(|node| (node, message.clone())));
        }
        let superfluous = self.asked.len().saturating_sub(64);
        self.asked.drain(..superfluous);
        for (peer, fault) in self.seat.desk.blamed.drain(..) {
            assert!(peer == LIAR, "honest node {} is blamed for {}", peer.0, fault.name);
        }
        for output in core::mem::take(&mut self.seat.desk.outputs) {
            let Ok(output) = output.downcast::<ClientOutput>() else {
                unreachable!("a client puts out its own outputs")
            };
            match *output {
                ClientOutput::Outcome { tag, outcome, .. } => self.outcome(tag, &outcome),
                ClientOutput::Ready { session } => {
                    assert_eq!(session, SESSION, "a session that one node alone opened")
                }
                ClientOutput::Closed => {}
            }
        }
    }

    fn outcome(&mut self, tag: u64, outcome: &Outcome) {
        let accepted = matches!(outcome, Outcome::Accepted { .. });
        if let Outcome::Accepted { value, .. } = outcome {
            let asked = self.questions.get(&tag);
            assert!(
                asked.is_none_or(|body| *value == value_of(body)),
                "a value was accepted that no honest node gave"
            );
        }
        let before = self.outcomes.insert(tag, accepted);
        assert!(before.is_none(), "request {tag} has two outcomes");
    }
}

/// What the application answers: a function of what it is asked.
fn value_of(body: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Hash::of(body).0[..8])
}

fn framed(message: &ClientMessage) -> Vec<u8> {
    let mut body = vec![ClientMessage::VERSION];
    body.extend_from_slice(&message.encode());
    body
}

/// What an honest node answers to a message of the client.
fn truth(message: &ClientMessage, tape: &mut Tape<'_>) -> Option<ClientMessage> {
    match message {
        ClientMessage::Item(payload) => {
            let reply = match Item::parse(payload.bytes()).ok()? {
                Item::Open(opening) => Reply::Opened { nonce: opening.nonce, session: SESSION },
                Item::Frame(frame) => executed(&frame, tape),
            };
            let leader = (tape.below(2) == 0).then_some(tape.byte() % 4);
            let replies = List::try_from(vec![reply]).ok()?;
            Some(ClientMessage::Replies(ReplyBatch { leader, replies }))
        }
        ClientMessage::Query(query) => Some(ClientMessage::Answer(answer(query, tape))),
        _ => None,
    }
}

fn executed(frame: &ClientFrame, tape: &mut Tape<'_>) -> Reply {
    let results: Vec<CommandResult> = frame
        .commands
        .iter()
        .map(|command| CommandResult::Value(Blob::try_from(value_of(command)).unwrap_or_default()))
        .collect();
    let results = List::try_from(results).unwrap_or_default();
    let (session, first) = (frame.session, frame.first);
    let body = Results { session, first, position: Position(1_000 + first), results }.encode();
    let answer = match tape.below(4) {
        0 => Answered::Digest(body_digest(&body)),
        1 => Answered::Gone(body_digest(&body)),
        _ => Answered::Body(Blob::try_from(body).unwrap_or_default()),
    };
    Reply::Executed { session, first, answer }
}

fn answer(query: &Query, tape: &mut Tape<'_>) -> Answer {
    let value = value_of(&query.question);
    let answered = match tape.below(3) {
        0 => Answered::Digest(value_digest(true, &value)),
        _ => Answered::Body(Blob::try_from(value).unwrap_or_default()),
    };
    Answer { id: query.id, executed: Position(1 << 40), understood: true, value: answered }
}

/// Turns an answer into a refusal, where there is one.
fn refuse(answer: ClientMessage, tape: &mut Tape<'_>) -> ClientMessage {
    let why = Refused::draw(&mut Drawn::new(u64::from(tape.byte())));
    match answer {
        ClientMessage::Replies(batch) => {
            let refused = batch.replies.iter().map(|reply| match reply {
                Reply::Opened { nonce, .. } => Reply::Refused { session: 0, first: *nonce, why },
                Reply::Executed { session, first, .. } | Reply::Refused { session, first, .. } => {
                    Reply::Refused { session: *session, first: *first, why }
                }
            });
            let replies = List::try_from(refused.collect::<Vec<_>>()).unwrap_or_default();
            ClientMessage::Replies(ReplyBatch { leader: batch.leader, replies })
        }
        other => other,
    }
}
