//! Sessions of replicas (specification, 4.8): session i is replica i's, on its own link, and is used by [`crate::Ordering`].
//!
//! Its ids begin anew with each epoch: a replica that lives anew is listed by an epoch, and whatever it asked before is void there, at
//! all replicas alike. Nothing of this does anything where no replica asks.

use synod_quorum::NodeId;

use super::state::Replica;
use crate::sessions::{FIRST_CLIENT, Fate};

impl Replica {
    /// Ids of this replica's own session lie above this; none while the state that is executed here lists another life, for what an
    /// earlier one asked may still be executed then.
    #[must_use]
    pub fn own_floor(&self) -> Option<u64> {
        let me = self.config.me;
        let is_listed = self.epochs.configuration.incarnation(me) == Some(self.incarnation());
        (is_listed && self.consensus().is_some()).then(|| self.epochs.id_floor(u64::from(me.0)))
    }

    /// Whether requests are better signed.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.consensus().is_none_or(super::Consensus::is_slow)
    }

    /// What becomes of a request.
    pub(super) fn fate(&self, session: u64, id: u64) -> Fate {
        self.sessions.fate(session, id, self.epochs.id_floor(session), self.executed)
    }

    /// Whether a session is the one of this replica itself, or of a peer.
    pub(super) fn is_own_of(&self, session: u64, from: NodeId) -> bool {
        session < FIRST_CLIENT && u64::from(from.0) == session && self.config.roster.member(from).is_some()
    }

    /// An epoch begins: what replicas asked in the one before is void.
    pub(super) fn forget_own(&mut self) {
        self.pending.retain(|(session, _), _| *session >= FIRST_CLIENT);
    }
}
