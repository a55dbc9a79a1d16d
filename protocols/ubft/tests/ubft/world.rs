//! Receivers and a broadcaster, memory nodes that stop and come back, links that lose and delay; whoever lies is played by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Hash, Keys, Seed, Signature, Statement as _};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::testing::{effects, pick};
use synod_machine::{Condition, Effect, Event, Job as _, Log, Message as _, Recover, Span, Time, To};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::memory::{Boot, MemoryConfig, MemoryNode, MemoryWord};
use synod_ubft::ctb::{Input, Message, Output, Timer, TwoMessages};
use synod_ubft::registers::MemoryWords;
use synod_ubft::{Config, CtBroadcast, Job, Memory, Parameters, Statement};
use synod_wire::{Bytes, Drawn, Limits, Wire};

/// The broadcaster.
pub(crate) const P: NodeId = NodeId(0);
pub(crate) const TAIL: u32 = 16;
pub(crate) const CLUSTER: Hash = Hash([3; 32]);

pub(crate) fn memory_id(at: usize) -> NodeId {
    NodeId(NodeId::GUESTS.0 + 40 + u32::try_from(at).expect("few"))
}

fn seed(id: NodeId) -> Seed {
    Seed::new([u8::try_from(id.0 + 1).expect("few"); 32])
}

pub(crate) fn keys(id: NodeId) -> Keys {
    Keys::ed25519(&seed(id), [9; 32])
}

pub(crate) fn config(me: NodeId, n: u32) -> Config {
    let member = |id| Member { key: seed(NodeId(id)).public(), power: 1 };
    Config {
        cluster: CLUSTER,
        epoch: Epoch(0),
        me,
        first_view: synod_ubft::batch::View(0),
        roster: Arc::new(Roster::new(Epoch(0), (0..n).map(member).collect()).expect("a roster")),
        memory: (0..3).map(|at| Memory { node: memory_id(at), boot: 1 }).collect(),
        parameters: Parameters { tail: TAIL, ..Parameters::default() },
    }
}

/// What the broadcaster signs about a message.
pub(crate) fn signature_of(k: u64, digest: Hash) -> Signature {
    signature_by(P, Statement::Broadcast { signer: 0, k, digest })
}

pub(crate) fn signature_by(signer: NodeId, statement: Statement) -> Signature {
    let config = config(signer, 3);
    keys(signer).sign(config.scope(), signer, statement).signature
}

pub(crate) fn signed(k: u64, body: &[u8]) -> Message {
    let digest = Hash::of(body);
    let body = Some(Bytes::copy_from_slice(body).try_into().expect("short"));
    Message::Signed { broadcaster: 0, k, digest, signature: Box::new(signature_of(k, digest)), body }
}

pub(crate) fn lock(k: u64, body: &[u8]) -> Message {
    Message::Lock { k, body: Bytes::copy_from_slice(body).try_into().expect("short") }
}

/// Whether two signatures prove that the broadcaster lied.
pub(crate) fn is_proof(proof: &TwoMessages) -> bool {
    let config = config(NodeId(1), 3);
    let is_good = |statement: Statement, signature| {
        let claim = config.claim(statement, signature).expect("a replica");
        assert!(!claim.statement.signed_bytes(&claim.scope).is_empty());
        claim.verify(&keys(NodeId(1))).is_ok()
    };
    let number = |statement: Statement| match statement {
        Statement::Broadcast { k, digest, .. } => (k, digest),
        other => unreachable!("{other:?} is of no broadcast"),
    };
    let ((one, first), (other, second)) = (number(proof.one), number(proof.other));
    one == other && first != second && is_good(proof.one, proof.first) && is_good(proof.other, proof.second)
}

/// On its way.
#[derive(Clone, Debug)]
enum What {
    Said(Message),
    Op(RegisterOp),
    Reply(RegisterReply),
    Job(Job),
}

#[derive(Clone, Debug)]
struct Flight {
    from: NodeId,
    to: NodeId,
    what: What,
}

impl Flight {
    /// What keeps its order.
    fn lane(&self) -> (NodeId, NodeId, u8) {
        let queue = match &self.what {
            What::Said(message) => message.queue().0,
            What::Op(_) | What::Reply(_) => 100,
            What::Job(_) => 101,
        };
        (self.from, self.to, queue)
    }
}

