//! The table of clients: what each may broadcast next.

use std::sync::Arc;

use synod_crypto::near;
use synod_machine::planted;
use synod_wire::{Bytes, Writer};

use super::lane::Lane;
use crate::fixed::Fixed;

/// Clients of a chunk.
pub const CHUNK_SLOTS: usize = 4_096;
/// Bytes of a slot in a chunk.
const SLOT_BYTES: usize = 16;

/// Where one client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The lowest sequence number that is still free; 0 until something was delivered.
    pub next_k: u64,
    /// Tag of the last delivered message.
    pub tag: u64,
}

/// The odd multiplier of the fold: 2^64 divided by the golden ratio.
const FOLD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The tag of a message: a fold of its bytes, then the parity bit.
///
/// The fold is no secure hash and need not be one: it is compared with the author's own last message only, so a
/// collision suppresses a message of its own author.
#[must_use]
pub fn tag(message: &[u8], parity: bool) -> u64 {
    let words = message.chunks(8).map(|chunk| crate::bits::word(chunk, 0));
    with_parity(words.fold(message.len() as u64, folded), parity)
}

/// The tag of a message of eight bytes, by its only word.
#[inline]
pub(super) fn tag_of_eight(word: u64, parity: bool) -> u64 {
    with_parity(folded(8, word), parity)
}

#[inline]
const fn folded(fold: u64, word: u64) -> u64 {
    let fold = (fold ^ word).wrapping_mul(FOLD);
    fold ^ fold >> 29
}

#[inline]
fn with_parity(fold: u64, parity: bool) -> u64 {
    (fold << 1) | u64::from(parity && !planted!(C15))
}

/// Slots of [`CHUNK_SLOTS`] clients in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// In place: a walk over a table that no cache holds waits for one line per slot and not for two.
    slots: [Slot; CHUNK_SLOTS],
}

impl Default for Chunk {
    fn default() -> Self {
        Self { slots: [Slot::default(); CHUNK_SLOTS] }
    }
}

impl Chunk {
    /// The 64 KiB of a checkpoint: each slot's two numbers.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(CHUNK_SLOTS * SLOT_BYTES);
        for slot in &self.slots {
            slot.next_k.put(&mut out);
            slot.tag.put(&mut out);
        }
        out.freeze()
    }

    /// Reads what [`Chunk::encode`] wrote; `None` at another length.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != CHUNK_SLOTS * SLOT_BYTES {
            return None;
        }
        let mut chunk = Self::default();
        for (slot, bytes) in chunk.slots.iter_mut().zip(bytes.chunks_exact(SLOT_BYTES)) {
            *slot = Slot { next_k: crate::bits::word(bytes, 0), tag: crate::bits::word(bytes, 8) };
        }
        Some(chunk)
    }

    /// Slot `at` of the chunk.
    pub(super) fn slot(&self, at: usize) -> Slot {
        self.slots.get(at).copied().unwrap_or_default()
    }

    /// The slots, to be written.
    #[inline]
    pub(super) const fn slots_mut(&mut self) -> &mut [Slot; CHUNK_SLOTS] {
        &mut self.slots
    }

    /// Asks for the memory of slot `at`.
    #[inline]
    pub(super) fn near(&self, at: usize) {
        near(&self.slots[at % CHUNK_SLOTS]);
    }
}

/// How a table is cut into lanes. Batches are split by it while lanes are at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub(super) lanes: usize,
    pub(super) lane_ids: u64,
    pub(super) length: u32,
}

/// The slots of all clients, in lanes.
#[derive(Clone, Debug)]
pub struct Table {
    lanes: Vec<Option<Lane>>,
    chunks_per_lane: usize,
    length: u32,
}

impl Table {
    /// An empty table of `lanes` lanes, at least one.
    #[must_use]
    pub fn new(lanes: u8) -> Self {
        let lanes = (0..lanes.max(1)).map(|_| Some(Lane::new(0, Vec::new()))).collect();
        Self { lanes, chunks_per_lane: 0, length: 0 }
    }

    /// A table of these chunks for `length` clients; `None` when the number of chunks is not the one they need.
    #[must_use]
    pub fn restore(lanes: u8, length: u32, chunks: Vec<Arc<Chunk>>) -> Option<Self> {
        if chunks.len() != (length as usize).div_ceil(CHUNK_SLOTS) {
            return None;
        }
        let mut table = Self::new(lanes);
        table.length = length;
        table.lay_out(chunks);
        Some(table)
    }

    /// Number of clients.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is no client.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How it is cut, until it grows.
    #[must_use]
    pub const fn cut(&self) -> Cut {
        Cut { lanes: self.lanes(), lane_ids: self.lane_ids(), length: self.length }
    }

    /// Number of lanes.
    #[must_use]
    pub const fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Ids of each lane; the last lane that has any may have fewer.
    #[must_use]
    pub const fn lane_ids(&self) -> u64 {
        (self.chunks_per_lane * CHUNK_SLOTS) as u64
    }

    /// Makes room for clients up to `length`; new ones stand at the beginning.
    ///
    /// # Panics
    /// When a lane is out: the caller waits for its jobs before the directory grows.
    pub fn grow(&mut self, length: u32) {
        if length <= self.length {
            return;
        }
        let needed = (length as usize).div_ceil(CHUNK_SLOTS);
        let mut chunks = self.chunks();
        self.length = length;
        if chunks.len() < needed {
            chunks.resize_with(needed, Arc::default);
            self.lay_out(chunks);
        }
    }

    fn lay_out(&mut self, chunks: Vec<Arc<Chunk>>) {
        self.chunks_per_lane = chunks.len().div_ceil(self.lanes.len());
        let mut chunks = chunks.into_iter();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let first = (number * self.chunks_per_lane * CHUNK_SLOTS) as u64;
            *lane = Some(Lane::new(first, chunks.by_ref().take(self.chunks_per_lane).collect()));
        }
    }

    /// Every chunk, in order of ids, shared with the table until one of the two writes.
    ///
    /// # Panics
    /// When a lane is out: a checkpoint waits for its jobs.
    #[must_use]
    pub fn chunks(&self) -> Vec<Arc<Chunk>> {
        let lanes = self.lanes.iter().map(|lane| lane.as_ref().expect("no lane is out"));
        lanes.flat_map(|lane| lane.chunks().iter().cloned()).collect()
    }

    /// Takes lane `number` out, for a job; `None` when it is out or there is none.
    pub fn take(&mut self, number: usize) -> Option<Lane> {
        self.lanes.get_mut(number)?.take()
    }

    /// Puts lane `number` back.
    ///
    /// # Panics
    /// When it was not out: a job gave back a lane it never had.
    pub fn put(&mut self, number: usize, lane: Lane) {
        let place = self.lanes.get_mut(number).filter(|place| place.is_none()).expect("the lane was out");
        *place = Some(lane);
    }

    /// Where client `id` stands; `None` beyond the last or while its lane is out.
    #[must_use]
    pub fn slot(&self, id: u32) -> Option<Slot> {
        if id >= self.length {
            return None;
        }
        let number =
            u64::from(id).checked_div(self.lane_ids()).and_then(|lane| usize::try_from(lane).ok())?;
        self.lanes.get(number)?.as_ref()?.slot(id)
    }

    /// Bytes held, for memory accounting; chunks shared with a checkpoint count once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.length).next_multiple_of(CHUNK_SLOTS as u64) * SLOT_BYTES as u64
    }
}
