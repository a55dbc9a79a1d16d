//! A pipe with acknowledgements: one writer, one reader, nothing lost and nothing overwritten.
//!
//! *What it gives.* What a [`ring`](crate::ring) cannot: a full pipe refuses, so its writer knows what was not sent. A
//! queue whose overflow has to break a link, or that drops what is newest, stands over one. Frames longer than the pipe
//! go in pieces. Against a faulty writer: a constant number of steps a piece, no piece longer than is there, no panic.
//! Against a faulty reader: the writer overwrites what that reader has not read, which is that reader's own loss.
//!
//! *Layout.* Counts of words only rise; data word n stands at `DATA + n mod capacity`.
//!
//! | word | holds |
//! |---|---|
//! | 0 | words written so far |
//! | [`DATA`] .. | pieces: a header word, then the bytes, little endian, the last word filled with zeros |
//!
//! A header has the length in bytes (bits 0 to 23), whether more of the frame follows (24), and an epoch (32 to 63).
//! The reader's count of words that it has read is the acknowledgement; it stands in memory of the reader, and
//! whoever holds both sides carries it.
//!
//! *Why it holds.* The writer fences between the data and its count, the reader between the count and the data, the
//! reader again between the data and its acknowledgement, and the writer between that and the data that takes its
//! place.

use crate::words::{Fence, Words};

/// The first word of data: the count has a cache line of its own.
pub const DATA: u32 = 8;
/// Longest piece, in bytes.
pub const PIECE_MAX: u32 = (1 << 24) - 1;
/// Fewest words of data.
pub const CAPACITY_MIN: u32 = 8;
/// Most words of data.
pub const CAPACITY_MAX: u32 = 1 << 24;

const MORE_BIT: u32 = 24;
const EPOCH_SHIFT: u32 = 32;
const WORD_BYTES: u32 = 8;

/// The measures of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipe {
    capacity: u32,
}

impl Pipe {
    /// A pipe for `capacity` words of data; `None` below [`CAPACITY_MIN`] and above [`CAPACITY_MAX`].
    #[must_use]
    pub const fn new(capacity: u32) -> Option<Self> {
        if capacity < CAPACITY_MIN || capacity > CAPACITY_MAX { None } else { Some(Self { capacity }) }
    }

    /// Words of shared memory.
    #[must_use]
    pub const fn words(self) -> u32 {
        DATA + self.capacity
    }

    const fn place(self, count: u64) -> u32 {
        // Below the capacity, which is a u32.
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of a u32")]
        let at = (count % self.capacity as u64) as u32;
        DATA + at
    }

    const fn behind(self, at: u32) -> u32 {
        if at + 1 == self.words() { DATA } else { at + 1 }
    }
}

/// What came of a piece that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// All of the rest of the frame is written.
    Whole,
    /// So many bytes are; the rest is for later.
    Part(usize),
    /// There is no room.
    Full,
}

/// The writing side.
#[derive(Debug)]
pub struct Writer<W> {
    words: W,
    pipe: Pipe,
    written: u64,
    acknowledged: u64,
}

impl<W: Words> Writer<W> {
    /// The writer of a pipe whose words are all zero.
    #[must_use]
    pub const fn new(pipe: Pipe, words: W) -> Self {
        Self { words, pipe, written: 0, acknowledged: 0 }
    }

    /// Takes the reader's acknowledgement as it stands now. One that goes back, or beyond what was written, is ignored.
    #[inline]
    pub fn acknowledge(&mut self, count: u64) {
        if count > self.acknowledged && count <= self.written {
            self.words.fence(Fence::Acquire);
            self.acknowledged = count;
        }
    }

