//! Frames that wait for one connection: a bounded queue per (machine, queue), served in turn.
//!
//! *What it gives.* [`Outgoing::put`] applies the queue's rule when it is full, or when the connection's bytes are:
//! evict the oldest, drop the newest, or reset the link. [`Outgoing::pull`] moves frames into the socket's chunks,
//! 64 KiB of one queue before the next, so that no queue waits behind another's backlog.
//!
//! *Bounds.* `depth` frames per queue and `bytes_max` in all, or one frame where that is longer: a bound below the caps
//! of the queues must not make a frame that fits its queue impossible to send. Bodies are shared between the peers of a
//! broadcast.

use std::collections::VecDeque;

use synod_machine::Full;
use synod_wire::Bytes;

use crate::frames::{HEADER, QueueTable, Route};
use crate::link::Chunks;

/// Bytes of one queue that are sent before the next queue's turn.
const QUANTUM: usize = 64 << 10;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It waits.
    Queued,
    /// It waits; `frames` older ones of its queue gave way.
    Evicted { frames: u64 },
    /// It was dropped.
    Dropped,
    /// The link must close.
    Reset,
}

struct Waiting {
    frames: VecDeque<Bytes>,
}

/// The queues of one connection.
pub(crate) struct Outgoing {
    queues: Vec<Waiting>,
    link: VecDeque<Bytes>,
    bytes: u64,
    bytes_max: u64,
    frames: usize,
    next: usize,
}

impl Outgoing {
    pub(crate) fn new(table: &QueueTable, bytes_max: u64) -> Self {
        let queues = table.specs().iter().map(|_| Waiting { frames: VecDeque::new() }).collect();
        Self { queues, link: VecDeque::new(), bytes: 0, bytes_max, frames: 0, next: 0 }
    }

    /// Whether the next body of `length` bytes meets the rule of a full queue.
    pub(crate) fn is_full(&self, index: usize, length: usize, table: &QueueTable) -> bool {
        let (Some(waiting), Some((_, spec))) = (self.queues.get(index), table.specs().get(index)) else {
            return true;
        };
        let depth = usize::try_from(spec.depth).unwrap_or(usize::MAX);
        waiting.frames.len() >= depth || self.lacks((HEADER + length) as u64)
    }

    /// Whether `size` more bytes are too many.
    const fn lacks(&self, size: u64) -> bool {
        self.bytes > 0 && self.bytes.saturating_add(size) > self.bytes_max
    }

    /// Queues a body at a position of the table.
    pub(crate) fn put(&mut self, index: usize, body: Bytes, table: &QueueTable) -> Put {
        let full = self.is_full(index, body.len(), table);
        let (Some(waiting), Some((_, spec))) = (self.queues.get_mut(index), table.specs().get(index)) else {
            return Put::Dropped;
        };
        let size = (HEADER + body.len()) as u64;
        let depth = usize::try_from(spec.depth).unwrap_or(usize::MAX);
        if !full {
            waiting.frames.push_back(body);
            self.bytes += size;
            self.frames += 1;
            return Put::Queued;
        }
        match spec.full {
            Full::DropNewest => Put::Dropped,
            Full::Reset => Put::Reset,
            Full::EvictOldest => {
                let mut evicted = 0;
                while waiting.frames.len() >= depth
                    || self.bytes > 0 && self.bytes.saturating_add(size) > self.bytes_max
                {
                    let Some(old) = waiting.frames.pop_front() else { return Put::Dropped };
                    self.bytes -= (HEADER + old.len()) as u64;
                    self.frames -= 1;
                    evicted += 1;
                }
                waiting.frames.push_back(body);
                self.bytes += size;
                self.frames += 1;
                Put::Evicted { frames: evicted }
            }
        }
    }

    /// Queues one of the link's own words; they are few and go first.
    pub(crate) fn put_word(&mut self, body: Bytes) {
        if self.link.len() < 16 {
            self.link.push_back(body);
        }
    }

