//! The production sink: effects of one turn go to the platform, through the gate where they must wait.

use std::collections::VecDeque;

use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_wire::{Bytes, Wire, Writer};

use super::gate::Gate;
use super::timers::Timers;
use super::{ErasedJob, Platform};
use crate::{Fault, Job, Machine, Message, Note, Record, Rule, Sink, Span, Time, To};

/// Everything of a host that effects change.
pub(super) struct Out<M: Machine> {
    pub(super) own: NodeId,
    pub(super) gate: Gate,
    pub(super) timers: Timers<M::Timer>,
    pub(super) loopback: VecDeque<M::Message>,
    pub(super) jobs: u32,
    /// Where frames are encoded for a platform that copies them; as long as the longest one.
    pub(super) scratch: Vec<u8>,
}

pub(super) struct HostSink<'a, M: Machine> {
    pub(super) now: Time,
    pub(super) out: &'a mut Out<M>,
    pub(super) platform: &'a mut dyn Platform,
}

/// The version byte and the canonical encoding.
pub(super) fn versioned<T: Wire>(version: u8, value: &T) -> Bytes {
    let mut out = Writer::with_capacity(1 + value.size_hint());
    out.byte(version);
    value.write(&mut out);
    out.freeze()
}

impl<M> Sink<M> for HostSink<'_, M>
where
    M: Machine,
    M::Job: 'static,
    M::Output: Send + 'static,
{
    fn send(&mut self, to: To, message: M::Message) {
        let own = self.out.own;
        let (others, to_self) = match to {
            To::Node(id) if id == own => (None, true),
            To::Node(_) => (Some(to), false),
            To::Set(set) => {
                let others = set.without(own);
                ((!others.is_empty()).then_some(To::Set(others)), set.contains(own))
            }
        };
        if let Some(others) = others {
            match (message.register(), others) {
                (Some(op), To::Node(node)) => {
                    self.out.gate.register(node, message.queue(), op, self.platform);
                }
                _ if self.platform.copies() && self.out.gate.open() => {
                    let mut out = Writer::over(core::mem::take(&mut self.out.scratch));
                    out.byte(M::Message::VERSION);
                    message.write(&mut out);
                    self.platform.send_slice(others, message.queue(), out.as_slice());
                    self.out.scratch = out.into_buffer();
                }
                _ => {
                    let body = versioned(M::Message::VERSION, &message);
                    self.out.gate.send(others, message.queue(), body, self.platform);
                }
            }
        }
        if to_self {
            self.out.loopback.push_back(message);
        }
    }

    fn arm(&mut self, timer: M::Timer, after: Span) {
        let due = self.now + after;
        self.platform.timer(&timer, Some(due));
        self.out.timers.arm(timer, due);
    }

    fn disarm(&mut self, timer: M::Timer) {
        self.platform.timer(&timer, None);
        self.out.timers.disarm(timer);
    }

    fn persist(&mut self, record: M::Record) {
        let lsn = self.platform.append(record.keep(), versioned(M::Record::VERSION, &record));
        self.out.gate.issued(lsn);
    }

    fn compact(&mut self) {
        self.platform.compact();
    }

    fn store(&mut self, name: Hash, bytes: Bytes) {
        let lsn = self.platform.store(name, bytes);
        self.out.gate.issued(lsn);
    }

    fn load(&mut self, name: Hash) {
        self.platform.load(name);
    }

    fn erase(&mut self, name: Hash) {
        self.platform.erase(name);
    }

    fn compute(&mut self, job: M::Job) {
        self.out.jobs += 1;
        let (peer, cost) = (job.peer(), job.cost());
        self.platform.submit(ErasedJob { job: Box::new(job), peer, cost });
    }

    fn output(&mut self, output: M::Output) {
        self.out.gate.output(Box::new(output), self.platform);
    }

    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.platform.blame(peer, fault);
    }

    fn applied(&mut self, rule: Rule) {
        self.platform.applied(rule);
    }

    fn note(&mut self, note: Note) {
        self.platform.note(note);
    }
}
