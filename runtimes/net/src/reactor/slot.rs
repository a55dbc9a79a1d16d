//! A hosted machine in its reactor, and the desk it works at: the effects of one call.

use core::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use synod_crypto::Hash;
use synod_machine::host::{ErasedJob, Frame, Hosted, Lsn, Platform, QUOTA_EXCEEDED, UNDECODABLE};
use synod_machine::register::RegisterOp;
use synod_machine::{Fault, Keep, Note, Queue, Rule, To};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Wire, Writer};

use super::Net;
use super::conn::Wrong;
use crate::journal::{LaneWriter, Reports};
use crate::mailbox::{Gauge, Mail, Mailbox};
use crate::observer::Observer;
use crate::pool::Jobs;

/// The version byte of register operations and their answers.
pub(crate) const REGISTER_VERSION: u8 = 1;

/// The way to the wire.
pub(crate) enum Wires {
    /// This reactor owns the sockets.
    Own(Box<Net>),
    /// Another one does.
    Remote(Arc<Mailbox>),
}

impl Wires {
    fn send(&mut self, machine: u8, to: To, queue: Queue, body: Bytes) {
        match self {
            Self::Own(net) => net.send(machine, to, queue, &body),
            Self::Remote(mailbox) => {
                mailbox.sends.fetch_add(1, Ordering::Relaxed);
                mailbox.push(Mail::Send { machine, to, queue, body });
            }
        }
    }

    fn strike(&mut self, peer: NodeId, wrong: Wrong) {
        match self {
            Self::Own(net) => net.strike(peer, wrong),
            Self::Remote(mailbox) => mailbox.push(Mail::Strike { peer, wrong }),
        }
    }
}

/// What a slot is made from.
pub(crate) struct SlotParts {
    pub(crate) number: u8,
    pub(crate) hosted: Box<dyn Hosted>,
    pub(crate) lane: Box<dyn LaneWriter>,
    pub(crate) reports: Arc<Reports>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) jobs_per_second: u64,
    /// The memory node's machine that takes this machine's register operations.
    pub(crate) memory: Option<u8>,
    /// Queues that lead to another machine of the peers than this one's number.
    pub(crate) routes: BTreeMap<u8, u8>,
}

/// A hosted machine with what waits for it.
pub(crate) struct Slot {
    pub(crate) number: u8,
    pub(crate) hosted: Box<dyn Hosted>,
    pub(crate) lane: Box<dyn LaneWriter>,
    pub(crate) reports: Arc<Reports>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) jobs: Jobs,
    /// Inputs that wait for room.
    pub(crate) inputs: VecDeque<Box<dyn Any + Send>>,
    /// Frames that another reactor read for this machine.
    pub(crate) frames: VecDeque<Frame>,
    /// Machines that its outputs became inputs of.
    pub(crate) feeds: BTreeSet<u8>,
    pub(crate) memory: Option<u8>,
    routes: BTreeMap<u8, u8>,
    issued: Lsn,
    reported: Lsn,
    flush: bool,
}

impl Slot {
    pub(crate) fn new(parts: SlotParts) -> Self {
        let SlotParts { number, hosted, lane, reports, gauge, jobs_per_second, memory, routes } = parts;
        Self {
            number,
            hosted,
            lane,
            reports,
            gauge,
            jobs: Jobs::new(jobs_per_second),
            inputs: VecDeque::new(),
            frames: VecDeque::new(),
            feeds: BTreeSet::new(),
            memory,
            routes,
            issued: 0,
            reported: 0,
            flush: false,
        }
    }