    /// Moves frames into `chunks` until it holds `limit` bytes or nothing waits; calls `sent` with each queue.
    pub(crate) fn pull(
        &mut self,
        chunks: &mut Chunks,
        limit: usize,
        table: &QueueTable,
        mut sent: impl FnMut(u8, usize),
    ) {
        while let Some(word) = self.link.pop_front() {
            chunks.put(Route { machine: crate::frames::LINK, queue: 1 }, word);
        }
        let count = self.queues.len();
        while self.frames > 0 && chunks.bytes() < limit {
            let (Some(waiting), Some((route, _))) =
                (self.queues.get_mut(self.next), table.specs().get(self.next))
            else {
                break;
            };
            let mut taken = 0;
            while taken < QUANTUM
                && chunks.bytes() < limit
                && let Some(body) = waiting.frames.pop_front()
            {
                let size = HEADER + body.len();
                self.bytes -= size as u64;
                self.frames -= 1;
                taken += size;
                sent(route.queue, size);
                chunks.put(*route, body);
            }
            self.next = (self.next + 1) % count;
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0 && self.link.is_empty()
    }

    /// Bytes that wait.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Frames that wait.
    pub(crate) const fn frames(&self) -> usize {
        self.frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_machine::QueueSpec;

    const fn spec(depth: u32, full: Full) -> QueueSpec {
        QueueSpec { depth, frame_max: 1 << 20, full }
    }

    fn table() -> QueueTable {
        let specs = [spec(3, Full::Reset), spec(3, Full::EvictOldest), spec(3, Full::DropNewest)];
        QueueTable::new(&[(0, &specs)]).expect("one machine")
    }

    fn body(n: u8) -> Bytes {
        Bytes::from(vec![n; 100])
    }

    fn sent(out: &mut Outgoing, table: &QueueTable) -> Vec<u8> {
        let (mut chunks, mut queues) = (Chunks::default(), Vec::new());
        out.pull(&mut chunks, usize::MAX, table, |queue, _| queues.push(queue));
        queues
    }

    #[test]
    fn a_full_queue_does_what_its_rule_says() {
        let table = table();
        for (queue, fourth) in [(0, Put::Reset), (1, Put::Evicted { frames: 1 }), (2, Put::Dropped)] {
            let mut out = Outgoing::new(&table, 1 << 20);
            for n in 0..3 {
                assert_eq!(out.put(queue, body(n), &table), Put::Queued);
            }
            assert_eq!(out.put(queue, body(3), &table), fourth);
            let kept: Vec<u8> = out.queues[queue].frames.iter().map(|b| b[0]).collect();
            assert_eq!(kept, if queue == 1 { [1, 2, 3] } else { [0, 1, 2] });
            assert_eq!(out.bytes(), 3 * 108);
        }
    }

    #[test]
    fn the_bytes_of_a_connection_are_bounded_over_all_queues() {
        let table = table();
        let mut out = Outgoing::new(&table, 250);
        assert_eq!(out.put(0, body(0), &table), Put::Queued);
        assert_eq!(out.put(1, body(1), &table), Put::Queued);
        assert_eq!(out.put(2, body(2), &table), Put::Dropped);
        assert_eq!(out.put(1, body(3), &table), Put::Evicted { frames: 1 });
        assert_eq!(out.put(0, body(4), &table), Put::Reset);
        assert!(out.bytes() <= 250);
    }

    #[test]
    fn a_frame_longer_than_the_bound_goes_alone() {
        let table = table();
        for queue in 0..3 {
            let mut out = Outgoing::new(&table, 50);
            assert_eq!(out.put(queue, body(0), &table), Put::Queued, "nothing else waits");
            assert_ne!(out.put(queue, body(1), &table), Put::Queued, "one is the most");
            assert!(out.bytes() <= 108);
        }
    }

    #[test]
    fn queues_are_served_in_turn_and_each_in_order() {
        let specs = [spec(1_000, Full::Reset), spec(1_000, Full::Reset)];
        let table = QueueTable::new(&[(0, &specs)]).expect("one machine");
        let mut out = Outgoing::new(&table, 1 << 30);
        for _ in 0..4 {
            assert_eq!(out.put(0, Bytes::from(vec![0; 40 << 10]), &table), Put::Queued);
        }
        assert_eq!(out.put(1, body(1), &table), Put::Queued);
        assert_eq!(sent(&mut out, &table), [0, 0, 1, 0, 0], "64 KiB, then the other queue");
        assert!(out.is_empty());
        assert_eq!(out.bytes(), 0);
    }

    #[test]
    fn pulling_stops_at_the_limit_and_goes_on_where_it_stopped() {
        let table = table();
        let mut out = Outgoing::new(&table, 1 << 20);
        for n in 0..3 {
            out.put(0, body(n), &table);
        }
        let mut chunks = Chunks::default();
        out.pull(&mut chunks, 150, &table, |_, _| {});
        assert_eq!((chunks.bytes(), out.frames()), (216, 1));
        assert_eq!(sent(&mut out, &table), [0]);
    }
}
