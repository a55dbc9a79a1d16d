//! A few members, a network that loses, repeats and reorders, and disks that survive crashes.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::broadcast::{Broadcast, Offer, ReliableBroadcast, Slot};
use synod_machine::{
    Bounded, Condition, Effect, Event, Job as _, Log, Machine, Recover, Rng, Time, To, Turn, Wall,
};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Drawn};

/// A broadcast that can take a seat.
pub(crate) trait Seated: ReliableBroadcast + Recover + Bounded<Message: Clone> {
    /// Whether a source's slots are delivered in order, once each.
    const ORDERED: bool;
    /// What a member starts from whose user took care of each source's slots up to a number.
    fn setup(n: u32, me: u32, settled: BTreeMap<u8, u64>) -> Self::Config;
    /// What stands for a payload.
    fn digest(payload: &[u8]) -> Hash {
        Hash::of(payload)
    }
}

/// A member with its disk and its user.
pub(crate) struct Seat<M: Machine> {
    pub(crate) machine: M,
    keys: Keys,
    records: Vec<M::Record>,
    /// `None` where a disk lost what it kept.
    blobs: BTreeMap<Hash, Option<Bytes>>,
    timers: BTreeMap<M::Timer, Time>,
    /// What its user was told, and the proofs it came with.
    pub(crate) delivered: BTreeMap<(NodeId, u64), Bytes>,
    pub(crate) proofs: BTreeMap<(NodeId, u64), BTreeSet<Bytes>>,
    pub(crate) conflicts: Vec<Bytes>,
    pub(crate) rules: BTreeSet<&'static str>,
    /// How often its log was compacted.
    pub(crate) compacted: u32,
    pub(crate) blamed: Vec<(NodeId, &'static str)>,
}

/// A drawn index below `count`.
pub(crate) fn pick(drawn: &mut Drawn, count: usize) -> usize {
    usize::try_from(drawn.below(count as u64)).expect("below a size")
}

/// The secret of a member.
pub(crate) fn seed(id: u32) -> Seed {
    Seed::new([u8::try_from(id).expect("few") + 1; 32])
}

/// The keys of a member.
pub(crate) fn keys(id: u32) -> Keys {
    Keys::ed25519(&seed(id), [9; 32])
}

/// What a user excepts of a payload, by how often users looked again.
pub(crate) type Judge = fn(NodeId, &[u8], u64) -> Vec<u32>;

/// Members under a drawn schedule.
pub(crate) struct World<M: Machine> {
    pub(crate) seats: Vec<Seat<M>>,
    /// Whoever lies: its machine is never stepped.
    pub(crate) liar: Option<NodeId>,
    /// Whoever hears nothing.
    pub(crate) deaf: Vec<NodeId>,
    drawn: Drawn,
    flying: Vec<(NodeId, NodeId, M::Message)>,
    jobs: Vec<(NodeId, M::Job)>,
    now: Time,
    /// Messages of a thousand that are lost.
    pub(crate) loss: u64,
    /// See there.
    pub(crate) judge: Judge,
    looked: u64,
}

impl<M: Seated> World<M> {
    pub(crate) fn new(n: u32, seed: u64) -> Self {
        let seat = |me| {
            let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
            Seat {
                machine: M::recover(M::setup(n, me, BTreeMap::new()), log).expect("a sound configuration"),
                keys: keys(me),
                records: Vec::new(),
                blobs: BTreeMap::new(),
                timers: BTreeMap::new(),
                delivered: BTreeMap::new(),
                proofs: BTreeMap::new(),
                conflicts: Vec::new(),
                rules: BTreeSet::new(),
                compacted: 0,
                blamed: Vec::new(),
            }
        };
        let mut world = Self {
            seats: (0..n).map(seat).collect(),
            liar: None,
            deaf: Vec::new(),
            drawn: Drawn::new(seed),
            flying: Vec::new(),
            jobs: Vec::new(),
            now: Time::ZERO,
            loss: 0,
            judge: |_, _, _| Vec::new(),
            looked: 0,
        };
        for at in 0..n {
            world.step(NodeId(at), Event::Start);
        }
        world
    }

    fn seat(&mut self, id: NodeId) -> &mut Seat<M> {
        &mut self.seats[id.0 as usize]
    }

    pub(crate) fn correct(&self) -> impl Iterator<Item = &Seat<M>> {
        let liar = self.liar.map(|liar| liar.0 as usize);
        self.seats.iter().enumerate().filter(move |(at, _)| Some(*at) != liar).map(|(_, seat)| seat)
    }

    /// Broadcasts that a member will take now.
    pub(crate) fn room(&self, id: u32) -> u32 {
        self.seats[id as usize].machine.room()
    }

    /// Sends as if it were `from`.
    pub(crate) fn say(&mut self, from: NodeId, to: NodeId, message: M::Message) {
        self.flying.push((from, to, message));
    }

    pub(crate) fn broadcast(&mut self, by: u32, payload: &str) {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        self.step(NodeId(by), Event::Input(Offer::Broadcast { payload }));
    }

