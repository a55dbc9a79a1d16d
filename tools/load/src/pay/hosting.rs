//! How a replica of this process is hosted: alone, or behind a journal as a node hosts it, so that nothing it says leaves before what it promised
//! is as durable as was asked for.
//!
//! Behind a journal it is the erased machine of `core/machine` with its gate, and what it does in one go is handed to the journal as one
//! group.

use super::bank::{Bank, Place};
use super::channel::Carries;
use super::journals::Kept;
use super::seat::Frame;
use crate::host::{Host, Said};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Instant;
use synod_astro::{Message, Replica};
use synod_crypto::Hash;
use synod_journal::thread::Write;
use synod_machine::host::{self, At, ErasedDone, ErasedJob, HostConfig, Hosted, LaneLog, Lsn, Platform};
use synod_machine::register::RegisterOp;
use synod_machine::{
    Condition, Event, Fault, Keep, Machine, Note, Queue, Rule, Span, Time, To, Unrecoverable, Wall,
};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, Wire as _};

type Job<B> = <Replica<B> as Machine>::Job;
pub(super) type DoneOf<B> = <Job<B> as synod_machine::Job>::Done;
type Input = synod_astro::Input;
type Output = synod_astro::Output;

/// Jobs under way, as a node has them: all are done at once here.
const JOBS_MAX: u32 = 1_024;

/// What a replica said that its seat has to act on.
pub(super) enum Word<B: Carries> {
    /// To peers.
    Send(To, Carried),
    Output(Output),
    Job(Job<B>),
}

/// A message as it goes over a link, with its queue.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    queue: Queue,
    pub(super) body: Bytes,
}

impl Carried {
    /// Nothing: whoever waits for frames looks at its journal.
    pub(super) const fn bell() -> Self {
        Self { queue: Queue(0), body: Bytes::new() }
    }
}

/// See the module.
pub(super) enum Hosting<B: Carries> {
    /// Records are dropped, blobs are kept in memory.
    Alone(Host<Replica<B>>),
    /// What it says waits for what it keeps.
    Behind(Box<Behind<B>>),
}

impl<B: Carries> Hosting<B> {
    /// The replica of an institution, over an empty journal where the bank has journals.
    pub(super) fn open(bank: &Bank, at: Place, bell: Sender<Frame>) -> Result<Self, Unrecoverable> {
        let own = NodeId(u32::from(at.id));
        let setup = bank.setup::<B>(at).ok_or_else(|| Unrecoverable("a member of no shard".to_owned()))?;
        let Some(journals) = bank.journals() else { return Ok(Self::Alone(Host::open(own, setup, true)?)) };
        let kept = journals.open(bank, at, bell).map_err(Unrecoverable)?;
        let config = HostConfig { own, machine: 0, seed: 1, jobs_max: JOBS_MAX, checked: false };
        let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
        let host = host::Host::open(config, setup, log)?;
        let desk = Desk { kept, held: Vec::new(), said: VecDeque::new(), wants_compaction: false, blamed: 0 };
        let waiting = VecDeque::from([Waiting::Start]);
        Ok(Self::Behind(Box::new(Behind { host, desk, waiting, seen: 0, begun: Instant::now() })))
    }

    /// The machine.
    pub(super) fn machine(&self) -> &Replica<B> {
        match self {
            Self::Alone(host) => host.machine(),
            Self::Behind(behind) => behind.host.machine(),
        }
    }

    /// Orders that it takes now.
    pub(super) fn room(&self) -> u32 {
        match self {
            Self::Alone(host) => host.machine().room(),
            Self::Behind(behind) => behind.host.room(),
        }
    }

    /// Peers that were blamed.
    pub(super) fn blamed(&self) -> u64 {
        match self {
            Self::Alone(host) => host.blamed,
            Self::Behind(behind) => behind.desk.blamed,
        }
    }

    /// From now on the time of a replica without a journal is what is told.
    pub(super) fn tell_time(&mut self, at: Span) {
        if let Self::Alone(host) = self {
            host.tell_time(at);
        }
    }

    /// Ends its journal; false where that failed.
    pub(super) fn close(self) -> bool {
        match self {
            Self::Alone(_) => true,
            Self::Behind(behind) => behind.desk.kept.thread.close().is_ok(),
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        match self {
            Self::Alone(host) => host.push(Event::Input(input)),
            Self::Behind(behind) => behind.waiting.push_back(Waiting::Input(input)),
        }
    }

    pub(super) fn done(&mut self, done: DoneOf<B>) {
        match self {
            Self::Alone(host) => host.push(Event::Done(done)),
            // A machine that pauses for its jobs hears of them.
            Self::Behind(behind) => behind.waiting.push_front(Waiting::Done(done)),
        }
    }

    /// Takes a message of a peer; false where it cannot be read.
    pub(super) fn hear(&mut self, from: NodeId, carried: Carried) -> bool {
        match self {
            Self::Alone(host) => match Message::<B::Message>::decode(carried.body, &Limits::default()) {
                Ok(message) => {
                    host.push(Event::Message { from, message });
                    true
                }
                Err(_) => false,
            },
            Self::Behind(behind) => {
                behind.waiting.push_back(Waiting::Frame(from, carried));
                true
            }
        }
    }

    /// Makes the timers that are due events.
    pub(super) fn fire(&mut self) {
        match self {
            Self::Alone(host) => host.fire(),
            Self::Behind(behind) => behind.fire(),
        }
    }

    /// Steps the machine until nothing waits that it takes.
    pub(super) fn run(&mut self, mut say: impl FnMut(Word<B>)) {
        match self {
            Self::Alone(host) => host.run(|said| {
                say(match said {
                    Said::Send(to, message) => {
                        Word::Send(to, Carried { queue: Queue(0), body: message.encode() })
                    }
                    Said::Output(output) => Word::Output(output),
                    Said::Job(job) => Word::Job(job),
                });
            }),
            Self::Behind(behind) => {
                behind.run();
                behind.desk.said.drain(..).for_each(say);
            }
        }
    }
}

/// What a machine has not been given.
enum Waiting<B: Carries> {
    Start,
    Input(Input),
    Frame(NodeId, Carried),
    Done(DoneOf<B>),
}

/// A replica with its gate and its journal.
pub(super) struct Behind<B: Carries> {
    host: host::Host<Replica<B>>,
    desk: Desk<B>,
    waiting: VecDeque<Waiting<B>>,
    /// Writes that the machine knows to be durable.
    seen: Lsn,
    begun: Instant,
}

impl<B: Carries> Behind<B> {
    fn at(&self) -> At {
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Time(Span::secs(1).0.saturating_add(ns));
        At { now, wall: Wall(now.0 / 1_000_000) }
    }

