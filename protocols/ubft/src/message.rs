//! What replicas and clients say to one another.

use synod_crypto::{Claim, Hash, Keys, PublicKey, Scope, Signature};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Full, Message as Spoken, Queue, QueueSpec};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, List, wire};

use crate::batch::{Batch, INLINE_MAX, Slot};
use crate::body::CheckpointBy;
use crate::certificate::Snapshotted;
use crate::config::{Config, NUMBER_END};
use crate::epoch::{Change, Configuration};
use crate::replica::Word;
use crate::snapshot::{CHUNK_MAX, PATH_MAX, Part, SnapshotBy};

/// Batches of one piece of the log.
pub const LOG_MAX: usize = 16;
/// Longest result.
pub const REPLY_MAX: usize = 64 << 10;
/// Queues of a replica beside those of consensus: ECHO, the log and chunks, two of clients, and what concerns epochs and snapshots.
pub const OWN_QUEUES: u8 = 5;
/// The session under which sessions are opened; no client has it.
pub const SYSTEM: u64 = crate::config::NUMBER_END - 1;
/// The session under which epochs are ended; no client has it.
pub const CHANGES: u64 = crate::config::NUMBER_END - 2;

wire! {
    /// A sentence a client signs. Its epoch is 0, for it is good in all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClientStatement {
        /// This session asks this.
        0 = Asked {
            /// The session.
            session: u64,
            /// The number within it.
            id: u64,
            /// Of the operation.
            op: Hash,
        },
        /// A session is to be opened for the signer's key.
        1 = Register {
            /// Chosen by the client, for two sessions of one key.
            nonce: u64,
        },
        /// The session is on the link to this replica.
        2 = Attach {
            /// The session.
            session: u64,
            /// The replica.
            replica: u8,
            /// Larger than in any earlier one.
            sequence: u64,
        },
    }

    /// What a result is.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Replied {
        /// The result itself.
        0 = Full(Blob<REPLY_MAX>),
        /// Its digest.
        1 = Digest(Hash),
    }

    /// Opens a session, in the order of all requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Registration {
        /// Whose.
        pub key: PublicKey,
        /// See [`ClientStatement::Register`].
        pub nonce: u64,
    }

    /// Where a replica stands; every part proves itself.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Standing {
        /// The newest epoch that it knows.
        pub configuration: Configuration,
        /// The last checkpoint of the epoch before, which proves it; none in the first.
        pub start: Option<CheckpointBy>,
        /// The newest checkpoint of its epoch, if there is one.
        pub newest: Option<CheckpointBy>,
        /// The newest snapshot.
        pub snapshot: Option<SnapshotBy>,
    }

    /// Spoken between replicas, and with clients.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// Of consensus of an epoch.
        0 = Word {
            /// The epoch.
            epoch: Epoch,
            /// The word.
            word: Word,
        },
        /// A follower heard a request (paper, section 5.4).
        1 = Echo {
            /// The session.
            session: u64,
            /// The number within it.
            id: u64,
            /// Of the operation.
            op: Hash,
        },
        /// A follower passes on what a client signed.
        2 = Forward {
            /// The session.
            session: u64,
            /// The number within it.
            id: u64,
            /// The operation.
            op: Blob<INLINE_MAX>,
            /// The client's.
            signature: Box<Signature>,
        },
        /// Batches from this slot on are missing.
        3 = FetchLog {
            /// The slot.
            from: Slot,
        },
        /// Batches from this slot on; none where they are gone.
        4 = Log {
            /// The slot.
            from: Slot,
            /// The batches.
            batches: List<Batch, LOG_MAX>,
        },
        /// A client asks for a session.
        5 = Register {
            /// For this key.
            registration: Registration,
            /// The client's.
            signature: Box<Signature>,
        },
        /// A client's session is on this link.
        6 = Attach {
            /// The session.
            session: u64,
            /// Larger than in any earlier one.
            sequence: u64,
            /// The client's.
            signature: Box<Signature>,
        },
        /// A client asks.
        7 = Ask {
            /// The session.
            session: u64,
            /// The number within it.
            id: u64,
            /// The operation.
            op: Blob<INLINE_MAX>,
            /// The client's, where it was asked for.
            signature: Option<Box<Signature>>,
        },
        /// A client asks for what is executed already.
        8 = Read {
            /// Its number for it.
            id: u64,
            /// The question.
            question: Blob<INLINE_MAX>,
        },
        /// A session is open.
        9 = Registered {
            /// For this nonce.
            nonce: u64,
            /// The session; none where the table is full.
            session: Option<u64>,
        },
        /// A request was executed.
        10 = Reply {
            /// The session.
            session: u64,
            /// The number within it.
            id: u64,
            /// The result.
            result: Replied,
            /// Whether requests are better signed (4.8).
            is_slow: bool,
        },
        /// Not all replicas heard a request: its client is to sign it (D2).
        11 = NeedSigned {
            /// The session.
            session: u64,
            /// The number within it.
            id: u64,
        },
        /// What is executed already.
        12 = Answer {
            /// The client's number for it.
            id: u64,
            /// The answer; none where it was not understood.
            value: Option<Blob<REPLY_MAX>>,
        },
        /// A replica was started, or came to an epoch.
        13 = Hello {
            /// Its life.
            incarnation: u64,
            /// The epoch.
            epoch: Epoch,
        },
        /// An epoch is to end.
        14 = Change(Box<Change>),
        /// Somebody asks where the receiver stands.
        15 = FetchStanding,
        /// The answer.
        16 = Standing(Box<Standing>),
        /// The sender signs a snapshot.
        17 = CertifySnapshot {
            /// Which.
            snapshot: Snapshotted,
            /// Over it.
            signature: Box<Signature>,
        },
        /// The sender saw a memory node that came back empty.
        18 = SawBoot {
            /// Its place among memory nodes.
            memory: u8,
            /// Its boot number.
            boot: u64,
            /// Over both.
            signature: Box<Signature>,
        },
        /// A part of the snapshot of this slot is missing.
        19 = FetchChunk {
            /// The slot.
            low: Slot,
            /// The part.
            part: Part,
        },
        /// A part of a snapshot.
        20 = Chunk {
            /// Of which slot.
            low: Slot,
            /// The part.
            part: Part,
            /// Its bytes.
            bytes: Blob<CHUNK_MAX>,
            /// What proves it under its root.
            path: List<Hash, PATH_MAX>,
        },
    }
}

