//! A few members, a network that loses, repeats and reorders, and disks that survive crashes.

use std::collections::{BTreeMap, BTreeSet};

use synod_broadcast::bracha::{Job, Message, Record, Setup, Timer};
use synod_broadcast::{Bracha, Config};
use synod_crypto::Hash;
use synod_machine::broadcast::{Broadcast, Offer};
use synod_machine::{
    Bounded, Condition, Effect, Event, Job as _, Log, Machine, Recover, Rng, Time, To, Turn, Wall,
};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Drawn};

/// A member with its disk and its user.
pub(crate) struct Seat {
    pub(crate) machine: Bracha,
    records: Vec<Record>,
    blobs: BTreeMap<Hash, Bytes>,
    timers: BTreeMap<Timer, Time>,
    /// What its user was told, by source.
    pub(crate) delivered: BTreeMap<NodeId, Vec<Bytes>>,
    pub(crate) rules: BTreeSet<&'static str>,
    pub(crate) blamed: Vec<(NodeId, &'static str)>,
}

/// A drawn index below `count`.
pub(crate) fn pick(drawn: &mut Drawn, count: usize) -> usize {
    usize::try_from(drawn.below(count as u64)).expect("below a size")
}

/// Members under a drawn schedule.
pub(crate) struct World {
    pub(crate) seats: Vec<Seat>,
    /// Whoever lies: its machine is never stepped.
    pub(crate) liar: Option<NodeId>,
    drawn: Drawn,
    flying: Vec<(NodeId, NodeId, Message)>,
    jobs: Vec<(NodeId, Job)>,
    now: Time,
    /// Messages of a thousand that are lost.
    pub(crate) loss: u64,
    /// Payloads that no user endorses.
    pub(crate) refused: BTreeSet<Bytes>,
}

pub(crate) fn config(n: u32, me: u32) -> Config {
    Config { window: 8, retain: 32, payload_max: 1_000, ..Config::new(NodeId(me), NodeSet::first(n)) }
}

impl World {
    pub(crate) fn new(n: u32, seed: u64) -> Self {
        let seat = |me| Seat {
            machine: Bracha::new(config(n, me), &BTreeMap::new()).expect("a sound configuration"),
            records: Vec::new(),
            blobs: BTreeMap::new(),
            timers: BTreeMap::new(),
            delivered: BTreeMap::new(),
            rules: BTreeSet::new(),
            blamed: Vec::new(),
        };
        let mut world = Self {
            seats: (0..n).map(seat).collect(),
            liar: None,
            drawn: Drawn::new(seed),
            flying: Vec::new(),
            jobs: Vec::new(),
            now: Time::ZERO,
            loss: 0,
            refused: BTreeSet::new(),
        };
        for at in 0..n {
            world.step(NodeId(at), Event::Start);
        }
        world
    }

    fn seat(&mut self, id: NodeId) -> &mut Seat {
        &mut self.seats[id.0 as usize]
    }

    pub(crate) fn correct(&self) -> impl Iterator<Item = &Seat> {
        let liar = self.liar.map(|liar| liar.0 as usize);
        self.seats.iter().enumerate().filter(move |(at, _)| Some(*at) != liar).map(|(_, seat)| seat)
    }

    /// Broadcasts that a member will take now.
    pub(crate) fn room(&self, id: u32) -> u32 {
        self.seats[id as usize].machine.room()
    }

    /// Sends as if it were `from`.
    pub(crate) fn say(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.flying.push((from, to, message));
    }

    pub(crate) fn broadcast(&mut self, by: u32, payload: &str) {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        self.step(NodeId(by), Event::Input(Offer::Broadcast { payload }));
    }

    pub(crate) fn step(&mut self, id: NodeId, event: Event<Bracha>) {
        if self.liar == Some(id) {
            return;
        }
        let (now, mut rng, mut effects) = (self.now, Rng::new(0, id, 0), Vec::new());
        let seat = self.seat(id);
        seat.machine.step(event, &mut Turn::new(now, Wall(0), &mut rng, &mut effects));
        seat.machine.invariants();
        assert!(seat.machine.bytes() <= seat.machine.bytes_max(), "memory over its bound");
        for effect in effects {
            self.take(id, effect);
        }
    }