    /// Calls the machine, then settles: durability that was reported meanwhile, compaction it asked for.
    pub(crate) fn call(&mut self, desk: &mut Office<'_>, call: impl FnOnce(&mut dyn Hosted, &mut Desk<'_>)) {
        let mut compact = false;
        let mut desk = Desk {
            machine: self.number,
            memory: self.memory,
            routes: &self.routes,
            lane: &mut *self.lane,
            jobs: &mut self.jobs,
            wires: desk.wires,
            outputs: desk.outputs,
            observer: desk.observer,
            compact: &mut compact,
            flush: &mut self.flush,
            issued: &mut self.issued,
        };
        call(&mut *self.hosted, &mut desk);
        // A lane also counts erasures, which the machine's gate does not know of.
        let durable = self.reports.durable.get().min(*desk.issued);
        if durable > self.reported {
            self.reported = durable;
            self.hosted.durable(durable, &mut desk);
        }
        if compact {
            self.snapshot();
        }
    }

    /// Whether the journal reported more than the machine was told.
    pub(crate) fn has_news(&self) -> bool {
        self.reports.durable.get().min(self.issued) > self.reported
    }

    /// Gives the journal records equivalent to the whole lane.
    pub(crate) fn snapshot(&mut self) {
        self.lane.compact(self.hosted.snapshot());
    }

    /// Lets the journal commit what this wake-up appended.
    pub(crate) fn flush(&mut self) {
        if core::mem::take(&mut self.flush) {
            self.lane.flush();
        }
    }
}

/// What every machine of a reactor shares.
pub(crate) struct Office<'a> {
    pub(crate) wires: &'a mut Wires,
    pub(crate) outputs: &'a mut VecDeque<Box<dyn Any + Send>>,
    pub(crate) observer: &'a dyn Observer,
}

/// The platform of one call of one machine.
pub(crate) struct Desk<'a> {
    machine: u8,
    memory: Option<u8>,
    routes: &'a BTreeMap<u8, u8>,
    lane: &'a mut dyn LaneWriter,
    jobs: &'a mut Jobs,
    wires: &'a mut Wires,
    outputs: &'a mut VecDeque<Box<dyn Any + Send>>,
    observer: &'a dyn Observer,
    compact: &'a mut bool,
    flush: &'a mut bool,
    issued: &'a mut Lsn,
}

impl Desk<'_> {
    fn issue(&mut self, lsn: Lsn) -> Lsn {
        assert!(lsn > *self.issued, "places of a lane rise");
        *self.flush = true;
        *self.issued = lsn;
        lsn
    }
}

impl Platform for Desk<'_> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        let machine = self.routes.get(&queue.0).copied().unwrap_or(self.machine);
        self.wires.send(machine, to, queue, body);
    }

    /// A memory node has one queue, whatever the machine's own of its operations is.
    fn register(&mut self, to: NodeId, _: Queue, op: &RegisterOp) {
        let Some(memory) = self.memory else {
            unreachable!("a machine that uses registers is given a memory node's machine number");
        };
        let mut out = Writer::with_capacity(1 + op.size_hint());
        out.byte(REGISTER_VERSION);
        op.write(&mut out);
        self.wires.send(memory, To::Node(to), Queue(0), out.freeze());
    }

    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        let lsn = self.lane.append(keep, record);
        self.issue(lsn)
    }

    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        let lsn = self.lane.store(name, bytes);
        self.issue(lsn)
    }

    fn erase(&mut self, name: Hash) {
        *self.flush = true;
        self.lane.erase(name);
    }

    fn load(&mut self, name: Hash) {
        self.lane.load(name);
    }

    fn compact(&mut self) {
        *self.compact = true;
    }

    fn submit(&mut self, job: ErasedJob) {
        self.jobs.push(job);
    }

    fn output(&mut self, output: Box<dyn Any + Send>) {
        self.outputs.push_back(output);
    }

    fn blame(&mut self, peer: NodeId, fault: Fault) {
        // The observer decides what is told: whoever breaks rules decides how often this comes.
        tracing::debug!(machine = self.machine, %peer, code = fault.code, name = fault.name, "blamed");
        self.observer.blame(self.machine, peer, &fault);
        match fault.code {
            UNDECODABLE => self.wires.strike(peer, Wrong::UNDECODABLE),
            QUOTA_EXCEEDED => self.wires.strike(peer, Wrong::QUOTA),
            _ => {}
        }
    }

    fn applied(&mut self, rule: Rule) {
        self.observer.applied(self.machine, rule);
    }

    fn note(&mut self, note: Note) {
        self.observer.note(self.machine, &note);
    }
}
