//! A broker: servers of which three tell the truth and one says anything, links of honest clients and of liars.

use std::collections::{BTreeMap, VecDeque};

use synod_chopchop::broker::{Broker, Config, Parameters};
use synod_chopchop::config::Class;
use synod_chopchop::content::AnyBatch;
use synod_chopchop::dedup::Exceptions;
use synod_chopchop::message::{
    Cards, ClientMessage, Credit, ExceptionList, Inclusion, ServerMessage, Shard, SignedHeight, SignedState,
    StoreMessage, Verdict,
};
use synod_chopchop::statement::{BlsShareBytes, BlsSignatureBytes, Delivered, Kind, Root, State};
use synod_chopchop::tree::root_commit;
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Statement};
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{Never, Span, To};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::super::seat::Seat;
use super::cast::{CLIENTS, Cast, SERVERS, framed};
use crate::check::accept;
use crate::tape::Tape;

/// The server that lies.
const LIAR: NodeId = NodeId(3);
/// Links from this one on are liars'; those of honest clients stand below.
const LIARS: u32 = 1_900;
/// Questions and inclusions that are remembered.
const HEARD_MAX: usize = 64;

const fn link(id: u32) -> NodeId {
    NodeId(1_000 + id)
}

fn open(log: LaneLog) -> Host<Broker> {
    let cast = Cast::new();
    let usual = Parameters::of(SERVERS);
    let parameters = Parameters { distil_min: 2, links_max: 64, keep_bytes: 1 << 16, ..usual };
    let config = Config::new(cast.cluster.clone(), 0, Class::Fixed(8), cast.directory(), parameters);
    let place = HostConfig { own: NodeId(200), machine: 0, seed: 1, jobs_max: 64, checked: true };
    match config.map(|config| Host::open(place, config, log)) {
        Ok(Ok(host)) => host,
        Ok(Err(why)) => unreachable!("a broker has no log: {}", why.0),
        Err(rule) => unreachable!("the parameters are sound: {rule}"),
    }
}

/// Drives a broker.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, or an honest server or link is blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let cast = Cast::new();
    let mut world = World {
        seat: Seat::open(cast.client(9_000), open),
        cast,
        height: 1,
        batches: BTreeMap::new(),
        verdicts: BTreeMap::new(),
        asked: VecDeque::new(),
        shown: VecDeque::new(),
        told: 0,
    };
    while !tape.is_over() {
        world.step(&mut tape);
    }
    if world.told > 0 {
        accept();
    }
}

struct World {
    cast: Cast,
    seat: Seat<Host<Broker>>,
    height: u64,
    batches: BTreeMap<Hash, AnyBatch>,
    verdicts: BTreeMap<Hash, Delivered>,
    /// What servers were asked and did not answer yet.
    asked: VecDeque<(NodeId, Message<Never>)>,
    /// Inclusions that honest clients were shown.
    shown: VecDeque<(u32, Inclusion)>,
    /// Deliveries that clients were told.
    told: u64,
}

