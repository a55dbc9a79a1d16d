//! A machine that does what it is told and tells what happens to it.

use std::sync::mpsc::Sender;

use synod_crypto::{Hash, Keys};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{
    Bounded, Condition, Event, Job, Link, Log, Machine, Message, Queue, QueueSpec, Record, Recover, Span,
    Turn, Unrecoverable,
};
use synod_net::Brake;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Malformed, Reader, Wire, Writer, wire};

/// The tag of words that are encoded with a byte too many.
const GARBLED: u64 = u64::MAX - 1;

/// What probes say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The queue it travels in.
    pub(crate) queue: u8,
    /// Names the word.
    pub(crate) tag: u64,
    /// Ballast.
    pub(crate) body: Blob<{ 1 << 20 }>,
}

impl Wire for Word {
    fn write(&self, out: &mut Writer) {
        self.queue.write(out);
        self.tag.write(out);
        self.body.write(out);
        if self.tag == GARBLED {
            out.byte(0);
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { queue: Wire::read(input)?, tag: Wire::read(input)?, body: Wire::read(input)? })
    }

    fn size_hint(&self) -> usize {
        16 + self.body.len()
    }
}

wire! {
    /// What probes keep.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Kept(pub u64);
}

impl Message for Word {
    fn queue(&self) -> Queue {
        Queue(self.queue)
    }
}

impl Record for Kept {}

/// Answers its number.
pub(crate) struct Work {
    pub(crate) number: u64,
    pub(crate) peer: Option<NodeId>,
}

impl Job for Work {
    type Done = (u64, usize);
    fn run(self, _: &Keys) -> Self::Done {
        (self.number, 1)
    }
    fn run_all(jobs: Vec<Self>, _: &Keys) -> Vec<Self::Done> {
        let size = jobs.len();
        jobs.into_iter().map(|job| (job.number, size)).collect()
    }
    fn peer(&self) -> Option<NodeId> {
        self.peer
    }
}

/// One thing a probe is told to do.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Send {
        to: NodeSet,
        queue: u8,
        tag: u64,
        size: usize,
    },
    /// A frame that does not decode.
    Garble {
        to: NodeSet,
    },
    Answer {
        to: NodeId,
        tag: u64,
        size: usize,
    },
    Persist(u64),
    Arm(u64, Span),
    Disarm(u64),
    Compute(u64, Option<NodeId>),
    Say(u64),
    Draw,
    Store(Bytes),
    Load(Hash),
    Pass(u64),
    /// Stops the node, as its observer would.
    Pull(Brake),
    /// Says at once that the machine came this far; nothing holds it back.
    Knock(Sender<()>),
}

/// What a probe tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Started,
    Heard {
        from: NodeId,
        tag: u64,
        size: usize,
    },
    Fired(u64),
    Done {
        number: u64,
        batch: usize,
    },
    Link(NodeId, Link),
    Said(u64),
    Drew(u64),
    Loaded(Hash, Option<Bytes>),
    /// The connector makes this `Act::Say` at machine 1.
    Passed(u64),
}

/// How a probe behaves.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) queues: Vec<QueueSpec>,
    /// Sends every word it hears back with this added to the tag.
    pub(crate) echo: Option<u64>,
    pub(crate) room: u32,
    /// Tells of words heard.
    pub(crate) tells: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self { queues: QueueSpec::standard(), echo: None, room: u32::MAX, tells: true }
    }
}

/// Does what it is told and tells what happens to it.
pub(crate) struct Probe {
    script: Script,
    inside: bool,
}

impl Probe {
    fn act(&mut self, act: Act, turn: &mut Turn<'_, Self>) {
        match act {
            Act::Send { to, queue, tag, size } => turn.send(to, word(queue, tag, size)),
            Act::Garble { to } => turn.send(to, word(0, GARBLED, 0)),
            Act::Answer { to, tag, size } => turn.send(to, word(0, tag, size)),
            Act::Persist(n) => turn.persist(Kept(n)),
            Act::Arm(n, after) => turn.arm(n, after),
            Act::Disarm(n) => turn.disarm(n),
            Act::Compute(number, peer) => turn.compute(Work { number, peer }),
            Act::Say(n) => turn.output(Told::Said(n)),
            Act::Draw => {
                let drawn = turn.rng().draw();
                turn.output(Told::Drew(drawn));
            }
            Act::Store(bytes) => turn.store(Hash::of(&bytes), bytes),
            Act::Load(name) => turn.load(name),
            Act::Pass(n) => turn.output(Told::Passed(n)),
            Act::Pull(brake) => drop(brake.pull()),
            Act::Knock(door) => door.send(()).expect("the test listens"),
        }
    }
}

pub(crate) fn word(queue: u8, tag: u64, size: usize) -> Word {
    Word { queue, tag, body: Blob::try_from(Bytes::from(vec![7; size])).expect("ballast below a MiB") }
}

impl Machine for Probe {
    type Input = Vec<Act>;
    type Message = Word;
    type Timer = u64;
    type Record = Kept;
    type Job = Work;
    type Output = Told;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        assert!(!self.inside, "one event at a time");
        self.inside = true;
        match event {
            Event::Start => turn.output(Told::Started),
            Event::Input(acts) => acts.into_iter().for_each(|act| self.act(act, turn)),
            Event::Message { from, message } => {
                let Word { queue, tag, body } = message;
                if let Some(add) = self.script.echo {
                    turn.send(from, Word { queue, tag: tag + add, body: body.clone() });
                }
                if self.script.tells {
                    turn.output(Told::Heard { from, tag, size: body.len() });
                }
            }
            Event::Timer(n) => turn.output(Told::Fired(n)),
            Event::Done((number, batch)) => turn.output(Told::Done { number, batch }),
            Event::Loaded { name, bytes } => turn.output(Told::Loaded(name, bytes)),
            Event::Link { peer, link } => turn.output(Told::Link(peer, link)),
        }
        self.inside = false;
    }

    fn room(&self) -> u32 {
        self.script.room
    }
}

impl Bounded for Probe {
    fn bytes(&self) -> u64 {
        1
    }
    fn bytes_max(&self) -> u64 {
        1
    }
}

impl Recover for Probe {
    type Config = Script;
    fn queues(config: &Script) -> Vec<QueueSpec> {
        config.queues.clone()
    }
    fn recover(script: Script, _: Log<'_, Kept>) -> Result<Self, Unrecoverable> {
        Ok(Self { script, inside: false })
    }
    fn snapshot(&self, _: &mut dyn FnMut(Kept)) {}
}

/// A probe ready to be hosted as machine `number` of `own`.
pub(crate) fn probe(own: NodeId, number: u8, script: Script) -> Box<dyn Hosted> {
    let config = HostConfig { own, machine: number, seed: 42, jobs_max: 4_096, checked: true };
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    Box::new(Host::<Probe>::open(config, script, log).expect("a probe recovers from nothing"))
}
