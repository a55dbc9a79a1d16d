//! One machine with its timers: what it says comes back, records are dropped, blobs are dropped or kept in memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use synod_crypto::Hash;
use synod_machine::{
    Condition, Effect, Event, Log, Machine, Recover, Rng, Span, Time, To, Turn, Unrecoverable, Wall,
};
use synod_quorum::NodeId;
use synod_wire::Bytes;

/// What a machine said that somebody else has to act on.
pub(crate) enum Said<M: Machine> {
    /// To peers.
    Send(To, M::Message),
    /// To the machines beside it.
    Output(M::Output),
    /// To the pool.
    Job(M::Job),
}

/// Where a host has its time from.
enum Clock {
    /// This machine's clock, since then.
    Since(Instant),
    /// Whoever runs it: so that two runs are the same.
    Told(Span),
}

/// A machine and its timers.
pub(crate) struct Host<M: Machine> {
    machine: M,
    timers: BTreeMap<M::Timer, Time>,
    events: VecDeque<Event<M>>,
    /// Empty between steps: its memory is used again.
    effects: Vec<Effect<M>>,
    rng: Rng,
    clock: Clock,
    /// Blobs, where they are kept.
    blobs: Option<BTreeMap<Hash, Bytes>>,
    /// Peers that were blamed: none is, by a load that keeps the rules.
    pub(crate) blamed: u64,
}

impl<M: Recover> Host<M> {
    /// Opens the machine of a node over an empty journal; with `keeps` its blobs can be read again.
    pub(crate) fn open(id: NodeId, config: M::Config, keeps: bool) -> Result<Self, Unrecoverable> {
        let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
        Ok(Self {
            machine: M::recover(config, log)?,
            timers: BTreeMap::new(),
            events: VecDeque::from([Event::Start]),
            effects: Vec::new(),
            rng: Rng::new(1, id, 0),
            clock: Clock::Since(Instant::now()),
            blobs: keeps.then(BTreeMap::new),
            blamed: 0,
        })
    }

    /// The machine.
    pub(crate) const fn machine(&self) -> &M {
        &self.machine
    }

    /// Gives the machine an event, to be taken later.
    pub(crate) fn push(&mut self, event: Event<M>) {
        self.events.push_back(event);
    }

    /// From now on the time is what is told: so long since the beginning.
    pub(crate) fn tell_time(&mut self, span: Span) {
        self.clock = Clock::Told(span);
    }

    fn now(&self) -> Time {
        let span = match self.clock {
            Clock::Since(begin) => u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Clock::Told(span) => span.0,
        };
        Time(Span::secs(1).0.saturating_add(span))
    }

    /// Makes the timers that are due events.
    pub(crate) fn fire(&mut self) {
        let now = self.now();
        let due: Vec<M::Timer> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(t, _)| *t).collect();
        for timer in due {
            self.timers.remove(&timer);
            self.events.push_back(Event::Timer(timer));
        }
    }

    /// Steps the machine until no event waits.
    pub(crate) fn run(&mut self, mut say: impl FnMut(Said<M>)) {
        while let Some(event) = self.events.pop_front() {
            let now = self.now();
            let wall = Wall(now.0 / 1_000_000);
            self.machine.step(event, &mut Turn::new(now, wall, &mut self.rng, &mut self.effects));
            for effect in self.effects.drain(..) {
                match effect {
                    Effect::Send { to, message } => say(Said::Send(to, message)),
                    Effect::Output(output) => say(Said::Output(output)),
                    Effect::Compute(job) => say(Said::Job(job)),
                    Effect::Arm { timer, after } => drop(self.timers.insert(timer, now + after)),
                    Effect::Disarm(timer) => drop(self.timers.remove(&timer)),
                    Effect::Load(name) => {
                        let bytes = self.blobs.as_ref().and_then(|blobs| blobs.get(&name).cloned());
                        self.events.push_back(Event::Loaded { name, bytes });
                    }
                    Effect::Store { name, bytes } => {
                        self.blobs.iter_mut().for_each(|blobs| drop(blobs.insert(name, bytes.clone())));
                    }
                    Effect::Erase(name) => {
                        self.blobs.iter_mut().for_each(|blobs| drop(blobs.remove(&name)));
                    }
                    Effect::Blame { .. } => self.blamed += 1,
                    Effect::Persist(_) | Effect::Compact | Effect::Applied(_) | Effect::Note(_) => {}
                }
            }
        }
    }
}
