//! A hosted machine with a platform that answers when the target says so: jobs with real keys, a lane in memory whose
//! durability lags, blobs, and whatever was sent, put out and blamed.

use core::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Keys};
use synod_machine::host::{At, ErasedJob, Frame, Hosted, LaneLog, Lsn, Platform};
use synod_machine::register::RegisterOp;
use synod_machine::{Condition, Fault, Keep, Link, Note, Queue, Rule, Span, Time, To, Wall};
use synod_quorum::NodeId;
use synod_wire::Bytes;

/// Most blobs asked for before any job is done.
const LOADS_MAX: usize = 4_096;

/// One line of a lane.
#[derive(Clone, Debug)]
enum Line {
    Record(Bytes),
    Blob(Hash, Bytes),
    Erase(Hash),
}

/// What a machine's effects left behind.
#[derive(Default)]
pub(super) struct Desk {
    lines: Vec<(Lsn, Line)>,
    issued: Lsn,
    durable: Lsn,
    blobs: BTreeMap<Hash, Bytes>,
    stored: BTreeSet<Hash>,
    loads: VecDeque<Hash>,
    jobs: VecDeque<ErasedJob>,
    compacts: bool,
    pub(super) sent: Vec<(To, Queue, Bytes)>,
    pub(super) outputs: Vec<Box<dyn Any + Send>>,
    pub(super) blamed: Vec<(NodeId, Fault)>,
}

impl Desk {
    fn line(&mut self, line: Line) -> Lsn {
        self.issued += 1;
        self.lines.push((self.issued, line));
        self.issued
    }

    /// Whether a blob was stored in this life, or stood there when it began.
    pub(super) fn was_stored(&self, name: &Hash) -> bool {
        self.stored.contains(name)
    }

    /// What is left of the lane when the power fails: the durable lines.
    fn cut(self) -> Self {
        let durable = self.durable;
        let lines: Vec<_> = self.lines.into_iter().filter(|(lsn, _)| *lsn <= durable).collect();
        let mut blobs = BTreeMap::new();
        for (_, line) in &lines {
            match line {
                Line::Record(_) => {}
                Line::Blob(name, bytes) => drop(blobs.insert(*name, bytes.clone())),
                Line::Erase(name) => drop(blobs.remove(name)),
            }
        }
        let stored = blobs.keys().copied().collect();
        Self { lines, issued: durable, durable, blobs, stored, ..Self::default() }
    }

    fn log(&self) -> LaneLog {
        let records = self.lines.iter().filter_map(|(_, line)| match line {
            Line::Record(bytes) => Some(bytes.clone()),
            Line::Blob(..) | Line::Erase(_) => None,
        });
        let condition = if self.lines.is_empty() { Condition::Fresh } else { Condition::Clean };
        LaneLog { condition, records: records.collect() }
    }
}

impl Platform for Desk {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.sent.push((to, queue, body));
    }
    fn register(&mut self, _: NodeId, _: Queue, op: &RegisterOp) {
        unreachable!("no role here uses registers: {op:?}")
    }
    fn append(&mut self, _: Keep, record: Bytes) -> Lsn {
        self.line(Line::Record(record))
    }
    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        assert_eq!(name, Hash::of(&bytes), "a blob is named by its content");
        self.stored.insert(name);
        self.blobs.insert(name, bytes.clone());
        self.line(Line::Blob(name, bytes))
    }
    fn erase(&mut self, name: Hash) {
        self.blobs.remove(&name);
        self.line(Line::Erase(name));
    }
    fn load(&mut self, name: Hash) {
        self.loads.push_back(name);
    }
    fn compact(&mut self) {
        self.compacts = true;
    }
    fn submit(&mut self, job: ErasedJob) {
        self.jobs.push_back(job);
    }
    fn output(&mut self, output: Box<dyn Any + Send>) {
        self.outputs.push(output);
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.blamed.push((peer, fault));
    }
    fn applied(&mut self, _: Rule) {}
    fn note(&mut self, _: Note) {}
}

