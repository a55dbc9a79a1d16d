//! A server and its store: one of four, over an order that the input writes, among liars who hold all other keys.

use std::collections::BTreeMap;

use synod_chopchop::batch::Sealed;
use synod_chopchop::content::{AnyBatch, AnyHeader};
use synod_chopchop::dedup::Exceptions;
use synod_chopchop::message::{Pull, ServerMessage, StateAsk, StoreMessage, TransferMessage};
use synod_chopchop::server::{Server, ServerConfig, ServerInput, ServerOutput};
use synod_chopchop::statement::Height;
use synod_chopchop::store::{Quota, Store, StoreConfig, StoreOutput, StoreParameters};
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{Never, Queue, Span};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::super::seat::Seat;
use super::cast::{BROKERS, Cast, framed, root_of, two, upload};
use super::order::{List, Listed};
use crate::check::accept;
use crate::tape::Tape;

const OWN: NodeId = NodeId(0);
/// Batches that the liars know.
const BATCHES_MAX: usize = 24;

const fn place(machine: u8) -> HostConfig {
    HostConfig { own: OWN, machine, seed: 1, jobs_max: 64, checked: true }
}

fn open_store(log: LaneLog) -> Host<Store> {
    let quota = Quota { bytes: 64 << 10, batches: 16, work: 1_000, burst: 10_000 };
    let usual = StoreParameters { genesis: quota, other: quota, others_max: 2, ..StoreParameters::default() };
    let parameters = StoreParameters { retain_bytes: 20_000, jobs_max: 4, ..usual };
    let config = StoreConfig::new(Cast::new().cluster, OWN, vec![BROKERS[0]], parameters);
    match config.map(|config| Host::open(place(1), config, log)) {
        Ok(Ok(host)) => host,
        Ok(Err(why)) => unreachable!("a store reads its own records: {}", why.0),
        Err(rule) => unreachable!("the parameters are sound: {rule}"),
    }
}

fn open_server(list: List) -> impl FnOnce(LaneLog) -> Host<Server<Listed>> {
    move |log| {
        let cast = Cast::new();
        let order = Box::new(move |resume| (resume, list.clone()));
        let config = ServerConfig::new(cast.cluster.clone(), OWN, 3, cast.directory(), order);
        match config.map(|config| Host::open(place(0), config, log)) {
            Ok(Ok(host)) => host,
            Ok(Err(why)) => unreachable!("a server reads its own records: {}", why.0),
            Err(rule) => unreachable!("the parameters are sound: {rule}"),
        }
    }
}

/// Drives a server and its store.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, heights have a gap, a height is delivered otherwise after a restart,
/// or a shard leaves whose body was not stored.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut world = World::new();
    while !tape.is_over() && !world.halted {
        world.step(&mut tape);
    }
    if world.height > 1 {
        accept();
    }
}

struct World {
    cast: Cast,
    list: List,
    store: Seat<Host<Store>>,
    server: Seat<Host<Server<Listed>>>,
    batches: Vec<Sealed>,
    /// What was delivered at a height.
    delivered: BTreeMap<u64, (Bytes, Exceptions)>,
    height: u64,
    /// More than f servers vouched for what breaks a rule.
    halted: bool,
}

impl World {
    fn new() -> Self {
        let (cast, list) = (Cast::new(), List::default());
        let mut world = Self {
            store: Seat::open(cast.server(0), open_store),
            server: Seat::open(cast.server(0), open_server(list.clone())),
            cast,
            list,
            batches: Vec::new(),
            delivered: BTreeMap::new(),
            height: 1,
            halted: false,
        };
        world.connect();
        world
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(16) {
            0 | 1 => self.upload(tape),
            2 => {
                let digest = self.digest(tape);
                self.ask_store(BROKERS[tape.below(2)], StoreMessage::Ask(digest), tape);
            }
            3 | 4 => self.order(tape),
            5..=7 => self.go_on(1 + tape.below(8)),
            8 => self.wait(tape),
            9 => self.pull(tape),
            10 => self.piece(tape),
            11 => self.ask(tape),
            12 => self.noise(tape),
            13 => self.transfer(tape),
            14 => self.listed(tape),
            _ => self.restart(tape),
        }
        self.connect();
    }

    fn digest_of(&self, batch: &Sealed) -> Hash {
        batch.digest(self.cast.cluster.domains())
    }

    fn known(&self, tape: &mut Tape<'_>) -> Option<Sealed> {
        self.batches.get(tape.below(self.batches.len())).cloned()
    }

    fn digest(&self, tape: &mut Tape<'_>) -> Hash {
        self.known(tape).map_or(Hash::ZERO, |batch| self.digest_of(&batch))
    }

