//! What a client is built from, what it is asked, and what it tells.

use synod_crypto::{Hash, PublicKey, Scope};
use synod_machine::Span;
use synod_machine::broadcast::Position;
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_tail::BitWindow;
use synod_wire::Bytes;

use crate::executor::ClientAuth;
use crate::matching::Trust;
use crate::message::{BODY_MAX, ReadMode, Refused};

/// To whom a client sends an item first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// To one node; to all when no answer is accepted in time.
    One,
    /// To all at once.
    All,
}

/// What a client is built from. The host draws `nonce` from the system's randomness at each start, so that a
/// restarted client opens a new session.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Whom it believes.
    pub trust: Trust,
    /// The cluster.
    pub cluster: Hash,
    /// The key that the jobs sign with.
    pub key: PublicKey,
    /// Tells this run's session from those of other runs.
    pub nonce: u64,
    /// The session that this key and nonce opened in an earlier run, whose requests are asked for again. Its numbers
    /// are given out from the first on once more, so the same commands must be submitted in the same order. If the
    /// cluster has closed it, nothing is sent, and every outcome is unknown.
    pub resume: Option<u64>,
    /// The first number that is given out. Above 1 in a session whose smaller numbers an earlier run gave out: they are
    /// not asked for again, and count as acknowledged.
    pub first: u64,
    /// Whether items are signed.
    pub auth: ClientAuth,
    /// To whom it sends first.
    pub send: SendMode,
    /// The node it sends to while it knows no leader.
    pub nearest: NodeId,
    /// Commands in flight: at most the cluster's session window.
    pub window: u32,
    /// Most commands that wait for the session or the window.
    pub queue: u32,
    /// Most bytes of commands waiting and in flight.
    pub queue_bytes: u64,
    /// Most reads in flight.
    pub reads: u32,
    /// Most bytes of results not yet accepted; over it a body is dropped and asked for again.
    pub bodies_bytes: u64,
    /// The shortest time before all nodes are asked.
    pub escalate_min: Span,
}

impl ClientConfig {
    /// The default bounds: a window of 1,024 commands, 65,536 waiting in 64 MiB, 4,096 reads, 200 ms.
    #[must_use]
    pub fn new(trust: Trust, cluster: Hash, key: PublicKey, nonce: u64) -> Self {
        let nearest = trust.nodes().iter().next().unwrap_or_default();
        Self {
            trust,
            cluster,
            key,
            nonce,
            resume: None,
            first: 1,
            auth: ClientAuth::Signed,
            send: SendMode::One,
            nearest,
            window: 1_024,
            queue: 65_536,
            queue_bytes: 64 << 20,
            reads: 4_096,
            bodies_bytes: 64 << 20,
            escalate_min: Span::millis(200),
        }
    }

    pub(super) fn scope(&self) -> Scope {
        Scope { cluster: self.cluster, epoch: Epoch(0) }
    }

    pub(super) fn check(&self) {
        assert!(self.first > 0, "numbers of requests begin with 1");
        assert!(BitWindow::is_size(self.window), "a session window is a power of two from 64 to 4096");
        assert!(self.trust.nodes().contains(self.nearest), "the nearest node is one of those asked");
    }

    /// The most bytes a client holds: queued commands and their frames, bodies, and a fixed part per command, read
    /// and node.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        let commands = u64::from(self.queue) + u64::from(self.window);
        let bodies = self.bodies_bytes + BODY_MAX as u64;
        let reads = u64::from(self.reads) * (1_024 + 128 * u64::from(self.trust.nodes().count()));
        2 * self.queue_bytes + commands * 512 + reads + bodies + (1 << 20)
    }
}

/// One command and the caller's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Returned with the outcome.
    pub tag: u64,
    /// The application's own encoding.
    pub body: Bytes,
}

/// What a client is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientInput {
    /// Orders commands. Those of one turn share frames, and so do those that wait while 64 frames are in flight. Submissions that are in flight together have no order among
    /// themselves.
    Submit {
        /// The commands. Those that are accepted were executed in this order.
        commands: Vec<Command>,
        /// After this long the outcome is unknown, or up to 50 ms later where commands share a frame; not 0.
        deadline: Span,
    },
    /// Reads.
    Query {
        /// Returned with the outcome.
        tag: u64,
        /// The application's own encoding of the question.
        question: Bytes,
        /// How fresh the state must be.
        mode: ReadMode,
        /// The same read as a command, ordered when two rounds found no quorum of equal answers.
        fallback: Option<Bytes>,
        /// After this long the read is given up; not 0.
        deadline: Span,
    },
    /// Ends: what is in flight becomes unknown, what waits is rejected.
    Close,
}

/// What a client tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOutput {
    /// The session is open.
    Ready {
        /// Its id.
        session: u64,
    },
    /// What came of a command or read.
    Outcome {
        /// The caller's name for it.
        tag: u64,
        /// Its name in the cluster; sequence 0 for reads and for what was never sent.
        id: RequestId,
        /// What came of it.
        outcome: Outcome,
    },
    /// The client has ended.
    Closed,
}

/// The name of a request in its cluster; as text `r1-<8 hex of cluster>-<session>-<sequence>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The session.
    pub session: u64,
    /// The sequence within it.
    pub sequence: u64,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Executed, with this value, as the nodes in `by` say.
    Accepted {
        /// The application's reply.
        value: Bytes,
        /// The position that executed it; for a read the highest position all of `by` have reached.
        position: Position,
        /// Who gave this result.
        by: NodeSet,
    },
    /// Not executed, and never will be.
    Rejected(Rejection),
    /// Executed or not: nothing proves either.
    Unknown(RequestId, Doubt),
}

/// Why a request is certainly not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// Too much waits here already; no byte was sent.
    Busy,
    /// The request is larger than a frame.
    TooLarge,
    /// Without a deadline, or empty.
    Malformed,
    /// The deadline passed before anything was sent, or a read found no quorum.
    NoQuorum,
    /// The application does not understand the question.
    NotUnderstood,
    /// The client has ended; no byte was sent.
    Closed,
    /// Power W refuses it, for a reason that no order changes.
    Refused(Refused),
}

/// Why the outcome of a request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// The deadline passed.
    Deadline,
    /// The cluster closed the session.
    SessionClosed,
    /// The client was closed.
    Closed,
    /// Executed, but nobody keeps the result any longer, or it was too large to send.
    ResultLost,
    /// Power W says it lies outside the session's window.
    OutsideWindow,
}

impl Rejection {
    /// The SYN code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Busy | Self::Refused(Refused::Busy { .. }) => 3_402,
            Self::TooLarge | Self::Refused(Refused::TooLarge) => 3_002,
            Self::Malformed => 3_001,
            Self::NoQuorum | Self::Closed | Self::Refused(Refused::NotReady) => 3_401,
            Self::NotUnderstood => 3_003,
            Self::Refused(Refused::UnknownSession) => 3_014,
            Self::Refused(Refused::OutsideWindow) => 3_006,
            Self::Refused(Refused::BadSignature) => 3_012,
            Self::Refused(Refused::Reused) => 3_007,
        }
    }
}

impl Doubt {
    /// The SYN code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Deadline | Self::ResultLost | Self::OutsideWindow => 3_501,
            Self::SessionClosed | Self::Closed => 3_502,
        }
    }
}
