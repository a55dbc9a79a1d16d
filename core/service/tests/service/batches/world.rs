//! Batch executors by hand: jobs come back in any order, nodes crash at any effect, a server hands in again what lies
//! behind its mark.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::broadcast::Position;
use synod_machine::{
    Bounded, Condition, Effect, Event, Fault, Job, Log, Machine, Recover, Rng, Span, Time, To, Turn, Wall,
};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::batches::{BatchRecord, BatchTimer};
use synod_service::lanes::{Batch, State};
use synod_service::{
    BatchConfig, BatchExecutor, BatchInput, BatchLimits, BatchOutput, ClientMessage, FetchState, Part,
};
use synod_wire::{Blob, Bytes, Drawn};

use crate::purses::Purses;

pub(crate) type Machine0 = BatchExecutor<Purses>;

/// What a server hands in.
#[derive(Clone, Debug)]
pub(crate) enum Handed {
    Batch(Batch),
    Checkpoint(u64, u64),
}

impl Handed {
    fn input(self) -> BatchInput {
        match self {
            Self::Batch(batch) => BatchInput::Apply { batch: Box::new(batch), awaited: true },
            Self::Checkpoint(position, height) => {
                // Those before it are certified.
                let stable = Position(position.saturating_sub(1));
                BatchInput::Checkpoint { position: Position(position), height, stable }
            }
        }
    }
}

pub(crate) struct Node {
    pub(crate) machine: Option<Machine0>,
    pub(crate) records: Vec<BatchRecord>,
    pub(crate) blobs: BTreeMap<Hash, Bytes>,
    /// How much of the log was handed in.
    pub(crate) cursor: usize,
    /// What of it lies behind the server's mark.
    marked: usize,
    pub(crate) applied: Vec<(u64, Hash)>,
    pub(crate) stored: u64,
    /// Heights of batches that it said are executed.
    pub(crate) executed: Vec<u64>,
    timer: Option<Time>,
    /// Effects until it crashes.
    pub(crate) fuse: Option<u64>,
    pub(crate) lies: bool,
    pub(crate) mute: bool,
}

enum Packet {
    Message { from: NodeId, to: usize, message: ClientMessage },
    Done { to: usize, life: u64, job: <Machine0 as Machine>::Job },
    Loaded { to: usize, life: u64, name: Hash },
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) log: Vec<Handed>,
    pub(crate) faults: Vec<(usize, NodeId, Fault)>,
    pub(crate) answers: Vec<(NodeId, ClientMessage)>,
    /// Executors that said that nobody has what they need.
    pub(crate) stuck: Vec<usize>,
    pub(crate) limits: BatchLimits,
    pub(crate) lanes: u8,
    lives: Vec<u64>,
    now: Time,
    from: Drawn,
    net: Vec<Packet>,
    rng: Rng,
    keys: Keys,
}

pub(super) fn keys(n: u32) -> Keys {
    Keys::ed25519(&Seed::new([u8::try_from(n).expect("few"); 32]), [9; 32])
}

impl World {
    pub(crate) fn new(nodes: usize, lanes: u8, small: u32, seed: u64) -> Self {
        let limits = BatchLimits { small, ..BatchLimits::default() };
        let mut world = Self {
            nodes: Vec::new(),
            log: Vec::new(),
            stuck: Vec::new(),
            faults: Vec::new(),
            answers: Vec::new(),
            limits,
            lanes,
            lives: vec![0; nodes],
            now: Time(1),
            from: Drawn::new(seed),
            net: Vec::new(),
            rng: Rng::new(seed, NodeId(0), 0),
            keys: keys(200),
        };
        for at in 0..nodes {
            world.nodes.push(Node {
                machine: None,
                records: Vec::new(),
                blobs: BTreeMap::new(),
                cursor: 0,
                marked: 0,
                applied: Vec::new(),
                stored: 0,
                executed: Vec::new(),
                timer: None,
                fuse: None,
                lies: false,
                mute: false,
            });
            world.restart(at);
        }
        world
    }

    /// One node that is handed this and crashes at effect `fuse`, once if it comes so far; whether it did, and started again.
    pub(crate) fn crashed_at(fuse: u64, handed: &[Handed]) -> (Self, bool) {
        let mut world = Self::new(1, 3, 0, fuse);
        world.log = handed.to_vec();
        world.nodes[0].fuse = Some(fuse);
        world.run();
        let crashed = world.nodes[0].machine.is_none();
        if crashed {
            world.restart(0);
            world.run();
        }
        (world, crashed)
    }

