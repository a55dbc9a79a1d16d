//! A message ring without acknowledgements: one writer, one reader, the newest messages (uBFT, section 6.2).
//!
//! *What it gives.* To a reader of a correct writer: messages in the order sent, each at most once, none torn. A
//! reader that falls behind loses the oldest and goes on with the newest: of a writer that rests the last `depth`
//! arrive, of one that goes on the last `depth - 1`, for it is overwriting one. A queue over a ring promises its last
//! `depth - 8`. Against a faulty writer: at most `depth` steps a poll, nothing outside the caller's buffer, no panic;
//! the messages are then whatever that writer likes.
//!
//! *Layout.* Message s stands in slot (s - 1) mod depth. The first message has sequence 1.
//!
//! | word of the slot | holds |
//! |---|---|
//! | 0 | sequence; 0 while the slot is being written |
//! | 1 | length in bytes (bits 0 to 23), queue (24 to 31), epoch (32 to 63) |
//! | 2 .. | payload, little endian, the last word filled with zeros; words behind it keep older bytes |
//!
//! *Why it holds.* The writer clears word 0 before it touches the rest and fences between. A reader that copied any
//! word of a newer message therefore finds another word 0 behind its own fence, and drops the copy. The cursor is the
//! reader's alone, so a writer needs no answer. There is no checksum: see [`Words`] for what that asks of a backend.
//!
//! *Bounds.* Depth * `slot_bytes` of shared memory, a few words on each side, no allocation. Budget: 135 ns a message
//! on a core, sending, polling and what the caller does with it (`benches/ring.rs`).
//!
//! ```
//! use synod_tail::Atomics;
//! use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};
//! let ring = Ring::new(RingSpec { depth: 16, slot_bytes: 64 })?;
//! let words = Atomics::zeroed(ring.words());
//! let (mut writer, mut reader) = (Writer::new(ring, &words), Reader::new(ring, &words));
//! assert_eq!(writer.send(Header { queue: 2, epoch: 0 }, b"will certify").map_err(|_| ()), Ok(1));
//!
//! let mut buffer = [0; 48];
//! let Polled::Message(arrived) = reader.poll(&mut buffer) else { panic!("it was sent") };
//! assert_eq!((arrived.sequence, arrived.payload(&buffer)), (1, &b"will certify"[..]));
//! assert_eq!(reader.poll(&mut buffer), Polled::Empty);
//! # Ok::<(), synod_tail::ring::Unfit>(())
//! ```

use crate::words::{Fence, Words};

/// First number that is no sequence and no timestamp: a larger one is malformed, so that sums cannot overflow.
pub const NUMBER_END: u64 = 1 << 62;
/// Slots are multiples of this, in bytes.
pub const SLOT_UNIT: u32 = 64;
/// Longest slot, in bytes.
pub const SLOT_BYTES_MAX: u32 = 1 << 20;
/// Fewest slots.
pub const DEPTH_MIN: u32 = 2;

const HEADER_WORDS: u32 = 2;
const WORD_BYTES: u32 = 8;
const LENGTH_MASK: u64 = (1 << 24) - 1;
const QUEUE_SHIFT: u32 = 24;
const EPOCH_SHIFT: u32 = 32;

const _: () = assert!((SLOT_BYTES_MAX as u64) < LENGTH_MASK);

/// The measures of a ring, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// Slots; any number from [`DEPTH_MIN`] on. A queue that promises a tail of t has t + 8 (E32).
    pub depth: u32,
    /// Bytes of a slot, 16 of which are its header.
    pub slot_bytes: u32,
}

/// Why a ring cannot have these measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Fewer than [`DEPTH_MIN`] slots.
    Depth,
    /// Slots are no multiple of [`SLOT_UNIT`] up to [`SLOT_BYTES_MAX`].
    Slot,
    /// All words together cannot be counted in a `u32`.
    Size,
}

/// The measures of a ring that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    depth: u32,
    slot_words: u32,
}