impl Standing {
    /// Signatures in it.
    #[must_use]
    pub fn signatures(&self) -> usize {
        let checkpoints = self.start.iter().chain(&self.newest).map(|certificate| certificate.signed.len());
        let snapshot = self.snapshot.as_ref().map_or(0, |certificate| certificate.signed.len());
        checkpoints.sum::<usize>() + snapshot
    }

    /// Whether every part is proven: the epoch by the last checkpoint of the one before, checkpoints and snapshots by f + 1 signatures of
    /// their epochs, whose keys the genesis has.
    #[must_use]
    pub fn is_proven(&self, genesis: &Config, keys: &Keys) -> bool {
        let Self { configuration, start, newest, snapshot } = self;
        let first = Configuration::genesis(genesis);
        let is_proven_start = match start {
            None => *configuration == first,
            Some(start) => {
                let subject = &start.subject;
                subject.is_last()
                    && subject.config == configuration.digest()
                    && subject.epoch.0.checked_add(1) == Some(configuration.epoch.0)
                    && subject.low.0 < NUMBER_END
            }
        };
        let is_of_epoch = newest.as_ref().is_none_or(|newest| {
            newest.subject.epoch == configuration.epoch && newest.subject.low.0 < NUMBER_END
        });
        let is_numbered = snapshot.as_ref().is_none_or(|snapshot| snapshot.subject.low.0 < NUMBER_END);
        if !is_proven_start || !is_of_epoch || !is_numbered || configuration.config(genesis).is_none() {
            return false;
        }
        let checkpoints = start.iter().chain(newest).all(|certificate| {
            let config = genesis.at(certificate.subject.epoch);
            config.is_some_and(|config| certificate.clone().verify(&config, keys).is_ok())
        });
        let is_snapshot_good = snapshot.as_ref().is_none_or(|certificate| {
            let config = genesis.at(certificate.subject.epoch);
            config.is_some_and(|config| certificate.clone().verify(&config, keys).is_ok())
        });
        checkpoints && is_snapshot_good
    }
}

