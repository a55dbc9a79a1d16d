//! A machine that does what it is told and tells what happens to it.

use synod_crypto::{Hash, Keys};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{
    Bounded, Condition, Cost, Event, Job, Link, Log, Machine, Message, Queue, QueueSpec, Record, Recover,
    Span, Time, Turn, Unrecoverable, Wall,
};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{Options, Prices, Seat, Setup, Told, World};
use synod_wire::{Bytes, wire};

wire! {
    /// A number on a queue.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Say {
        queue: u8,
        value: u64,
    }

    /// A number to keep.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Kept(u64);
}

impl Message for Say {
    fn queue(&self) -> Queue {
        Queue(self.queue)
    }
}

impl Record for Kept {}

/// Work that answers its number plus one.
pub(crate) struct Add(u64);

impl Job for Add {
    type Done = u64;
    fn run(self, _: &Keys) -> u64 {
        self.0 + 1
    }
    fn cost(&self) -> Cost {
        Cost { verify: 1, ..Cost::default() }
    }
}

/// One thing a probe can be told to do.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    Send(NodeSet, u64),
    SendOn(u8, NodeId, u64),
    Persist(u64),
    Arm(u64, Span),
    Disarm(u64),
    Store(Vec<u8>),
    Load(Hash),
    Erase(Hash),
    Compute(u64),
    Output(u64),
    Compact,
    Blame(NodeId, &'static str),
    Hoard(u64),
    Draw,
    Panic,
}

/// What a probe tells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Started(Condition, Vec<u64>),
    Heard(NodeId, u64),
    Fired(u64, Time),
    Computed(u64),
    Loaded(Option<Bytes>),
    Linked(NodeId, bool),
    Printed(u64),
    Drew(u64),
    Clocked(Time, Wall),
}

pub(crate) struct Probe {
    condition: Condition,
    kept: Vec<u64>,
    hoard: u64,
}

impl Machine for Probe {
    type Input = Vec<Do>;
    type Message = Say;
    type Timer = u64;
    type Record = Kept;
    type Job = Add;
    type Output = Said;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => turn.output(Said::Started(self.condition, self.kept.clone())),
            Event::Input(all) => all.into_iter().for_each(|one| self.obey(one, turn)),
            Event::Message { from, message } => turn.output(Said::Heard(from, message.value)),
            Event::Timer(name) => turn.output(Said::Fired(name, turn.now())),
            Event::Done(value) => turn.output(Said::Computed(value)),
            Event::Loaded { bytes, .. } => turn.output(Said::Loaded(bytes)),
            Event::Link { peer, link } => turn.output(Said::Linked(peer, link == Link::Up)),
        }
    }
}

impl Probe {
    fn obey(&mut self, one: Do, turn: &mut Turn<'_, Self>) {
        match one {
            Do::Send(to, value) => turn.send(to, Say { queue: 0, value }),
            Do::SendOn(queue, to, value) => turn.send(to, Say { queue, value }),
            Do::Persist(value) => {
                self.kept.push(value);
                turn.persist(Kept(value));
            }
            Do::Arm(name, after) => turn.arm(name, after),
            Do::Disarm(name) => turn.disarm(name),
            Do::Store(bytes) => turn.store(Hash::of(&bytes), Bytes::from(bytes)),
            Do::Load(name) => turn.load(name),
            Do::Erase(name) => turn.erase(name),
            Do::Compute(value) => turn.compute(Add(value)),
            Do::Output(value) => turn.output(Said::Printed(value)),
            Do::Compact => turn.compact(),
            Do::Blame(peer, name) => {
                turn.blame(peer, synod_machine::Fault { code: 4_000, name, evidence: Bytes::new() });
            }
            Do::Hoard(bytes) => self.hoard = bytes,
            Do::Draw => {
                let drawn = turn.rng().draw();
                turn.output(Said::Drew(drawn));
                turn.output(Said::Clocked(turn.now(), turn.wall()));
            }
            Do::Panic => assert!(self.kept.len() > 1 << 40, "told to panic"),
        }
    }
}

impl Bounded for Probe {
    fn bytes(&self) -> u64 {
        self.hoard
    }
    fn bytes_max(&self) -> u64 {
        1_000
    }
}

/// The depth of the probe's queues: reset, reset, evict, drop.
pub(crate) const DEPTH: u32 = 20;

impl Recover for Probe {
    type Config = ();

    fn queues((): &()) -> Vec<QueueSpec> {
        use synod_machine::Full::{DropNewest, EvictOldest, Reset};
        let spec = |full| QueueSpec { depth: DEPTH, frame_max: 1_000, full };
        vec![spec(Reset), spec(Reset), spec(EvictOldest), spec(DropNewest)]
    }

    fn recover((): (), log: Log<'_, Kept>) -> Result<Self, Unrecoverable> {
        Ok(Self { condition: log.condition, kept: log.records.map(|kept| kept.0).collect(), hoard: 0 })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Kept)) {
        self.kept.iter().for_each(|value| put(Kept(*value)));
    }
}

pub(crate) fn hosted(node: NodeId, machine: u8, log: LaneLog) -> Result<Box<dyn Hosted>, Unrecoverable> {
    let config = HostConfig { own: node, machine, seed: 1, jobs_max: 8, checked: false };
    Ok(Box::new(Host::<Probe>::open(config, (), log)?))
}

/// `count` probes, each with the machines of these numbers, on constant free links.
pub(crate) fn setup(count: u32, machines: &[u8], options: Options) -> Setup {
    let seats = (0..count).map(|id| Seat::new(NodeId(id), machines)).collect();
    Setup { options, ..Setup::new(seats, |node, machine, log, _| hosted(node, machine, log)) }
}

pub(crate) fn calm(seed: u64) -> Options {
    Options {
        seed,
        latency: synod_sim::Latency::Constant(Span::millis(1)),
        jitter: Span::ZERO,
        prices: Prices::FREE,
        ..Options::default()
    }
}

/// A world of `count` probes that were started and joined.
pub(crate) fn world(count: u32, seed: u64) -> World {
    let mut world = World::new(setup(count, &[0], calm(seed)));
    world.run(Time(Span::millis(50).0), &mut ()).expect("nothing goes wrong");
    world
}

/// Tells a probe what to do, now.
pub(crate) fn tell(world: &mut World, node: u32, what: Vec<Do>) {
    world.input(NodeId(node), 0, Span::ZERO, Box::new(what));
}

/// Runs for a while and gives what was said, by whom and when.
pub(crate) fn said(world: &mut World, lasts: Span) -> Vec<(u32, Time, Said)> {
    let mut told: Vec<Told> = Vec::new();
    let until = world.now() + lasts;
    world.run(until, &mut told).expect("no checker fires");
    told.into_iter()
        .map(|told| {
            let said = told.output.downcast::<Said>().expect("a probe says only this");
            (told.node.0, told.time, *said)
        })
        .collect()
}

/// What `node` heard, in order.
pub(crate) fn heard(said: &[(u32, Time, Said)], node: u32) -> Vec<u64> {
    said.iter()
        .filter(|(who, ..)| *who == node)
        .filter_map(|(_, _, said)| if let Said::Heard(_, value) = said { Some(*value) } else { None })
        .collect()
}
