//! Four servers, each a `Server` over the ideal ordering with a `Store` beside it; the test plays the brokers.
//!
//! Nothing moves by itself: [`World::calm`] lets everything arrive that is on its way, [`World::pass`] lets time pass.

mod app;
mod host;
mod make;
pub(crate) mod words;

use std::collections::VecDeque;

use synod_chopchop::batch::{Refusal, Sealed};
use synod_chopchop::certificate::Signers;
use synod_chopchop::config::{Cluster, Rules};
use synod_chopchop::content::{AnyBatch, AnyHeader};
use synod_chopchop::dedup::Reason;
use synod_chopchop::item::Item;
use synod_chopchop::message::{ServerMessage, StoreMessage, Upload, Verdict};
use synod_chopchop::server::{Apply, Server, ServerConfig, ServerInput, ServerOutput};
use synod_chopchop::statement::Witness;
use synod_chopchop::store::{Quota, Store, StoreConfig, StoreInput, StoreParameters};
use synod_chopchop::vocabulary::{Message, Role};
use synod_crypto::bls::BlsMembers;
use synod_crypto::{Hash, Keys, Signature};
use synod_machine::broadcast::Position;
use synod_machine::{Condition, Event, Span, Time, To};
use synod_quorum::{Epoch, Member, Model, NodeId, NodeSet, Quorums, Roster};
use synod_sim::{Crypto, Keyring};
use synod_wire::{Limits, Wire};

use crate::ideal::{Ideal, IdealConfig, Say};
pub(crate) use host::{Host, Said, Written};
pub(crate) use make::{Maker, Recipe};

/// Servers.
pub(crate) const N: u32 = 4;
/// The broker of the genesis.
pub(crate) const BROKER: u32 = 100;
/// A broker nobody knows.
pub(crate) const OTHER: u32 = 101;
/// Clients of the genesis, usually.
pub(crate) const CLIENTS: u32 = 16;

const STEPS_MAX: u32 = 1_000_000;

type Spoken = Message<Say>;

/// A message on its way.
pub(crate) struct Envelope {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) message: Spoken,
}

/// How a world is made.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) rules: Rules,
    pub(crate) parameters: StoreParameters,
    pub(crate) lanes: u8,
    /// Positions that the order keeps below its certified checkpoint.
    pub(crate) retain: u64,
    pub(crate) crypto: Crypto,
    /// Clients of the genesis.
    pub(crate) clients: u32,
    /// The application says only by hand what it executed, and may be given so many bytes.
    pub(crate) slow: Option<u64>,
}

impl Default for Setup {
    fn default() -> Self {
        let rules =
            Rules { batch_max: 64, body_bytes_max: 64 << 10, horizon: 1_000, checkpoint_every: 1 << 20 };
        let quota = |bytes| Quota { bytes, batches: 64, work: 1_000, burst: 10_000 };
        let parameters =
            StoreParameters { genesis: quota(1 << 20), other: quota(1 << 16), ..StoreParameters::default() };
        let (retain, crypto, clients) = (1 << 20, Crypto::Toy, CLIENTS);
        Self { rules, parameters, lanes: 4, retain, crypto, clients, slow: None }
    }
}

/// One server node.
pub(crate) struct Node {
    pub(crate) server: Host<Server<Ideal>>,
    pub(crate) store: Host<Store>,
    /// What the application executed, which it keeps.
    pub(crate) applied: Vec<Apply>,
    /// Checkpoints that it was asked for, with their heights.
    pub(crate) asked: Vec<(Position, u64)>,
    /// Answers that it keeps back, if it does.
    pub(crate) late: Option<Vec<(Position, Hash)>>,
    pub(crate) outputs: Vec<ServerOutput>,
    keys: Keys,
}

