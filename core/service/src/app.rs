//! Applications: deterministic, total, and verifiable by the digest of their state.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Unrecoverable, Wall};
use synod_wire::Bytes;

/// Largest chunk of a snapshot, in bytes.
pub const CHUNK_MAX: usize = 64 << 10;

/// Where in the agreed order requests are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Position of the entry.
    pub position: Position,
    /// Agreed time: the only clock an application sees.
    pub time: Wall,
    /// Hash of the ordering entry: the only source of tie-breaks and choices.
    pub draw: Hash,
}

impl At {
    /// The rank of client `id` in this entry: where the order inside an entry matters, it is ascending by rank, so that
    /// no client is ahead of another by its number. A bijection of `id`, unknown to whoever made the entry.
    #[must_use]
    pub fn rank(&self, id: u32) -> u64 {
        let mut rank = self.draw.short() ^ u64::from(id);
        rank = (rank ^ (rank >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        rank = (rank ^ (rank >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        rank ^ (rank >> 31)
    }
}

/// One request of one session.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The session that asks.
    pub session: u64,
    /// Its sequence number there.
    pub sequence: u64,
    /// The application's own encoding of what is asked.
    pub body: &'a [u8],
}

/// The replies of one call of [`App::execute`], one per request, in order.
#[derive(Debug, Default)]
pub struct Replies {
    replies: Vec<Bytes>,
}

impl Replies {
    /// Appends the reply to the next request.
    pub fn push(&mut self, reply: Bytes) {
        self.replies.push(reply);
    }

    /// Takes the replies out, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Bytes> {
        self.replies.drain(..)
    }

    /// Number of replies.
    #[must_use]
    pub fn count(&self) -> usize {
        self.replies.len()
    }
}

/// A replicated application. Deterministic and total: equal requests in equal order give equal replies and equal
/// state, and a bad request yields an error reply and changes nothing.
pub trait App: Send {
    /// Executes requests in order; pushes exactly one reply for each.
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies);

    /// Answers a read from the present state; `None` when the question is not understood.
    fn query(&self, question: &[u8]) -> Option<Bytes>;

    /// Digest of the whole state: the Merkle root (`synod_crypto::merkle`) over its chunks.
    fn root(&mut self) -> Hash;

    /// Number of chunks of the present state.
    fn chunks(&self) -> u32;

    /// The chunk `index`, canonical, at most [`CHUNK_MAX`] bytes; empty beyond the last.
    fn chunk(&self, index: u32) -> Bytes;

    /// Takes over one chunk of a verified snapshot; chunk 0 first, which clears the state.
    ///
    /// # Errors
    /// [`Unrecoverable`] when the chunk is not one of this application.
    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable>;

    /// Bytes the state holds.
    fn bytes(&self) -> u64;

    /// Asserts what must hold between executions.
    fn invariants(&self) {}
}