    /// Words that are free.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.pipe.capacity as u64 - (self.written - self.acknowledged)
    }

    /// Whether everything that was written is read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.written == self.acknowledged
    }

    /// Writes as much of the rest of a frame as there is room for. A frame of no bytes is one piece of no bytes.
    pub fn put(&mut self, epoch: u32, rest: &[u8]) -> Put {
        let free = self.free();
        let room = free.saturating_sub(1).saturating_mul(u64::from(WORD_BYTES)).min(u64::from(PIECE_MAX));
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if free == 0 || (room == 0 && !rest.is_empty()) {
            return Put::Full;
        }
        let piece = rest.get(..room).unwrap_or(rest);
        let more = piece.len() < rest.len();
        self.write(epoch, piece, more);
        if more { Put::Part(piece.len()) } else { Put::Whole }
    }

    fn write(&mut self, epoch: u32, piece: &[u8], more: bool) {
        let mut at = self.pipe.place(self.written);
        let header = piece.len() as u64 | u64::from(more) << MORE_BIT | u64::from(epoch) << EPOCH_SHIFT;
        self.words.store(at, header);
        let (whole, rest) = piece.as_chunks::<{ WORD_BYTES as usize }>();
        for bytes in whole {
            at = self.pipe.behind(at);
            self.words.store(at, u64::from_le_bytes(*bytes));
        }
        if !rest.is_empty() {
            at = self.pipe.behind(at);
            let last = rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
            self.words.store(at, last);
        }
        self.written += 1 + (piece.len() as u64).div_ceil(u64::from(WORD_BYTES));
        self.words.fence(Fence::Release);
        self.words.store(0, self.written);
    }
}

/// A piece that lies in the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes.
    pub length: u32,
    /// Whether more of its frame follows.
    pub more: bool,
    /// The epoch it was written in.
    pub epoch: u32,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Empty,
    /// A piece, to be taken.
    Piece(Piece),
    /// A count or a header that no correct writer leaves. It stands for ever.
    Malformed,
}

/// The reading side.
#[derive(Debug)]
pub struct Reader<W> {
    words: W,
    pipe: Pipe,
    read: u64,
    /// What was found by the last look, so that no word is judged twice.
    found: Option<Piece>,
}

impl<W: Words> Reader<W> {
    /// The reader of a pipe from its first word on.
    #[must_use]
    pub const fn new(pipe: Pipe, words: W) -> Self {
        Self { words, pipe, read: 0, found: None }
    }

    /// Looks for the next piece; the same one until it is taken.
    #[inline]
    pub fn look(&mut self) -> Next {
        if let Some(piece) = self.found {
            return Next::Piece(piece);
        }
        let written = self.words.load(0);
        if written == self.read {
            return Next::Empty;
        }
        let there = written.wrapping_sub(self.read);
        if there > u64::from(self.pipe.capacity) {
            return Next::Malformed;
        }
        self.words.fence(Fence::Acquire);
        let header = self.words.load(self.pipe.place(self.read));
        #[expect(clippy::cast_possible_truncation, reason = "each field is the bits that are kept")]
        let piece = Piece {
            length: header as u32 & PIECE_MAX,
            more: header >> MORE_BIT & 1 == 1,
            epoch: (header >> EPOCH_SHIFT) as u32,
        };
        if words_of(piece) > there {
            return Next::Malformed;
        }
        self.found = Some(piece);
        Next::Piece(piece)
    }

    /// Takes the piece that was looked at; `put` gets its bytes, 8 at a time. Does nothing when there is none.
    pub fn take(&mut self, mut put: impl FnMut(&[u8])) {
        let Some(piece) = self.found.take() else { return };
        let mut at = self.pipe.place(self.read);
        let mut left = piece.length;
        while left > 0 {
            at = self.pipe.behind(at);
            let bytes = self.words.load(at).to_le_bytes();
            let count = left.min(WORD_BYTES);
            put(bytes.get(..count as usize).unwrap_or(&bytes));
            left -= count;
        }
        self.read += words_of(piece);
    }

    /// The acknowledgement: words read so far. The fence that must stand before it is stored is in here.
    #[must_use]
    pub fn acknowledgement(&self) -> u64 {
        self.words.fence(Fence::Release);
        self.read
    }
}

fn words_of(piece: Piece) -> u64 {
    1 + u64::from(piece.length.div_ceil(WORD_BYTES))
}
