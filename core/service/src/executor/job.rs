//! Checking what clients signed: hashes and signatures, away from the machine's turn.

use synod_crypto::{Claim, Hash, Keys, PublicKey, Scope, Signature, Verified, verify_all};
use synod_machine::broadcast::Position;
use synod_machine::{Cost, Job};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::frame::{Item, Said, item_digest};
use crate::message::Attach;

/// An item whose signature is to be checked.
#[derive(Clone, Debug)]
pub struct ItemCheck {
    /// The item.
    pub payload: Bytes,
    /// Whether it opens a session; a frame otherwise.
    pub opening: bool,
    /// The key that must have signed.
    pub key: PublicKey,
    /// The signature.
    pub signature: Signature,
    /// The cluster.
    pub scope: Scope,
}

impl ItemCheck {
    pub(super) fn new(item: &Item, payload: Bytes, key: PublicKey, scope: Scope) -> Self {
        let opening = matches!(item, Item::Open(_));
        Self { payload, opening, key, signature: item.signature(), scope }
    }

    fn claim(&self) -> Claim<Said> {
        let digest = item_digest(&self.payload);
        let statement = if self.opening { Said::Open(digest) } else { Said::Frame(digest) };
        claim(statement, self.scope, self.key, self.signature)
    }
}

/// Work of an executor.
#[derive(Clone, Debug)]
pub enum ExecutorJob {
    /// Checks an item that a guest sent.
    Admit {
        /// Who sent it.
        from: NodeId,
        /// The item.
        check: ItemCheck,
    },
    /// Checks the items of a block that this node has not checked before.
    Block(Vec<(Position, ItemCheck)>),
    /// Checks that a session's client wants its replies here.
    Attach {
        /// Who sent it.
        from: NodeId,
        /// What was sent.
        attach: Attach,
        /// The session's key.
        key: PublicKey,
        /// The cluster.
        scope: Scope,
    },
}

/// A checked statement: what was signed, or nothing.
pub type Signed = Option<Verified<Claim<Said>>>;

/// The answer of an [`ExecutorJob`].
#[derive(Clone, Debug)]
pub enum ExecutorDone {
    /// A guest's item.
    Admitted {
        /// Who sent it.
        from: NodeId,
        /// The item.
        payload: Bytes,
        /// What its client signed.
        signed: Signed,
    },
    /// The items of a block.
    Block(Vec<(Position, Signed)>),
    /// An attachment.
    Attached {
        /// Who sent it.
        from: NodeId,
        /// What was sent.
        attach: Attach,
        /// What the session's client signed.
        signed: Signed,
    },
}

impl Job for ExecutorJob {
    type Done = ExecutorDone;

    fn run(self, keys: &Keys) -> ExecutorDone {
        let mut done = Self::run_all(vec![self], keys);
        match done.pop() {
            Some(done) => done,
            None => unreachable!("one job gives one answer"),
        }
    }

    /// All signatures of all jobs are one batch.
    fn run_all(jobs: Vec<Self>, keys: &Keys) -> Vec<ExecutorDone> {
        let mut claims = Vec::new();
        for job in &jobs {
            match job {
                Self::Admit { check, .. } => claims.push(check.claim()),
                Self::Block(checks) => claims.extend(checks.iter().map(|(_, check)| check.claim())),
                Self::Attach { attach, key, scope, .. } => {
                    let Attach { session, member, counter, signature } = *attach;
                    claims.push(claim(Said::Channel { session, member, counter }, *scope, *key, signature));
                }
            }
        }
        let mut verdicts = verify_all(claims, keys).into_iter().map(Result::ok);
        let mut next = || verdicts.next().flatten();
        let answer = |job| match job {
            Self::Admit { from, check } => {
                ExecutorDone::Admitted { from, payload: check.payload, signed: next() }
            }
            Self::Block(checks) => {
                ExecutorDone::Block(checks.into_iter().map(|(position, _)| (position, next())).collect())
            }
            Self::Attach { from, attach, .. } => ExecutorDone::Attached { from, attach, signed: next() },
        };
        jobs.into_iter().map(answer).collect()
    }

    fn cost(&self) -> Cost {
        let of = |check: &ItemCheck| Cost {
            batch_verify: 1,
            hashed: check.payload.len() as u64,
            ..Cost::default()
        };
        match self {
            Self::Admit { check, .. } => of(check),
            Self::Block(checks) => checks.iter().fold(Cost::default(), |sum, (_, check)| sum + of(check)),
            Self::Attach { .. } => Cost { batch_verify: 1, ..Cost::default() },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Admit { from, .. } | Self::Attach { from, .. } => Some(*from),
            Self::Block(_) => None,
        }
    }
}

/// The digest that a checked item's client signed.
pub(super) fn signed_digest(signed: &Verified<Claim<Said>>) -> Option<Hash> {
    match signed.statement {
        Said::Open(digest) | Said::Frame(digest) => Some(digest),
        Said::Channel { .. } => None,
    }
}

const fn claim(statement: Said, scope: Scope, key: PublicKey, signature: Signature) -> Claim<Said> {
    Claim { statement, scope, signer: NodeId::GUESTS, key, signature }
}
