//! One node of several machines, rebuilt from what a crash left and driven by hand: every frame, input and tick is
//! somebody's choice.
//!
//! Jobs are answered and syncs end at once; what its machines say, write and tell is kept for whoever drives it.

use std::any::Any;
use std::collections::VecDeque;

use synod_crypto::{Hash, Keys};
use synod_machine::host::{At, ErasedDone, ErasedJob, Frame, Hosted, LaneLog, Lsn, Platform};
use synod_machine::{Condition, Queue, Span, Time, To, Unrecoverable, Wall};
use synod_quorum::NodeId;
use synod_sim::{Capture, Deed, Routed, Storage, Written};
use synod_wire::Bytes;

/// The monotonic clock when the node comes back; any will do.
const BEGIN: u64 = 5_000_000_000;
/// The wall clock then, in Unix milliseconds; any will do that is later than the conversation.
const WALL: u64 = 1_000_000;
/// Most ticks of one pause.
const TICKS_MAX: u32 = 256;

/// Where what a machine tells goes.
pub(super) type Connect = fn(u8, Box<dyn Any + Send>) -> Routed;

/// What waits for a machine.
enum Work {
    Done(ErasedDone),
    Loaded(Hash, Option<Bytes>),
    Input(Box<dyn Any + Send>),
    Durable(Lsn),
}

/// Something the node did that outlives it.
#[derive(Clone, Debug)]
pub(super) enum Did {
    /// A frame left for these.
    Said(To, Bytes),
    /// A record was written.
    Wrote(Bytes),
}

/// A node that runs alone.
pub(super) struct Lone {
    keys: Keys,
    /// By lane.
    machines: Vec<u8>,
    hosts: Vec<Box<dyn Hosted>>,
    storage: Box<dyn Storage>,
    connect: Connect,
    now: u64,
    work: VecDeque<(usize, Work)>,
    /// What it did since somebody looked last, by machine.
    pub(super) did: Vec<(u8, Did)>,
    /// What its journal found, by lane.
    pub(super) found: Vec<LaneLog>,
}

impl Lone {
    /// Opens the disk and builds every machine, those of the lower lanes first.
    pub(super) fn open(
        keys: Keys,
        machines: &[u8],
        connect: Connect,
        mut storage: Box<dyn Storage>,
        build: impl Fn(u8, LaneLog) -> Result<Box<dyn Hosted>, Unrecoverable>,
    ) -> Result<Self, Unrecoverable> {
        let logs = storage.open()?;
        let found = logs.iter().map(copied).collect();
        let build = |(machine, log): (&u8, LaneLog)| build(*machine, log);
        let hosts = machines.iter().zip(logs).map(build).collect::<Result<Vec<_>, _>>()?;
        let machines = machines.to_vec();
        let (work, did) = (VecDeque::new(), Vec::new());
        Ok(Self { keys, machines, hosts, storage, connect, now: BEGIN, work, did, found })
    }