    fn upload(&mut self, tape: &mut Tape<'_>) {
        let old = (tape.below(3) == 0).then(|| self.known(tape)).flatten();
        let expiry = self.height + u64::from(tape.byte() % 40);
        let (k, broker, ask) = (u64::from(tape.byte() % 16), BROKERS[tape.below(2)], tape.below(2) == 0);
        let Some(batch) = old.or_else(|| self.cast.batch(tape, k, expiry)) else { return };
        if self.batches.len() < BATCHES_MAX {
            self.batches.push(batch.clone());
        }
        if tape.below(4) > 0 {
            self.ask_store(broker, StoreMessage::Batch(upload(ask, batch)), tape);
        }
    }

    fn order(&mut self, tape: &mut Tape<'_>) {
        let Some(batch) = self.known(tape) else { return };
        let statement = AnyHeader::Messages(batch.header.clone()).witness(self.digest_of(&batch));
        // Others witness what is sound, as f + 1 servers do; now and then they do not look.
        let sound = synod_chopchop::batch::Batch::open(&batch)
            .is_ok_and(|open| open.check().is_ok() && open.check_root(self.cast.cluster.domains()).is_ok());
        if !sound && tape.below(16) > 0 {
            return;
        }
        let Some(item) = self.cast.item(&statement, two(tape)) else { return };
        if tape.below(4) == 0 {
            self.list.push(item.encode());
        } else {
            self.ask_server(BROKERS[tape.below(2)], ServerMessage::Order(item), tape);
        }
    }

    /// Anything may be ordered.
    fn listed(&mut self, tape: &mut Tape<'_>) {
        if tape.below(4) == 0 {
            self.list.push(Bytes::copy_from_slice(tape.short()));
        } else {
            self.list.push(Bytes::new());
        }
    }

    fn pull(&mut self, tape: &mut Tape<'_>) {
        let (digest, offset) = (self.digest(tape), u32::from(tape.byte()) * 8);
        let pull = Pull { digest, offset, length: u32::from(tape.word()) };
        self.ask_store(NodeId(1 + u32::from(tape.byte() % 3)), StoreMessage::Pull(pull), tape);
    }

    /// A peer sends what a batch is, or says that it is gone.
    fn piece(&mut self, tape: &mut Tape<'_>) {
        let Some(batch) = self.known(tape) else { return };
        let (digest, from) = (self.digest_of(&batch), NodeId(1 + u32::from(tape.byte() % 3)));
        if tape.below(3) == 0 {
            let stable = u64::from(tape.byte() % 32);
            return self.ask_store(from, StoreMessage::Gone { digest, stable }, tape);
        }
        let whole = [batch.header.encode(), batch.body.clone()].concat();
        let Ok(bytes) = synod_wire::Blob::try_from(Bytes::from(whole)) else { return };
        let piece = synod_chopchop::message::Piece { digest, offset: 0, bytes };
        self.ask_store(from, StoreMessage::Piece(piece), tape);
    }

    fn ask(&mut self, tape: &mut Tape<'_>) {
        let number = u64::from(tape.byte() % 24);
        let message = match tape.below(5) {
            0 => ServerMessage::Certify(self.digest(tape)),
            1 => ServerMessage::HeightAsk(Height { height: number }),
            2 => ServerMessage::StateAsk(StateAsk { nonce: number, id: u32::from(tape.byte() % 16) }),
            3 => ServerMessage::DirPull { from: u32::from(tape.byte() % 16) },
            _ => return self.ask_store(BROKERS[tape.below(2)], StoreMessage::HeldAsk, tape),
        };
        self.ask_server(BROKERS[tape.below(2)], message, tape);
    }

    /// About states and marks.
    fn transfer(&mut self, tape: &mut Tape<'_>) {
        let position = Position(u64::from(tape.byte() % 32));
        let message = match tape.below(5) {
            0 => ServerMessage::Mark(Height { height: u64::from(tape.byte() % 32) }),
            1 => ServerMessage::Transfer(TransferMessage::Wanted(position)),
            2 => ServerMessage::Transfer(TransferMessage::NewestWanted(position)),
            3 => ServerMessage::Transfer(TransferMessage::Names(Draw::draw(&mut Drawn::new(position.0)))),
            _ => ServerMessage::Transfer(Draw::draw(&mut Drawn::new(u64::from(tape.word())))),
        };
        self.ask_server(NodeId(1 + u32::from(tape.byte() % 3)), message, tape);
    }

    /// Anybody says anything.
    fn noise(&mut self, tape: &mut Tape<'_>) {
        let from = [NodeId(1), NodeId(3), BROKERS[0], BROKERS[1]][tape.below(4)];
        let seed = u64::from(tape.word());
        if tape.below(2) == 0 {
            let message: StoreMessage = Draw::draw(&mut Drawn::new(seed));
            self.ask_store(from, message, tape);
        } else {
            let message: ServerMessage = Draw::draw(&mut Drawn::new(seed));
            self.ask_server(from, message, tape);
        }
    }

