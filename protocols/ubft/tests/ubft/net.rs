//! Machines, memory nodes and the queues between them: a queue keeps its order and evicts its oldest, queues go as they are drawn, jobs
//! and registers in any order.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Keys;
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::testing::pick;
use synod_machine::{
    Bounded, Condition, Effect, Event, Job as _, Log, Machine, Message as _, QueueSpec, Recover as _, Rng,
    Span, Time, To, Turn, Wall,
};
use synod_quorum::NodeId;
use synod_service::memory::{Boot, MemoryConfig, MemoryNode, MemoryWord};
use synod_wire::{Drawn, Limits, Wire as _};

use crate::world::memory_id;

/// The schedules of a test: so many seeds from 0 on. `SYNOD_UBFT_SEEDS=5000x10` draws ten times as many from 5000 on; the one that fails
/// is the last of which the test says that it begins.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "how widely is drawn is said by whoever runs the tests"
)]
pub(crate) fn seeds(few: u64) -> impl Iterator<Item = u64> {
    let wide = std::env::var("SYNOD_UBFT_SEEDS").ok();
    let (from, times) = wide.as_deref().map_or((0, 1), |wide| {
        let (from, times) = wide.split_once('x').expect("FROMxTIMES");
        (from.parse().expect("a seed"), times.parse().expect("a number"))
    });
    (from..from + few * times).inspect(move |seed| {
        if times > 1 {
            eprintln!("seed {seed}");
        }
    })
}

/// On its way.
enum What<M: Machine> {
    Said(M::Message),
    Op(RegisterOp),
    Reply(RegisterReply),
    Job(M::Job),
}

struct Flight<M: Machine> {
    from: NodeId,
    to: NodeId,
    queue: u8,
    what: What<M>,
}

/// What becomes of a message of a liar.
pub(crate) type Lie<M> = Box<dyn FnMut(NodeId, &<M as Machine>::Message) -> Option<<M as Machine>::Message>>;

/// What a user of this node does with its machine, when this message comes from that one.
pub(crate) type Before<M> = Box<dyn FnMut(NodeId, &mut M, NodeId, &<M as Machine>::Message)>;

/// Something that happened, for whoever watches.
pub(crate) enum Seen<M: Machine> {
    /// A machine sends.
    Sent { from: NodeId, message: M::Message },
    /// A machine tells its user.
    Told { id: NodeId, output: M::Output },
}

/// See the module.
pub(crate) struct Net<M: Machine> {
    pub(crate) machines: BTreeMap<NodeId, M>,
    keys: BTreeMap<NodeId, Keys>,
    specs: Vec<QueueSpec>,
    memory: Vec<Option<MemoryNode>>,
    memory_config: MemoryConfig,
    boots: Vec<Boot>,
    flying: Vec<Flight<M>>,
    timers: BTreeMap<(NodeId, M::Timer), Time>,
    pub(crate) now: Time,
    pub(crate) drawn: Drawn,
    /// Pairs between which nothing goes.
    pub(crate) cut: BTreeSet<(NodeId, NodeId)>,
    /// Messages of a thousand that are lost beyond what queues evict.
    pub(crate) loss: u64,
    /// Whose jobs wait.
    pub(crate) busy: BTreeSet<NodeId>,
    pub(crate) lies: BTreeMap<NodeId, Lie<M>>,
    pub(crate) seen: Vec<Seen<M>>,
    pub(crate) rules: BTreeMap<&'static str, u64>,
    pub(crate) blamed: Vec<(NodeId, NodeId, &'static str)>,
    pub(crate) evicted: u64,
    pub(crate) jobs: u64,
    pub(crate) persisted: BTreeMap<NodeId, Vec<M::Record>>,
    /// By queue.
    pub(crate) sent: BTreeMap<u8, u64>,
    /// What a user does when a message comes, before its machine is given it.
    pub(crate) before: Option<Before<M>>,
    /// What is said to nodes that are no machines here.
    pub(crate) guests: Vec<(NodeId, NodeId, M::Message)>,
}

impl<M: Machine<Message: Clone> + Bounded> Net<M> {
    pub(crate) fn new(n: u32, specs: Vec<QueueSpec>, registers: u32, seed: u64) -> Self {
        let memory_config = MemoryConfig { members: n, faulty: (n - 1) / 2, registers, quota: 1_000_000 };
        let mut net = Self {
            machines: BTreeMap::new(),
            keys: BTreeMap::new(),
            specs,
            memory: vec![None, None, None],
            memory_config,
            boots: vec![Boot(0); 3],
            flying: Vec::new(),
            timers: BTreeMap::new(),
            now: Time(1_000_000_000),
            drawn: Drawn::new(seed),
            cut: BTreeSet::new(),
            loss: 0,
            busy: BTreeSet::new(),
            lies: BTreeMap::new(),
            seen: Vec::new(),
            rules: BTreeMap::new(),
            blamed: Vec::new(),
            evicted: 0,
            jobs: 0,
            persisted: BTreeMap::new(),
            sent: BTreeMap::new(),
            before: None,
            guests: Vec::new(),
        };
        (0..3).for_each(|at| net.start_memory(at));
        net
    }

