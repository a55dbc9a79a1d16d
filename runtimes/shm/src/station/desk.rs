//! A hosted machine in its station, and the desk it works at: the effects of one call.

use core::any::Any;
use std::collections::VecDeque;

use synod_crypto::Hash;
use synod_machine::host::{ErasedJob, Hosted, Lsn, Platform, QUOTA_EXCEEDED, UNDECODABLE};
use synod_machine::register::RegisterOp;
use synod_machine::{Fault, Keep, Note, Queue, Rule, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::lines::{Lines, Trouble};
use super::memory::Memories;
use crate::connector::Observer;
use crate::jobs::Jobs;
use crate::lanes::Lane;

/// A hosted machine with what waits for it.
pub(super) struct Slot {
    pub(super) number: u8,
    pub(super) hosted: Box<dyn Hosted>,
    pub(super) lane: Lane,
    pub(super) jobs: Jobs,
    pub(super) memories: Memories,
    /// Inputs that wait for room.
    pub(super) inputs: VecDeque<Box<dyn Any + Send>>,
    /// Machines that its outputs became inputs of, by their places.
    pub(super) feeds: Vec<usize>,
    /// Where its queues begin in the list of outgoing queues.
    pub(super) first: usize,
    pub(super) issued: Lsn,
    pub(super) reported: Lsn,
    /// What the journal says is durable, as the station last heard.
    pub(super) heard: Lsn,
}

/// What every machine of a station shares.
pub(super) struct Office<'a> {
    pub(super) lines: &'a mut Lines,
    pub(super) outputs: &'a mut VecDeque<Box<dyn Any + Send>>,
    pub(super) observer: &'a dyn Observer,
}

impl Slot {
    /// Calls the machine, then settles: durability that was reported meanwhile, compaction it asked for.
    #[inline]
    pub(super) fn call(
        &mut self,
        office: &mut Office<'_>,
        call: impl FnOnce(&mut dyn Hosted, &mut Desk<'_>),
    ) {
        let mut compact = false;
        let mut desk = Desk {
            machine: self.number,
            first: self.first,
            lane: &mut self.lane,
            jobs: &mut self.jobs,
            memories: &mut self.memories,
            lines: office.lines,
            outputs: office.outputs,
            observer: office.observer,
            compact: &mut compact,
            issued: &mut self.issued,
        };
        call(&mut *self.hosted, &mut desk);
        // A lane also counts erasures, which the machine's gate does not know of.
        let durable = desk.lane.durable(self.heard).min(*desk.issued);
        if durable > self.reported {
            self.reported = durable;
            self.hosted.durable(durable, &mut desk);
        }
        if compact {
            self.snapshot();
        }
    }

    /// Whether more is durable than the machine was told.
    pub(super) fn has_news(&self) -> bool {
        self.lane.durable(self.heard).min(self.issued) > self.reported
    }

    /// Gives the journal records equivalent to the whole lane.
    pub(super) fn snapshot(&mut self) {
        self.lane.compact(self.hosted.snapshot());
    }
}

/// The platform of one call of one machine.
pub(super) struct Desk<'a> {
    machine: u8,
    first: usize,
    lane: &'a mut Lane,
    jobs: &'a mut Jobs,
    memories: &'a mut Memories,
    lines: &'a mut Lines,
    outputs: &'a mut VecDeque<Box<dyn Any + Send>>,
    observer: &'a dyn Observer,
    compact: &'a mut bool,
    issued: &'a mut Lsn,
}

impl Desk<'_> {
    fn issue(&mut self, lsn: Lsn) -> Lsn {
        assert!(lsn > *self.issued, "places of a lane rise");
        *self.issued = lsn;
        lsn
    }
}

impl Platform for Desk<'_> {
    #[inline]
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.send_slice(to, queue, &body);
    }

    fn copies(&self) -> bool {
        true
    }

    #[inline]
    fn send_slice(&mut self, to: To, queue: Queue, body: &[u8]) {
        let peers = self.lines.send(to, self.first + usize::from(queue.0), body);
        self.observer.sent(self.machine, peers);
    }

    #[inline]
    fn register(&mut self, to: NodeId, _: Queue, op: &RegisterOp) {
        self.memories.begin(to, op);
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
        self.lane.erase(name);
    }

    fn load(&mut self, name: Hash) {
        self.lane.load(name);
    }

    fn compact(&mut self) {
        *self.compact = true;
    }

    fn submit(&mut self, job: ErasedJob) {
        self.observer.asked(self.machine, &job.cost);
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
            UNDECODABLE => self.lines.trouble.push((peer, Trouble::Undecodable)),
            QUOTA_EXCEEDED => self.lines.trouble.push((peer, Trouble::Break)),
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
