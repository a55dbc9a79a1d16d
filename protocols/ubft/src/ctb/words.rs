//! What is asked of Consistent Tail Broadcast, said in it, and told by it.

use synod_crypto::{Hash, Signature};
use synod_machine::register::{Place, RegisterOp, RegisterReply};
use synod_machine::{Message as Spoken, Queue};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, wire};

use crate::config::BODY_MAX;
use crate::registers::{MemoryWords, Repeat};
use crate::statement::Statement;

/// SIGNED carries a body up to this length.
pub const SIGNED_BODY_MAX: usize = 1_024;
/// LOCKED carries a body up to this length at most.
pub const RAW_MAX: usize = 512;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Broadcasts the next message (Alg. 1, line 2); of the broadcaster alone.
    Broadcast {
        /// The message, [`crate::Config::body_max`] bytes at most.
        body: Bytes,
        /// Whether it is signed at once, and not only when somebody misses it.
        signed: bool,
    },
    /// A summary of the own messages up to `k` is certified: the next t may be sent.
    Summarized(u64),
    /// Whether every message is signed at once.
    Slow(bool),
    /// Message `k` is signed, for somebody may miss it.
    Show(u64),
    /// A body that was missing.
    Found(Bytes),
    /// Message `k` came from its broadcaster, and something is promised with what is locked of it (4.18); of a receiver that may
    /// ([`crate::CtBroadcast::may_promise`]).
    Promise {
        /// The number.
        k: u64,
        /// The message.
        body: Bytes,
    },
    /// A summary has the places of messages up to `k`: locks of those of which something is promised may move on.
    Covered(u64),
    /// Nothing is owed for the promise about message `k` any more.
    Settled(u64),
    /// A replica came to the epoch, and may have missed what was said before: it is said to it again.
    Greet(NodeId),
    /// Memory nodes are asked for something, so that they know that this replica is in the epoch; of a receiver.
    Touch,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Message `k` is this one: no correct replica delivers another (4.1).
    Delivered {
        /// The number, from 1; messages come in any order.
        k: u64,
        /// The message.
        body: Bytes,
    },
    /// A receiver promised something about message `k`, which is delivered here (4.18).
    Promised {
        /// The number.
        k: u64,
        /// The receiver.
        by: NodeId,
    },
    /// The message is longer than may be, and was not sent.
    Refused(Bytes),
    /// The body of a signed message is nowhere here, and whoever has it is to be asked.
    Missing {
        /// The number.
        k: u64,
        /// Of the body.
        digest: Hash,
    },
    /// The broadcaster signed two messages for one number. Nothing more of it is delivered in this epoch.
    Equivocated(TwoMessages),
    /// The epoch is over at the memory nodes: a correct replica has its end certified.
    Retired {
        /// The oldest epoch that they serve.
        oldest: Epoch,
    },
    /// A memory node came back empty.
    Reborn {
        /// Its place among memory nodes.
        memory: u8,
        /// Its boot number.
        boot: u64,
    },
}

wire! {
    /// What a receiver says it locked.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Told {
        /// The whole body, where it is short.
        0 = Raw(Blob<RAW_MAX>),
        /// Its digest.
        1 = Digest(Hash),
    }

    /// Two messages of one number, by signatures that anybody can check.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TwoMessages {
        /// The first, as it was found.
        pub one: Statement,
        /// Over it.
        pub first: Signature,
        /// The other.
        pub other: Statement,
        /// Over it.
        pub second: Signature,
    }

    /// Spoken between replicas, and with memory nodes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// The broadcaster's message `k` (Alg. 1, line 3).
        0 = Lock {
            /// The number.
            k: u64,
            /// The message.
            body: Blob<BODY_MAX>,
        },
        /// The same, signed (Alg. 1, line 4).
        1 = Signed {
            /// Whose message.
            broadcaster: u8,
            /// The number.
            k: u64,
            /// Of the body.
            digest: Hash,
            /// Over number and digest.
            signature: Box<Signature>,
            /// The message, where it is short.
            body: Option<Blob<SIGNED_BODY_MAX>>,
        },
        /// A receiver locked message `k` (Alg. 1, line 16).
        2 = Locked {
            /// Whose message.
            broadcaster: u8,
            /// The number.
            k: u64,
            /// What it locked.
            told: Told,
            /// Whether it promises to certify what is proposed in it, once it is delivered (4.18).
            promise: bool,
        },
        /// Message `k` is overdue: its broadcaster is to sign it.
        3 = Nack {
            /// The number.
            k: u64,
        },
        /// Between a receiver and memory nodes.
        4 = Memory(Box<MemoryWords>),
    }
}

impl Message {
    /// Queues of one broadcast: LOCK, SIGNED, LOCKED, NACK, memory.
    pub const QUEUES: u8 = 5;

    /// The answer of a memory node that it is, if it is one.
    #[must_use]
    pub fn reply(&self) -> Option<&RegisterReply> {
        match self {
            Self::Memory(words) => match &**words {
                MemoryWords::Reply(reply) => Some(reply),
                _ => None,
            },
            Self::Lock { .. } | Self::Signed { .. } | Self::Locked { .. } | Self::Nack { .. } => None,
        }
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        Queue(match self {
            Self::Lock { .. } => 0,
            Self::Signed { .. } => 1,
            Self::Locked { .. } => 2,
            Self::Nack { .. } => 3,
            Self::Memory(_) => 4,
        })
    }

    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Memory(words) => words.register(),
            Self::Lock { .. } | Self::Signed { .. } | Self::Locked { .. } | Self::Nack { .. } => None,
        }
    }

    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Memory(Box::new(MemoryWords::registered(reply)?)))
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Messages that were heard of and not delivered are overdue.
    Nack,
    /// See [`Repeat`].
    Registers(Repeat),
}

/// The broadcaster whose messages a register is for: regions have t registers for each replica but their owner, in order.
#[must_use]
pub fn broadcaster_of(place: Place, tail: u32) -> Option<NodeId> {
    let rank = place.index.checked_div(tail)?;
    let owner = u32::from(place.region.owner);
    Some(NodeId(if rank < owner { rank } else { rank.checked_add(1)? }))
}

/// The place among the registers of `owner` of what `broadcaster` says at `index` of the tail.
#[must_use]
pub fn register_of(owner: NodeId, broadcaster: NodeId, index: usize, tail: u32) -> Option<u32> {
    let rank = if broadcaster.0 < owner.0 { broadcaster.0 } else { broadcaster.0.checked_sub(1)? };
    rank.checked_mul(tail)?.checked_add(u32::try_from(index).ok()?)
}
