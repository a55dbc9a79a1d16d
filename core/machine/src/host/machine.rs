//! One machine behind the erased boundary.

use core::any::Any;
use std::collections::VecDeque;

use synod_crypto::{Hash, Keys};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, Wire};

use super::gate::Gate;
use super::sink::{HostSink, Out, versioned};
use super::timers::Timers;
use super::{At, ErasedDone, ErasedJob, Frame, Hosted, Lsn, Platform, Runner, UNDECODABLE};
use crate::register::RegisterReply;
use crate::{
    Bounded, Condition, DoneOf, Event, Fault, Job, Keep, Link, Log, Machine, Message, QueueSpec, Record,
    Recover, Rng, Time, Turn, Unrecoverable,
};

/// Where a machine is hosted and how it is bounded.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// This node.
    pub own: NodeId,
    /// The machine's fixed number in the plan.
    pub machine: u8,
    /// Seed of the run; drawn from the operating system outside the simulator.
    pub seed: u64,
    /// Most jobs outstanding before the machine pauses.
    pub jobs_max: u32,
    /// Whether invariants and the memory bound are asserted after every step.
    pub checked: bool,
}

/// The bytes of one lane as the journal gives them back.
pub struct LaneLog {
    /// What the journal found.
    pub condition: Condition,
    /// The records, oldest first.
    pub records: Vec<Bytes>,
}

/// One machine, its timers, its gate and its loop-back queue.
pub struct Host<M: Machine> {
    machine: M,
    out: Out<M>,
    rng: Rng,
    queues: Vec<QueueSpec>,
    config: HostConfig,
}

impl<M> Host<M>
where
    M: Recover + Bounded + Send + 'static,
    M::Input: Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Output: Send + 'static,
{
    /// Rebuilds the machine from its lane.
    ///
    /// # Errors
    /// [`Unrecoverable`] when a record does not decode (a newer format, or damage the journal could not see) or
    /// the machine refuses the log.
    pub fn open(config: HostConfig, machine: M::Config, log: LaneLog) -> Result<Self, Unrecoverable> {
        let queues = M::queues(&machine);
        let mut records = Vec::with_capacity(log.records.len());
        for bytes in log.records {
            records.push(record::<M::Record>(&bytes)?);
        }
        let mut records = records.into_iter();
        let machine = M::recover(machine, Log { condition: log.condition, records: &mut records })?;
        let out = Out {
            own: config.own,
            gate: Gate::default(),
            timers: Timers::new(),
            loopback: VecDeque::new(),
            jobs: 0,
            scratch: Vec::new(),
        };
        Ok(Self { machine, out, rng: Rng::new(config.seed, config.own, config.machine), queues, config })
    }

    /// The machine, to look at: status and tests.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Steps the event, then every message the machine sent to itself, each as an event of its own.
    fn step(&mut self, event: Event<M>, at: At, platform: &mut dyn Platform) {
        self.step_once(event, at, platform);
        while let Some(message) = self.out.loopback.pop_front() {
            self.step_once(Event::Message { from: self.config.own, message }, at, platform);
        }
    }

    fn step_once(&mut self, event: Event<M>, at: At, platform: &mut dyn Platform) {
        let mut sink = HostSink { now: at.now, out: &mut self.out, platform };
        self.machine.step(event, &mut Turn::new(at.now, at.wall, &mut self.rng, &mut sink));
        if self.config.checked {
            self.machine.invariants();
            let (bytes, bytes_max) = (self.machine.bytes(), self.machine.bytes_max());
            assert!(bytes <= bytes_max, "memory {bytes} is above the formula {bytes_max}");
        }
    }
}

fn record<R: Record>(bytes: &Bytes) -> Result<R, Unrecoverable> {
    match bytes.first() {
        Some(&version) if version == R::VERSION => {
            let limits = Limits { frame_max: 64 << 20 };
            R::decode_behind(bytes, 1, &limits).map_err(|e| Unrecoverable(format!("a record is {e}")))
        }
        Some(version) => {
            Err(Unrecoverable(format!("record version {version}, this build reads {}", R::VERSION)))
        }
        None => Err(Unrecoverable("an empty record".to_owned())),
    }
}