    fn ask_store(&mut self, from: NodeId, message: StoreMessage, tape: &mut Tape<'_>) {
        let (queue, body) = spoiled(&Message::Store(message), tape);
        self.store.frame(from, queue, body);
    }

    fn ask_server(&mut self, from: NodeId, message: ServerMessage, tape: &mut Tape<'_>) {
        let (queue, body) = spoiled(&Message::Server(message), tape);
        self.server.frame(from, queue, body);
    }

    fn go_on(&mut self, jobs: usize) {
        for _ in 0..4 {
            self.store.work(jobs);
            self.store.sync();
            self.server.work(jobs);
            self.server.sync();
            self.connect();
        }
    }

    fn wait(&mut self, tape: &mut Tape<'_>) {
        let span = Span::millis(1 + u64::from(tape.byte()) * 4);
        self.store.wait(span);
        self.server.wait(span);
    }

    fn restart(&mut self, tape: &mut Tape<'_>) {
        if tape.below(4) > 0 {
            return;
        }
        let (cast, list) = (Cast::new(), self.list.clone());
        let fresh = Seat::open(cast.server(0), open_store);
        self.store = core::mem::replace(&mut self.store, fresh).restart(open_store);
        let fresh = Seat::open(cast.server(0), open_server(List::default()));
        self.server = core::mem::replace(&mut self.server, fresh).restart(open_server(list));
        // It delivers again, from the first batch on or from where a `Jump` says that its mark is.
        self.height = 1;
    }

    /// What each of the two, and the application, tells the other.
    fn connect(&mut self) {
        loop {
            let outputs = core::mem::take(&mut self.server.desk.outputs);
            let heard = core::mem::take(&mut self.store.desk.outputs);
            if outputs.is_empty() && heard.is_empty() {
                break;
            }
            for output in heard {
                let Ok(output) = output.downcast::<StoreOutput>() else {
                    unreachable!("a store puts out its own outputs")
                };
                self.server.input(Box::new(ServerInput::Store(*output)));
            }
            for output in outputs {
                match output.downcast::<ServerOutput>() {
                    Ok(output) => self.said(*output),
                    Err(_) => unreachable!("a server puts out its own outputs"),
                }
            }
        }
        for (_, _, body) in core::mem::take(&mut self.store.desk.sent) {
            let message = Message::<Never>::decode(body.slice(1..), &Limits::default());
            if let Ok(Message::Store(StoreMessage::Shard(shard))) = message {
                let of = |batch: &&Sealed| self.digest_of(batch) == shard.digest;
                let Some(batch) = self.batches.iter().find(of) else { continue };
                let (name, _) = AnyBatch::from(batch.clone()).name_and_digest(self.cast.cluster.domains());
                // By now it may be expired or collected.
                assert!(self.store.desk.was_stored(&name), "a shard left whose body was not stored");
            }
        }
        self.server.desk.sent.clear();
        self.server.desk.blamed.clear();
        self.store.desk.blamed.clear();
    }

    fn said(&mut self, output: ServerOutput) {
        match output {
            ServerOutput::Store(input) => self.store.input(Box::new(input)),
            ServerOutput::Apply(apply) => {
                // Only sign-ups have heights of which the application does not hear, and here nobody signs up.
                assert_eq!(self.height + 1, apply.height, "heights have no gap");
                self.height = apply.height;
                let said = (apply.batch.columns().messages().clone(), apply.exceptions.clone());
                let known = self.delivered.entry(apply.height).or_insert_with(|| said.clone());
                assert!(*known == said, "height {} is delivered otherwise", apply.height);
                if apply.awaited {
                    self.server.input(Box::new(ServerInput::Executed { height: apply.height }));
                }
            }
            ServerOutput::Checkpoint { position, height, .. } => {
                self.server.input(Box::new(ServerInput::Applied { position, root: root_of(height) }));
            }
            ServerOutput::Jump { position, height, root } => {
                assert_eq!(root, root_of(height), "a state that no application has");
                self.height = height;
                self.server.input(Box::new(ServerInput::Applied { position, root }));
            }
            ServerOutput::FalseWitness { .. } => self.halted = true,
        }
    }
}

/// A message as it travels, now and then with a few bytes changed.
fn spoiled(message: &Message<Never>, tape: &mut Tape<'_>) -> (Queue, Bytes) {
    let (queue, mut body) = framed(message);
    for _ in 0..tape.below(8).saturating_sub(6) {
        let place = usize::from(tape.word()) % body.len().max(1);
        if let Some(byte) = body.get_mut(place) {
            *byte ^= tape.byte();
        }
    }
    (queue, Bytes::from(body))
}