/// See the module.
pub(crate) struct World {
    pub(crate) replicas: Vec<Option<CtBroadcast>>,
    pub(crate) memory: Vec<Option<MemoryNode>>,
    boots: Vec<Boot>,
    flying: Vec<Flight>,
    timers: BTreeMap<(NodeId, Timer), Time>,
    pub(crate) now: Time,
    drawn: Drawn,
    /// Messages that a queue holds; older ones give way (specification, section 3.1).
    pub(crate) depth: usize,
    /// Whom nothing reaches and who reaches nobody.
    pub(crate) cut_off: BTreeSet<NodeId>,
    pub(crate) delivered: BTreeMap<NodeId, BTreeMap<u64, Bytes>>,
    /// What the correct broadcaster said, by number.
    pub(crate) broadcast: Vec<Bytes>,
    pub(crate) blamed: Vec<(NodeId, NodeId, &'static str)>,
    pub(crate) rules: BTreeSet<&'static str>,
    pub(crate) proofs: Vec<TwoMessages>,
    pub(crate) outputs: Vec<(NodeId, Output)>,
    /// Frames sent between replicas, by queue, and operations of registers.
    pub(crate) sent: BTreeMap<u8, u64>,
    pub(crate) jobs: u64,
    pub(crate) evicted: u64,
}

impl World {
    /// So many replicas, the liars among them missing, under the schedule of a seed.
    pub(crate) fn new(n: u32, liars: &[u32], seed: u64) -> Self {
        let ctb = |id| CtBroadcast::new(Arc::new(config(NodeId(id), n)), P).expect("a sound configuration");
        let mut world = Self {
            replicas: (0..n).map(|id| (!liars.contains(&id)).then(|| ctb(id))).collect(),
            memory: vec![None; 3],
            boots: vec![Boot(0); 3],
            flying: Vec::new(),
            timers: BTreeMap::new(),
            now: Time::ZERO,
            drawn: Drawn::new(seed),
            depth: usize::try_from(TAIL).expect("small") + 8,
            cut_off: BTreeSet::new(),
            delivered: BTreeMap::new(),
            broadcast: Vec::new(),
            blamed: Vec::new(),
            rules: BTreeSet::new(),
            proofs: Vec::new(),
            outputs: Vec::new(),
            sent: BTreeMap::new(),
            jobs: 0,
            evicted: 0,
        };
        (0..3).for_each(|at| world.start_memory(at, n));
        world
    }

    /// Starts a memory node, empty.
    pub(crate) fn start_memory(&mut self, at: usize, n: u32) {
        let config =
            MemoryConfig { members: n, faulty: (n - 1) / 2, registers: (n - 1) * TAIL, quota: 1_000_000 };
        let mut records = [self.boots[at]].into_iter();
        let log = Log { condition: Condition::Clean, records: &mut records };
        let node = MemoryNode::recover(config, log).expect("sound");
        self.boots[at] = Boot(node.boot());
        self.memory[at] = Some(node);
    }

    pub(crate) fn stop_memory(&mut self, at: usize) {
        self.memory[at] = None;
    }

    /// Sends as if it were `from`, who lies.
    pub(crate) fn say(&mut self, from: NodeId, to: u32, message: Message) {
        self.flying.push(Flight { from, to: NodeId(to), what: What::Said(message) });
    }

    /// A liar's own operation at all memory nodes.
    pub(crate) fn operate(&mut self, from: NodeId, op: RegisterOp) {
        for at in 0..3 {
            self.flying.push(Flight { from, to: memory_id(at), what: What::Op(op) });
        }
    }

    /// The correct broadcaster sends its next message.
    pub(crate) fn broadcast(&mut self, body: &[u8], is_signed: bool) {
        let body = Bytes::copy_from_slice(body);
        self.broadcast.push(body.clone());
        self.step(P, Event::Input(Input::Broadcast { body, signed: is_signed }));
    }

    pub(crate) fn input(&mut self, id: NodeId, input: Input) {
        self.step(id, Event::Input(input));
    }

    fn step(&mut self, id: NodeId, event: Event<CtBroadcast>) {
        let at = usize::try_from(id.0).expect("few");
        let Some(replica) = self.replicas.get_mut(at).and_then(Option::as_mut) else { return };
        for effect in effects(replica, event, self.now) {
            self.act(id, effect);
        }
    }