    pub(crate) fn step(&mut self, id: NodeId, event: Event<M>) {
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

    fn take(&mut self, id: NodeId, effect: Effect<M>) {
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
                self.seat(id).blobs.insert(name, Some(bytes));
            }
            Effect::Erase(name) => {
                assert!(self.seat(id).blobs.remove(&name).is_some(), "only what was stored is erased");
            }
            Effect::Load(name) => {
                let bytes = self.seat(id).blobs.get(&name).cloned();
                let bytes = bytes.expect("what is read was stored");
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
                seat.compacted += 1;
            }
            Effect::Note(_) => {}
        }
    }

    fn told(&mut self, id: NodeId, output: Broadcast) {
        match output {
            Broadcast::Proposed { slot, payload } => {
                let except = (self.judge)(id, &payload, self.looked);
                let digest = M::digest(&payload);
                self.step(id, Event::Input(Offer::Judge { slot, digest, except }));
            }
            Broadcast::Delivered { slot, payload, proof } => {
                let key = (slot.source, slot.sequence);
                let seat = self.seat(id);
                let before = seat.delivered.insert(key, payload.clone());
                let is_new = before.is_none();
                assert!(is_new || before == Some(payload), "a slot has one payload");
                let of_source = seat.delivered.range((slot.source, 0)..=key).count() as u64;
                assert!(
                    !M::ORDERED || is_new && of_source == slot.sequence,
                    "slots are delivered in order, once each"
                );
                seat.proofs.entry(key).or_default().extend(proof);
            }
            Broadcast::Conflict { evidence, .. } => self.seat(id).conflicts.push(evidence),
            Broadcast::Refused { .. } => {}
        }
    }

    /// The disk of a member loses what it stores, but for its log.
    pub(crate) fn damage(&mut self, id: NodeId) {
        self.seat(id).blobs.values_mut().for_each(|blob| *blob = None);
    }

    /// A crash, and a start from what was recorded.
    pub(crate) fn restart(&mut self, id: NodeId) {
        let n = u32::try_from(self.seats.len()).expect("few");
        self.jobs.retain(|(of, _)| *of != id);
        let seat = self.seat(id);
        let mut settled: BTreeMap<u8, u64> = BTreeMap::new();
        for (source, sequence) in seat.delivered.keys() {
            let far = settled.entry(u8::try_from(source.0).expect("few")).or_default();
            *far += u64::from(*sequence == *far + 1);
        }
        let mut records = std::mem::take(&mut seat.records).into_iter();
        let log = Log { condition: Condition::Clean, records: &mut records };
        seat.machine = M::recover(M::setup(n, id.0, settled), log).expect("its own records are in order");
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
            if self.drawn.below(1_000) < self.loss || self.deaf.contains(&to) {
                return true;
            }
            if self.drawn.below(20) == 0 {
                self.flying.push((from, to, message.clone()));
            }
            self.step(to, Event::Message { from, message });
        } else {
            let (id, job) = self.jobs.swap_remove(at - self.flying.len());
            let done = job.run(&self.seat(id).keys);
            self.step(id, Event::Done(done));
        }
        true
    }

    /// The next timer fires.
    fn tick(&mut self) -> bool {
        let seats = self.seats.iter().enumerate();
        let due =
            seats.flat_map(|(at, seat)| seat.timers.iter().map(move |(timer, when)| (*when, at, *timer)));
        let Some((when, at, timer)) = due.min() else { return false };
        self.now = self.now.max(when);
        self.seats[at].timers.remove(&timer);
        self.step(NodeId(u32::try_from(at).expect("few")), Event::Timer(timer));
        true
    }

    /// So many drawn things happen.
    pub(crate) fn go_on(&mut self, steps: u32) {
        for _ in 0..steps {
            self.happen();
        }
    }

    /// Runs until every correct member delivered the same slots, at least `count` of them; false after too long.
    pub(crate) fn settle(&mut self, count: usize) -> bool {
        (0..200_000).any(|_| self.is_level(count) || !self.happen()) && self.is_level(count)
    }

    fn is_level(&self, count: usize) -> bool {
        let mut logs = self.correct().map(|seat| &seat.delivered);
        let Some(first) = logs.next() else { return true };
        first.len() >= count && logs.all(|log| log == first)
    }

    /// Whether no slot has two payloads at correct members.
    pub(crate) fn agrees(&self) -> bool {
        let mut all: BTreeMap<(NodeId, u64), &Bytes> = BTreeMap::new();
        let mut told = self.correct().flat_map(|seat| &seat.delivered);
        told.all(|(slot, payload)| *all.entry(*slot).or_insert(payload) == payload)
    }

    /// Every user looks again at the first slot of a source.
    pub(crate) fn look_again(&mut self, source: u32, payload: &[u8]) {
        self.looked += 1;
        let slot = Slot { source: NodeId(source), sequence: 1 };
        for id in (0_u32..).map(NodeId).take(self.seats.len()) {
            let except = (self.judge)(id, payload, self.looked);
            self.step(id, Event::Input(Offer::Judge { slot, digest: M::digest(payload), except }));
        }
    }
}

/// One member alone broadcasts 200 payloads: how often it compacts its log, and how many records that leaves.
pub(crate) fn compactions<M: Seated>() -> (u32, usize) {
    let mut world = World::<M>::new(1, 3);
    for at in 0..200 {
        while world.room(0) == 0 {
            assert!(world.happen());
        }
        world.broadcast(0, &format!("payload {at}"));
    }
    assert!(world.settle(200));
    (world.seats[0].compacted, world.seats[0].records.len())
}
