//! What is signed and checked beside the handlers.

use std::sync::Arc;

use synod_crypto::{Claim, Keys, Scope, Verified, verify_all};
use synod_machine::{Cost, Job as Work};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::roll::Roll;
use super::trace::Fault;
use super::words::{Message, Sworn};

/// What only whoever uses the machine knows of the state that is transferred.
pub trait Transfer: Clone {
    /// Whether these bytes are what a member of the last of these views may keep: its form, and the certificates in it, which may be of
    /// the views before it.
    fn is_state(of: &[Arc<Roll>], state: &Bytes, keys: &Keys) -> bool;
}

/// See [`Transfer::is_state`].
pub type IsState = fn(&[Arc<Roll>], &Bytes, &Keys) -> bool;

/// Work of the machine.
#[derive(Clone, Debug)]
pub enum Job {
    /// Signs.
    Sign {
        /// For which view.
        scope: Scope,
        /// This node.
        me: NodeId,
        /// What.
        sworn: Sworn,
    },
    /// Checks all that a message rests on.
    Check {
        /// Who sent it.
        from: NodeId,
        /// What it rests on.
        claims: Vec<Claim<Sworn>>,
        /// A state, to be looked at by its user.
        state: Option<(Vec<Arc<Roll>>, Bytes, IsState)>,
        /// The message.
        message: Box<Message>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// It is signed.
    Signed(Verified<Claim<Sworn>>),
    /// It is checked.
    Checked {
        /// Who sent it.
        from: NodeId,
        /// All that it rests on, or what is wrong with it.
        good: Result<Vec<Verified<Claim<Sworn>>>, Fault>,
        /// The message.
        message: Box<Message>,
    },
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Sign { scope, me, sworn } => Done::Signed(keys.sign(scope, me, sworn)),
            Self::Check { from, claims, state, message } => {
                let is_state = state.is_none_or(|(rolls, state, is_state)| is_state(&rolls, &state, keys));
                let good = verify_all(claims, keys).into_iter().collect::<Result<Vec<_>, _>>();
                let good = good.map_err(|_| Fault::Forged);
                let good = good.and_then(|good| if is_state { Ok(good) } else { Err(Fault::BadState) });
                Done::Checked { from, good, message }
            }
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Check { claims, state, .. } => Cost {
                batch_verify: u32::try_from(claims.len()).unwrap_or(u32::MAX),
                coded: state.as_ref().map_or(0, |(_, state, _)| state.len() as u64),
                ..Cost::default()
            },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Sign { .. } => None,
            Self::Check { from, .. } => Some(*from),
        }
    }
}