impl Ring {
    /// Checks the measures.
    ///
    /// # Errors
    /// Says which measure is unfit.
    pub const fn new(spec: RingSpec) -> Result<Self, Unfit> {
        if spec.depth < DEPTH_MIN {
            return Err(Unfit::Depth);
        }
        if spec.slot_bytes == 0
            || !spec.slot_bytes.is_multiple_of(SLOT_UNIT)
            || spec.slot_bytes > SLOT_BYTES_MAX
        {
            return Err(Unfit::Slot);
        }
        let slot_words = spec.slot_bytes / WORD_BYTES;
        if spec.depth.checked_mul(slot_words).is_none() {
            return Err(Unfit::Size);
        }
        Ok(Self { depth: spec.depth, slot_words })
    }

    /// Words of shared memory.
    #[must_use]
    pub const fn words(self) -> u32 {
        self.depth * self.slot_words
    }

    /// Slots.
    #[must_use]
    pub const fn depth(self) -> u32 {
        self.depth
    }

    /// Longest payload, in bytes; a multiple of 8.
    #[must_use]
    pub const fn payload_max(self) -> u32 {
        (self.slot_words - HEADER_WORDS) * WORD_BYTES
    }

    /// The first word of the slot behind the one at `at`.
    #[inline]
    const fn behind(self, at: u32) -> u32 {
        if at == self.words() - self.slot_words { 0 } else { at + self.slot_words }
    }
}

/// What a message says besides its payload; the ring reads none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The queue it belongs to.
    pub queue: u8,
    /// The epoch it was sent in.
    pub epoch: u32,
}

/// A payload longer than a slot holds; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Longest payload, in bytes.
    pub max: u32,
}

/// The sending side. There is one per ring, and it is never made again on words that were written.
#[derive(Clone, Debug)]
pub struct Writer<W> {
    words: W,
    ring: Ring,
    next: u64,
    at: u32,
}

impl<W: Words> Writer<W> {
    /// The writer of a ring whose words are all zero.
    #[must_use]
    pub const fn new(ring: Ring, words: W) -> Self {
        Self { words, ring, next: 1, at: 0 }
    }

    /// Sends a message over the oldest one and gives its sequence. Never waits.
    ///
    /// # Errors
    /// [`TooLong`] when the payload exceeds [`Ring::payload_max`].
    ///
    /// # Panics
    /// After [`NUMBER_END`] messages, which takes some thousand years.
    #[inline]
    pub fn send(&mut self, header: Header, payload: &[u8]) -> Result<u64, TooLong> {
        let max = self.ring.payload_max();
        let length =
            u32::try_from(payload.len()).ok().filter(|length| *length <= max).ok_or(TooLong { max })?;
        let (at, sequence) = (self.at, self.next);
        assert!(sequence < NUMBER_END, "a ring ends before its numbers do");
        self.words.store(at, 0);
        self.words.fence(Fence::Release);
        self.words.store(at + 1, pack(header, length));
        let mut to = at + HEADER_WORDS;
        let (whole, rest) = payload.as_chunks::<{ WORD_BYTES as usize }>();
        for bytes in whole {
            self.words.store(to, u64::from_le_bytes(*bytes));
            to += 1;
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
            self.words.store(to, last);
        }
        self.words.fence(Fence::Release);
        self.words.store(at, sequence);
        self.next = sequence + 1;
        self.at = self.ring.behind(at);
        Ok(sequence)
    }

    /// Messages sent so far.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.next - 1
    }
}

/// A message in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its place among the messages of this ring, from 1 on. A gap behind the one before is what was lost.
    pub sequence: u64,
    /// What it says besides its payload.
    pub header: Header,
    /// Bytes of its payload, at most [`Ring::payload_max`].
    pub length: u32,
}

impl Arrived {
    /// The payload in the buffer that was polled into.
    #[must_use]
    pub fn payload<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        buffer.get(..self.length as usize).unwrap_or(buffer)
    }
}

/// What a poll found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing new.
    Empty,
    /// The next message.
    Message(Arrived),
    /// Nothing to read now; messages that were never read have been overwritten.
    Lapped {
        /// How many.
        skipped: u64,
    },
    /// A sequence that no correct writer leaves in this slot. It is passed over for as long as it stands there.
    Malformed,
}

/// What one step over one slot found.
enum Step {
    Nothing,
    Whole(Arrived),
    Lost(u64),
    Malformed,
}