    fn take(&mut self, id: NodeId, effect: Effect<Bracha>) {
        let now = self.now;
        match effect {
            Effect::Send { to: To::Node(to), message } => self.flying.push((id, to, message)),
            Effect::Send { to: To::Set(set), message } => {
                self.flying.extend(set.iter().map(|to| (id, to, message.clone())));
            }
            Effect::Arm { timer, after } => {
                self.seat(id).timers.insert(timer, Time(now.0 + after.0));
            }
            Effect::Disarm(timer) => {
                self.seat(id).timers.remove(&timer);
            }
            Effect::Persist(record) => self.seat(id).records.push(record),
            Effect::Store { name, bytes } => {
                assert_eq!(Hash::of(&bytes), name, "blobs are named by their content");
                self.seat(id).blobs.insert(name, bytes);
            }
            Effect::Erase(name) => {
                assert!(self.seat(id).blobs.remove(&name).is_some(), "only what was stored is erased");
            }
            Effect::Load(name) => {
                let bytes = self.seat(id).blobs.get(&name).cloned();
                assert!(bytes.is_some(), "what is read was stored");
                self.step(id, Event::Loaded { name, bytes });
            }
            Effect::Compute(job) => self.jobs.push((id, job)),
            Effect::Output(output) => self.told(id, output),
            Effect::Blame { peer, fault } => self.seat(id).blamed.push((peer, fault.name)),
            Effect::Applied(rule) => {
                self.seat(id).rules.insert(rule.name);
            }
            Effect::Compact => {
                let (mut records, seat) = (Vec::new(), self.seat(id));
                seat.machine.snapshot(&mut |record| records.push(record));
                seat.records = records;
            }
            Effect::Note(_) => {}
        }
    }

    fn told(&mut self, id: NodeId, output: Broadcast) {
        match output {
            Broadcast::Proposed { slot, payload } => {
                let except = if self.refused.contains(&payload) { vec![u32::MAX] } else { Vec::new() };
                let digest = Hash::of(&payload);
                self.step(id, Event::Input(Offer::Judge { slot, digest, except }));
            }
            Broadcast::Delivered { slot, payload, .. } => {
                let log = self.seat(id).delivered.entry(slot.source).or_default();
                log.push(payload);
                assert_eq!(log.len() as u64, slot.sequence, "slots are delivered in order, once each");
            }
            Broadcast::Conflict { .. } | Broadcast::Refused { .. } => {}
        }
    }

    /// A crash, and a start from what was recorded.
    pub(crate) fn restart(&mut self, id: NodeId) {
        let n = u32::try_from(self.seats.len()).expect("few");
        self.jobs.retain(|(of, _)| *of != id);
        let seat = self.seat(id);
        let delivered = seat
            .delivered
            .iter()
            .map(|(source, log)| (u8::try_from(source.0).expect("few"), log.len() as u64));
        let setup = Setup { config: config(n, id.0), delivered: delivered.collect() };
        let mut records = std::mem::take(&mut seat.records).into_iter();
        let log = Log { condition: Condition::Clean, records: &mut records };
        seat.machine = Bracha::recover(setup, log).expect("its own records are in order");
        seat.machine.snapshot(&mut |record| seat.records.push(record));
        seat.timers.clear();
        self.step(id, Event::Start);
    }

    /// One drawn thing happens; false when nothing can.
    pub(crate) fn happen(&mut self) -> bool {
        let choices = self.flying.len() + self.jobs.len();
        if choices == 0 {
            return self.tick();
        }
        let at = pick(&mut self.drawn, choices);
        if at < self.flying.len() {
            let (from, to, message) = self.flying.swap_remove(at);
            if self.drawn.below(1_000) < self.loss {
                return true;
            }
            if self.drawn.below(20) == 0 {
                self.flying.push((from, to, message.clone()));
            }
            self.step(to, Event::Message { from, message });
        } else {
            let (id, job) = self.jobs.swap_remove(at - self.flying.len());
            let done = job.run(&synod_crypto::Keys::ed25519(&synod_crypto::Seed::new([1; 32]), [2; 32]));
            self.step(id, Event::Done(done));
        }
        true
    }

    /// The next timer fires.
    fn tick(&mut self) -> bool {
        let due = self
            .seats
            .iter()
            .enumerate()
            .flat_map(|(at, seat)| seat.timers.iter().map(move |(timer, when)| (*when, at, *timer)));
        let Some((when, at, timer)) = due.min() else { return false };
        self.now = self.now.max(when);
        self.seats[at].timers.remove(&timer);
        self.step(NodeId(u32::try_from(at).expect("few")), Event::Timer(timer));
        true
    }

    /// Runs until every correct member delivered as many slots of each source as any, and at least `count` in all, or too long.
    pub(crate) fn settle(&mut self, count: usize) -> bool {
        for _ in 0..200_000 {
            if self.is_level(count) {
                return true;
            }
            if !self.happen() {
                return false;
            }
        }
        false
    }

    fn is_level(&self, count: usize) -> bool {
        let mut logs = self.correct().map(|seat| &seat.delivered);
        let Some(first) = logs.next() else { return true };
        logs.all(|log| log == first) && first.values().map(Vec::len).sum::<usize>() >= count
    }

    /// Whether the logs of correct members are prefixes of one another.
    pub(crate) fn agrees(&self) -> bool {
        let logs: Vec<_> = self.correct().map(|seat| &seat.delivered).collect();
        let is_prefix = |one: &Vec<Bytes>, other: &Vec<Bytes>| one.iter().zip(other).all(|(a, b)| a == b);
        logs.iter().all(|one| {
            logs.iter().all(|other| {
                one.iter().all(|(source, log)| other.get(source).is_none_or(|theirs| is_prefix(log, theirs)))
            })
        })
    }
}