    pub(crate) fn machine(&self, at: usize) -> &Machine0 {
        self.nodes[at].machine.as_ref().expect("it runs")
    }

    /// Starts a node from its lane; its server hands in what lies behind its mark.
    pub(crate) fn restart(&mut self, at: usize) {
        let members = u32::try_from(self.nodes.len().max(self.lives.len())).expect("few");
        let member = |n| Member { key: keys(n).public(), power: 1 };
        let roster = Roster::new(Epoch(0), (0..members).map(member).collect()).expect("distinct keys");
        let own = NodeId(u32::try_from(at).expect("few"));
        let state = State::new(Purses, self.lanes, 0);
        let config = BatchConfig { state, own, roster, limits: self.limits };
        let node = &mut self.nodes[at];
        node.fuse = None;
        node.timer = None;
        node.cursor = node.marked;
        let mut records = node.records.clone().into_iter();
        let log = Log { condition: Condition::Clean, records: &mut records };
        node.machine = Some(Machine0::recover(config, log).expect("own records"));
        self.lives[at] += 1;
        self.step(at, Event::Start);
    }

    pub(crate) fn step(&mut self, at: usize, event: Event<Machine0>) {
        let Some(mut machine) = self.nodes[at].machine.take() else { return };
        let mut effects = Vec::new();
        machine.step(event, &mut Turn::new(self.now, Wall(0), &mut self.rng, &mut effects));
        machine.invariants();
        assert!(machine.bytes() <= machine.bytes_max(), "memory is above its formula");
        self.nodes[at].machine = Some(machine);
        for effect in effects {
            if let Some(fuse) = &mut self.nodes[at].fuse {
                if *fuse == 0 {
                    self.nodes[at].machine = None;
                    return;
                }
                *fuse -= 1;
            }
            self.effect(at, effect);
        }
    }

    fn effect(&mut self, at: usize, effect: Effect<Machine0>) {
        let life = self.lives[at];
        match effect {
            Effect::Send { to: To::Node(to), message } => self.send(at, to, message),
            Effect::Arm { timer: BatchTimer::Fetch, after } => self.nodes[at].timer = Some(self.now + after),
            Effect::Disarm(BatchTimer::Fetch) => self.nodes[at].timer = None,
            Effect::Persist(record) => self.nodes[at].records.push(record),
            Effect::Compact => {
                let mut records = Vec::new();
                self.machine(at).snapshot(&mut |record| records.push(record));
                self.nodes[at].records = records;
            }
            Effect::Store { name, bytes } => {
                assert_eq!(name, Hash::of(&bytes));
                self.nodes[at].stored += 1;
                self.nodes[at].blobs.insert(name, bytes);
            }
            Effect::Load(name) => self.net.push(Packet::Loaded { to: at, life, name }),
            Effect::Erase(name) => drop(self.nodes[at].blobs.remove(&name)),
            Effect::Compute(job) => self.net.push(Packet::Done { to: at, life, job }),
            Effect::Output(BatchOutput::Applied { position, root }) => self.applied(at, position, root),
            Effect::Output(BatchOutput::Executed { height }) => {
                assert!(self.machine(at).height() >= height, "it is executed when it is said to be");
                self.nodes[at].executed.push(height);
            }
            Effect::Output(BatchOutput::Stuck) => self.stuck.push(at),
            Effect::Output(BatchOutput::Status(_)) | Effect::Applied(_) | Effect::Note(_) => {}
            Effect::Blame { peer, fault } => self.faults.push((at, peer, fault)),
            Effect::Send { to: To::Set(_), .. } => unreachable!("executors speak to one another one by one"),
        }
    }

    /// The server's mark follows the root.
    fn applied(&mut self, at: usize, position: Position, root: Hash) {
        let node = &mut self.nodes[at];
        let of = |handed: &Handed| matches!(handed, Handed::Checkpoint(p, _) if *p == position.0);
        let place = self.log.iter().position(of).expect("a checkpoint of the log");
        node.marked = node.marked.max(place + 1);
        node.applied.push((position.0, root));
    }