fn run<M: Machine>(jobs: Vec<ErasedJob>, keys: &Keys) -> Vec<ErasedDone> {
    let jobs = jobs.into_iter().map(|erased| match erased.job.downcast::<M::Job>() {
        Ok(job) => *job,
        Err(_) => unreachable!("a runner is given its own machine's jobs"),
    });
    M::Job::run_all(jobs.collect(), keys).into_iter().map(|done| ErasedDone(Box::new(done))).collect()
}

impl<M> Hosted for Host<M>
where
    M: Recover + Bounded + Send + 'static,
    M::Input: Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Output: Send + 'static,
{
    fn start(&mut self, at: At, platform: &mut dyn Platform) {
        self.step(Event::Start, at, platform);
    }

    fn input(&mut self, input: Box<dyn Any + Send>, at: At, platform: &mut dyn Platform) {
        match input.downcast::<M::Input>() {
            Ok(input) => self.step(Event::Input(*input), at, platform),
            Err(_) => unreachable!("a connector gives a machine its own input type"),
        }
    }

    fn frame(&mut self, frame: Frame, at: At, platform: &mut dyn Platform) {
        let Frame { from, queue, body } = frame;
        let spec = self.queues.get(usize::from(queue.0));
        let decoded = match (spec, body.first()) {
            (Some(spec), Some(&version)) if version == M::Message::VERSION => {
                M::Message::decode_behind(&body, 1, &spec.limits()).ok()
            }
            _ => None,
        };
        // The queue is the sender's choice; a message in another queue than its own could dodge that queue's cap.
        match decoded.filter(|message| message.queue() == queue) {
            Some(message) => self.step(Event::Message { from, message }, at, platform),
            None => {
                let evidence = body.slice(..body.len().min(4_096));
                platform.blame(from, Fault { code: UNDECODABLE, name: "undecodable_frame", evidence });
            }
        }
    }

    fn registered(&mut self, from: NodeId, reply: RegisterReply, at: At, platform: &mut dyn Platform) {
        if let Some(message) = M::Message::registered(reply) {
            self.step(Event::Message { from, message }, at, platform);
        }
    }

    fn tick(&mut self, at: At, platform: &mut dyn Platform) {
        // At most as many firings as were armed when the tick began: a timer re-armed for this instant fires at the next tick.
        for _ in 0..self.out.timers.count() {
            match self.out.timers.pop_due(at.now) {
                Some(timer) => self.step(Event::Timer(timer), at, platform),
                None => break,
            }
        }
    }

    fn done(&mut self, done: ErasedDone, at: At, platform: &mut dyn Platform) {
        self.out.jobs = self.out.jobs.saturating_sub(1);
        match done.0.downcast::<DoneOf<M>>() {
            Ok(done) => self.step(Event::Done(*done), at, platform),
            Err(_) => unreachable!("a job's answer returns to its own machine"),
        }
    }

    fn loaded(&mut self, name: Hash, bytes: Option<Bytes>, at: At, platform: &mut dyn Platform) {
        self.step(Event::Loaded { name, bytes }, at, platform);
    }

    fn link(&mut self, peer: NodeId, link: Link, at: At, platform: &mut dyn Platform) {
        self.step(Event::Link { peer, link }, at, platform);
    }

    fn durable(&mut self, lsn: Lsn, platform: &mut dyn Platform) {
        self.out.gate.durable(lsn, platform);
    }

    fn deadline(&self) -> Option<Time> {
        self.out.timers.next()
    }

    fn ready(&self) -> bool {
        !self.out.gate.full() && self.out.jobs < self.config.jobs_max
    }

    fn room(&self) -> u32 {
        if self.ready() { self.machine.room() } else { 0 }
    }

    fn queues(&self) -> &[QueueSpec] {
        &self.queues
    }

    fn runner(&self) -> Runner {
        run::<M>
    }

    fn snapshot(&self) -> Vec<(Keep, Bytes)> {
        let mut records = Vec::new();
        self.machine
            .snapshot(&mut |record| records.push((record.keep(), versioned(M::Record::VERSION, &record))));
        records
    }

    fn bytes(&self) -> u64 {
        self.machine.bytes() + self.out.gate.bytes()
    }

    fn bytes_max(&self) -> u64 {
        self.machine.bytes_max().saturating_add(super::HELD_BYTES_MAX)
    }
}