    /// Whether the journal of any lane counts as damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.found.iter().any(|log| log.condition == Condition::Damaged)
    }

    /// Gives every machine its first event.
    pub(super) fn start(&mut self) {
        for lane in 0..self.hosts.len() {
            self.call(lane, |host, at, platform| host.start(at, platform));
        }
        self.drain();
    }

    /// A machine hears a frame.
    pub(super) fn hear(&mut self, machine: u8, from: NodeId, queue: Queue, body: Bytes) {
        let Some(lane) = self.lane(machine) else { return };
        self.call(lane, |host, at, platform| host.frame(Frame { from, queue, body }, at, platform));
        self.drain();
    }

    /// A machine's user asks for something.
    pub(super) fn ask(&mut self, machine: u8, input: Box<dyn Any + Send>) {
        let Some(lane) = self.lane(machine) else { return };
        if self.hosts.get(lane).is_some_and(|host| host.room() > 0) {
            self.work.push_back((lane, Work::Input(input)));
            self.drain();
        }
    }

    /// So much time passes; timers fire when they are due.
    pub(super) fn pass(&mut self, lasts: Span) {
        let until = self.now + lasts.0;
        for _ in 0..TICKS_MAX {
            let deadlines = self.hosts.iter().map(|host| host.deadline()).enumerate();
            let next = deadlines.filter_map(|(lane, at)| Some((at?.0, lane))).min();
            let Some((at, lane)) = next.filter(|(at, _)| *at <= until) else { break };
            self.now = self.now.max(at);
            self.call(lane, |host, at, platform| host.tick(at, platform));
            self.drain();
        }
        self.now = until;
    }

    fn lane(&self, machine: u8) -> Option<usize> {
        self.machines.iter().position(|known| *known == machine)
    }

    /// One call of one machine, and what it asks for.
    fn call(&mut self, lane: usize, call: impl FnOnce(&mut dyn Hosted, At, &mut dyn Platform)) {
        let wall = Wall(WALL + self.now / 1_000_000);
        let at = At { now: Time(self.now), wall };
        let mut deeds = Vec::new();
        let number = u8::try_from(lane).unwrap_or(u8::MAX);
        let mut capture = Capture { deeds: &mut deeds, storage: &mut *self.storage, lane: number };
        let Some(host) = self.hosts.get_mut(lane) else { return };
        call(&mut **host, at, &mut capture);
        let compacts = deeds.iter().any(|deed| matches!(deed, Deed::Compact));
        deeds.into_iter().for_each(|deed| self.carry(lane, number, deed));
        if compacts {
            let snapshots = self.hosts.iter().map(|host| host.snapshot()).collect();
            self.storage.compact(snapshots);
        }
        while self.storage.begin() {
            match self.storage.commit() {
                Ok(moved) => {
                    let moved = moved.into_iter().map(|(lane, lsn)| (usize::from(lane), Work::Durable(lsn)));
                    self.work.extend(moved);
                }
                Err(failed) => unreachable!("a disk in order takes what is written: {}", failed.0),
            }
        }
    }

    fn carry(&mut self, lane: usize, number: u8, deed: Deed) {
        let machine = self.machines.get(lane).copied().unwrap_or(u8::MAX);
        match deed {
            Deed::Send { to, body, .. } => self.did.push((machine, Did::Said(to, body))),
            Deed::Append { lsn, keep, record } => {
                self.did.push((machine, Did::Wrote(record.clone())));
                self.storage.write(number, lsn, Written::Record(keep, record));
            }
            Deed::Store { lsn, name, bytes } => self.storage.write(number, lsn, Written::Blob(name, bytes)),
            Deed::Erase { lsn, name } => self.storage.write(number, lsn, Written::Erase(name)),
            Deed::Load(name) => {
                let bytes = self.storage.read(number, name);
                self.work.push_back((lane, Work::Loaded(name, bytes)));
            }
            Deed::Submit { peer, cost, job: Some(job) } => {
                let Some(host) = self.hosts.get(lane) else { return };
                let dones = host.runner()(vec![ErasedJob { job, peer, cost }], &self.keys);
                self.work.extend(dones.into_iter().map(|done| (lane, Work::Done(done))));
            }
            Deed::Output(output) => {
                if let Routed::Machine(machine, value) = (self.connect)(machine, output)
                    && let Some(lane) = self.lane(machine)
                {
                    self.work.push_back((lane, Work::Input(value)));
                }
            }
            _ => {}
        }
    }

    /// Works until nothing waits.
    fn drain(&mut self) {
        while let Some((lane, work)) = self.work.pop_front() {
            self.call(lane, |host, at, platform| match work {
                Work::Done(done) => host.done(done, at, platform),
                Work::Loaded(name, bytes) => host.loaded(name, bytes, at, platform),
                Work::Input(value) => host.input(value, at, platform),
                Work::Durable(lsn) => host.durable(lsn, platform),
            });
        }
    }
}

fn copied(log: &LaneLog) -> LaneLog {
    LaneLog { condition: log.condition, records: log.records.clone() }
}
