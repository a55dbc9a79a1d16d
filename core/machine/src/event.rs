//! What can happen to a machine.

use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::{Job, Machine};

/// The answer of a machine's jobs.
pub type DoneOf<M> = <<M as Machine>::Job as Job>::Done;

/// One thing that happened; machines see them one at a time.
pub enum Event<M: Machine> {
    /// The first event, also after recovery.
    Start,
    /// The local user asks.
    Input(M::Input),
    /// A peer speaks; `from` is authenticated by the transport.
    Message {
        /// Who sent it.
        from: NodeId,
        /// What it says, decoded under limits.
        message: M::Message,
    },
    /// A timer is due.
    Timer(M::Timer),
    /// A job ended. The handler screens again, as if the message had just arrived.
    Done(DoneOf<M>),
    /// A blob was read; the runtime checked its hash. One nobody waits for is harmless.
    Loaded {
        /// The blob's name.
        name: Hash,
        /// Its bytes, or `None` if it is missing or damaged.
        bytes: Option<Bytes>,
    },
    /// A connection changed; a hint, never needed for safety.
    Link {
        /// The peer at the other end.
        peer: NodeId,
        /// What became of it.
        link: Link,
    },
}

/// The state of a connection to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Usable from now on.
    Up,
    /// Broken; a suffix of what was sent is lost.
    Down,
}
