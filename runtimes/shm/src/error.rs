//! What the world can do to shared memory. Everything here is found before a page is mapped, so that no later access
//! can fail.

use std::io;

/// A call of the system that failed, or memory that is not as it must be. A link whose memory is refused is not
/// established; nothing else ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused a call.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Memory of no words, or of more than can be mapped.
    #[error("{words} words cannot be mapped")]
    Words {
        /// How many were wanted.
        words: u32,
    },
    /// Something that is no memory file, such as a file of a file system or a socket.
    #[error("the descriptor is no memory file")]
    NoMemory,
    /// The memory file has another size than was agreed on.
    #[error("the memory has {found} bytes, agreed were {wanted}")]
    Size {
        /// What was agreed on, in bytes.
        wanted: u64,
        /// What it has, in bytes.
        found: u64,
    },
    /// The memory file belongs to somebody else than was agreed on.
    #[error("the memory belongs to user {found}, agreed was {wanted}")]
    Owner {
        /// The user that was agreed on.
        wanted: u32,
        /// The user it belongs to.
        found: u32,
    },
    /// The memory file can still shrink or grow, so that reading it could kill the reader.
    #[error("the memory is not sealed against shrinking and growing")]
    Unsealed,
    /// Others than its owner may open the memory file for writing.
    #[error("others may open the memory: mode {mode:o}")]
    Mode {
        /// Its permissions.
        mode: u32,
    },
    /// The process on the other side runs under another user than was agreed on.
    #[error("the peer is user {found}, agreed was {wanted}")]
    Peer {
        /// The user that was agreed on.
        wanted: u32,
        /// The user it runs as.
        found: u32,
    },
    /// The other side closed the connection.
    #[error("the peer closed")]
    Closed,
    /// A message of another length than every message has.
    #[error("a message of {found} bytes, or cut short; every one has {wanted}")]
    Length {
        /// What every message has, in bytes.
        wanted: usize,
        /// What came, in bytes.
        found: usize,
    },
    /// A message of another version.
    #[error("a message of version {found}; this release speaks {wanted}")]
    Version {
        /// What is spoken here.
        wanted: u8,
        /// What came.
        found: u8,
    },
    /// A queue whose bounds no ring has, or that this side does not know.
    #[error("queue {queue} of machine {machine} is none that can be shared")]
    Queue {
        /// The machine that hears it.
        machine: u8,
        /// Its number.
        queue: u8,
    },
    /// A caller that is no peer of this node, or comes under another user than its own.
    #[error("node {node} may not call as user {uid}")]
    Stranger {
        /// Who it says it is.
        node: u32,
        /// The user it runs as.
        uid: u32,
    },
    /// A message of another kind than is due.
    #[error("another message than is due")]
    Unexpected,
    /// The memory node does not give a region: its epoch is over, too far ahead, or it was given before.
    #[error("the region is not given; the oldest epoch is {oldest}")]
    NoRegion {
        /// The oldest epoch that is served.
        oldest: u32,
    },
    /// A thread that the system refused, or that panicked.
    #[error("thread: {0}")]
    Thread(String),
    /// The journal failed: nothing leaves the node any more.
    #[error("journal: {0}")]
    Journal(String),
    /// A plan that cannot work.
    #[error("{0}")]
    Plan(&'static str),
    /// A message that no release writes.
    #[error("a malformed message")]
    Malformed,
    /// A message with another number of descriptors than its kind has.
    #[error("a message with {found} descriptors; its kind has {wanted}")]
    Descriptors {
        /// What its kind has.
        wanted: usize,
        /// What came; one more than fits stands for all beyond.
        found: usize,
    },
}

impl Error {
    /// Names the call that failed.
    pub(crate) fn of(call: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::System { call, source: errno.into() }
    }
}
