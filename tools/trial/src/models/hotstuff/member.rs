//! One machine of the model: a real replica with its clock, timers and blobs, and what the oracles know of it.

use core::fmt::Write as _;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use synod_crypto::{Hash, Hasher};
use synod_hotstuff::{Config, Identity, Message, Replica, Timer, View};
use synod_machine::Machine as _;
use synod_machine::broadcast::{Delivered, Position, Submit, Ticket};
use synod_machine::{
    Condition, Effect, Event, Job as _, Log, Message as _, Record as _, Recover, Rng, Span, Time, To, Turn,
    Wall,
};
use synod_quorum::NodeId;
use synod_sim::Deed;
use synod_wire::{Bytes, Wire, Writer};

use super::instance::{Cast, Instance, SECOND};
use super::judge::Judge;
use crate::oracle::{Blocks, Breach};
use crate::strategy::sealed;

/// Events of one turn; a conversation of a machine with itself that does not end is a bug.
const EVENTS_MAX: u32 = 10_000;
/// Unix milliseconds at which the model plays; the second twin's clock is one ahead, so that twins propose different
/// blocks.
const WALL_MS: u64 = 1_000_000;

/// One machine.
#[derive(Clone)]
pub(super) struct Member {
    seat: u8,
    replica: Replica,
    clock: Time,
    timers: BTreeMap<Timer, Time>,
    expired: View,
    blobs: BTreeMap<Hash, Bytes>,
    /// None for the twins, whose promises nobody keeps.
    pub(super) judge: Option<Judge>,
}

/// What a turn did to the world outside.
#[derive(Default)]
pub(super) struct Told {
    pub(super) said: Vec<(To, Message)>,
    pub(super) breach: Option<Breach>,
    /// Whether something was committed or delivered.
    pub(super) moved: bool,
}

impl Member {
    /// A machine on an empty disk; its first event is still to come.
    pub(super) fn new(instance: &Instance, cast: &Cast, seat: u8) -> Self {
        let own = Cast::id(instance.member(seat));
        let identity = Identity { own, cluster: cast.cluster, roster: cast.roster.clone() };
        let config = match Config::new(identity, instance.parameters(), Position(0)) {
            Ok(config) => config,
            Err(invalid) => unreachable!("the instance's parameters hold together: {invalid}"),
        };
        let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
        let replica = match Replica::recover(config, log) {
            Ok(replica) => replica,
            Err(refused) => unreachable!("an empty log is a fresh replica: {refused}"),
        };
        let judge = instance.is_honest(seat).then(|| Judge::new(instance, own));
        Self {
            seat,
            replica,
            clock: Time(Span::secs(1).0),
            timers: BTreeMap::new(),
            expired: View::GENESIS,
            blobs: BTreeMap::new(),
            judge,
        }
    }

    /// The first event, and the one command: every member's user asks for it.
    pub(super) fn begin(&mut self, instance: &Instance, cast: &Cast, blocks: &mut Blocks) -> Told {
        let payload = Bytes::from_static(b"the one command");
        let asked = Event::Input(Submit::Payload { ticket: Ticket(1), payload });
        self.play(instance, cast, blocks, vec![Event::Start, asked])
    }

    /// A frame arrives.
    pub(super) fn hear(
        &mut self,
        (instance, cast): (&Instance, &Cast),
        blocks: &mut Blocks,
        from: NodeId,
        message: Message,
    ) -> Told {
        self.play(instance, cast, blocks, vec![Event::Message { from, message }])
    }

    /// The view timer fires.
    pub(super) fn expire(&mut self, instance: &Instance, cast: &Cast, blocks: &mut Blocks) -> Told {
        let Some(timer) = self.expirable(instance.views) else { return Told::default() };
        if let Timer::View(view) = timer {
            self.expired = view;
        }
        let fired = self.fire(timer);
        self.play(instance, cast, blocks, vec![fired])
    }

    /// The armed view timer, unless it fired for this view or its view is beyond the instance.
    pub(super) fn expirable(&self, views: u64) -> Option<Timer> {
        self.timers
            .keys()
            .copied()
            .find(|timer| matches!(timer, Timer::View(view) if *view > self.expired && view.0 <= views))
    }

    fn fire(&mut self, timer: Timer) -> Event<Replica> {
        let due = self.timers.remove(&timer).unwrap_or(self.clock);
        self.clock = self.clock.max(due);
        Event::Timer(timer)
    }

