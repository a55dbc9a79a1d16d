//! The HotStuff replica: three honest ones over links that lose and reorder between peers, and a fourth member that
//! has real keys and says whatever the input says: drawn, copied, re-signed, changed, raw.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::{Hash, Scope, Signature};
use synod_hotstuff::{
    Complaints, Config, Filter, Identity, Message, Pack, Parameters, Replica, Statement, Votes,
};
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::host::{Host, HostConfig, Hosted as _, LaneLog};
use synod_machine::{Link, Message as _, Queue, Span, To};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::seat::Seat;
use super::{CLUSTER, keys, roster};
use crate::check::accept;
use crate::tape::Tape;

type Hosting = Host<Replica>;

/// The member that lies.
const LIAR: NodeId = NodeId(3);
/// Positions between checkpoints.
const EVERY: u64 = 4;
/// Messages kept to be copied by the liar.
const HEARD_MAX: usize = 48;
/// Messages in flight on one link; more are lost.
const LINK_MAX: usize = 256;

const PACKS: [Pack; 4] = [Pack::Chain2Order, Pack::Chain2, Pack::Chain3, Pack::Basic];

fn open(own: u32, pack: Pack, resume: Position) -> impl FnOnce(LaneLog) -> Hosting {
    move |log| {
        let parameters = Parameters {
            timeout_base: Span::millis(50),
            term_views: if pack.has_terms() { 4 } else { 1 },
            votes: Votes::Broadcast,
            complaints: Complaints::Broadcast,
            filter: Filter::Branch,
            block_bytes: 4 << 10,
            block_items: 8,
            batch_max: 8,
            mempool_bytes: 64 << 10,
            pool_items: 64,
            view_window: 8,
            checkpoint_every: EVERY,
            retain_blocks: 4,
            executor_lag_max: 4,
            ..Parameters::of(pack, 4)
        };
        let identity = Identity { own: NodeId(own), cluster: CLUSTER, roster: roster() };
        let config = match Config::new(identity, parameters, resume) {
            Ok(config) => config,
            Err(rule) => unreachable!("the target's parameters are valid: {rule}"),
        };
        let place =
            HostConfig { own: NodeId(own), machine: 0, seed: u64::from(own), jobs_max: 64, checked: true };
        match Host::open(place, config, log) {
            Ok(host) => host,
            Err(why) => unreachable!("a replica reads its own records: {}", why.0),
        }
    }
}

/// Drives three replicas against a fourth.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, two replicas deliver different payloads at one position, a
/// payload is delivered out of order, or an honest replica is blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let pack = PACKS[tape.below(PACKS.len())];
    let mut world = World::new(pack);
    while !tape.is_over() {
        world.step(&mut tape);
    }
    if !world.order.is_empty() {
        accept();
    }
}

struct Member {
    seat: Seat<Hosting>,
    /// The last position delivered.
    delivered: Position,
    /// What was delivered and not yet applied.
    unapplied: VecDeque<(Position, Option<Hash>)>,
    applied: Position,
}

struct World {
    pack: Pack,
    members: Vec<Member>,
    links: BTreeMap<(usize, usize, Queue), VecDeque<Bytes>>,
    /// The agreed order, as first delivered by anyone.
    order: BTreeMap<Position, Bytes>,
    heard: VecDeque<Bytes>,
    tickets: u64,
}

impl World {
    fn new(pack: Pack) -> Self {
        let member = |own: u32| Member {
            seat: Seat::open(keys(own.to_le_bytes()[0] + 1), open(own, pack, Position(0))),
            delivered: Position(0),
            unapplied: VecDeque::new(),
            applied: Position(0),
        };
        let mut world = Self {
            pack,
            members: (0..3).map(member).collect(),
            links: BTreeMap::new(),
            order: BTreeMap::new(),
            heard: VecDeque::new(),
            tickets: 0,
        };
        (0..3).for_each(|at| world.take(at));
        world
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        let at = tape.below(3);
        match tape.below(16) {
            0 => {
                self.tickets += 1;
                let payload = Bytes::copy_from_slice(tape.take(5));
                let submit = Submit::Payload { ticket: Ticket(self.tickets), payload };
                self.members[at].seat.input(Box::new(submit));
            }
            1..=6 => self.carry(at, 1 + tape.below(24)),
            7 | 8 => self.round(),
            9 => self.members[at].seat.wait(Span::millis(u64::from(tape.byte()))),
            10 => self.apply(at, tape),
            11 => self.lose(at, tape),
            12 => self.restart(at, tape),
            13 => self.ask(at, tape),
            _ => self.lie(at, tape),
        }
        (0..3).for_each(|at| self.take(at));
    }

