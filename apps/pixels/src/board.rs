//! The board and the rule of painting.

use synod_crypto::Hash;
use synod_crypto::merkle::{Tree, leaf};
use synod_service::At;

/// Pixels of a side.
pub const SIDE: u32 = 2_048;
/// Pixels of a chunk of the state: 64 KiB.
const CHUNK: usize = 16_384;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Painted, though another of the batch may have painted over it.
    Painted,
    /// Bits that must be zero are not.
    Malformed,
}

impl Code {
    /// The byte that results keep.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Painted => 0,
            Self::Malformed => 1,
        }
    }
}

/// The operation that paints (x, y); `None` beside the board or with more than 24 bits of colour.
#[must_use]
pub const fn operation(x: u32, y: u32, colour: u32) -> Option<u64> {
    if x >= SIDE || y >= SIDE || colour >> 24 != 0 {
        return None;
    }
    Some(x as u64 | (y as u64) << 11 | (colour as u64) << 22)
}

/// The board, black at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    pixels: Vec<u32>,
}

impl Default for Board {
    fn default() -> Self {
        Self { pixels: vec![0; (SIDE * SIDE) as usize] }
    }
}

impl Board {
    /// The colour of (x, y); `None` beside the board.
    #[must_use]
    pub fn colour(&self, x: u32, y: u32) -> Option<u32> {
        if x >= SIDE || y >= SIDE {
            return None;
        }
        self.pixels.get((y * SIDE + x) as usize).copied()
    }

    /// Executes one batch of operations, each with its sender; a code for each, in order.
    pub fn execute(&mut self, at: &At, batch: impl IntoIterator<Item = (u32, u64)>) -> Vec<Code> {
        let mut strokes = Vec::new();
        let mut codes = Vec::new();
        for (sender, operation) in batch {
            if operation >> 46 != 0 {
                codes.push(Code::Malformed);
                continue;
            }
            // x and y side by side are the index of the pixel.
            let place = usize::try_from(operation & 0x3f_ffff).unwrap_or(usize::MAX);
            let colour = u32::try_from(operation >> 22).unwrap_or(0);
            strokes.push((place, at.rank(sender), colour));
            codes.push(Code::Painted);
        }
        strokes.sort_unstable();
        for (place, _, colour) in strokes {
            if let Some(pixel) = self.pixels.get_mut(place) {
                *pixel = colour;
            }
        }
        codes
    }

    /// Digest of the whole state: the Merkle root over the number of pixels and chunks of 64 KiB.
    #[must_use]
    pub fn root(&self) -> Hash {
        let header = leaf(&(self.pixels.len() as u64).to_le_bytes());
        let chunk = |pixels: &[u32]| {
            let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
            leaf(&bytes)
        };
        Tree::new(core::iter::once(header).chain(self.pixels.chunks(CHUNK).map(chunk)).collect()).root()
    }

    /// Bytes the state holds.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        4 * SIDE as u64 * SIDE as u64
    }
}
