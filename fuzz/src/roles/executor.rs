//! The executor: one that follows the order, and one beside it that falls behind, crashes and fetches snapshots. Items,
//! frames of clients and chunks of snapshots are drawn, signed, mutated or raw.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Scope};
use synod_kv::Kv;
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Refusal, Submit, Ticket};
use synod_machine::host::{Host, HostConfig, Hosted as _, LaneLog};
use synod_machine::{Link, Message as _, Queue, Span, To, Wall};
use synod_quorum::{Epoch, NodeId};
use synod_service::{
    ClientAuth, ClientFrame, ClientMessage, Executor, ExecutorConfig, ExecutorInput, ExecutorLimits,
    ExecutorOutput, Item, Opening, UNSIGNED,
};
use synod_wire::{Blob, Bytes, Draw, Drawn, Limits, List, Wire};

use super::seat::Seat;
use super::{CLUSTER, keys, roster};
use crate::check::accept;
use crate::decoders::kv;
use crate::tape::Tape;

type Hosting = Host<Executor<Kv>>;

fn open(own: u32) -> impl FnOnce(LaneLog) -> Hosting {
    move |log| {
        let mut limits =
            ExecutorLimits { checkpoint_every: 4, app_bytes: 1 << 20, ..ExecutorLimits::default() };
        limits.sessions.sessions_max = 4;
        limits.sessions.window = 64;
        limits.pool_items = 16;
        limits.session_items = 4;
        let app = Kv::new(synod_kv::Config { bytes_max: 1 << 20 });
        let config = ExecutorConfig {
            app,
            own: NodeId(own),
            roster: roster(),
            cluster: CLUSTER,
            auth: ClientAuth::Signed,
            limits,
        };
        let place = HostConfig { own: NodeId(own), machine: 1, seed: 1, jobs_max: 64, checked: true };
        match Host::open(place, config, log) {
            Ok(host) => host,
            Err(why) => unreachable!("an executor reads its own records: {}", why.0),
        }
    }
}

/// Drives two executors over one order.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, two executors have different roots at one position, or one
/// that told the truth is blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut world = World {
        members: [Member::new(0), Member::new(1)],
        log: Vec::new(),
        submitted: Vec::new(),
        sessions: Vec::new(),
        roots: BTreeMap::new(),
        forged: false,
    };
    while !tape.is_over() {
        world.step(&mut tape);
    }
    if world.members.iter().any(|member| member.seat.host.machine().sessions().count() > 0) {
        accept();
    }
}

struct Member {
    seat: Seat<Hosting>,
    /// Entries delivered, or jumped over.
    cursor: usize,
    barriers: Vec<Ticket>,
    payloads: Vec<Ticket>,
    proofs: Vec<Position>,
}

impl Member {
    fn new(own: u32) -> Self {
        let seat = Seat::open(keys(own.to_le_bytes()[0] + 1), open(own));
        Self { seat, cursor: 0, barriers: Vec::new(), payloads: Vec::new(), proofs: Vec::new() }
    }
}

struct World {
    members: [Member; 2],
    log: Vec<Entry>,
    /// Payloads that a member put forward.
    submitted: Vec<(usize, Ticket, Bytes)>,
    /// Sessions that were opened: whose key, which id, the next sequence.
    sessions: Vec<(u8, u64, u64)>,
    roots: BTreeMap<Position, Hash>,
    /// Whether a chunk was changed on its way: then its sender may be blamed.
    forged: bool,
}

impl World {
    fn step(&mut self, tape: &mut Tape<'_>) {
        let at = tape.below(2);
        match tape.below(16) {
            0..=2 => self.order(tape),
            3..=6 => self.deliver(at),
            7 => self.members[at].seat.work(1 + tape.below(8)),
            8 => self.members[at].seat.sync(),
            9 => self.members[at].seat.wait(Span::millis(u64::from(tape.byte()) * 4)),
            10 | 11 => self.speak(at, tape),
            12 => self.stable(at, tape),
            13 => self.jump(),
            14 => self.restart(at, tape),
            _ => self.ask(at, tape),
        }
        for at in 0..self.members.len() {
            self.route(at, tape);
        }
    }

    fn payload(&mut self, tape: &mut Tape<'_>) -> (Bytes, Origin) {
        let liar = Origin::Member(NodeId(3));
        match tape.below(8) {
            0 => (Bytes::copy_from_slice(tape.short()), liar),
            1 => (Item::draw(&mut Drawn::new(u64::from(tape.word()))).payload(), liar),
            2 => (Bytes::new(), liar),
            3 if !self.submitted.is_empty() => {
                let (_, _, payload) = self.submitted.remove(tape.below(self.submitted.len()));
                (payload, liar)
            }
            4 if !self.log.is_empty() => (self.log[tape.below(self.log.len())].payload.clone(), liar),
            _ => (self.item(tape), liar),
        }
    }

