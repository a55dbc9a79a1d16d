//! A machine that does what it is told and tells what happens to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::host::{Host, HostConfig};
use synod_machine::{
    Bounded, Event, Fault, Full, Link, Log, Machine, Note, QueueSpec, Recover, Time, Turn, Unrecoverable,
};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use crate::{Act, Flaw, JobGate, Kept, Opening, Plan, Seat, Went, Word, Work};

/// The note with which a probe asks its rig to stop the node's processor for its first number of nanoseconds.
pub const PAUSE: &str = "pause_this_node";

/// What a probe outputs. Everything but the last two is also noted when it happens, under its name in snake case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The first event, with the numbers it recovered.
    Started(Vec<u64>),
    /// A word came.
    Heard {
        /// From whom.
        from: u32,
        /// In which queue.
        queue: u8,
        /// Which.
        tag: u64,
    },
    /// A timer fired.
    Fired {
        /// Its name.
        name: u64,
        /// Whether that was before its time.
        early: bool,
    },
    /// A job was answered.
    Done(u64),
    /// A link changed.
    Linked(u32, bool),
    /// What it was told to say.
    Said(u64),
    /// A draw.
    Drew(u64),
}

/// What a probe is built from.
#[derive(Clone)]
pub struct Script {
    own: NodeId,
    gate: Arc<JobGate>,
}

/// Does what it is told.
pub struct Probe {
    script: Script,
    records: Vec<u64>,
    due: BTreeMap<u64, Time>,
    inside: bool,
}

fn note(name: &'static str, first: u64, second: u64) -> Note {
    Note { name, values: [first, second, 0, 0], digest: Hash::ZERO }
}

impl Probe {
    fn word(&self, queue: u8, tag: u64, size: usize) -> Word {
        let body = Blob::try_from(Bytes::from(vec![7; size])).expect("ballast is at most 64 KiB");
        Word { queue, tag, claims: self.script.own.0, body, flaw: Flaw::None }
    }

    fn act(&mut self, act: Act, turn: &mut Turn<'_, Self>) {
        match act {
            Act::Send(to, queue, tag) => turn.send(to, self.word(queue, tag, 0)),
            Act::Heavy(to, queue, tag, size) => turn.send(to, self.word(queue, tag, size)),
            Act::Pretend(to, claims, tag) => turn.send(to, Word { claims, ..self.word(0, tag, 0) }),
            Act::Spoil(to, flaw) => turn.send(to, Word { flaw, ..self.word(0, 0, 0) }),
            Act::Persist(n) => {
                self.records.push(n);
                turn.persist(Kept(n));
            }
            Act::Arm(name, after) => {
                self.due.insert(name, turn.now() + after);
                turn.arm(name, after);
            }
            Act::Disarm(name) => turn.disarm(name),
            Act::Compute(number) => turn.compute(Work { number, gate: self.script.gate.clone() }),
            Act::Say(n) => turn.output(Said::Said(n)),
            Act::Note(n) => turn.note(note("noted", n, 0)),
            Act::Suspect(peer) => {
                turn.blame(peer, Fault { code: 4_099, name: "suspected_by_probe", evidence: Bytes::new() });
            }
            Act::Draw => {
                let drawn = turn.rng().draw();
                turn.output(Said::Drew(drawn));
            }
            Act::Pause(span) => turn.note(note(PAUSE, span.0, 0)),
        }
    }

    fn happened(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => {
                turn.note(note("started", self.records.len() as u64, 0));
                turn.output(Said::Started(self.records.clone()));
            }
            Event::Input(acts) => acts.into_iter().for_each(|act| self.act(act, turn)),
            Event::Message { from, message: Word { queue, tag, .. } } => {
                turn.note(note("heard", tag, u64::from(from.0)));
                turn.output(Said::Heard { from: from.0, queue, tag });
            }
            Event::Timer(name) => {
                let early = self.due.remove(&name).is_some_and(|due| turn.now() < due);
                turn.note(note("fired", name, u64::from(early)));
                turn.output(Said::Fired { name, early });
            }
            Event::Done(number) => {
                turn.note(note("done", number, 0));
                turn.output(Said::Done(number));
            }
            Event::Loaded { .. } => {}
            Event::Link { peer, link } => {
                let up = link == Link::Up;
                turn.note(note("linked", u64::from(peer.0), u64::from(up)));
                turn.output(Said::Linked(peer.0, up));
                if up {
                    turn.send(peer, self.word(0, u64::MAX, 0));
                }
            }
        }
    }
}

impl Machine for Probe {
    type Input = Vec<Act>;
    type Message = Word;
    type Timer = u64;
    type Record = Kept;
    type Job = Work;
    type Output = Said;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        assert!(!self.inside, "one event at a time");
        self.inside = true;
        self.happened(event, turn);
        self.inside = false;
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

    /// Two queues that reset a link when they overflow, and a short one that drops.
    fn queues(_: &Script) -> Vec<QueueSpec> {
        let long = QueueSpec { depth: 4_096, frame_max: 128 << 10, full: Full::Reset };
        vec![long, long, QueueSpec { depth: 4, frame_max: 128 << 10, full: Full::DropNewest }]
    }

    fn recover(script: Script, log: Log<'_, Kept>) -> Result<Self, Unrecoverable> {
        let records = log.records.map(|kept| kept.0).collect();
        Ok(Self { script, records, due: BTreeMap::new(), inside: false })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Kept)) {
        self.records.iter().for_each(|n| put(Kept(*n)));
    }
}

/// Members that host probes under these numbers.
///
/// Every probe greets a peer whose link comes up with a word of tag `u64::MAX` in queue 0.
#[must_use]
pub fn probes(members: u32, machines: &[u8]) -> Plan<Said> {
    let seat = |id| Seat { id: NodeId(id), machines: machines.to_vec() };
    Plan {
        seats: NodeSet::first(members).iter().map(|id| seat(id.0)).collect(),
        seed: 42,
        pool: 2,
        open: Arc::new(|opening: Opening| {
            let Opening { own, machine, log, seed, gate } = opening;
            let config = HostConfig { own, machine, seed, jobs_max: 4_096, checked: true };
            let probe = Host::<Probe>::open(config, Script { own, gate }, log);
            Box::new(probe.expect("a probe recovers from what it kept"))
        }),
        route: Arc::new(|_, _, output| match output.downcast::<Said>() {
            Ok(said) => Went::Told(*said),
            Err(_) => Went::Dropped,
        }),
    }
}
