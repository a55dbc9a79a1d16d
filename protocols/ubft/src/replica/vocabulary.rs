//! What is asked of a replica, told by it, kept of it, and done beside it.

use synod_crypto::{Claim, Hash, Keys, Verified};
use synod_machine::{Cost, Job as Work, Record, Wall};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Bytes, wire};

use super::job::{Finished, Task};
use super::words::Alarm;
use crate::batch::Slot;
use crate::config::Config;
use crate::message::ClientStatement;
use crate::sessions::SessionLimits;

/// What a replica starts from.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The first epoch.
    pub config: Config,
    /// Sessions.
    pub sessions: SessionLimits,
    /// Bytes of batches that are kept for whoever is behind.
    pub archive_bytes_max: u64,
    /// Whether slots are promised first; a lab's switch.
    pub fast_path: bool,
}

wire! {
    /// How often a replica was started: a promise made in an earlier life is forgotten, and none may be made over it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Incarnation(pub u64);
}

impl Record for Incarnation {}

/// A request that is to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Whose.
    pub session: u64,
    /// Its number within the session.
    pub id: u64,
    /// What is asked.
    pub op: Bytes,
}

/// What is asked of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The requests of a slot were executed, with these results, in order.
    Executed {
        /// The slot.
        slot: Slot,
        /// The results.
        replies: Vec<Bytes>,
    },
    /// The answer to [`Output::Query`].
    Answered {
        /// Who asked.
        guest: NodeId,
        /// Its number for it.
        id: u64,
        /// The answer.
        value: Option<Bytes>,
    },
}

/// What a replica tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Requests of a slot are to be executed; one slot at a time.
    Execute {
        /// The slot.
        slot: Slot,
        /// Agreed time, never decreasing.
        time: Wall,
        /// Of the batch: the only source of tie-breaks.
        draw: Hash,
        /// The requests, in order.
        requests: Vec<Requested>,
    },
    /// A client asks for what is executed already.
    Query {
        /// Who.
        guest: NodeId,
        /// Its number for it.
        id: u64,
        /// The question.
        question: Bytes,
    },
    /// Results here differ from those that f + 1 replicas certified: this replica stops answering.
    Diverged {
        /// The checkpoint.
        low: Slot,
    },
    /// Whether this replica takes part. One that was started again does not, for it may have promised what it forgot.
    Ready(bool),
    /// What is missing here is in nobody's archive any more.
    Stranded {
        /// The first slot that is missing.
        from: Slot,
    },
    /// Two batches were decided for one slot: more replicas lie than may.
    Broken(Slot),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Of consensus.
    Consensus(Epoch, Alarm),
    /// Requests that not all heard.
    Echo,
    /// The log of a peer.
    Transfer,
}

/// What a signature of a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFor {
    /// A request, from this link.
    Request(NodeId),
    /// Request number so many of a batch that is to be judged.
    Batch(Slot, usize),
    /// A session on this link.
    Attach(NodeId),
    /// A registration from this link.
    Register(NodeId),
}

/// Work of a replica.
#[derive(Clone, Debug)]
pub enum Job {
    /// Of consensus.
    Consensus(Epoch, Task),
    /// Checks what a client signed.
    Client {
        /// What for.
        what: ClientFor,
        /// The operation, of a request.
        op: Bytes,
        /// What is said to be signed.
        claim: Claim<ClientStatement>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// Of consensus.
    Consensus(Epoch, Finished),
    /// What a client signed.
    Client {
        /// What for.
        what: ClientFor,
        /// The operation, of a request.
        op: Bytes,
        /// Good, or not its signer's.
        claim: Result<Verified<Claim<ClientStatement>>, Claim<ClientStatement>>,
    },
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Consensus(epoch, task) => Done::Consensus(epoch, task.run(keys)),
            Self::Client { what, op, claim } => Done::Client { what, op, claim: claim.verify(keys) },
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Consensus(_, task) => task.cost(),
            Self::Client { .. } => Cost { verify: 1, ..Cost::default() },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Consensus(_, task) => task.peer(),
            Self::Client { what: ClientFor::Request(from) | ClientFor::Attach(from), .. }
            | Self::Client { what: ClientFor::Register(from), .. } => Some(*from),
            Self::Client { what: ClientFor::Batch(..), .. } => None,
        }
    }
}
