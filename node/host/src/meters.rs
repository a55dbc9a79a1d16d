//! What a node measures: how long blocks take, what they hold, what the journal does.
//!
//! Machines read no clock. They tell what happens by notes, and this is where the notes get their times. A note comes
//! per block, never per command.
//!
//! *Bounds.* [`OPEN_MAX`] blocks that are not yet delivered and [`HANDED_MAX`] that are not yet executed are timed; the
//! oldest go first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use synod_crypto::Hash;
use synod_machine::Note;

use synod_net::histogram::{COUNTS, Histogram, SIZES, TIMES_NS};

/// Blocks between their arrival and their delivery that are timed.
const OPEN_MAX: usize = 1_024;
/// Blocks between delivery and execution that are remembered.
const HANDED_MAX: usize = 8_192;

/// What a block goes through at a node, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From its arrival, or its proposal here, to its certificate.
    Certify,
    /// From its certificate to its commit.
    Commit,
    /// From its commit until it is handed to the executor: waiting for its body, or for an executor that lags.
    Deliver,
    /// Until its last entry is executed. The sync of its commit lies in it.
    Execute,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 4] = [Self::Certify, Self::Commit, Self::Deliver, Self::Execute];

    /// The word in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Certify => "certify",
            Self::Commit => "commit",
            Self::Deliver => "deliver",
            Self::Execute => "execute",
        }
    }
}

/// A block that is not yet delivered.
struct Open {
    digest: Hash,
    height: u64,
    taken: Instant,
    certified: Option<Instant>,
    committed: Option<Instant>,
}

/// A block that is delivered and not yet executed.
struct Handed {
    height: u64,
    last: u64,
    /// When it was handed over, unless it is empty.
    at: Option<Instant>,
}

#[derive(Default)]
struct Blocks {
    open: VecDeque<Open>,
    handed: VecDeque<Handed>,
    /// The last position executed.
    position: u64,
    /// Height of the last block all of whose entries are executed, once known.
    executed: Option<u64>,
    /// Commands executed, as the last note told.
    commands: u64,
}

/// The measurements of one node.
pub struct Meters {
    /// From the arrival or proposal of a block to its commit, in nanoseconds.
    pub commit_latency: Histogram,
    stages: [Histogram; Stage::ALL.len()],
    /// Commands of each executed block that has entries.
    pub batch_ops: Histogram,
    /// Bytes of the body of each delivered block that has one.
    pub batch_bytes: Histogram,
    /// Duration of each fdatasync, in nanoseconds.
    pub fsync: Histogram,
    /// Records that shared one sync.
    pub records_per_sync: Histogram,
    /// Duration of each compaction into snapshots, in nanoseconds.
    pub snapshot: Histogram,
    wal_bytes: AtomicU64,
    wal_segments: AtomicU64,
    blocks: Mutex<Blocks>,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            commit_latency: Histogram::new(TIMES_NS),
            stages: Stage::ALL.map(|_| Histogram::new(TIMES_NS)),
            batch_ops: Histogram::new(COUNTS),
            batch_bytes: Histogram::new(SIZES),
            fsync: Histogram::new(TIMES_NS),
            records_per_sync: Histogram::new(COUNTS),
            snapshot: Histogram::new(TIMES_NS),
            wal_bytes: AtomicU64::new(0),
            wal_segments: AtomicU64::new(0),
            blocks: Mutex::default(),
        }
    }
}

impl Meters {
    /// How long blocks took in a stage, in nanoseconds.
    #[must_use]
    pub const fn stage(&self, stage: Stage) -> &Histogram {
        &self.stages[stage as usize]
    }

    /// Bytes written to the journal since it was opened.
    #[must_use]
    pub fn wal_bytes(&self) -> u64 {
        self.wal_bytes.load(Ordering::Relaxed)
    }

    /// Segment files of the journal.
    #[must_use]
    pub fn wal_segments(&self) -> u64 {
        self.wal_segments.load(Ordering::Relaxed)
    }