/// A machine on its platform.
pub(super) struct Seat<H> {
    pub(super) host: H,
    pub(super) desk: Desk,
    keys: Keys,
    now: Time,
}

impl<H: Hosted> Seat<H> {
    /// Opens a machine from an empty lane and starts it.
    pub(super) fn open(keys: Keys, open: impl FnOnce(LaneLog) -> H) -> Self {
        Self::from(Desk::default(), keys, Time(1), open)
    }

    fn from(desk: Desk, keys: Keys, now: Time, open: impl FnOnce(LaneLog) -> H) -> Self {
        let host = open(desk.log());
        let mut seat = Self { host, desk, keys, now };
        seat.host.start(seat.at(), &mut seat.desk);
        seat
    }

    /// Cuts the power and opens the machine from what was durable.
    pub(super) fn restart(self, open: impl FnOnce(LaneLog) -> H) -> Self {
        Self::from(self.desk.cut(), self.keys, self.now, open)
    }

    fn at(&self) -> At {
        At { now: self.now, wall: Wall(1_000_000 + self.now.0 / 1_000_000) }
    }

    /// Makes room for a frame or an input, as a runtime does: a machine that is not ready gets none.
    fn make_ready(&mut self) {
        for _ in 0..10_000 {
            if self.host.ready() {
                return;
            }
            self.sync();
            self.work(64);
        }
        unreachable!("a machine without jobs and with a durable lane is ready")
    }

    pub(super) fn frame(&mut self, from: NodeId, queue: Queue, body: Bytes) {
        self.make_ready();
        self.host.frame(Frame { from, queue, body }, self.at(), &mut self.desk);
        self.settle();
    }

    pub(super) fn input(&mut self, input: Box<dyn Any + Send>) {
        self.make_ready();
        self.host.input(input, self.at(), &mut self.desk);
        self.settle();
    }

    pub(super) fn link(&mut self, peer: NodeId, link: Link) {
        self.host.link(peer, link, self.at(), &mut self.desk);
        self.settle();
    }

    /// Runs up to `count` jobs with the real keys.
    pub(super) fn work(&mut self, count: usize) {
        for _ in 0..count {
            let Some(job) = self.desk.jobs.pop_front() else { return };
            for done in self.host.runner()(vec![job], &self.keys) {
                self.host.done(done, self.at(), &mut self.desk);
            }
            self.settle();
        }
    }

    /// Answers what the machine asked the journal for; everything issued becomes durable.
    pub(super) fn sync(&mut self) {
        self.desk.durable = self.desk.issued;
        self.host.durable(self.desk.durable, &mut self.desk);
        for loads in 0.. {
            let Some(name) = self.desk.loads.pop_front() else { break };
            assert!(loads < LOADS_MAX, "blobs are asked for without end");
            let bytes = self.desk.blobs.get(&name).cloned();
            self.host.loaded(name, bytes, self.at(), &mut self.desk);
        }
        self.settle();
    }

    /// Time passes: to the next timer if it is due within `most`, else by `most`.
    pub(super) fn wait(&mut self, most: Span) {
        let end = self.now + most;
        self.now = self.host.deadline().map_or(end, |due| due.max(self.now).min(end));
        self.host.tick(self.at(), &mut self.desk);
        self.settle();
    }

    /// Compacts when that was asked for, as a journal does: everything before it is durable.
    fn settle(&mut self) {
        if !core::mem::take(&mut self.desk.compacts) {
            return;
        }
        self.desk.durable = self.desk.issued;
        self.host.durable(self.desk.durable, &mut self.desk);
        let blobs = self.desk.blobs.iter().map(|(name, bytes)| Line::Blob(*name, bytes.clone()));
        let records = self.host.snapshot().into_iter().map(|(_, record)| Line::Record(record));
        let issued = self.desk.issued;
        self.desk.lines = blobs.chain(records).map(|line| (issued, line)).collect();
        assert!(self.host.bytes() <= self.host.bytes_max(), "memory is above its formula");
    }
}