    pub(crate) fn start_memory(&mut self, at: usize) {
        let mut records = [self.boots[at]].into_iter();
        let log = Log { condition: Condition::Clean, records: &mut records };
        let node = MemoryNode::recover(self.memory_config, log).expect("sound");
        self.boots[at] = Boot(node.boot());
        self.memory[at] = Some(node);
    }

    pub(crate) fn stop_memory(&mut self, at: usize) {
        self.memory[at] = None;
    }

    /// Starts a machine, first or again.
    pub(crate) fn start(&mut self, id: NodeId, machine: M, keys: Keys) {
        self.stop(id);
        self.machines.insert(id, machine);
        self.keys.insert(id, keys);
        self.step(id, Event::Start);
    }

    /// A crash: what was said and not delivered stays on its way.
    pub(crate) fn stop(&mut self, id: NodeId) {
        self.machines.remove(&id);
        self.timers.retain(|(of, _), _| *of != id);
        self.flying.retain(|flight| !(flight.from == id && matches!(flight.what, What::Job(_))));
    }

    /// Nothing goes between a node and the others, but for memory.
    pub(crate) fn cut_off(&mut self, id: NodeId, n: u32) {
        for other in (0..n).map(NodeId) {
            self.cut.extend([(id, other), (other, id)]);
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// Says something as if it were `from`.
    pub(crate) fn say(&mut self, from: NodeId, to: NodeId, message: M::Message) {
        let queue = message.queue().0;
        self.flying.push(Flight { from, to, queue, what: What::Said(message) });
    }

    pub(crate) fn input(&mut self, id: NodeId, input: M::Input) {
        self.step(id, Event::Input(input));
    }

    pub(crate) fn step(&mut self, id: NodeId, event: Event<M>) {
        let (now, mut effects) = (self.now, Vec::new());
        let mut rng = Rng::new(self.drawn.next(), id, 0);
        let Some(machine) = self.machines.get_mut(&id) else { return };
        machine.step(event, &mut Turn::new(now, Wall(now.0 / 1_000_000), &mut rng, &mut effects));
        machine.invariants();
        assert!(
            machine.bytes() <= machine.bytes_max(),
            "U-S5: {} of {}",
            machine.bytes(),
            machine.bytes_max()
        );
        for effect in effects {
            self.act(id, effect);
        }
    }

    fn act(&mut self, id: NodeId, effect: Effect<M>) {
        match effect {
            Effect::Send { to, message } => {
                let to: Vec<NodeId> = match to {
                    To::Node(node) => vec![node],
                    To::Set(set) => set.iter().collect(),
                };
                to.into_iter().for_each(|to| self.send(id, to, &message));
            }
            Effect::Arm { timer, after } => drop(self.timers.insert((id, timer), self.now + after)),
            Effect::Disarm(timer) => drop(self.timers.remove(&(id, timer))),
            Effect::Compute(job) => {
                self.jobs += 1;
                self.flying.push(Flight { from: id, to: id, queue: 255, what: What::Job(job) });
            }
            Effect::Output(output) => self.seen.push(Seen::Told { id, output }),
            Effect::Blame { peer, fault } => self.blamed.push((id, peer, fault.name)),
            Effect::Applied(rule) => *self.rules.entry(rule.name).or_default() += 1,
            Effect::Persist(record) => self.persisted.entry(id).or_default().push(record),
            Effect::Note(_) | Effect::Compact => {}
            Effect::Store { .. } | Effect::Load(_) | Effect::Erase(_) => unreachable!("no blobs"),
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: &M::Message) {
        if let Some(op) = message.register() {
            self.flying.push(Flight { from, to, queue: 254, what: What::Op(*op) });
            return;
        }
        let lie = self.lies.get_mut(&from).map(|lie| lie(to, message));
        let message = match lie {
            Some(None) => return,
            Some(Some(message)) => message,
            None => message.clone(),
        };
        let queue = message.queue().0;
        *self.sent.entry(queue).or_default() += 1;
        let spec = self.specs[usize::from(queue)];
        let bytes = message.encode();
        assert!(
            bytes.len() <= usize::try_from(spec.frame_max).expect("small"),
            "{} B in queue {queue}",
            bytes.len()
        );
        let limits = Limits { frame_max: spec.frame_max };
        let message = M::Message::decode(bytes, &limits).expect("what is said is read");
        self.seen.push(Seen::Sent { from, message: message.clone() });
        let lane = |flight: &Flight<M>| (flight.from, flight.to, flight.queue) == (from, to, queue);
        let waiting = self.flying.iter().filter(|flight| lane(flight)).count();
        if waiting >= usize::try_from(spec.depth).expect("small") {
            let oldest = self.flying.iter().position(lane).expect("there are some");
            self.flying.remove(oldest);
            self.evicted += 1;
        }
        self.flying.push(Flight { from, to, queue, what: What::Said(message) });
    }

    /// One drawn thing happens; false where nothing is left but time.
    pub(crate) fn turn(&mut self) -> bool {
        let is_free =
            |flight: &Flight<M>| !(matches!(flight.what, What::Job(_)) && self.busy.contains(&flight.to));
        let free: Vec<usize> =
            (0..self.flying.len()).filter(|at| self.busy.is_empty() || is_free(&self.flying[*at])).collect();
        if free.is_empty() {
            return false;
        }
        let drawn = free[pick(&mut self.drawn, free.len())];
        let (from, to, queue) = {
            let flight = &self.flying[drawn];
            (flight.from, flight.to, flight.queue)
        };
        let lane = |flight: &Flight<M>| (flight.from, flight.to, flight.queue) == (from, to, queue);
        let at = if queue < 254 { self.flying.iter().position(lane).expect("there is one") } else { drawn };
        let Flight { from, to, what, .. } = self.flying.remove(at);
        let is_lost = matches!(what, What::Said(_)) && self.drawn.below(1_000) < self.loss;
        if is_lost || (from != to && self.cut.contains(&(from, to))) {
            return true;
        }
        match what {
            What::Said(message) if self.machines.contains_key(&to) => {
                let machine = self.machines.get_mut(&to).expect("it is there");
                self.before.iter_mut().for_each(|before| before(to, machine, from, &message));
                self.step(to, Event::Message { from, message });
            }
            What::Said(message) => self.guests.push((from, to, message)),
            What::Job(job) => {
                if let Some(keys) = self.keys.get(&to).filter(|_| self.machines.contains_key(&to)) {
                    let done = job.run(keys);
                    self.step(to, Event::Done(done));
                }
            }
            What::Reply(reply) => {
                let message = M::Message::registered(reply).expect("a reply is a message");
                self.step(to, Event::Message { from, message });
            }
            What::Op(op) => self.operate(from, to, op),
        }
        true
    }

    fn operate(&mut self, from: NodeId, to: NodeId, op: RegisterOp) {
        let at = usize::try_from(to.0 - memory_id(0).0).expect("a memory node");
        let Some(node) = self.memory.get_mut(at).and_then(Option::as_mut) else { return };
        let event = Event::Message { from, message: MemoryWord::Op(op) };
        for effect in synod_machine::testing::effects(node, event, self.now) {
            if let Effect::Send { to: To::Node(back), message: MemoryWord::Reply(reply) } = effect {
                self.flying.push(Flight { from: to, to: back, queue: 254, what: What::Reply(reply) });
            }
        }
    }

    /// The next timer fires, if it is due before `end`.
    pub(crate) fn tick(&mut self, end: Time) -> bool {
        let next = self.timers.iter().min_by_key(|(_, at)| **at).map(|(name, at)| (*name, *at));
        let Some(((id, timer), at)) = next.filter(|(_, at)| *at <= end) else { return false };
        self.now = self.now.max(at);
        self.timers.remove(&(id, timer));
        self.step(id, Event::Timer(timer));
        true
    }

    pub(crate) fn after(&self, span: Span) -> Time {
        self.now + span
    }
}
