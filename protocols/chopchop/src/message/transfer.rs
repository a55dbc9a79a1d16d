//! Messages by which a server takes its state from others.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_wire::{Blob, wire};

use crate::server::Mark;

/// Longest chunk of a state.
pub const CHUNK_MAX: usize = 64 << 10;

wire! {
    /// Server->Server: parts of a state whose root is certified.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum TransferMessage {
        /// Which chunks are the state at this position?
        0 = Wanted(Position),
        /// These.
        1 = Names(Mark),
        /// Send this chunk.
        2 = ChunkWanted(Hash),
        /// Here it is.
        3 = Chunk(Blob<CHUNK_MAX>),
        /// Which chunks are your newest certified state at or below this position? Answered by `Names`.
        4 = NewestWanted(Position),
    }
}

impl TransferMessage {
    /// Whether it may be long.
    #[must_use]
    pub const fn is_bulk(&self) -> bool {
        match self {
            Self::Names(_) | Self::Chunk(_) => true,
            Self::Wanted(_) | Self::ChunkWanted(_) | Self::NewestWanted(_) => false,
        }
    }
}