    /// Delivers up to `count` messages to one member.
    fn carry(&mut self, at: usize, count: usize) {
        for _ in 0..count {
            let next = self.links.iter_mut().find(|((_, to, _), link)| *to == at && !link.is_empty());
            let Some((&(from, _, queue), link)) = next else { break };
            let Some(body) = link.pop_front() else { break };
            let from = NodeId(u32::try_from(from).unwrap_or(0));
            self.members[at].seat.frame(from, queue, body);
            self.members[at].seat.work(4);
            self.members[at].seat.sync();
            self.take(at);
        }
    }

    /// Everybody works and hears what is on its way.
    fn round(&mut self) {
        for at in 0..3 {
            self.members[at].seat.work(64);
            self.members[at].seat.sync();
            self.members[at].seat.wait(Span::millis(1));
            self.take(at);
            self.carry(at, 16);
            self.settle(at, usize::MAX);
        }
    }

    fn apply(&mut self, at: usize, tape: &mut Tape<'_>) {
        self.settle(at, 1 + tape.below(4));
    }

    fn settle(&mut self, at: usize, count: usize) {
        let member = &mut self.members[at];
        for _ in 0..count.min(member.unapplied.len()) {
            let Some((position, root)) = member.unapplied.pop_front() else { break };
            member.applied = position;
            let root = root.or_else(|| position.0.is_multiple_of(EVERY).then(|| root_of(position)));
            member.seat.input(Box::new(Submit::Applied { position, root }));
        }
    }

    /// A link loses what is on it.
    fn lose(&mut self, at: usize, tape: &mut Tape<'_>) {
        let from = tape.below(3);
        for ((sender, to, _), link) in &mut self.links {
            if *sender == from && *to == at {
                link.clear();
            }
        }
        if from != at {
            let peer = NodeId(u32::try_from(from).unwrap_or(0));
            self.members[at].seat.link(peer, Link::Down);
            self.members[at].seat.link(peer, Link::Up);
        }
    }

    fn restart(&mut self, at: usize, tape: &mut Tape<'_>) {
        if tape.below(4) > 0 {
            return;
        }
        // The user holds durably what it applied.
        let (own, resume) = (u32::try_from(at).unwrap_or(0), self.members[at].applied);
        let old = self.members.remove(at);
        let seat = old.seat.restart(open(own, self.pack, resume));
        let member = Member { seat, delivered: resume, unapplied: VecDeque::new(), applied: resume };
        self.members.insert(at, member);
        self.links.retain(|(from, to, _), _| *from != at && *to != at);
    }

    fn ask(&mut self, at: usize, tape: &mut Tape<'_>) {
        let member = &mut self.members[at];
        match tape.below(3) {
            0 => member.seat.input(Box::new(Submit::Prove(Position(u64::from(tape.byte()))))),
            1 => {
                self.tickets += 1;
                member.seat.input(Box::new(Submit::Barrier(Ticket(self.tickets))));
            }
            _ => {
                let link = if tape.below(2) == 0 { Link::Up } else { Link::Down };
                member.seat.link(LIAR, link);
            }
        }
    }

    /// The liar says something to one member.
    fn lie(&mut self, at: usize, tape: &mut Tape<'_>) {
        let heard = self.heard.get(tape.below(self.heard.len())).cloned();
        let copied = heard.and_then(|body| Message::decode(body.slice(1..), &Limits::default()).ok());
        let told = match (tape.below(5), copied) {
            (0, _) => Some(Message::draw(&mut Drawn::new(u64::from(tape.word())))),
            (1, _) => None,
            (2, Some(message)) => Some(message),
            (_, Some(message)) => Some(resigned(message, tape)),
            (_, None) => Some(Message::draw(&mut Drawn::new(u64::from(tape.byte())))),
        };
        let (queue, mut body) = match told {
            Some(message) => (message.queue(), framed(&message)),
            None => (Queue(tape.byte() % 4), tape.short().to_vec()),
        };
        for _ in 0..tape.below(5).saturating_sub(2) {
            let place = usize::from(tape.word()) % body.len().max(1);
            if let Some(byte) = body.get_mut(place) {
                *byte ^= tape.byte();
            }
        }
        self.members[at].seat.frame(LIAR, queue, Bytes::from(body));
    }