    /// A well-formed item, signed by its client unless the tape says otherwise.
    fn item(&mut self, tape: &mut Tape<'_>) -> Bytes {
        let at = tape.below(self.sessions.len() + 1);
        let (client, item) = match self.sessions.get_mut(at) {
            Some((client, session, next)) => {
                let first = *next + u64::from(tape.byte() / 64);
                let commands: Vec<Blob<_>> = (0..=tape.below(3))
                    .map(|_| {
                        let operation = kv::asked(&mut Drawn::new(u64::from(tape.word())));
                        Blob::try_from(Bytes::from(operation)).unwrap_or_default()
                    })
                    .collect();
                *next = first + commands.len() as u64;
                let frame = ClientFrame {
                    session: *session,
                    first,
                    acked: first.saturating_sub(u64::from(tape.byte() / 16)),
                    full: tape.byte() % 4,
                    commands: List::try_from(commands).unwrap_or_default(),
                    signature: UNSIGNED,
                };
                (*client, Item::Frame(frame))
            }
            None => {
                let client = 10 + tape.byte() % 6;
                let nonce = u64::from(tape.byte() % 2);
                let opening = Opening { key: keys(client).public(), nonce, signature: UNSIGNED };
                (client, Item::Open(opening))
            }
        };
        let signer = if tape.below(16) == 0 { client + 1 } else { client };
        let said = item.said(&item.payload());
        let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
        let signature = keys(signer).sign(scope, NodeId::GUESTS, said).into_inner().signature;
        item.signed(signature).payload()
    }

    fn order(&mut self, tape: &mut Tape<'_>) {
        let (payload, origin) = self.payload(tape);
        let position = Position(self.log.len() as u64 + 1);
        let before = self.log.last().map_or(1_000, |entry| entry.time.0);
        let time = Wall(before + u64::from(tape.byte()) * 64);
        if let Ok(Item::Open(opening)) = Item::parse(&payload) {
            let owner = (10..17).find(|n| keys(*n).public() == opening.key);
            self.sessions.extend(owner.map(|client| (client, position.0, 1)));
        }
        self.log.push(Entry { position, time, last: tape.below(3) > 0, origin, payload, proof: None });
    }

    fn deliver(&mut self, at: usize) {
        let member = &mut self.members[at];
        if member.seat.host.room() == 0 {
            return;
        }
        if let Some(ticket) = member.barriers.pop() {
            return member.seat.input(Box::new(ExecutorInput::Delivered(Delivered::Barrier(ticket))));
        }
        if let Some(position) = member.proofs.pop() {
            let proof = Delivered::Proof { position, proof: None };
            return member.seat.input(Box::new(ExecutorInput::Delivered(proof)));
        }
        let Some(entry) = self.log.get(member.cursor) else { return };
        member.cursor += 1;
        member.seat.input(Box::new(ExecutorInput::Delivered(Delivered::Entry(entry.clone()))));
    }

    /// A frame of a client or of a member that lies.
    fn speak(&mut self, at: usize, tape: &mut Tape<'_>) {
        let from = if tape.below(3) == 0 {
            NodeId(3)
        } else {
            NodeId(NodeId::GUESTS.0 + u32::from(tape.byte() % 4))
        };
        let message = match tape.below(3) {
            0 => Blob::try_from(self.item(tape)).ok().map(ClientMessage::Item),
            1 => Some(ClientMessage::draw(&mut Drawn::new(u64::from(tape.word())))),
            _ => None,
        };
        let (queue, mut body) = match message {
            Some(message) => (message.queue(), framed(&message).to_vec()),
            None => (Queue(tape.byte() % 4), tape.short().to_vec()),
        };
        if tape.below(4) == 0 {
            let place = usize::from(tape.word()) % body.len().max(1);
            if let Some(byte) = body.get_mut(place) {
                *byte ^= tape.byte();
            }
        }
        self.members[at].seat.frame(from, queue, Bytes::from(body));
    }

    fn stable(&mut self, at: usize, tape: &mut Tape<'_>) {
        let executed = self.members[at].seat.host.machine().executed();
        let known: Vec<(Position, Hash)> =
            self.roots.range(..=executed).map(|(p, root)| (*p, *root)).collect();
        if let Some((position, root)) = known.get(tape.below(known.len())) {
            let stable = Delivered::Stable(checkpoint(*position, *root));
            self.members[at].seat.input(Box::new(ExecutorInput::Delivered(stable)));
        }
    }

    /// The first member fell too far behind: the order goes on from a certified snapshot of the second.
    fn jump(&mut self) {
        let Some((position, root)) = self.roots.iter().next_back().map(|(p, root)| (*p, *root)) else {
            return;
        };
        let member = &mut self.members[0];
        if position.0 > member.cursor as u64 && member.seat.host.room() > 0 {
            member.cursor = usize::try_from(position.0).unwrap_or(usize::MAX);
            let jump = Delivered::Jump(checkpoint(position, root));
            member.seat.input(Box::new(ExecutorInput::Delivered(jump)));
        }
    }

