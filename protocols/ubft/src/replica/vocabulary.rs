//! What is asked of a replica, told by it, kept of it, and done beside it.

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Keys, Scope, Verified};
use synod_machine::{Cost, Job as Work, Record, Wall};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Bytes, wire};

use super::job::{Finished, Task};
use super::words::Alarm;
use crate::batch::Slot;
use crate::config::Config;
use crate::epoch::Change;
use crate::message::{ClientStatement, Standing};
use crate::sessions::SessionLimits;
use crate::statement::Statement;

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
    /// The answer to [`Output::TakeSnapshot`]: the Merkle leaves of the application's chunks, which the user keeps.
    Taken {
        /// Of the snapshot of this slot.
        low: Slot,
        /// In order.
        leaves: Vec<Hash>,
    },
    /// The answer to [`Output::NeedChunk`].
    Chunk {
        /// Who asked.
        peer: NodeId,
        /// Of the snapshot of this slot.
        low: Slot,
        /// Which chunk.
        index: u32,
        /// Its bytes; none where the user has it no more.
        bytes: Option<Bytes>,
    },
    /// The answer to the last [`Output::Install`] of a snapshot.
    Installed {
        /// The slot.
        low: Slot,
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
    /// The state that the application has now is to be kept as chunks, for peers that are behind: see [`Input::Taken`].
    TakeSnapshot {
        /// The first slot that the state does not have.
        low: Slot,
    },
    /// The chunks of a snapshot are not needed any more.
    DropSnapshot {
        /// The slot.
        low: Slot,
    },
    /// A peer is behind: see [`Input::Chunk`].
    NeedChunk {
        /// Who.
        peer: NodeId,
        /// Of the snapshot of this slot.
        low: Slot,
        /// Which chunk.
        index: u32,
    },
    /// A chunk of a certified snapshot: the first clears the application's state, and the last is answered by [`Input::Installed`]. With
    /// no chunk at all (`count` is zero) the state is the one before the first slot.
    Install {
        /// The first slot that the snapshot does not have.
        low: Slot,
        /// Which chunk.
        index: u32,
        /// Of how many.
        count: u32,
        /// Its bytes.
        chunk: Bytes,
    },
    /// Results here differ from those that f + 1 replicas certified: this replica discards its state and takes another.
    Diverged {
        /// The checkpoint.
        low: Slot,
    },
    /// The same, again: this replica stops answering for good, and the process is to end (SYN-6006).
    Irreparable {
        /// The checkpoint.
        low: Slot,
    },
    /// Whether this replica takes part. One that was started again does not until an epoch lists it, for it may have promised what it
    /// forgot.
    Ready(bool),
    /// What is missing here is in nobody's archive and in nobody's snapshot.
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
    /// The log or a chunk of a peer.
    Transfer,
    /// What is not certified yet is said again, and a replica that no epoch lists asks for it.
    Again,
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

/// What a signed change of the epoch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeFor {
    /// It came from this peer.
    Peer(NodeId),
    /// Request number so many of a batch that is to be judged.
    Batch(Slot, usize),
}

/// Work of a replica.
#[derive(Clone, Debug)]
pub enum Job {
    /// Signs an own statement.
    Sign {
        /// Where it is good.
        scope: Scope,
        /// What.
        statement: Statement,
    },
    /// Checks a share of a snapshot, or of a memory node's boot.
    Share(Claim<Statement>),
    /// Checks what is to end an epoch.
    Change {
        /// What for.
        what: ChangeFor,
        /// The change.
        change: Change,
        /// Under which keys.
        genesis: Arc<Config>,
    },
    /// Checks where a peer stands.
    Standing {
        /// Who.
        from: NodeId,
        /// Where.
        standing: Box<Standing>,
        /// Under which keys.
        genesis: Arc<Config>,
    },
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
    /// Signed.
    Signed(Verified<Claim<Statement>>),
    /// Good, or not its signer's.
    Share(Result<Verified<Claim<Statement>>, Claim<Statement>>),
    /// A change of the epoch.
    Change {
        /// What for.
        what: ChangeFor,
        /// The change.
        change: Change,
        /// Whether whoever must have signed it did.
        is_good: bool,
    },
    /// Where a peer stands; none where a part proves nothing.
    Standing {
        /// Who.
        from: NodeId,
        /// Where.
        standing: Option<Box<Standing>>,
    },
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
            Self::Sign { scope, statement } => {
                Done::Signed(keys.sign(scope, NodeId(u32::from(statement.signer())), statement))
            }
            Self::Share(claim) => Done::Share(claim.verify(keys)),
            Self::Change { what, change, genesis } => {
                let is_good = change.is_signed(&genesis, keys);
                Done::Change { what, change, is_good }
            }
            Self::Standing { from, standing, genesis } => {
                let is_good = standing.is_proven(&genesis, keys);
                Done::Standing { from, standing: is_good.then_some(standing) }
            }
            Self::Consensus(epoch, task) => Done::Consensus(epoch, task.run(keys)),
            Self::Client { what, op, claim } => Done::Client { what, op, claim: claim.verify(keys) },
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Consensus(_, task) => task.cost(),
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Client { .. } | Self::Share(_) => Cost { verify: 1, ..Cost::default() },
            Self::Change { change: Change::Rejoin { .. }, .. } => Cost { verify: 1, ..Cost::default() },
            Self::Change { change: Change::Readmit { signed, .. }, .. } => {
                Cost { verify: u32::try_from(signed.len()).unwrap_or(u32::MAX), ..Cost::default() }
            }
            Self::Standing { standing, .. } => {
                let signed = u32::try_from(standing.signatures()).unwrap_or(u32::MAX);
                Cost { batch_verify: signed, ..Cost::default() }
            }
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Consensus(_, task) => task.peer(),
            Self::Client { what: ClientFor::Request(from) | ClientFor::Attach(from), .. }
            | Self::Client { what: ClientFor::Register(from), .. } => Some(*from),
            Self::Share(claim) => Some(claim.signer),
            Self::Change { what: ChangeFor::Peer(from), .. } | Self::Standing { from, .. } => Some(*from),
            Self::Client { what: ClientFor::Batch(..), .. }
            | Self::Change { what: ChangeFor::Batch(..), .. }
            | Self::Sign { .. } => None,
        }
    }
}
