//! What replicas of an [`super::Ordering`] say beside what replicas say, what they wait for, and what is done beside them.

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Keys, Scope, Signature, Verified};
use synod_machine::broadcast::Position;
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Cost, Full, Job as Work, Lift, Message as Spoken, Queue, QueueSpec, Recover as _};
use synod_quorum::{Epoch, NodeId};
use synod_wire::wire;

use super::{Ordering, OrderingConfig};
use crate::certificate::{Certificate, Subject};
use crate::config::Config;
use crate::message::ClientStatement;
use crate::replica::{self, Incarnation, Replica};
use crate::statement::Statement;

/// Queues before those of the replica.
pub const OWN_QUEUES: u8 = 1;

/// A certificate of a user's state.
pub type RootedBy = Certificate<Rooted>;

wire! {
    /// The state of users at a position.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rooted {
        /// The position.
        pub position: Position,
        /// Of the state.
        pub root: Hash,
    }

    /// Spoken between replicas.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// Of the replica.
        0 = Replica(crate::Message),
        /// The sender's user has this state.
        1 = Attest {
            /// Which.
            rooted: Rooted,
            /// Over it.
            signature: Signature,
        },
        /// A state that is certified above this position is asked for.
        2 = FetchRooted(Position),
        /// The newest state that is certified.
        3 = Rooted(RootedBy),
    }
}

impl Subject for Rooted {
    fn statement(&self, signer: u8) -> Statement {
        Statement::Applied { signer, position: self.position, root: self.root }
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        match self {
            Self::Replica(message) => message.queue().under(OWN_QUEUES),
            Self::Attest { .. } | Self::FetchRooted(_) | Self::Rooted(_) => Queue(0),
        }
    }

    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Replica(message) => message.register(),
            Self::Attest { .. } | Self::FetchRooted(_) | Self::Rooted(_) => None,
        }
    }

    fn registered(reply: RegisterReply) -> Option<Self> {
        crate::Message::registered(reply).map(Self::Replica)
    }
}

/// The own queue, and those of the replica, whose frames are a tag longer.
pub(super) fn queues(config: &OrderingConfig) -> Vec<QueueSpec> {
    let certificate = config.replica.config.roster.size().saturating_mul(72).saturating_add(256);
    let own = QueueSpec { depth: 64, frame_max: certificate, full: Full::EvictOldest };
    let longer = |spec: QueueSpec| QueueSpec { frame_max: spec.frame_max.saturating_add(8), ..spec };
    let replica = Replica::queues(&config.replica).into_iter().map(longer);
    core::iter::once(own).chain(replica).collect()
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Of the replica.
    Replica(replica::Timer),
    /// What is not ordered yet is said again.
    Ask,
    /// What is not certified yet is said again, and what is missed is asked for.
    Again,
}

/// Work of an [`Ordering`].
#[derive(Clone, Debug)]
pub enum Job {
    /// Of the replica.
    Replica(replica::Job),
    /// Signs a request of the own session.
    Ask {
        /// The cluster.
        cluster: Hash,
        /// What.
        statement: ClientStatement,
    },
    /// Signs the own user's state.
    Attest {
        /// Where it is good.
        scope: Scope,
        /// What.
        statement: Statement,
    },
    /// Checks a peer's signature of its user's state.
    Share(Claim<Statement>),
    /// Checks a certificate.
    Rooted {
        /// Who sent it.
        from: NodeId,
        /// The certificate.
        certificate: RootedBy,
        /// Under which keys.
        genesis: Arc<Config>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// Of the replica.
    Replica(replica::Done),
    /// A request is signed.
    Asked(Verified<Claim<ClientStatement>>),
    /// The own user's state is signed.
    Attested(Verified<Claim<Statement>>),
    /// A peer's signature: good, or not its own.
    Share(Result<Verified<Claim<Statement>>, Claim<Statement>>),
    /// A certificate; none where it proves nothing.
    Rooted {
        /// Who sent it.
        from: NodeId,
        /// The certificate.
        certificate: Option<RootedBy>,
    },
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Replica(job) => Done::Replica(job.run(keys)),
            Self::Ask { cluster, statement } => {
                Done::Asked(keys.sign(Scope { cluster, epoch: Epoch(0) }, NodeId::GUESTS, statement))
            }
            Self::Attest { scope, statement } => {
                Done::Attested(keys.sign(scope, NodeId(u32::from(statement.signer())), statement))
            }
            Self::Share(claim) => Done::Share(claim.verify(keys)),
            Self::Rooted { from, certificate, genesis } => {
                let is_good = certificate.clone().verify(&genesis, keys).is_ok();
                Done::Rooted { from, certificate: is_good.then_some(certificate) }
            }
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Replica(job) => job.cost(),
            Self::Ask { .. } | Self::Attest { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Share(_) => Cost { verify: 1, ..Cost::default() },
            Self::Rooted { certificate, .. } => {
                let signed = u32::try_from(certificate.signed.len()).unwrap_or(u32::MAX);
                Cost { batch_verify: signed, ..Cost::default() }
            }
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Replica(job) => job.peer(),
            Self::Ask { .. } | Self::Attest { .. } => None,
            Self::Share(claim) => Some(claim.signer),
            Self::Rooted { from, .. } => Some(*from),
        }
    }
}

/// How the replica speaks through its parent.
pub(super) struct Inside;

impl Lift<Replica, Ordering> for Inside {
    fn message(&self, message: crate::Message) -> Message {
        Message::Replica(message)
    }
    fn timer(&self, timer: replica::Timer) -> Timer {
        Timer::Replica(timer)
    }
    fn record(&self, record: Incarnation) -> Incarnation {
        record
    }
    fn job(&self, job: replica::Job) -> Job {
        Job::Replica(job)
    }
}