    fn restart(&mut self, at: usize, tape: &mut Tape<'_>) {
        if tape.below(4) > 0 {
            return;
        }
        let own = u32::try_from(at).unwrap_or(0);
        let [first, second] = &mut self.members;
        let member = if at == 0 { first } else { second };
        let old = core::mem::replace(member, Member::new(own));
        member.seat = old.seat.restart(open(own));
        let resume = member.seat.host.machine().resume_position();
        member.cursor = usize::try_from(resume.0).unwrap_or(usize::MAX);
        self.submitted.retain(|(owner, ..)| *owner != at);
    }

    fn ask(&mut self, at: usize, tape: &mut Tape<'_>) {
        let member = &mut self.members[at];
        match tape.below(5) {
            0 => member.seat.input(Box::new(ExecutorInput::Status)),
            1 => member.seat.input(Box::new(ExecutorInput::Prove(Position(u64::from(tape.byte()))))),
            2 => member.seat.link(NodeId(NodeId::GUESTS.0 + u32::from(tape.byte() % 4)), Link::Down),
            3 => {
                if let Some(ticket) = member.payloads.pop() {
                    let why =
                        if tape.below(2) == 0 { Refusal::TooLarge } else { Refusal::Busy { retry_ms: 9 } };
                    self.submitted.retain(|(owner, other, _)| *owner != at || *other != ticket);
                    let refused = Delivered::Refused { ticket, why };
                    member.seat.input(Box::new(ExecutorInput::Delivered(refused)));
                }
            }
            _ => member.seat.link(NodeId(1), Link::Up),
        }
    }

    /// Takes what a member's effects left: outputs, blames, and messages to the other one.
    fn route(&mut self, at: usize, tape: &mut Tape<'_>) {
        for output in core::mem::take(&mut self.members[at].seat.desk.outputs) {
            match output.downcast::<ExecutorOutput>() {
                Ok(output) => self.output(at, *output),
                Err(_) => unreachable!("an executor puts out its own outputs"),
            }
        }
        for (peer, fault) in self.members[at].seat.desk.blamed.drain(..) {
            let honest = peer.0 < 2 && !self.forged;
            assert!(!honest, "member {} is blamed for {}", peer.0, fault.name);
        }
        for (to, queue, body) in core::mem::take(&mut self.members[at].seat.desk.sent) {
            let To::Node(to) = to else { continue };
            let limits = Limits::default();
            let message = ClientMessage::decode(body.slice(1..), &limits);
            assert!(
                message.is_ok_and(|message| message.queue() == queue),
                "an executor sends what nobody reads"
            );
            let Some(other) = usize::try_from(to.0).ok().filter(|to| *to < 2 && *to != at) else { continue };
            let mut body = body.to_vec();
            if tape.below(16) == 1 {
                self.forged = true;
                let place = usize::from(tape.word()) % body.len().max(1);
                body[place] ^= tape.byte();
            }
            let from = NodeId(u32::try_from(at).unwrap_or(0));
            self.members[other].seat.frame(from, queue, Bytes::from(body));
        }
    }

    fn output(&mut self, at: usize, output: ExecutorOutput) {
        let member = &mut self.members[at];
        match output {
            ExecutorOutput::Submit(Submit::Payload { ticket, payload }) => {
                assert!(Item::parse(&payload).is_ok(), "an item is put forward that no node parses");
                member.payloads.push(ticket);
                self.submitted.push((at, ticket, payload));
            }
            ExecutorOutput::Submit(Submit::Barrier(ticket)) => member.barriers.push(ticket),
            ExecutorOutput::Submit(Submit::Prove(position)) => member.proofs.push(position),
            ExecutorOutput::Submit(Submit::Applied { position, root }) => {
                assert!(position.0 <= member.cursor as u64, "applied is what was delivered");
                if let Some(root) = root {
                    let known = *self.roots.entry(position).or_insert(root);
                    assert_eq!(known, root, "two roots at position {}", position.0);
                }
            }
            ExecutorOutput::Submit(Submit::Stuck) => unreachable!("an executor has all that entries hold"),
            ExecutorOutput::Stable(_) | ExecutorOutput::Proof { .. } | ExecutorOutput::Status(_) => {}
        }
    }
}

fn framed(message: &ClientMessage) -> Bytes {
    let mut body = vec![ClientMessage::VERSION];
    body.extend_from_slice(&message.encode());
    Bytes::from(body)
}

fn checkpoint(position: Position, root: Hash) -> Checkpoint {
    Checkpoint { position, root, certificate: Blob::default() }
}
