//! The sending side of one queue to one peer.

use std::collections::VecDeque;

use synod_machine::Full;
use synod_tail::ring::{Header, Writer as RingWriter};
use synod_tail::{Words, pipe};
use synod_wire::Bytes;

use super::BACKLOG_BYTES_MAX;
use super::shape::{Shape, Spot, acknowledgement};
use crate::map::{Shown, Written};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is in the memory that the peer reads, or waits for room there.
    Taken,
    /// It was dropped, as the queue says.
    Dropped,
    /// There is no room, and the queue breaks its link.
    Overflowed,
}

/// A queue to one peer.
pub(crate) enum Outlet {
    /// Evicts the oldest.
    Ring { writer: RingWriter<Written>, queue: u8, order: u32 },
    /// Keeps what waits for room.
    Pipe(Box<Outgoing>),
}

/// A pipe and its backlog.
pub(crate) struct Outgoing {
    writer: pipe::Writer<Written>,
    order: u32,
    acknowledged: u32,
    full: Full,
    depth: usize,
    backlog: VecDeque<Bytes>,
    /// Bytes of the first frame of the backlog that are written.
    begun: usize,
    bytes: u64,
}

impl Outlet {
    pub(crate) fn new(shape: Shape, words: Written, spot: &Spot, order: u32) -> Self {
        match shape {
            Shape::Ring(ring) => {
                Self::Ring { writer: RingWriter::new(ring, words), queue: spot.queue, order }
            }
            Shape::Pipe(pipe) => Self::Pipe(Box::new(Outgoing {
                writer: pipe::Writer::new(pipe, words),
                order,
                acknowledged: acknowledgement(order),
                full: spot.spec.full,
                depth: usize::try_from(spot.spec.depth).unwrap_or(usize::MAX),
                backlog: VecDeque::new(),
                begun: 0,
                bytes: 0,
            })),
        }
    }

    /// Its place among the queues of its side.
    pub(crate) const fn order(&self) -> u32 {
        match self {
            Self::Ring { order, .. } => *order,
            Self::Pipe(outgoing) => outgoing.order,
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, generation: u32, body: &[u8], theirs: &Shown) -> Sent {
        match self {
            Self::Ring { writer, queue, .. } => {
                match writer.send(Header { queue: *queue, epoch: generation }, body) {
                    Ok(_) => Sent::Taken,
                    Err(too_long) => {
                        tracing::error!(
                            bytes = body.len(),
                            max = too_long.max,
                            "a frame above its queue's bound"
                        );
                        Sent::Dropped
                    }
                }
            }
            Self::Pipe(outgoing) => outgoing.send(generation, body, theirs),
        }
    }

    /// Writes what waits, as far as there is room; whether any was written.
    pub(crate) fn flush(&mut self, generation: u32, theirs: &Shown) -> bool {
        match self {
            Self::Ring { .. } => false,
            Self::Pipe(outgoing) => outgoing.flush(generation, theirs),
        }
    }

    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Pipe(outgoing) if !outgoing.backlog.is_empty())
    }

    /// Drops what waits: the link is down.
    pub(crate) fn clear(&mut self) {
        if let Self::Pipe(outgoing) = self {
            outgoing.backlog.clear();
            (outgoing.begun, outgoing.bytes) = (0, 0);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Ring { .. } => 0,
            Self::Pipe(outgoing) => outgoing.bytes,
        }
    }
}

impl Outgoing {
    fn send(&mut self, generation: u32, body: &[u8], theirs: &Shown) -> Sent {
        self.flush(generation, theirs);
        let mut rest = body;
        if self.backlog.is_empty() {
            self.writer.acknowledge(theirs.load(self.acknowledged));
            match self.writer.put(generation, body) {
                pipe::Put::Whole => return Sent::Taken,
                // What was begun has to be ended, whatever waits.
                pipe::Put::Part(bytes) => rest = body.get(bytes..).unwrap_or_default(),
                pipe::Put::Full => {}
            }
        } else if self.backlog.len() >= self.depth || self.bytes > BACKLOG_BYTES_MAX {
            return if self.full == Full::Reset { Sent::Overflowed } else { Sent::Dropped };
        }
        self.bytes += rest.len() as u64;
        self.backlog.push_back(Bytes::copy_from_slice(rest));
        Sent::Taken
    }

    fn flush(&mut self, generation: u32, theirs: &Shown) -> bool {
        let mut wrote = false;
        while let Some(first) = self.backlog.front() {
            self.writer.acknowledge(theirs.load(self.acknowledged));
            let rest = first.get(self.begun..).unwrap_or_default();
            match self.writer.put(generation, rest) {
                pipe::Put::Whole => {
                    self.bytes -= first.len() as u64;
                    self.begun = 0;
                    self.backlog.pop_front();
                }
                pipe::Put::Part(bytes) => self.begun += bytes,
                pipe::Put::Full => break,
            }
            wrote = true;
        }
        wrote
    }
}