/// The servers and what is between them.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) maker: Maker,
    pub(crate) nodes: Vec<Node>,
    pub(crate) flight: VecDeque<Envelope>,
    /// What brokers were told.
    pub(crate) inbox: Vec<Envelope>,
    /// Whether a message gets through; it is asked once for each.
    pub(crate) passes: Box<dyn Fn(&Envelope) -> bool>,
    pub(crate) now: Time,
    /// What is said and written, line by line, if it is to be.
    pub(crate) lines: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let ring = Keyring::new(setup.crypto, 1);
        let all: Vec<Keys> = (0..u64::from(N)).map(|id| ring.keys(id)).collect();
        let voters = all.iter().map(|keys| Member { key: keys.public(), power: 1 }).collect();
        let roster = Roster::new(Epoch(1), voters).expect("distinct keys");
        let bls = all.iter().map(|keys| keys.bls_public().expect("a key")).collect();
        let bls = BlsMembers::new(bls).expect("distinct keys");
        let quorums = Quorums::new(Model::Byzantine, N).expect("four suffice");
        let cluster =
            Cluster::new(Hash::of(b"cluster"), roster, bls, quorums, setup.rules).expect("sound rules");
        let maker = Maker { cluster, ring };
        let node = |keys| {
            let (server, store) = (Host::new(), Host::new());
            let (applied, asked, outputs) = (Vec::new(), Vec::new(), Vec::new());
            Node { server, store, applied, asked, late: None, outputs, keys }
        };
        let mut world = Self {
            setup,
            maker,
            nodes: all.into_iter().map(node).collect(),
            flight: VecDeque::new(),
            inbox: Vec::new(),
            passes: Box::new(|_| true),
            now: Time(Span::secs(1).0),
            lines: None,
        };
        for id in 0..N {
            world.open(id, Condition::Fresh);
        }
        world.calm();
        world
    }

    /// The usual world.
    pub(crate) fn usual() -> Self {
        Self::new(Setup::default())
    }

    /// Opens both machines of a server over their journals.
    pub(crate) fn open(&mut self, id: u32, condition: Condition) {
        let (cluster, own) = (self.maker.cluster.clone(), NodeId(id));
        let retain = self.setup.retain;
        let order = Box::new(move |resume| IdealConfig { own, members: N, resume, retain });
        let genesis = self.maker.directory(self.setup.clients);
        let server =
            ServerConfig::new(cluster.clone(), own, self.setup.lanes, genesis, order).expect("a server");
        let server = match self.setup.slow {
            Some(bytes) => server.giving(bytes),
            None => server,
        };
        let brokers = vec![NodeId(BROKER)];
        let server = server.serving(brokers.clone());
        let store = StoreConfig::new(cluster, own, brokers, self.setup.parameters).expect("sound parameters");
        let node = self.node_mut(id);
        node.store.open(store, condition);
        node.server.open(server, condition);
    }

    /// Kills a server and opens it again over what it wrote.
    pub(crate) fn restart(&mut self, id: u32) {
        self.kill(id);
        self.open(id, Condition::Clean);
        self.calm();
    }

    /// Kills a server; what it wrote stays.
    pub(crate) fn kill(&mut self, id: u32) {
        let node = self.node_mut(id);
        let (server, store) = (node.server.journal.len(), node.store.journal.len());
        node.server.crash(server);
        node.store.crash(store);
        self.flight.retain(|envelope| envelope.from != id && envelope.to != id);
    }

    pub(crate) fn node(&self, id: u32) -> &Node {
        self.nodes.get(id as usize).expect("a server")
    }

    pub(crate) fn node_mut(&mut self, id: u32) -> &mut Node {
        self.nodes.get_mut(id as usize).expect("a server")
    }

    pub(crate) fn server(&self, id: u32) -> &Server<Ideal> {
        self.node(id).server.machine.as_ref().expect("it is up")
    }

    /// A broker says something to a server.
    pub(crate) fn say(&mut self, from: u32, to: u32, message: impl Into<Spoken>) {
        self.flight.push_back(Envelope { from, to, message: message.into() });
    }

    /// Writes a line.
    pub(crate) fn note(&mut self, who: &str, what: &str) {
        let at = self.now.0.saturating_sub(Span::secs(1).0) / 1_000_000;
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at:>5}  {who} {what}"));
        }
    }

    /// Writes down what is said.
    pub(crate) fn trace(&mut self, from: u32, to: To, message: &Spoken) {
        let text = self.lines.is_some().then(|| words::of_message(message, self.maker.cluster.domains()));
        if let Some(text) = text.flatten() {
            self.note(&words::name(from), &format!("-> {}  {text}", words::names(to)));
        }
    }

    fn send(&mut self, from: u32, to: To, message: &Spoken) {
        self.trace(from, to, message);
        let peers: Vec<u32> = match to {
            To::Node(node) => vec![node.0],
            To::Set(set) => set.iter().map(|node| node.0).collect(),
        };
        for to in peers {
            // What travels is read from its bytes.
            let again =
                Spoken::decode(message.encode(), &Limits::default()).expect("what is sent can be read");
            assert_eq!(again.encode(), message.encode());
            let envelope = Envelope { from, to, message: again };
            if to >= N {
                self.inbox.push(envelope);
            } else {
                self.flight.push_back(envelope);
            }
        }
    }

    fn step_store(&mut self, id: u32) -> bool {
        let (now, traced) = (self.now, self.lines.is_some());
        let node = self.node_mut(id);
        let before = node.store.journal.len();
        let Some(said) = node.store.step(now, &node.keys) else { return false };
        let new = node.store.journal[before..].iter().filter(|_| traced);
        let written: Vec<String> = new.filter_map(words::of_store).collect();
        written.iter().for_each(|what| self.note(&words::name(id), what));
        for said in said {
            match said {
                Said::Send(to, message) => {
                    let message = match message {
                        Message::Store(message) => Message::Store(message),
                        other => unreachable!("a store says {other:?}"),
                    };
                    self.send(id, to, &message);
                }
                Said::Output(output) => self.tell_server(id, ServerInput::Store(output)),
            }
        }
        true
    }

    /// Gives a server an input of its application or its store, by hand.
    pub(crate) fn tell_server(&mut self, id: u32, input: ServerInput) {
        let server = &mut self.node_mut(id).server;
        if server.machine.is_some() {
            server.local.push_back(Event::Input(input));
        }
    }

    /// Gives a store an input of its server, by hand.
    pub(crate) fn tell_store(&mut self, id: u32, input: StoreInput) {
        let store = &mut self.node_mut(id).store;
        if store.machine.is_some() {
            store.local.push_back(Event::Input(input));
        }
    }

    fn step_server(&mut self, id: u32) -> bool {
        let (now, traced) = (self.now, self.lines.is_some());
        let node = self.node_mut(id);
        let before = node.server.journal.len();
        let Some(said) = node.server.step(now, &node.keys) else { return false };
        let new = node.server.journal[before..].iter().filter(|_| traced);
        let written: Vec<String> = new.filter_map(words::of_server).collect();
        written.iter().for_each(|what| self.note(&words::name(id), what));
        for said in said {
            match said {
                Said::Send(to, message) => self.send(id, to, &message),
                Said::Output(ServerOutput::Store(input)) => self.tell_store(id, input),
                Said::Output(ServerOutput::Apply(apply)) => {
                    self.note(&words::name(id), &words::of_apply(&apply));
                    self.apply(id, *apply);
                }
                Said::Output(ServerOutput::Checkpoint { position, height, .. }) => {
                    self.checkpoint(id, position, height);
                }
                Said::Output(ServerOutput::Jump { position, height, root }) => {
                    self.jump(id, position, height, root);
                }
                Said::Output(output) => self.node_mut(id).outputs.push(output),
            }
        }
        true
    }

    /// Lets everything happen that needs no time.
    pub(crate) fn calm(&mut self) {
        for _ in 0..STEPS_MAX {
            let mut moved = false;
            for id in 0..N {
                moved |= self.step_store(id);
                moved |= self.step_server(id);
            }
            if let Some(envelope) = self.flight.pop_front() {
                moved = true;
                if (self.passes)(&envelope) {
                    self.arrive(envelope);
                }
            }
            if !moved {
                return;
            }
        }
        unreachable!("the world does not come to rest");
    }

    fn arrive(&mut self, envelope: Envelope) {
        let Envelope { from, to, message } = envelope;
        let (from, role) = (NodeId(from), message.to());
        let node = self.node_mut(to);
        match (role, message) {
            (Role::Store, Message::Store(message)) if node.store.machine.is_some() => {
                node.store.local.push_back(Event::Message { from, message: Message::Store(message) });
            }
            (Role::Server, message) if node.server.machine.is_some() => {
                node.server.local.push_back(Event::Message { from, message });
            }
            _ => {}
        }
    }

    /// Lets time pass, in steps of 50 ms.
    pub(crate) fn pass(&mut self, span: Span) {
        for _ in 0..span.as_millis().div_ceil(50) {
            self.now = self.now + Span::millis(50);
            let now = self.now;
            for node in &mut self.nodes {
                node.store.fire(now);
                node.server.fire(now);
            }
            self.calm();
        }
    }

    /// A broker uploads a batch to these servers, asking for witnesses; its digest.
    pub(crate) fn upload(&mut self, broker: u32, servers: &[u32], batch: &Sealed) -> Hash {
        for server in servers {
            let upload = Upload::messages(true, batch.clone());
            self.say(broker, *server, StoreMessage::Batch(upload));
        }
        self.calm();
        batch.digest(self.maker.cluster.domains())
    }

    /// The shards that brokers have of a batch.
    pub(crate) fn shards(&self, digest: &Hash) -> Vec<(NodeId, Signature)> {
        let mut shards: Vec<(NodeId, Signature)> = self
            .inbox
            .iter()
            .filter_map(|envelope| match &envelope.message {
                Message::Store(StoreMessage::Shard(shard)) if shard.digest == *digest => {
                    Some((NodeId(envelope.from), shard.signature))
                }
                _ => None,
            })
            .collect();
        shards.sort_by_key(|(id, _)| id.0);
        shards.dedup_by_key(|(id, _)| id.0);
        shards
    }

    /// Why servers refused a batch.
    pub(crate) fn refusals(&self, digest: &Hash) -> Vec<(u32, Refusal)> {
        let of = |envelope: &Envelope| match &envelope.message {
            Message::Store(StoreMessage::Refuse(refused)) if refused.digest == *digest => {
                Some((envelope.from, refused.why))
            }
            _ => None,
        };
        self.inbox.iter().filter_map(of).collect()
    }

    /// The item of a witnessed batch, with the shards of these members.
    pub(crate) fn item_of(&self, statement: Witness, by: &[u32]) -> Item {
        let set: NodeSet = by.iter().map(|id| NodeId(*id)).collect();
        let shards = self.shards(&statement.digest);
        let shards = shards.into_iter().filter(|(id, _)| set.contains(*id)).map(|(_, shard)| shard).collect();
        let signers = Signers::new(set, N).expect("members");
        Item::new(statement, signers, shards).expect("a shard of each")
    }

    /// What a witness says of a batch.
    pub(crate) fn statement(&self, batch: &Sealed) -> Witness {
        let header = AnyHeader::Messages(batch.header.clone());
        header.witness(batch.digest(self.maker.cluster.domains()))
    }

    /// Witnessed by the first two servers, ordered by member 1; its digest.
    pub(crate) fn deliver(&mut self, batch: &Sealed) -> Hash {
        let digest = self.upload(BROKER, &[0, 1, 2, 3], batch);
        self.order(batch, &[0, 1]);
        digest
    }

    /// A witnessed batch is ordered with the shards of these members.
    pub(crate) fn order(&mut self, batch: &Sealed, by: &[u32]) {
        let item = self.item_of(self.statement(batch), by);
        self.say(BROKER, 1, ServerMessage::Order(item));
        self.calm();
    }

    /// The verdicts that brokers have of a batch, one for each server.
    pub(crate) fn verdicts(&self, digest: &Hash) -> Vec<(u32, Verdict)> {
        let of = |envelope: &Envelope| match &envelope.message {
            Message::Server(ServerMessage::Delivered(verdict)) if verdict.statement.digest == *digest => {
                Some((envelope.from, verdict.clone()))
            }
            _ => None,
        };
        let mut all: Vec<(u32, Verdict)> = self.inbox.iter().filter_map(of).collect();
        all.sort_by_key(|(id, _)| *id);
        all.dedup_by_key(|(id, _)| *id);
        all
    }

    /// What all servers that answered say was not delivered of a batch; all four say the same.
    pub(crate) fn outcome(&self, batch: &Sealed) -> Vec<(u32, Reason)> {
        let verdicts = self.verdicts(&batch.digest(self.maker.cluster.domains()));
        assert_eq!(verdicts.len(), N as usize, "every server answered");
        let statement = &verdicts[0].1.statement;
        assert!(verdicts.iter().all(|(_, verdict)| verdict.statement == *statement), "verdicts are equal");
        let exceptions = verdicts[0].1.exceptions.exceptions(batch.header.count).expect("of this batch");
        assert_eq!(exceptions.root(self.maker.cluster.domains()), statement.exceptions_root);
        exceptions.list().to_vec()
    }

    /// The heights of all servers that are up.
    pub(crate) fn delivered(&self) -> Vec<u64> {
        self.nodes.iter().filter_map(|node| node.server.machine.as_ref()).map(Server::delivered).collect()
    }

    /// Asserts that all servers executed the same.
    pub(crate) fn agree(&self) {
        let of = |id: u32| self.node(id).applied.iter().map(|a| (a.height, a.draw, a.exceptions.clone()));
        for id in 1..N {
            assert!(of(0).eq(of(id)), "servers 0 and {id} executed the same");
            for client in 0..self.server(0).directory().len() {
                assert_eq!(self.server(0).slot(client), self.server(id).slot(client));
            }
        }
    }

    /// Name of a batch's body.
    pub(crate) fn body_name(&self, batch: &Sealed) -> Hash {
        AnyBatch::from(batch.clone()).name_and_digest(self.maker.cluster.domains()).0
    }

    /// Tells the store of server 0 that a batch took this height, and that all have it: as if it had been ordered.
    pub(crate) fn order_by_hand(&mut self, batch: &Sealed, height: u64) {
        let statement = self.statement(batch);
        let (digest, signers) = (statement.digest, NodeSet::only(NodeId(0)));
        self.tell_store(0, StoreInput::Ordered { statement, signers, height });
        self.tell_store(0, StoreInput::Need(digest));
        self.calm();
    }
}