    fn act(&mut self, id: NodeId, effect: Effect<CtBroadcast>) {
        match effect {
            Effect::Send { to, message } => {
                let to: Vec<NodeId> = match to {
                    To::Node(node) => vec![node],
                    To::Set(set) => set.iter().collect(),
                };
                for to in to {
                    self.send(id, to, &message);
                }
            }
            Effect::Arm { timer, after } => drop(self.timers.insert((id, timer), self.now + after)),
            Effect::Disarm(timer) => drop(self.timers.remove(&(id, timer))),
            Effect::Compute(job) => {
                self.jobs += 1;
                self.flying.push(Flight { from: id, to: id, what: What::Job(job) });
            }
            Effect::Output(output) => self.told(id, output),
            Effect::Blame { peer, fault } => self.blamed.push((id, peer, fault.name)),
            Effect::Applied(rule) => drop(self.rules.insert(rule.name)),
            other => unreachable!("nothing else is done: {other:?}"),
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: &Message) {
        *self.sent.entry(message.queue().0).or_default() += 1;
        if let Some(op) = message.register() {
            self.flying.push(Flight { from, to, what: What::Op(*op) });
            return;
        }
        let message = Message::decode(message.encode(), &Limits::default()).expect("what is said is read");
        let flight = Flight { from, to, what: What::Said(message) };
        let lane = flight.lane();
        let waiting = self.flying.iter().filter(|other| other.lane() == lane).count();
        if waiting >= self.depth {
            let oldest = self.flying.iter().position(|other| other.lane() == lane).expect("there are some");
            self.flying.remove(oldest);
            self.evicted += 1;
        }
        self.flying.push(flight);
    }

    fn told(&mut self, id: NodeId, output: Output) {
        match &output {
            Output::Delivered { k, body } => {
                let own = self.delivered.entry(id).or_default();
                assert!(own.insert(*k, body.clone()).is_none(), "U-S3: {id} delivered {k} twice");
                if let Some(said) = usize::try_from(*k - 1).ok().and_then(|at| self.broadcast.get(at)) {
                    assert_eq!(said, body, "U-S2: {id} delivered what nobody said");
                }
                let others = self.delivered.values().filter_map(|delivered| delivered.get(k));
                assert!(others.clone().all(|other| other == body), "U-S1: two messages {k}");
            }
            Output::Equivocated(proof) => {
                assert!(is_proof(proof), "nobody is accused without a proof");
                self.proofs.push(proof.clone());
            }
            Output::Promised { .. }
            | Output::Refused(_)
            | Output::Missing { .. }
            | Output::Retired { .. }
            | Output::Reborn { .. } => {}
        }
        self.outputs.push((id, output));
    }

    /// One drawn thing happens; false where nothing is left but time.
    pub(crate) fn turn(&mut self) -> bool {
        if self.flying.is_empty() {
            return false;
        }
        let drawn = pick(&mut self.drawn, self.flying.len());
        let lane = self.flying[drawn].lane();
        // Queues of replicas keep their order; registers and jobs promise none.
        let first = || self.flying.iter().position(|flight| flight.lane() == lane).expect("there is one");
        let at = if matches!(self.flying[drawn].what, What::Said(_)) { first() } else { drawn };
        let Flight { from, to, what } = self.flying.remove(at);
        if self.cut_off.contains(&from) || self.cut_off.contains(&to) {
            return true;
        }
        match what {
            What::Said(message) => self.step(to, Event::Message { from, message }),
            What::Job(job) => self.step(to, Event::Done(job.run(&keys(to)))),
            What::Reply(reply) => {
                let message = Message::registered(reply).expect("a reply is a message");
                assert_eq!(message, Message::Memory(Box::new(MemoryWords::Reply(reply))));
                self.step(to, Event::Message { from, message });
            }
            What::Op(op) => self.operate_at(from, to, op),
        }
        true
    }

    fn operate_at(&mut self, from: NodeId, to: NodeId, op: RegisterOp) {
        let at = usize::try_from(to.0 - memory_id(0).0).expect("a memory node");
        let Some(node) = self.memory.get_mut(at).and_then(Option::as_mut) else { return };
        for effect in effects(node, Event::Message { from, message: MemoryWord::Op(op) }, self.now) {
            if let Effect::Send { to: To::Node(back), message: MemoryWord::Reply(reply) } = effect {
                self.flying.push(Flight { from: to, to: back, what: What::Reply(reply) });
            }
        }
    }

    /// Until nothing is on its way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200_000 {
            if !self.turn() {
                return;
            }
        }
        unreachable!("it never ends");
    }

    /// Lets so much time pass, with all that happens in it.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        self.settle();
        while let Some((name, at)) =
            self.timers.iter().min_by_key(|(_, at)| **at).map(|(name, at)| (*name, *at))
        {
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.timers.remove(&name);
            self.step(name.0, Event::Timer(name.1));
            self.settle();
        }
        self.now = end;
    }

    pub(crate) fn has(&self, id: u32, k: u64) -> Option<&[u8]> {
        self.delivered.get(&NodeId(id))?.get(&k).map(|body| &**body)
    }
}