impl World {
    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(16) {
            0..=2 => self.submit(tape),
            3..=6 => self.answer(1 + tape.below(6)),
            7 => self.sign(tape),
            8 | 9 => self.seat.work(1 + tape.below(6)),
            10 | 11 => self.seat.wait(Span::millis(1 + u64::from(tape.byte()) * 4)),
            12 => (0..3).for_each(|id| self.credit(NodeId(id))),
            13 => self.lie(tape),
            14 => self.client_noise(tape),
            _ => {
                let height = u64::from(tape.byte()) % (self.height + 1);
                self.hear(link(u32::from(tape.byte()) % CLIENTS), ClientMessage::Ack { height });
            }
        }
        self.take();
    }

    fn hear(&mut self, from: NodeId, message: impl Into<Message<Never>>) {
        let (queue, body) = framed(&message.into());
        self.seat.frame(from, queue, Bytes::from(body));
    }

    fn submit(&mut self, tape: &mut Tape<'_>) {
        let (id, k0) = (u32::from(tape.byte()) % CLIENTS, u64::from(tape.byte() % 4));
        let (word, liar) = (u64::from(tape.byte() % 8), tape.below(8) == 1);
        let submit = self.cast.submit((id, k0), word, word % 2 == 1);
        let from = if liar { NodeId(LIARS) } else { link(id) };
        self.hear(from, ClientMessage::Submit(submit));
    }

    /// A client that was shown an inclusion signs it.
    fn sign(&mut self, tape: &mut Tape<'_>) {
        let Some((id, shown)) = self.shown.remove(tape.below(self.shown.len())) else { return };
        let commit = root_commit(self.cast.cluster.domains(), shown.k, &shown.shape, &shown.root);
        let root = Root { root_commit: commit };
        let Some(share) = self.cast.client(id).sign_bls(&self.cast.cluster.scope(), &root) else { return };
        let share = Box::new(BlsShareBytes(share.to_share()));
        let Some(half) = commit.0.first_chunk().copied() else { return };
        self.hear(link(id), ClientMessage::MultiSig { id, root_commit: half, share });
    }

    fn client_noise(&mut self, tape: &mut Tape<'_>) {
        let from = NodeId(LIARS + u32::from(tape.byte() % 80));
        if tape.below(4) == 0 {
            let (queue, _) = framed(&Message::Client(ClientMessage::Ack { height: 0 }));
            return self.seat.frame(from, queue, Bytes::copy_from_slice(tape.short()));
        }
        let message: ClientMessage = Draw::draw(&mut Drawn::new(u64::from(tape.word())));
        self.hear(from, message);
    }

    /// The liar among the servers says anything, or what the truth would be with other numbers.
    fn lie(&mut self, tape: &mut Tape<'_>) {
        let seed = u64::from(tape.word());
        if let (true, Some((_, question))) = (tape.below(2) == 0, self.asked.front().cloned()) {
            self.height += u64::from(tape.byte() % 3);
            let said = self.truth(LIAR, &question);
            return said.into_iter().for_each(|message| self.hear(LIAR, message));
        }
        if tape.below(2) == 0 {
            self.hear(LIAR, <StoreMessage as Draw>::draw(&mut Drawn::new(seed)));
        } else {
            self.hear(LIAR, <ServerMessage as Draw>::draw(&mut Drawn::new(seed)));
        }
    }

    fn credit(&mut self, from: NodeId) {
        let directory = CLIENTS;
        let credit = Credit { bytes: 1 << 20, work: 1 << 20, height: self.height, directory };
        self.hear(from, StoreMessage::Credit(credit));
    }

    /// Honest servers answer what they were asked.
    fn answer(&mut self, count: usize) {
        for _ in 0..count {
            let Some((server, question)) = self.asked.pop_front() else { return };
            for message in self.truth(server, &question) {
                self.hear(server, message);
            }
            self.take();
        }
    }

    fn sign_as<S: Statement>(&self, server: NodeId, statement: &S) -> BlsSignatureBytes {
        match self.cast.server(server.0).sign_bls(&self.cast.cluster.scope(), statement) {
            Some(signature) => BlsSignatureBytes(signature.to_bytes()),
            None => unreachable!("servers sign together"),
        }
    }

    fn shard(&self, server: NodeId, digest: Hash) -> Option<Message<Never>> {
        let statement = self.batches.get(&digest)?.header.witness(digest);
        let keys = self.cast.server(server.0);
        let signature = keys.sign(self.cast.cluster.scope(), server, statement).signature;
        Some(StoreMessage::Shard(Shard { digest, signature }).into())
    }

    fn verdict(&self, server: NodeId, digest: &Hash) -> Option<Message<Never>> {
        let statement = self.verdicts.get(digest)?.clone();
        let signature = self.sign_as(server, &statement);
        let none = ExceptionList::from(&Exceptions::new(1, Vec::new()));
        Some(ServerMessage::Delivered(Verdict { statement, exceptions: none, signature }).into())
    }

    /// A batch is delivered, whole.
    fn deliver(&mut self, digest: Hash) {
        let Some(batch) = self.batches.get(&digest) else { return };
        let Some(sealed) = batch.clone().into_messages() else { return };
        self.height += 1;
        let said = Delivered {
            height: self.height,
            kind: Kind::Messages,
            digest,
            root_commit: sealed.header.root_commit(self.cast.cluster.domains()),
            exceptions_root: Hash::ZERO,
            exc_count: 0,
        };
        self.verdicts.insert(digest, said);
    }

    fn truth(&mut self, server: NodeId, question: &Message<Never>) -> Vec<Message<Never>> {
        let said = match question {
            Message::Store(StoreMessage::Batch(upload)) => {
                let Some(batch) = AnyBatch::of_upload(upload) else { return Vec::new() };
                let (_, digest) = batch.name_and_digest(self.cast.cluster.domains());
                self.batches.insert(digest, batch);
                if upload.asks() { self.shard(server, digest) } else { None }
            }
            Message::Store(StoreMessage::Ask(digest)) => self.shard(server, *digest),
            Message::Server(ServerMessage::Order(item)) => {
                let digest = *item.digest();
                if !self.verdicts.contains_key(&digest) {
                    self.deliver(digest);
                }
                let all = (0..3).filter_map(|id| Some((NodeId(id), self.verdict(NodeId(id), &digest)?)));
                let others: Vec<_> = all.filter(|(id, _)| *id != server).collect();
                others.into_iter().for_each(|(id, message)| self.hear(id, message));
                self.verdict(server, &digest)
            }
            Message::Server(ServerMessage::Certify(digest)) => self.verdict(server, digest),
            Message::Server(ServerMessage::HeightAsk(ask)) if ask.height <= self.height => {
                let signature = self.sign_as(server, ask);
                Some(ServerMessage::Height(SignedHeight { statement: ask.clone(), signature }).into())
            }
            Message::Server(ServerMessage::StateAsk(ask)) => {
                let statement = State { nonce: ask.nonce, id: ask.id, next_k: 0, tag: 0 };
                let signature = self.sign_as(server, &statement);
                Some(ServerMessage::State(SignedState { statement, signature }).into())
            }
            Message::Server(ServerMessage::DirPull { from }) => {
                let view = self.cast.directory().view();
                let members = (*from..view.len()).filter_map(|id| view.member(id).cloned()).collect();
                let root = view.root(self.cast.cluster.domains());
                let cards = Cards { from: *from, members, length: view.len(), root };
                Some(ServerMessage::Cards(cards).into())
            }
            _ => None,
        };
        said.into_iter().collect()
    }

    fn take(&mut self) {
        for (to, _, body) in core::mem::take(&mut self.seat.desk.sent) {
            let Ok(message) = Message::<Never>::decode(body.slice(1..), &Limits::default()) else {
                unreachable!("a broker sends what nobody reads")
            };
            let nodes: Vec<NodeId> = match to {
                To::Node(node) => vec![node],
                To::Set(set) => set.iter().collect(),
            };
            for node in nodes {
                match &message {
                    Message::Client(ClientMessage::Inclusion(shown)) if node.0 < LIARS && !shown.closed => {
                        self.shown.push_back((node.0 - 1_000, shown.clone()));
                    }
                    Message::Client(ClientMessage::Delivery(_)) => self.told += 1,
                    Message::Client(_) => {}
                    other => self.asked.push_back((node, other.clone())),
                }
            }
        }
        while self.asked.len() > HEARD_MAX {
            self.asked.pop_front();
        }
        while self.shown.len() > HEARD_MAX {
            self.shown.pop_front();
        }
        for (peer, fault) in self.seat.desk.blamed.drain(..) {
            let honest = peer.0 < LIARS && peer != LIAR && !fault.name.starts_with("suspected");
            assert!(!honest, "honest peer {} is blamed for {}", peer.0, fault.name);
        }
        self.seat.desk.outputs.clear();
    }
}
