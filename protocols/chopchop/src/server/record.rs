//! What a server must remember through a crash.

use synod_crypto::Hash;
use synod_machine::Record;
use synod_machine::broadcast::Position;
use synod_wire::{Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer, wire};

use crate::Domains;
use crate::dedup::CHUNK_SLOTS;
use crate::directory::CHUNK_MEMBERS;
use crate::tree;

/// Most chunks of one part of a state: 2^32 clients by chunks of 4,096.
pub(super) const CHUNKS_MAX: usize = 1 << 20;
/// Digests in a chunk of the recent ring: 64 KiB.
pub(super) const RECENT_CHUNK: usize = 2_048;

wire! {
    /// A durable checkpoint: which blobs are the state at a position. Its blobs stand before it in the lane.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Mark {
        /// The position.
        pub position: Position,
        /// Batches accepted and delivered there, genesis included.
        pub height: u64,
        /// Length of the directory.
        pub length: u32,
        /// Number of recent digests.
        pub recent: u32,
        /// Root of the application there.
        pub app: Hash,
        /// Names of the chunks: deduplication, directory, recent digests.
        pub dedup: List<Hash, CHUNKS_MAX>,
        /// Of the directory.
        pub directory: List<Hash, CHUNKS_MAX>,
        /// Of the recent digests.
        pub ring: List<Hash, CHUNKS_MAX>,
    }
}

impl Mark {
    /// The names of all blobs, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = Hash> + '_ {
        self.dedup.iter().chain(self.directory.iter()).chain(self.ring.iter()).copied()
    }

    /// Number of blobs.
    pub(super) fn chunks(&self) -> usize {
        self.dedup.len() + self.directory.len() + self.ring.len()
    }

    /// Whether there are as many names of each kind as its numbers need. The root is over all names in a row, so only this
    /// tells where one list ends, and that no name is an inner node of the tree.
    pub(super) fn is_whole(&self, horizon: u64) -> bool {
        let chunks = |count: u32, each: usize| (count as usize).div_ceil(each);
        self.dedup.len() == chunks(self.length, CHUNK_SLOTS)
            && self.directory.len() == chunks(self.length, CHUNK_MEMBERS)
            && self.ring.len() == chunks(self.recent, RECENT_CHUNK)
            && u64::from(self.recent) == self.height.saturating_sub(1).min(horizon)
    }

    /// What the ordering layer certifies: H_state over the root of the server's chunks and the application's.
    #[must_use]
    pub fn root(&self, domains: &Domains) -> Hash {
        let mut meta = Vec::with_capacity(16);
        meta.extend_from_slice(&self.height.to_le_bytes());
        meta.extend_from_slice(&self.length.to_le_bytes());
        meta.extend_from_slice(&self.recent.to_le_bytes());
        let first = domains.state.hash(&meta);
        let level = core::iter::once(first).chain(self.names()).flat_map(|name| name.0).collect();
        let chunks = tree::root(&domains.state, level);
        domains.state.hash_parts(&[&chunks.0, &self.app.0])
    }
}

/// A promise of a server, or of the ordering layer under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRecord<R> {
    /// A durable checkpoint.
    Mark(Mark),
    /// Of the ordering layer.
    Order(R),
    /// A state that is fetched from others. It stands before the chunks of it that are stored, so that those are found again
    /// which a crash left without a checkpoint.
    Taking(Mark),
    /// The checkpoint at this position is certified.
    Certified(Position),
}

impl<R: Wire> Wire for ServerRecord<R> {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Mark(mark) => {
                out.byte(0);
                mark.write(out);
            }
            Self::Order(record) => {
                out.byte(1);
                record.write(out);
            }
            Self::Taking(mark) => {
                out.byte(2);
                mark.write(out);
            }
            Self::Certified(position) => {
                out.byte(3);
                position.write(out);
            }
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::UnknownTag(0));
        match <u8 as Wire>::read(input)? {
            0 => Mark::read(input).map(Self::Mark),
            1 => R::read(input).map(Self::Order),
            2 => Mark::read(input).map(Self::Taking),
            3 => Position::read(input).map(Self::Certified),
            tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        }
    }

    fn size_hint(&self) -> usize {
        1 + match self {
            Self::Mark(mark) | Self::Taking(mark) => mark.size_hint(),
            Self::Order(record) => record.size_hint(),
            Self::Certified(position) => position.size_hint(),
        }
    }
}

impl<R: Draw> Draw for ServerRecord<R> {
    fn draw(from: &mut Drawn) -> Self {
        match from.below(4) {
            0 => Self::Mark(Draw::draw(from)),
            1 => Self::Order(Draw::draw(from)),
            2 => Self::Taking(Draw::draw(from)),
            _ => Self::Certified(Draw::draw(from)),
        }
    }
}

impl<R: Record> Record for ServerRecord<R> {
    fn keep(&self) -> synod_machine::Keep {
        match self {
            Self::Mark(_) | Self::Taking(_) | Self::Certified(_) => synod_machine::Keep::Log,
            Self::Order(record) => record.keep(),
        }
    }
}