    fn fire(&mut self) {
        let at = self.at();
        self.host.tick(at, &mut self.desk);
    }

    fn run(&mut self) {
        self.hear_journal();
        while self.host.ready() || matches!(self.waiting.front(), Some(Waiting::Done(_))) {
            let (at, desk) = (self.at(), &mut self.desk);
            match self.waiting.pop_front() {
                Some(Waiting::Start) => self.host.start(at, desk),
                Some(Waiting::Input(input)) => self.host.input(Box::new(input), at, desk),
                Some(Waiting::Frame(from, Carried { queue, body })) => {
                    self.host.frame(host::Frame { from, queue, body }, at, desk);
                }
                Some(Waiting::Done(done)) => self.host.done(ErasedDone(Box::new(done)), at, desk),
                None => break,
            }
        }
        self.desk.hand_over();
        let heard = &self.desk.kept.heard;
        let is_asked = self.desk.wants_compaction || heard.is_long.load(Ordering::Acquire);
        if is_asked && !heard.is_compacting.swap(true, Ordering::AcqRel) {
            self.desk.wants_compaction = false;
            heard.is_long.store(false, Ordering::Release);
            let records =
                self.host.snapshot().into_iter().map(|(keep, body)| (keep_of(keep), body)).collect();
            let told = self.desk.kept.lane.snapshot(records);
            self.desk.fail(told);
        }
    }

    /// What became durable lets out what waited for it.
    fn hear_journal(&mut self) {
        let durable = self.desk.kept.heard.durable.load(Ordering::Acquire);
        if durable > self.seen {
            self.seen = durable;
            self.host.durable(durable, &mut self.desk);
        }
        for (name, bytes) in self.desk.kept.heard.loaded() {
            let at = self.at();
            self.host.loaded(name, bytes.filter(|bytes| Hash::of(bytes) == name), at, &mut self.desk);
        }
    }
}

const fn keep_of(keep: Keep) -> synod_journal::Keep {
    match keep {
        Keep::Log => synod_journal::Keep::Log,
        Keep::LogAndSlot => synod_journal::Keep::LogAndSlot,
    }
}

/// Where the effects of a machine go.
struct Desk<B: Carries> {
    kept: Kept,
    /// Writes that the journal has not been given.
    held: Vec<Write>,
    said: VecDeque<Word<B>>,
    wants_compaction: bool,
    blamed: u64,
}

impl<B: Carries> Desk<B> {
    fn hold(&mut self, write: Write) -> Lsn {
        self.held.push(write);
        self.kept.lane.issued() + self.held.len() as u64
    }

    fn hand_over(&mut self) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let told = self.kept.lane.submit_all(held).map(drop);
            self.fail(told);
        }
    }

    /// A journal that failed makes nothing durable any more, so nothing leaves; the run ends with what it says.
    fn fail(&self, told: Result<(), synod_journal::Error>) {
        if let Err(why) = told {
            self.kept.heard.fail(&why);
        }
    }
}

impl<B: Carries> Platform for Desk<B> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.said.push_back(Word::Send(to, Carried { queue, body }));
    }

    fn register(&mut self, _: NodeId, _: Queue, _: &RegisterOp) {
        unreachable!("payments ask no memory nodes");
    }

    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        self.hold(Write::Append(keep_of(keep), record))
    }

    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        self.hold(Write::Store(name.0, bytes))
    }

    fn erase(&mut self, name: Hash) {
        self.hold(Write::Erase(name.0));
    }

    fn load(&mut self, name: Hash) {
        self.hand_over();
        let told = self.kept.lane.load(name.0);
        self.fail(told);
    }

    fn compact(&mut self) {
        self.wants_compaction = true;
    }

    fn submit(&mut self, job: ErasedJob) {
        match job.job.downcast::<Job<B>>() {
            Ok(job) => self.said.push_back(Word::Job(*job)),
            Err(_) => unreachable!("a machine asks for its own jobs"),
        }
    }

    fn output(&mut self, output: Box<dyn Any + Send>) {
        match output.downcast::<Output>() {
            Ok(output) => self.said.push_back(Word::Output(*output)),
            Err(_) => unreachable!("a machine says its own outputs"),
        }
    }

    fn blame(&mut self, _: NodeId, _: Fault) {
        self.blamed += 1;
    }

    fn applied(&mut self, _: Rule) {}

    fn note(&mut self, _: Note) {}
}