    /// Events one after the other, each with everything that follows inside the machine: what it says to itself, its
    /// jobs, its blobs, what its user applied, and the linger of a leader.
    fn play(
        &mut self,
        instance: &Instance,
        cast: &Cast,
        blocks: &mut Blocks,
        events: Vec<Event<Replica>>,
    ) -> Told {
        let mut told = Told::default();
        let mut inner = Inner { waiting: events.into(), jobs: VecDeque::new() };
        let keys = cast.keyring.keys(u64::from(instance.member(self.seat)));
        for _ in 0..EVENTS_MAX {
            let event = match inner.waiting.pop_front() {
                Some(event) => event,
                None => match inner.jobs.pop_front() {
                    Some(job) => Event::Done(job.run(&keys)),
                    None => match self.timers.keys().copied().find(|t| matches!(t, Timer::Linger(_))) {
                        Some(linger) => self.fire(linger),
                        None => return told,
                    },
                },
            };
            match self.step(event) {
                Some(effects) => self.carry_out(instance, effects, &mut inner, &mut told, blocks),
                None => told.breach = Some(broken("X1", "a machine panics")),
            }
            if told.breach.is_some() {
                return told;
            }
        }
        told.breach = Some(broken("X1", "a machine does not come to rest"));
        told
    }

    /// None when the machine panics.
    fn step(&mut self, event: Event<Replica>) -> Option<Vec<Effect<Replica>>> {
        let mut effects = Vec::new();
        let wall = Wall(WALL_MS + u64::from(self.seat == SECOND));
        // The same draws at every step: which peer a question goes to is no choice of the model's.
        let mut rng = Rng::new(0, NodeId(0), 0);
        let mut turn = Turn::new(self.clock, wall, &mut rng, &mut effects);
        let replica = &mut self.replica;
        let done = catch_unwind(AssertUnwindSafe(|| {
            replica.step(event, &mut turn);
            replica.invariants();
        }));
        done.is_ok().then_some(effects)
    }

    fn carry_out(
        &mut self,
        instance: &Instance,
        effects: Vec<Effect<Replica>>,
        inner: &mut Inner,
        told: &mut Told,
        blocks: &mut Blocks,
    ) {
        let own = Cast::id(instance.member(self.seat));
        let mut deeds = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    deeds.push(Deed::Send { to, queue: message.queue(), body: sealed(&message) });
                    let to_self = match to {
                        To::Node(node) => node == own,
                        To::Set(set) => set.contains(own),
                    };
                    if to_self {
                        inner.waiting.push_back(Event::Message { from: own, message: message.clone() });
                    }
                    told.said.push((to, message));
                }
                Effect::Output(output) => {
                    if let Delivered::Entry(entry) = &output
                        && entry.last
                    {
                        let applied = Submit::Applied { position: entry.position, root: None };
                        inner.waiting.push_back(Event::Input(applied));
                    }
                    deeds.push(Deed::Output(Box::new(output)));
                }
                Effect::Persist(record) => {
                    let mut out = Writer::with_capacity(1 + record.size_hint());
                    out.byte(synod_hotstuff::Record::VERSION);
                    record.write(&mut out);
                    deeds.push(Deed::Append { lsn: 0, keep: record.keep(), record: out.freeze() });
                }
                Effect::Arm { timer, after } => {
                    if matches!(timer, Timer::View(_) | Timer::Linger(_)) {
                        self.timers.insert(timer, self.clock + after);
                    }
                }
                Effect::Disarm(timer) => drop(self.timers.remove(&timer)),
                Effect::Store { name, bytes } => drop(self.blobs.insert(name, bytes)),
                Effect::Erase(name) => drop(self.blobs.remove(&name)),
                Effect::Load(name) => {
                    let bytes = self.blobs.get(&name).cloned();
                    inner.waiting.push_back(Event::Loaded { name, bytes });
                }
                Effect::Compute(job) => inner.jobs.push_back(job),
                Effect::Blame { peer, fault } => {
                    let honest = u32::from(instance.twin) != peer.0 && self.judge.is_some();
                    if honest && !fault.name.starts_with("suspected_") {
                        told.breach = Some(broken("X6", fault.name));
                    }
                }
                Effect::Applied(_) | Effect::Note(_) | Effect::Compact => {}
            }
        }
        if let Some(judge) = &mut self.judge {
            match judge.see(&deeds, blocks) {
                Ok(moved) => told.moved |= moved,
                Err(breach) => told.breach = Some(breach),
            }
        }
    }

    /// A canonical digest of everything the machine's future and the oracles' verdicts depend on.
    ///
    /// The replica is a value of ordered collections whose derived text shows every field; signatures are left out of
    /// it, which is sound because all that arrive are good and a key signs a statement in one way only.
    pub(super) fn digest(&self, text: &mut String) -> Hash {
        text.clear();
        let Self { seat, replica, clock, timers, expired, blobs, judge } = self;
        let names: Vec<&Hash> = blobs.keys().collect();
        let written = write!(text, "{seat} {replica:?} {clock:?} {timers:?} {expired:?} {names:?}");
        assert!(written.is_ok(), "a string takes text");
        let mut digest = Hasher::new("synod model machine");
        digest.add(text.as_bytes());
        if let Some(judge) = judge {
            digest.add(&judge.history().0);
        }
        digest.finish()
    }
}

/// What waits inside a machine during one turn.
struct Inner {
    waiting: VecDeque<Event<Replica>>,
    jobs: VecDeque<synod_hotstuff::Job>,
}

fn broken(checker: &'static str, what: &str) -> Breach {
    Breach { checker, what: what.to_owned() }
}
