//! What is asked of consensus, said in it, and told by it (specification, section 3.4).

use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Full, Message as Spoken, Queue, QueueSpec, Time, Wall};
use synod_quorum::NodeId;
use synod_wire::{Blob, List, wire};

use crate::batch::{Batch, REQUESTS_MAX, Request, Slot, View};
use crate::body::CheckpointBy;
use crate::certificate::{Certificate, Checkpoint, Left, Summarized};
use crate::config::Config;
use crate::ctb;
use crate::stream::State;

/// Bytes of one piece of content.
pub const PIECE_MAX: usize = 64 << 10;

wire! {
    /// What a replica misses. Answers are recognised by what they are, and proven by digest or signature.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Want {
        /// Message `k` of a broadcaster.
        0 = Message {
            /// The broadcaster.
            broadcaster: u8,
            /// The number.
            k: u64,
        },
        /// Batch or body of this digest, from a byte on.
        1 = Content {
            /// The digest.
            digest: Hash,
            /// The byte.
            at: u32,
        },
        /// The promised signature of a proposal (4.13).
        2 = Share {
            /// The view.
            view: View,
            /// The slot.
            slot: Slot,
        },
        /// The newest certified checkpoint.
        3 = Checkpoint,
        /// The newest summary of a broadcaster.
        4 = Summary {
            /// The broadcaster.
            about: u8,
        },
        /// Where a replica stood when it left for a view.
        5 = Left {
            /// The view.
            view: View,
            /// The replica.
            about: u8,
        },
    }

    /// A state of a stream that f + 1 replicas signed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Summary {
        /// Who signed it.
        pub certificate: Certificate<Summarized>,
        /// The state.
        pub state: State,
    }

    /// Spoken between replicas of one epoch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Word {
        /// Of Consistent Tail Broadcast.
        0 = Ctb {
            /// Whose messages.
            broadcaster: u8,
            /// The word.
            word: ctb::Message,
        },
        /// The sender certifies what is proposed before it leaves the view (5.4).
        1 = WillCertify {
            /// The view.
            view: View,
            /// The slot.
            slot: Slot,
            /// Eight bytes of the digest, for diagnostics (E10).
            tag: u64,
        },
        /// The sender commits to it before it leaves the view.
        2 = WillCommit {
            /// The view.
            view: View,
            /// The slot.
            slot: Slot,
            /// Eight bytes of the digest.
            tag: u64,
        },
        /// The sender signs the proposal (Alg. 2, line 22).
        3 = Certify {
            /// The view.
            view: View,
            /// The slot.
            slot: Slot,
            /// Of the batch.
            digest: Hash,
            /// Over it.
            signature: Box<Signature>,
        },
        /// The sender signs a checkpoint (Alg. 2, line 47).
        4 = CertifyCheckpoint {
            /// The checkpoint.
            checkpoint: Box<Checkpoint>,
            /// Over it.
            signature: Box<Signature>,
        },
        /// The sender signs a state of a stream (Alg. 4, line 2).
        5 = CertifySummary {
            /// Broadcaster, number and state.
            summarized: Summarized,
            /// Over it.
            signature: Box<Signature>,
        },
        /// The sender signs where a replica stood (Alg. 3, line 11).
        6 = CertifyLeft {
            /// The view that it went to.
            view: View,
            /// The replica.
            about: u8,
            /// The first slot that its checkpoint does not have.
            low: Slot,
            /// Of its checkpoint.
            checkpoint: Hash,
            /// Of what it is committed to.
            commits: Hash,
            /// Over it.
            signature: Box<Signature>,
        },
        /// The newest summary of a broadcaster (Alg. 4, line 9).
        7 = Summary(Box<Summary>),
        /// A slot is slow in a view: whoever may sign does so early, and nothing else (4.10).
        8 = Hint {
            /// The view.
            view: View,
            /// The slot.
            slot: Slot,
        },
        /// Something is missed.
        9 = Fetch(Want),
        /// A piece of a batch or a body.
        10 = Content {
            /// Of all of it.
            digest: Hash,
            /// Where the piece begins.
            at: u32,
            /// Bytes of all of it.
            total: u32,
            /// The piece.
            bytes: Blob<PIECE_MAX>,
        },
        /// A certified checkpoint.
        11 = Checkpoint(Box<CheckpointBy>),
        /// Where a replica stood when it left for a view.
        12 = Left(Box<Left>),
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// Of one broadcaster.
    Ctb(u8, ctb::Timer),
    /// The oldest slot that is not decided is slow.
    Fast,
    /// What is missing of a stream is asked for.
    Gap,
    /// The leader is suspected.
    Suspect,
    /// Own shares are said again.
    Reshare,
    /// What is missed is asked of the next one.
    Fetch,
}

