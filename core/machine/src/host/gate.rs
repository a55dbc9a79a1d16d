//! The durability gate: what was issued after a record leaves after it.

use core::any::Any;
use std::collections::VecDeque;

use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::{Lsn, Platform};
use crate::register::RegisterOp;
use crate::{Queue, To};

/// Most effects that wait for durability before the machine pauses.
pub const HELD_MAX: usize = 4_096;
/// Most bytes that wait for durability before the machine pauses.
pub const HELD_BYTES_MAX: u64 = 16 << 20;

/// Bytes that an operation on a register counts for.
const REGISTER_HELD: u64 = size_of::<RegisterOp>() as u64;

enum Held {
    Send { to: To, queue: Queue, body: Bytes },
    Register { to: NodeId, queue: Queue, op: RegisterOp },
    Output(Box<dyn Any + Send>),
}

/// Sends and outputs in order, released as the lane becomes durable.
#[derive(Default)]
pub(super) struct Gate {
    issued: Lsn,
    durable: Lsn,
    held: VecDeque<(Lsn, Held)>,
    bytes: u64,
}

impl Gate {
    /// A record or blob was appended at `lsn`.
    pub(super) fn issued(&mut self, lsn: Lsn) {
        assert!(lsn > self.issued, "lane positions rise");
        self.issued = lsn;
    }

    pub(super) fn send(&mut self, to: To, queue: Queue, body: Bytes, platform: &mut dyn Platform) {
        if self.open() {
            platform.send(to, queue, body);
        } else {
            self.bytes += body.len() as u64;
            self.held.push_back((self.issued, Held::Send { to, queue, body }));
        }
    }

    /// An operation on a register is a send to the memory node: it waits like one.
    pub(super) fn register(
        &mut self,
        to: NodeId,
        queue: Queue,
        op: &RegisterOp,
        platform: &mut dyn Platform,
    ) {
        if self.open() {
            platform.register(to, queue, op);
        } else {
            self.bytes += REGISTER_HELD;
            self.held.push_back((self.issued, Held::Register { to, queue, op: *op }));
        }
    }

    pub(super) fn output(&mut self, output: Box<dyn Any + Send>, platform: &mut dyn Platform) {
        if self.open() {
            platform.output(output);
        } else {
            self.held.push_back((self.issued, Held::Output(output)));
        }
    }

    /// Releases from the front what `lsn` covers. Lanes may share one numbering, so `lsn` can be ahead of what this
    /// lane issued: whatever it issues later is numbered higher still.
    pub(super) fn durable(&mut self, lsn: Lsn, platform: &mut dyn Platform) {
        self.durable = self.durable.max(lsn);
        while self.held.front().is_some_and(|(needs, _)| *needs <= self.durable) {
            match self.held.pop_front() {
                Some((_, Held::Send { to, queue, body })) => {
                    self.bytes -= body.len() as u64;
                    platform.send(to, queue, body);
                }
                Some((_, Held::Register { to, queue, op })) => {
                    self.bytes -= REGISTER_HELD;
                    platform.register(to, queue, &op);
                }
                Some((_, Held::Output(output))) => platform.output(output),
                None => {}
            }
        }
    }

    /// Whether the machine must pause.
    pub(super) fn full(&self) -> bool {
        self.held.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing has to wait.
    pub(super) fn open(&self) -> bool {
        self.issued <= self.durable && self.held.is_empty()
    }
}