    /// Takes what a member's effects left.
    fn take(&mut self, at: usize) {
        let own = NodeId(u32::try_from(at).unwrap_or(0));
        for (to, queue, body) in core::mem::take(&mut self.members[at].seat.desk.sent) {
            let nodes: Vec<NodeId> = match to {
                To::Node(node) => vec![node],
                To::Set(set) => set.iter().collect(),
            };
            for node in nodes.into_iter().filter(|node| *node != own) {
                if node == LIAR {
                    self.heard.push_back(body.clone());
                    continue;
                }
                let to = usize::try_from(node.0).unwrap_or(0);
                let link = self.links.entry((at, to, queue)).or_default();
                if link.len() < LINK_MAX {
                    link.push_back(body.clone());
                }
            }
        }
        while self.heard.len() > HEARD_MAX {
            self.heard.pop_front();
        }
        for (peer, fault) in self.members[at].seat.desk.blamed.drain(..) {
            // A suspicion has no evidence and punishes nobody.
            let accused = !fault.name.starts_with("suspected");
            assert!(peer == LIAR || !accused, "honest replica {} is blamed for {}", peer.0, fault.name);
        }
        for output in core::mem::take(&mut self.members[at].seat.desk.outputs) {
            match output.downcast::<Delivered>() {
                Ok(delivered) => self.delivered(at, *delivered),
                Err(_) => unreachable!("a replica puts out what it delivers"),
            }
        }
    }

    fn delivered(&mut self, at: usize, delivered: Delivered) {
        let member = &mut self.members[at];
        match delivered {
            Delivered::Entry(entry) => {
                assert_eq!(entry.position.0, member.delivered.0 + 1, "positions are delivered without holes");
                member.delivered = entry.position;
                member.unapplied.push_back((entry.position, None));
                let known = self.order.entry(entry.position).or_insert_with(|| entry.payload.clone());
                assert!(*known == entry.payload, "two payloads at position {}", entry.position.0);
            }
            Delivered::Jump(checkpoint) => {
                assert!(checkpoint.position >= member.delivered, "a jump goes forward");
                assert_eq!(
                    checkpoint.root,
                    root_of(checkpoint.position),
                    "a checkpoint that no honest member has"
                );
                member.delivered = checkpoint.position;
                member.unapplied.clear();
                member.unapplied.push_back((checkpoint.position, Some(checkpoint.root)));
            }
            Delivered::Stable(checkpoint) => {
                assert_eq!(
                    checkpoint.root,
                    root_of(checkpoint.position),
                    "a checkpoint that no honest member has"
                );
            }
            Delivered::Proof { .. } | Delivered::Barrier(_) | Delivered::Refused { .. } => {}
        }
        assert!(member.seat.host.bytes() <= member.seat.host.bytes_max());
    }
}

fn root_of(position: Position) -> Hash {
    Hash::of(&position.0.to_le_bytes())
}

fn framed(message: &Message) -> Vec<u8> {
    let mut body = vec![Message::VERSION];
    body.extend_from_slice(&message.encode());
    body
}

/// A message of another member as the liar's own: changed where the tape says so, with its signature.
fn resigned(message: Message, tape: &mut Tape<'_>) -> Message {
    let sign = |statement: Statement| -> Signature {
        let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
        keys(4).sign(scope, LIAR, statement).into_inner().signature
    };
    let (shift, turn) = (u64::from(tape.byte() % 4), tape.below(4) == 0);
    match message {
        Message::Propose { mut header, .. } => {
            header.proposer = 3;
            header.view.0 += shift;
            if turn {
                header.root = root_of(Position(shift));
            }
            let signature = sign(Statement::Proposal { view: header.view, digest: header.digest() });
            Message::Propose { header, signature }
        }
        Message::Vote { kind, mut view, mut digest, .. } => {
            view.0 += shift;
            if turn {
                digest = root_of(Position(shift));
            }
            Message::Vote { kind, view, digest, signature: sign(Statement::vote(kind, view, digest)) }
        }
        Message::Order { mut view, digest, .. } => {
            view.0 += shift;
            Message::Order { view, digest, signature: sign(Statement::Order { view, digest }) }
        }
        Message::Complain { mut view, high, .. } => {
            view.0 += shift * 4;
            let signature = sign(Statement::Complain { view, high: high.view });
            Message::Complain { view, high, signature }
        }
        Message::Attest { mut state, .. } => {
            if turn {
                state.root = root_of(Position(99));
            }
            Message::Attest { state, signature: sign(Statement::Checkpoint(state)) }
        }
        other => other,
    }
}
