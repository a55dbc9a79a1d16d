//! A few members, a network that loses, repeats and reorders, and disks that survive crashes: what the tests of a protocol's
//! own crate need, without the simulator.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Keys};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Drawn, Limits, Wire};

use crate::{Bounded, Condition, Effect, Event, Job as _, Log, Machine, Recover, Rng, Time, To, Turn, Wall};

/// Whoever uses the machines of a [`World`], and knows how they are set up.
pub trait Users {
    /// The machine of every member.
    type Machine: Recover + Bounded + Machine<Message: Clone>;

    /// What a member starts from, first or again.
    fn config(&self, id: NodeId) -> <Self::Machine as Recover>::Config;

    /// The keys of a member.
    fn keys(&self, id: NodeId) -> Keys;

    /// A member's user is told something, and asks something.
    fn told(
        &mut self,
        id: NodeId,
        output: <Self::Machine as Machine>::Output,
    ) -> Vec<<Self::Machine as Machine>::Input>;
}

/// A member and its disk.
pub struct Seat<M: Machine> {
    /// The member.
    pub machine: M,
    keys: Keys,
    /// Its log, as bytes.
    records: Vec<Bytes>,
    /// `None` where a disk lost what it kept.
    blobs: BTreeMap<Hash, Option<Bytes>>,
    timers: BTreeMap<M::Timer, Time>,
    /// Rules that it applied.
    pub rules: BTreeSet<&'static str>,
    /// Whom it blamed, and for what.
    pub blamed: Vec<(NodeId, &'static str)>,
    /// How often its log was compacted.
    pub compacted: u32,
}

impl<M: Machine> Seat<M> {
    /// How many records its log has.
    #[must_use]
    pub fn log_len(&self) -> usize {
        self.records.len()
    }

    /// How many blobs its disk has.
    #[must_use]
    pub fn blobs(&self) -> usize {
        self.blobs.len()
    }
}

/// Members under a drawn schedule.
pub struct World<U: Users> {
    /// Their users.
    pub users: U,
    /// The members.
    pub seats: Vec<Seat<U::Machine>>,
    /// Whoever lies: its machine is never stepped.
    pub liar: Option<NodeId>,
    /// Whoever hears nothing.
    pub deaf: Vec<NodeId>,
    /// Messages of a thousand that are lost.
    pub loss: u64,
    drawn: Drawn,
    flying: Vec<(NodeId, NodeId, <U::Machine as Machine>::Message)>,
    jobs: Vec<(NodeId, <U::Machine as Machine>::Job)>,
    now: Time,
}

/// A drawn index below `count`.
///
/// # Panics
/// Where `count` is 0.
pub fn pick(drawn: &mut Drawn, count: usize) -> usize {
    usize::try_from(drawn.below(count as u64)).expect("below a size")
}

impl<U: Users> World<U> {
    /// So many members, started, under the schedule of a seed.
    ///
    /// # Panics
    /// Where a configuration cannot work.
    pub fn new(n: u32, seed: u64, users: U) -> Self {
        let seats = (0..n).map(|id| Seat {
            machine: recovered(&users, NodeId(id), Vec::new()),
            keys: users.keys(NodeId(id)),
            records: Vec::new(),
            blobs: BTreeMap::new(),
            timers: BTreeMap::new(),
            rules: BTreeSet::new(),
            blamed: Vec::new(),
            compacted: 0,
        });
        let mut world = Self {
            seats: seats.collect(),
            users,
            liar: None,
            deaf: Vec::new(),
            loss: 0,
            drawn: Drawn::new(seed),
            flying: Vec::new(),
            jobs: Vec::new(),
            now: Time::ZERO,
        };
        for id in 0..n {
            world.step(NodeId(id), Event::Start);
        }
        world
    }

    fn seat(&mut self, id: NodeId) -> &mut Seat<U::Machine> {
        let at = usize::try_from(id.0).expect("few");
        self.seats.get_mut(at).expect("a member")
    }

    /// Members that do not lie.
    pub fn correct(&self) -> impl Iterator<Item = (NodeId, &Seat<U::Machine>)> {
        (0_u32..).map(NodeId).zip(&self.seats).filter(|(id, _)| Some(*id) != self.liar)
    }

    /// Sends as if it were `from`.
    pub fn say(&mut self, from: NodeId, to: NodeId, message: <U::Machine as Machine>::Message) {
        self.flying.push((from, to, message));
    }

    /// Asks a member something.
    pub fn ask(&mut self, id: NodeId, input: <U::Machine as Machine>::Input) {
        self.step(id, Event::Input(input));
    }

    /// The time of all members.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Inputs that a member will take now.
    #[must_use]
    pub fn room(&self, id: NodeId) -> u32 {
        let at = usize::try_from(id.0).expect("few");
        self.seats.get(at).map_or(0, |seat| seat.machine.room())
    }

