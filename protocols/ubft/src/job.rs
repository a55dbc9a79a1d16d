//! Signatures are made and checked beside the handlers.

use synod_crypto::{Claim, Keys, Scope, Verified};
use synod_machine::{Cost, Job as Work};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::statement::Statement;

/// What a check is for; it comes back with the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// A SIGNED of the broadcaster.
    Signed {
        /// Who sent it, or passed it on.
        from: NodeId,
        /// Its body, where that is not locked.
        body: Option<Bytes>,
    },
    /// What the register of `owner` says, while message `k` is to be delivered.
    Entry {
        /// Whose register.
        owner: u8,
        /// The message that waits.
        k: u64,
    },
}

/// Work of one broadcast.
#[derive(Clone, Debug)]
pub enum Job {
    /// Signs the own statement.
    Sign {
        /// Where it is good.
        scope: Scope,
        /// What.
        statement: Statement,
    },
    /// Checks a claim.
    Check {
        /// See [`For`].
        what: For,
        /// The claim.
        claim: Claim<Statement>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// Signed.
    Signed(Verified<Claim<Statement>>),
    /// Checked: good, or not its signer's.
    Checked {
        /// See [`For`].
        what: For,
        /// The claim.
        claim: Result<Verified<Claim<Statement>>, Claim<Statement>>,
    },
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Sign { scope, statement } => {
                Done::Signed(keys.sign(scope, NodeId(u32::from(statement.signer())), statement))
            }
            Self::Check { what, claim } => Done::Checked { what, claim: claim.verify(keys) },
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Check { .. } => Cost { verify: 1, ..Cost::default() },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Sign { .. } => None,
            Self::Check { what: For::Signed { from, .. }, .. } => Some(*from),
            Self::Check { what: For::Entry { owner, .. }, .. } => Some(NodeId(u32::from(*owner))),
        }
    }
}