    fn send(&mut self, at: usize, to: NodeId, mut message: ClientMessage) {
        let from = NodeId(u32::try_from(at).expect("few"));
        if let (true, ClientMessage::StateChunk(chunk)) = (self.nodes[at].lies, &mut message) {
            let mut bytes = chunk.bytes.bytes().to_vec();
            bytes[0] ^= 1;
            chunk.bytes = Blob::try_from(Bytes::from(bytes)).expect("as long as before");
        }
        if self.nodes[at].mute && matches!(message, ClientMessage::StateChunk(_)) {
            return;
        }
        match usize::try_from(to.0).ok().filter(|to| *to < self.nodes.len()) {
            Some(to) => self.net.push(Packet::Message { from, to, message }),
            None => self.answers.push((to, message)),
        }
    }

    /// Something that is under way arrives; false when nothing is.
    fn deliver_one(&mut self) -> bool {
        if self.net.is_empty() {
            return false;
        }
        let pick = usize::try_from(self.from.below(self.net.len() as u64)).expect("small");
        match self.net.swap_remove(pick) {
            Packet::Message { from, to, message } => self.step(to, Event::Message { from, message }),
            Packet::Done { to, life, job } if life == self.lives[to] => {
                let done = job.run(&self.keys);
                self.step(to, Event::Done(done));
            }
            Packet::Loaded { to, life, name } if life == self.lives[to] => {
                let bytes = self.nodes[to].blobs.get(&name).cloned();
                self.step(to, Event::Loaded { name, bytes });
            }
            Packet::Done { .. } | Packet::Loaded { .. } => {}
        }
        true
    }

    /// A step of the run: something arrives, is handed in, or time passes. False when nothing is left to do.
    fn turn(&mut self) -> bool {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let takes = node.machine.as_ref().is_some_and(|machine| machine.room() > 0);
            if takes && node.cursor < self.log.len() && self.from.below(3) == 0 {
                let handed = self.log[node.cursor].clone();
                self.nodes[at].cursor += 1;
                self.step(at, Event::Input(handed.input()));
            }
        }
        if self.deliver_one() {
            return true;
        }
        let handed = self.nodes.iter().all(|node| node.machine.is_none() || node.cursor >= self.log.len());
        let late = self.nodes.iter().filter_map(|node| node.timer).min();
        if let Some(time) = late {
            self.now = Time(self.now.0.max(time.0)) + Span::millis(1);
            for at in 0..self.nodes.len() {
                if self.nodes[at].timer.take_if(|timer| timer.0 <= self.now.0).is_some() {
                    self.step(at, Event::Timer(BatchTimer::Fetch));
                }
            }
        }
        !handed || late.is_some()
    }

    /// Runs until nothing is left to do.
    pub(crate) fn run(&mut self) {
        let mut turns = 0;
        while self.turn() {
            turns += 1;
            assert!(turns < 200_000, "the run ends");
        }
    }

    /// Runs some steps only.
    pub(crate) fn run_some(&mut self, turns: u32) {
        for _ in 0..turns {
            self.turn();
        }
    }

    pub(crate) fn jump(&mut self, at: usize, position: u64, height: u64, root: Hash) {
        let of = |handed: &Handed| matches!(handed, Handed::Checkpoint(p, _) if *p == position);
        self.nodes[at].cursor = self.log.iter().position(of).expect("a checkpoint of the log") + 1;
        let position = Position(position);
        self.step(at, Event::Input(BatchInput::Jump { position, height, root }));
    }

    /// Blobs are exactly those that the kept checkpoints name.
    pub(crate) fn blobs_are_those_kept(&self, at: usize) {
        let mut named = Vec::new();
        self.machine(at).snapshot(&mut |BatchRecord::Taken { checkpoint, .. }| {
            named.extend(checkpoint.chunks.iter().map(|(name, _)| *name));
        });
        named.sort_unstable();
        named.dedup();
        assert_eq!(self.nodes[at].blobs.keys().copied().collect::<Vec<_>>(), named);
    }

    /// Asks node `at` for a chunk in the name of `from`.
    pub(crate) fn fetch(&mut self, at: usize, from: NodeId, position: u64, index: u32) {
        let fetch = FetchState { position: Position(position), part: Part::App(index) };
        self.step(at, Event::Message { from, message: ClientMessage::FetchState(fetch) });
    }
}