    /// Height of the last executed block; `None` before the ordering machine told where it starts.
    #[must_use]
    pub fn executed_height(&self) -> Option<u64> {
        self.blocks().executed
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.wal_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn has_segments(&self, count: u64) {
        self.wal_segments.store(count, Ordering::Relaxed);
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the time of what a machine told.
    pub(crate) fn note(&self, note: &Note) {
        let [first, second, third, _] = note.values;
        match note.name {
            "block_taken" => self.blocks().take(note.digest, first),
            "block_certified" => {
                let mut blocks = self.blocks();
                let Some(block) = blocks.find(&note.digest).filter(|block| block.certified.is_none()) else {
                    return;
                };
                let now = Instant::now();
                block.certified = Some(now);
                self.stage(Stage::Certify).time(now - block.taken);
            }
            "committed" => {
                let mut blocks = self.blocks();
                let Some(block) = blocks.find(&note.digest).filter(|block| block.committed.is_none()) else {
                    return;
                };
                let now = Instant::now();
                block.committed = Some(now);
                self.commit_latency.time(now - block.taken);
                if let Some(certified) = block.certified {
                    self.stage(Stage::Commit).time(now - certified);
                }
            }
            "block_delivered" => self.delivered(note.digest, first, (second, third)),
            "delivery_resumed" => {
                let mut blocks = self.blocks();
                blocks.position = blocks.position.max(third);
                blocks.executed = blocks.executed.max(Some(second));
            }
            "block_executed" => self.executed(first, second),
            _ => {}
        }
    }

    fn delivered(&self, digest: Hash, height: u64, (last, bytes): (u64, u64)) {
        if bytes > 0 {
            self.batch_bytes.record(bytes);
        }
        let now = Instant::now();
        let mut blocks = self.blocks();
        if let Some(committed) = blocks.find(&digest).and_then(|block| block.committed) {
            self.stage(Stage::Deliver).time(now - committed);
        }
        // What lies below was delivered before, or fell.
        blocks.open.retain(|block| block.height > height);
        if last <= blocks.position && blocks.handed.is_empty() {
            blocks.executed = blocks.executed.max(Some(height));
            return;
        }
        if blocks.handed.len() >= HANDED_MAX {
            blocks.handed.pop_front();
        }
        blocks.handed.push_back(Handed { height, last, at: (bytes > 0).then_some(now) });
    }

    fn executed(&self, position: u64, commands: u64) {
        let now = Instant::now();
        let mut blocks = self.blocks();
        blocks.position = blocks.position.max(position);
        self.batch_ops.record(commands.saturating_sub(blocks.commands));
        blocks.commands = commands;
        while let Some(block) = blocks.handed.front().filter(|block| block.last <= position) {
            let (height, last, at) = (block.height, block.last, block.at);
            if let Some(at) = at.filter(|_| last == position) {
                self.stage(Stage::Execute).time(now - at);
            }
            blocks.executed = blocks.executed.max(Some(height));
            blocks.handed.pop_front();
        }
    }
}

impl Blocks {
    fn take(&mut self, digest: Hash, height: u64) {
        if self.find(&digest).is_some() {
            return;
        }
        if self.open.len() >= OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back(Open { digest, height, taken: Instant::now(), certified: None, committed: None });
    }

    /// A block under way; those asked for are among the newest.
    fn find(&mut self, digest: &Hash) -> Option<&mut Open> {
        self.open.iter_mut().rev().find(|block| block.digest == *digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig(Meters);

    impl Rig {
        fn new() -> Self {
            Self(Meters::default())
        }

        fn tell(&self, name: &'static str, digest: u8, values: [u64; 3]) {
            let [a, b, c] = values;
            self.0.note(&Note { name, values: [a, b, c, 0], digest: Hash([digest; 32]) });
        }

        fn stages(&self) -> [u64; 4] {
            Stage::ALL.map(|stage| self.0.stage(stage).read().count)
        }
    }

    /// A block of the given height whose last position is `last`, through all its stages.
    fn whole(rig: &Rig, height: u64, last: u64, bytes: u64) {
        let digest = u8::try_from(height).expect("a small height");
        rig.tell("block_taken", digest, [height, height, 1]);
        rig.tell("block_certified", digest, [height, height, 0]);
        rig.tell("committed", digest, [height, height, 1]);
        rig.tell("block_delivered", digest, [height, last, bytes]);
    }

    #[test]
    fn a_block_is_timed_once_in_each_stage_however_often_it_is_told_of() {
        let rig = Rig::new();
        rig.tell("delivery_resumed", 0, [0, 0, 0]);
        whole(&rig, 1, 3, 700);
        rig.tell("block_taken", 2, [2, 2, 1]);
        rig.tell("block_taken", 2, [2, 2, 1]);
        rig.tell("block_certified", 2, [2, 2, 0]);
        rig.tell("block_certified", 2, [2, 2, 0]);
        assert_eq!(rig.stages(), [2, 1, 1, 0]);
        rig.tell("block_executed", 0, [3, 120, 0]);
        assert_eq!(rig.stages(), [2, 1, 1, 1]);
        assert_eq!(rig.0.commit_latency.read().count, 1);
        assert_eq!((rig.0.batch_bytes.read().count, rig.0.batch_bytes.read().sum), (1, 700));
        assert_eq!((rig.0.batch_ops.read().count, rig.0.batch_ops.read().sum), (1, 120));
        assert_eq!(rig.0.blocks().open.len(), 1, "a delivered block is forgotten");
    }

    #[test]
    fn the_executed_height_follows_positions_and_takes_empty_blocks_along() {
        let rig = Rig::new();
        assert_eq!(rig.0.executed_height(), None);
        rig.tell("delivery_resumed", 0, [9, 4, 10]);
        assert_eq!(rig.0.executed_height(), Some(4), "what the user held at the start is executed");
        rig.tell("block_delivered", 5, [5, 12, 100]);
        rig.tell("block_delivered", 6, [6, 12, 0]);
        rig.tell("block_delivered", 7, [7, 15, 100]);
        assert_eq!(rig.0.executed_height(), Some(4), "delivered is not executed");
        rig.tell("block_executed", 0, [12, 2, 0]);
        assert_eq!(rig.0.executed_height(), Some(6));
        rig.tell("block_executed", 0, [15, 5, 0]);
        assert_eq!(rig.0.executed_height(), Some(7));
        rig.tell("block_delivered", 8, [8, 15, 0]);
        assert_eq!(rig.0.executed_height(), Some(8), "an empty block has nothing to execute");
        assert_eq!(rig.0.stage(Stage::Execute).read().count, 2, "empty blocks are not timed");
    }

    #[test]
    fn a_state_taken_over_moves_the_executed_height_on() {
        let rig = Rig::new();
        rig.tell("delivery_resumed", 0, [0, 0, 0]);
        rig.tell("delivery_resumed", 0, [70, 64, 640]);
        assert_eq!(rig.0.executed_height(), Some(64));
        rig.tell("block_delivered", 65, [65, 641, 100]);
        rig.tell("block_executed", 0, [641, 1, 0]);
        assert_eq!(rig.0.executed_height(), Some(65));
    }

    #[test]
    fn blocks_that_fall_leave_no_trace_and_what_is_held_has_a_bound() {
        let rig = Rig::new();
        rig.tell("block_taken", 1, [1, 1, 1]);
        rig.tell("block_taken", 2, [2, 2, 1]);
        whole(&rig, 3, 1, 9);
        assert_eq!(rig.0.blocks().open.len(), 0, "what was not committed below fell");
        for height in 0..2 * OPEN_MAX as u64 {
            let note = Note {
                name: "block_taken",
                values: [height, 0, 0, 0],
                digest: Hash::of(&height.to_le_bytes()),
            };
            rig.0.note(&note);
            rig.tell("block_delivered", 200, [0, 1_000_000 + height, 1]);
        }
        assert_eq!(rig.0.blocks().open.len(), OPEN_MAX);
        for last in 0..2 * HANDED_MAX as u64 {
            rig.tell("block_delivered", 200, [0, 2_000_000 + last, 1]);
        }
        assert_eq!(rig.0.blocks().handed.len(), HANDED_MAX);
    }
}