/// What is asked of consensus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Proposes a batch, as far as this replica may: see [`super::Consensus::may_propose`].
    Propose {
        /// The time, by the own clock.
        time: Wall,
        /// The requests.
        requests: List<Request, REQUESTS_MAX>,
    },
    /// This replica vouches for a proposal: answers [`Told::Judge`].
    Endorse {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Of the batch.
        digest: Hash,
    },
    /// All slots below were executed, with this result.
    Executed(Box<Checkpoint>),
    /// Everything below a slot is executed by other means: go on from there.
    Resume(Slot),
    /// The user's state is the one behind this slot, which may lie before what was handed over.
    Goto(Slot),
    /// A checkpoint of this epoch whose certificate was checked.
    Adopt(Box<CheckpointBy>),
    /// What was executed ends the epoch at this slot.
    Ending(Slot),
    /// A replica came to the epoch, and may have missed what was said before.
    Greet(NodeId),
    /// Since when what a client signed waits for its decision.
    Pressing(Option<Time>),
    /// Ends the fast path (a lab's switch): every slot is signed.
    SlowOnly,
}

/// What consensus tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// May this replica vouch for a proposal?
    Judge {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Of the batch.
        digest: Hash,
        /// The batch.
        batch: Arc<Batch>,
    },
    /// The next slot is decided; slots come in order.
    Decided {
        /// The slot.
        slot: Slot,
        /// Of the batch.
        digest: Hash,
        /// The batch.
        batch: Arc<Batch>,
        /// Whether f + 1 certificates decided it, and not the promises of all.
        is_slow: bool,
    },
    /// A checkpoint is certified, and newer than all before.
    Certified(Box<CheckpointBy>),
    /// Slots from here on are decided and checkpointed, and not known here: their batches are to be fetched.
    Behind {
        /// The first that is missing.
        from: Slot,
        /// The first that is not.
        to: Slot,
    },
    /// This replica is in another view.
    View(View),
    /// Whether slots are signed at once (4.10).
    Slow(bool),
    /// Two batches are decided for one slot: more replicas lie than may.
    Broken(Slot),
    /// The epoch is over at the memory nodes.
    Retired,
    /// A memory node came back empty.
    Reborn {
        /// Its place among memory nodes.
        memory: u8,
        /// Its boot number.
        boot: u64,
    },
}

/// Queues of consensus before those of LOCKED, which are one for each broadcaster.
pub const WORD_QUEUES: u8 = 13;

impl Spoken for Word {
    fn queue(&self) -> Queue {
        Queue(match self {
            Self::Ctb { broadcaster, word: ctb::Message::Locked { .. } } => {
                WORD_QUEUES.saturating_add(*broadcaster)
            }
            Self::Ctb { word, .. } => match word {
                ctb::Message::Lock { .. } => 0,
                ctb::Message::Signed { .. } => 1,
                ctb::Message::Nack { .. } | ctb::Message::Locked { .. } => 2,
                ctb::Message::Memory(_) => 3,
            },
            Self::Hint { .. } => 2,
            Self::WillCertify { .. } => 4,
            Self::WillCommit { .. } => 5,
            Self::Certify { .. } => 6,
            Self::CertifyCheckpoint { .. } => 7,
            Self::CertifySummary { .. } => 8,
            Self::CertifyLeft { .. } => 9,
            Self::Summary(_) => 10,
            Self::Fetch(_) => 11,
            Self::Content { .. } | Self::Checkpoint(_) | Self::Left(_) => 12,
        })
    }

    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Ctb { word, .. } => word.register(),
            _ => None,
        }
    }

    /// The answer names its register, and that the broadcast which asked.
    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Ctb { broadcaster: u8::MAX, word: ctb::Message::registered(reply)? })
    }
}

impl Word {
    /// The outgoing queues of a configuration, without LOCKED's.
    #[must_use]
    pub fn queues(config: &Config) -> Vec<QueueSpec> {
        let (tail, window) = (config.parameters.tail, config.parameters.window);
        let body = u32::try_from(config.body_max()).unwrap_or(u32::MAX);
        let queue = |depth: u32, frame_max: u32| QueueSpec { depth, frame_max, full: Full::EvictOldest };
        let piece = u32::try_from(PIECE_MAX).unwrap_or(u32::MAX);
        let state = window.saturating_mul(160).saturating_add(16 << 10);
        vec![
            queue(tail + 8, body.saturating_add(64)),
            queue(tail + 8, 1_216),
            queue(tail.max(64), 64),
            queue(64, 192),
            queue(window + 8, 64),
            queue(window + 8, 64),
            queue(2 * window, 192),
            queue(12, 512),
            queue(12, 256),
            queue(12, 320),
            queue(12, state),
            queue(64, 128),
            queue(16, piece.saturating_add(128).max(window.saturating_mul(56))),
        ]
    }

    /// The queue of what is locked of one broadcaster's messages.
    #[must_use]
    pub const fn locked_queue(tail: u32) -> QueueSpec {
        QueueSpec { depth: tail + 8, frame_max: 576, full: Full::EvictOldest }
    }
}

/// Which replica a byte names.
pub(super) fn node(member: u8) -> NodeId {
    NodeId(u32::from(member))
}