    /// Steps a member, and its user after it.
    ///
    /// # Panics
    /// Where a machine holds more than it may, or reads or erases what it did not store.
    pub fn step(&mut self, id: NodeId, event: Event<U::Machine>) {
        if self.liar == Some(id) {
            return;
        }
        let (now, mut rng, mut effects) = (self.now, Rng::new(self.drawn.next(), id, 0), Vec::new());
        let seat = self.seat(id);
        seat.machine.step(event, &mut Turn::new(now, Wall(now.0 / 1_000_000), &mut rng, &mut effects));
        seat.machine.invariants();
        assert!(seat.machine.bytes() <= seat.machine.bytes_max(), "memory over its bound");
        for effect in effects {
            self.take(id, effect);
        }
    }

    fn take(&mut self, id: NodeId, effect: Effect<U::Machine>) {
        let now = self.now;
        match effect {
            Effect::Send { to: To::Node(to), message } => self.flying.push((id, to, message)),
            Effect::Send { to: To::Set(set), message } => {
                self.flying.extend(set.iter().map(|to| (id, to, message.clone())));
            }
            Effect::Arm { timer, after } => {
                self.seat(id).timers.insert(timer, Time(now.0.saturating_add(after.0)));
            }
            Effect::Disarm(timer) => {
                self.seat(id).timers.remove(&timer);
            }
            Effect::Persist(record) => self.seat(id).records.push(record.encode()),
            Effect::Store { name, bytes } => {
                assert_eq!(Hash::of(&bytes), name, "blobs are named by their content");
                self.seat(id).blobs.insert(name, Some(bytes));
            }
            Effect::Erase(name) => {
                assert!(self.seat(id).blobs.remove(&name).is_some(), "only what was stored is erased");
            }
            Effect::Load(name) => {
                let bytes = self.seat(id).blobs.get(&name).cloned().expect("what is read was stored");
                self.step(id, Event::Loaded { name, bytes });
            }
            Effect::Compute(job) => self.jobs.push((id, job)),
            Effect::Output(output) => {
                for input in self.users.told(id, output) {
                    self.step(id, Event::Input(input));
                }
            }
            Effect::Blame { peer, fault } => self.seat(id).blamed.push((peer, fault.name)),
            Effect::Applied(rule) => {
                self.seat(id).rules.insert(rule.name);
            }
            Effect::Compact => self.compact(id),
            Effect::Note(_) => {}
        }
    }

    fn compact(&mut self, id: NodeId) {
        let (mut records, seat) = (Vec::new(), self.seat(id));
        seat.machine.snapshot(&mut |record| records.push(record.encode()));
        seat.records = records;
        seat.compacted += 1;
    }

    /// The disk of a member loses what it stores, but for its log.
    pub fn damage(&mut self, id: NodeId) {
        self.seat(id).blobs.values_mut().for_each(|blob| *blob = None);
    }

    /// A crash, and a start from what was recorded: from the log itself, or from the snapshot of what that makes.
    pub fn restart(&mut self, id: NodeId, compacted: bool) {
        self.jobs.retain(|(of, _)| *of != id);
        let log = self.seat(id).records.clone();
        self.seat(id).machine = recovered(&self.users, id, log);
        if compacted {
            self.compact(id);
            let log = self.seat(id).records.clone();
            self.seat(id).machine = recovered(&self.users, id, log);
        }
        self.seat(id).timers.clear();
        self.step(id, Event::Start);
    }

    /// One drawn thing happens; false when nothing can.
    pub fn happen(&mut self) -> bool {
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
        let seats = (0_u32..).map(NodeId).zip(&self.seats);
        let due =
            seats.flat_map(|(id, seat)| seat.timers.iter().map(move |(timer, when)| (*when, id, *timer)));
        let Some((when, id, timer)) = due.min() else { return false };
        self.now = self.now.max(when);
        self.seat(id).timers.remove(&timer);
        self.step(id, Event::Timer(timer));
        true
    }

    /// So many drawn things happen.
    pub fn go_on(&mut self, steps: u64) {
        for _ in 0..steps {
            self.happen();
        }
    }

    /// Goes on until something holds; false after too long.
    pub fn until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        (0..200_000).any(|_| holds(self) || !self.happen()) && holds(self)
    }
}

fn recovered<U: Users>(users: &U, id: NodeId, log: Vec<Bytes>) -> U::Machine {
    let limits = Limits { frame_max: 64 << 20 };
    let read = |bytes| <U::Machine as Machine>::Record::decode(bytes, &limits).expect("what was written");
    let mut records = log.into_iter().map(read);
    let log = Log { condition: Condition::Clean, records: &mut records };
    U::Machine::recover(users.config(id), log)
        .expect("a sound configuration, and records of its own in order")
}