impl synod_crypto::Statement for ClientStatement {
    const PROTOCOL: u8 = 2;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        match self {
            Self::Asked { .. } => 16,
            Self::Register { .. } => 17,
            Self::Attach { .. } => 18,
        }
    }
}

impl ClientStatement {
    /// What a client of this key is said to have signed, in a cluster.
    #[must_use]
    pub const fn claim(self, cluster: Hash, key: PublicKey, signature: Signature) -> Claim<Self> {
        let scope = Scope { cluster, epoch: Epoch(0) };
        Claim { statement: self, scope, signer: NodeId::GUESTS, key, signature }
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        match self {
            Self::Word { word, .. } => word.queue().under(OWN_QUEUES),
            Self::Echo { .. } | Self::Forward { .. } => Queue(0),
            Self::FetchLog { .. } | Self::Log { .. } | Self::FetchChunk { .. } | Self::Chunk { .. } => {
                Queue(1)
            }
            Self::Register { .. } | Self::Attach { .. } | Self::Ask { .. } | Self::Read { .. } => Queue(2),
            Self::Registered { .. } | Self::Reply { .. } | Self::NeedSigned { .. } | Self::Answer { .. } => {
                Queue(3)
            }
            Self::Hello { .. }
            | Self::Change(_)
            | Self::FetchStanding
            | Self::Standing(_)
            | Self::CertifySnapshot { .. }
            | Self::SawBoot { .. } => Queue(4),
        }
    }

    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Word { word, .. } => word.register(),
            _ => None,
        }
    }

    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Word { epoch: reply.place.region.epoch, word: Word::registered(reply)? })
    }
}

/// The outgoing queues of a replica, of its clients too: own ones, those of consensus, and LOCKED's.
#[must_use]
pub fn queues(config: &Config, sessions_max: u32, session_window: u32) -> Vec<QueueSpec> {
    let queue = |depth: u32, frame_max: u32| QueueSpec { depth, frame_max, full: Full::EvictOldest };
    let inline = config.parameters.request_inline_max;
    let waiting = sessions_max.saturating_mul(session_window).saturating_add(8);
    let log = config.parameters.batch_bytes_max.saturating_add(128);
    let log = log.saturating_mul(u32::try_from(LOG_MAX).unwrap_or(u32::MAX));
    let chunk = u32::try_from(CHUNK_MAX + PATH_MAX * 32 + 128).unwrap_or(u32::MAX);
    let reply = u32::try_from(REPLY_MAX).unwrap_or(u32::MAX);
    // Three certificates at most, and a number for each replica and memory node.
    let standing = config.roster.size().saturating_mul(3 * 72 + 16).saturating_add(1_024);
    let mut queues = vec![
        queue(waiting, inline.saturating_add(128)),
        queue(32, log.max(chunk)),
        // What a client sends to whoever is a window behind (`Fate::Ahead`) is twice what waits.
        queue(session_window.saturating_mul(2).saturating_add(8), inline.saturating_add(192)),
        queue(session_window.saturating_add(8), reply.saturating_add(128)),
        queue(64, standing),
    ];
    queues.extend(
        Word::queues(config).into_iter().map(|spec| QueueSpec { frame_max: spec.frame_max + 8, ..spec }),
    );
    let locked = Word::locked_queue(config.parameters.tail);
    queues.extend((0..config.roster.size()).map(|_| locked));
    queues
}
