//! The wallet's signatures: those that it makes, and those that replicas show it.

use std::sync::Arc;

use synod_crypto::{Hash, Keys, PublicKey, Verified};
use synod_ledger::{Digests, Entry};
use synod_machine::broadcast::View;
use synod_machine::{Cost, Job as Run};
use synod_quorum::NodeId;
use synod_wire::List;

use super::Log;
use crate::batch::{Auth, Line};
use crate::job::owner_claim;
use crate::together::SignedTogether;
use crate::words::Authorized;

/// Work of a wallet.
#[derive(Clone, Debug)]
pub enum Job {
    /// Signs an entry.
    Sign {
        /// The cluster.
        view: Arc<View>,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// Signs with others.
    Share {
        /// The cluster.
        view: Arc<View>,
        /// Whoever asks.
        to: NodeId,
        /// See [`crate::Invitation::number`].
        number: u64,
        /// See [`crate::Invitation::root`].
        root: Hash,
    },
    /// Looks which entries of a log the owner signed.
    Show {
        /// The cluster.
        view: Arc<View>,
        /// The owner's.
        key: PublicKey,
        /// Who shows it.
        from: NodeId,
        /// The log.
        log: Log,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// An entry is signed.
    Signed(Line),
    /// What is signed with others.
    Shared {
        /// For whom.
        to: NodeId,
        /// See [`crate::Invitation::number`].
        number: u64,
        /// The signature; none where this wallet's keys have no secret for it.
        share: Option<[u8; 192]>,
    },
    /// A log, with the entries alone that the owner signed.
    Shown {
        /// Who shows it.
        from: NodeId,
        /// The log.
        log: Log,
    },
}

impl Run for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Sign { view, entry } => {
                let statement = Authorized { entry: Digests::default().entry(&entry) };
                let scope = crate::job::owner_scope(&view);
                let claim = keys.sign(scope, NodeId(u32::MAX), statement);
                Done::Signed(Line { entry, auth: Auth::Owner(claim.signature) })
            }
            Self::Share { view, to, number, root } => {
                let scope = crate::job::owner_scope(&view);
                let share = keys.sign_bls(&scope, &SignedTogether { root });
                Done::Shared { to, number, share: share.map(|share| share.to_share()) }
            }
            Self::Show { view, key, from, log } => {
                let is_signed = |line: &Line| {
                    let Auth::Owner(signature) = line.auth else { return false };
                    let statement = Authorized { entry: Digests::default().entry(&line.entry) };
                    let checked: Result<Verified<_>, _> =
                        owner_claim(&view, statement, key, signature).verify(keys);
                    checked.is_ok()
                };
                // The key may have other accounts: what it signed for those says nothing of this one.
                let is_of_it = |line: &&Line| line.entry.id.spender == log.account;
                let open = log.open.iter().filter(is_of_it).filter(|line| is_signed(line));
                let open: Vec<Line> = open.cloned().collect();
                let open = List::try_from(open).expect("a part of such a list");
                Done::Shown { from, log: Log { open, ..log } }
            }
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Share { .. } => Cost { hash_to_curve: 1, ..Cost::default() },
            Self::Show { log, .. } => {
                Cost { verify: u32::try_from(log.open.len()).unwrap_or(u32::MAX), ..Cost::default() }
            }
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Sign { .. } => None,
            Self::Share { to, .. } => Some(*to),
            Self::Show { from, .. } => Some(*from),
        }
    }
}