/// The receiving side, with its private cursor.
#[derive(Clone, Debug)]
pub struct Reader<W> {
    words: W,
    ring: Ring,
    wanted: u64,
    at: u32,
    lost: u64,
    malformed: u64,
}

impl<W: Words> Reader<W> {
    /// A reader that wants the first message.
    #[must_use]
    pub const fn new(ring: Ring, words: W) -> Self {
        Self { words, ring, wanted: 1, at: 0, lost: 0, malformed: 0 }
    }

    /// Takes the next message into `buffer`, in at most `depth` steps. Only [`Polled::Message`] says that the buffer
    /// holds anything; bytes behind its payload mean nothing.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Ring::payload_max`].
    #[inline]
    pub fn poll(&mut self, buffer: &mut [u8]) -> Polled {
        assert!(buffer.len() >= self.ring.payload_max() as usize, "the buffer holds the longest payload");
        let mut skipped = 0;
        for _ in 0..self.ring.depth {
            match self.step(buffer) {
                Step::Whole(arrived) => return Polled::Message(arrived),
                Step::Nothing => break,
                Step::Lost(count) => skipped += count,
                Step::Malformed => {
                    self.malformed = self.malformed.saturating_add(1);
                    return Polled::Malformed;
                }
            }
        }
        if skipped == 0 { Polled::Empty } else { Polled::Lapped { skipped } }
    }

    #[inline]
    fn step(&mut self, buffer: &mut [u8]) -> Step {
        let (found, depth) = (self.words.load(self.at), u64::from(self.ring.depth));
        if found < self.wanted {
            // Of a correct writer: nothing yet, a slot being written, or what this slot held a round ago.
            let fit = found == 0 || found + depth == self.wanted;
            return if fit { Step::Nothing } else { Step::Malformed };
        }
        self.words.fence(Fence::Acquire);
        if found >= NUMBER_END {
            return Step::Malformed;
        }
        if found == self.wanted {
            let arrived = self.copy(found, buffer);
            self.words.fence(Fence::Acquire);
            let whole = self.words.load(self.at) == found;
            return if whole { self.pass(1, Step::Whole(arrived)) } else { self.lose(1) };
        }
        let ahead = found - self.wanted;
        // The next message wanted is the oldest that can still stand in the ring, in the slot behind this one.
        if ahead.is_multiple_of(depth) { self.lose(ahead - depth + 1) } else { Step::Malformed }
    }

    /// Copies the slot. The length is clamped before it bounds anything, and is not read twice.
    #[inline]
    fn copy(&self, sequence: u64, buffer: &mut [u8]) -> Arrived {
        let (header, length) = unpack(self.words.load(self.at + 1));
        let length = length.min(self.ring.payload_max());
        let (to, _) = buffer.as_chunks_mut::<{ WORD_BYTES as usize }>();
        let from = self.at + HEADER_WORDS;
        for (at, bytes) in (from..from + length.div_ceil(WORD_BYTES)).zip(to) {
            *bytes = self.words.load(at).to_le_bytes();
        }
        Arrived { sequence, header, length }
    }

    #[inline]
    fn lose(&mut self, count: u64) -> Step {
        self.lost = self.lost.saturating_add(count);
        self.pass(count, Step::Lost(count))
    }

    /// Moves the cursor `count` messages on, a number of whole rounds and one.
    #[inline]
    const fn pass(&mut self, count: u64, step: Step) -> Step {
        self.wanted += count;
        self.at = self.ring.behind(self.at);
        step
    }

    /// The sequence of the next message.
    #[must_use]
    pub const fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Messages that were overwritten before they were read.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Polls that met a sequence which no correct writer leaves there.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }
}

#[inline]
fn pack(header: Header, length: u32) -> u64 {
    u64::from(length) | u64::from(header.queue) << QUEUE_SHIFT | u64::from(header.epoch) << EPOCH_SHIFT
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each field is the bits that are kept")]
const fn unpack(word: u64) -> (Header, u32) {
    let header = Header { queue: (word >> QUEUE_SHIFT) as u8, epoch: (word >> EPOCH_SHIFT) as u32 };
    (header, (word & LENGTH_MASK) as u32)
}
