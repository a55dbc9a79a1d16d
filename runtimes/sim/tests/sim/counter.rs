//! A machine that promises numbers: each at most once over all its lives.

use std::collections::{BTreeMap, BTreeSet};

use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{
    Bounded, Event, Log, Machine, Message, Never, Queue, QueueSpec, Record, Recover, Span, Time, Turn,
    Unrecoverable,
};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{Checker, Deed, Moment, Options, Seat, Seen, Setup, Violation, World};
use synod_wire::wire;

wire! {
    /// A promised number.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Promise {
        pub(crate) number: u64,
        pub(crate) nonce: u64,
    }
}

impl Message for Promise {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

impl Record for Promise {}

/// How the counter treats its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Record first, then the promise.
    Careful,
    /// The promise first.
    Hasty,
}

/// Promises the next number to everybody every `PERIOD`, with a nonce drawn from the time.
pub(crate) struct Counter {
    manner: Manner,
    members: u32,
    last: u64,
}

const PERIOD: Span = Span::millis(20);

impl Machine for Counter {
    type Input = Never;
    type Message = Promise;
    type Timer = u8;
    type Record = Promise;
    type Job = Never;
    type Output = u64;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => turn.arm(0, PERIOD),
            Event::Timer(_) => {
                self.last += 1;
                let promise = Promise { number: self.last, nonce: turn.now().0 };
                let everybody = NodeSet::first(self.members);
                match self.manner {
                    Manner::Careful => {
                        turn.persist(promise.clone());
                        turn.send(everybody, promise);
                    }
                    Manner::Hasty => {
                        turn.send(everybody, promise.clone());
                        turn.persist(promise);
                    }
                }
                turn.arm(0, PERIOD);
            }
            Event::Message { message, .. } => turn.output(message.number),
            _ => {}
        }
    }
}

impl Bounded for Counter {
    fn bytes(&self) -> u64 {
        24
    }
    fn bytes_max(&self) -> u64 {
        24
    }
}

impl Recover for Counter {
    type Config = (Manner, u32);
    fn queues(_: &Self::Config) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }
    fn recover((manner, members): Self::Config, log: Log<'_, Promise>) -> Result<Self, Unrecoverable> {
        let last = log.records.map(|promise| promise.number).max().unwrap_or(0);
        Ok(Self { manner, members, last })
    }
    fn snapshot(&self, put: &mut dyn FnMut(Promise)) {
        put(Promise { number: self.last, nonce: 0 });
    }
}

pub(crate) fn decoded(bytes: &synod_wire::Bytes) -> Option<Promise> {
    synod_wire::Wire::decode(bytes.slice(1..), &synod_wire::Limits::default()).ok()
}

/// T1: no honest node says one number with two nonces. T2: a promise has its record before it.
#[derive(Default)]
pub(crate) struct Promises {
    pub(crate) said: BTreeMap<(NodeId, u64), u64>,
    pub(crate) kept: BTreeMap<NodeId, BTreeSet<u64>>,
    pub(crate) gate: bool,
}

impl Checker for Promises {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        if !moment.honest {
            return Ok(());
        }
        let kept = self.kept.entry(moment.node).or_default();
        if let Seen::Opened { records, .. } = moment.seen {
            *kept = records.iter().filter_map(decoded).map(|promise| promise.number).collect();
        }
        for deed in moment.deeds {
            match deed {
                Deed::Append { record, .. } => kept.extend(decoded(record).map(|promise| promise.number)),
                Deed::Send { body, .. } => {
                    let promise = decoded(body).ok_or_else(|| Violation::new("T0", "a strange frame"))?;
                    let known = *self.said.entry((moment.node, promise.number)).or_insert(promise.nonce);
                    if known != promise.nonce {
                        return Err(Violation::new("T1", format!("two promises {}", promise.number)));
                    }
                    if self.gate && !kept.contains(&promise.number) {
                        return Err(Violation::new("T2", format!("no record of {}", promise.number)));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

pub(crate) fn hosted(manner: Manner, node: NodeId, log: LaneLog) -> Result<Box<dyn Hosted>, Unrecoverable> {
    let config = HostConfig { own: node, machine: 0, seed: 1, jobs_max: 8, checked: true };
    Ok(Box::new(Host::<Counter>::open(config, (manner, 4), log)?))
}

/// Four counters under a checker of promises.
pub(crate) fn counters(manner: Manner, gate: bool, options: Options) -> World {
    let seats = (0..4).map(|id| Seat::new(NodeId(id), &[0])).collect();
    let setup = Setup::new(seats, move |node, _, log, _| hosted(manner, node, log));
    let checkers: Vec<Box<dyn Checker>> = vec![Box::new(Promises { gate, ..Promises::default() })];
    World::new(Setup { checkers, options, ..setup })
}

/// Runs counters for a while under an incident list; the digest, or the violation.
pub(crate) fn run(mut world: World, lasts: Span) -> Result<World, Violation> {
    world.run(Time(lasts.0), &mut ())?;
    world.finish()?;
    Ok(world)
}
