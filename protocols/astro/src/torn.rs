//! Two entries that an owner signed for one place of its log (specification, section 4.12): what shows them.
//!
//! Members that took different ones can make it that neither is ever certified. What they hold of the log before that place stays good,
//! and other logs are not concerned; but nothing of this one goes on behind the place before a certificate of either entry, or of a
//! later one, is known. So long the account is *conflicted*.

use synod_crypto::{Claim, Hash, Keys, PublicKey, Scope};
use synod_ledger::{Digests, EntryId};
use synod_quorum::{Epoch, NodeId};
use synod_wire::wire;

use crate::batch::{Auth, Line};
use crate::words::Authorized;

wire! {
    /// What shows that the holder of a key signed two entries for one place. That the key is the account's, the account says.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TwoEntries {
        /// Whose signatures they are.
        pub key: PublicKey,
        /// The entry that the member endorsed who shows this.
        pub one: Line,
        /// Another one.
        pub other: Line,
    }
}

impl TwoEntries {
    /// The place.
    #[must_use]
    pub fn place(&self) -> EntryId {
        self.one.entry.id
    }

    /// Whether the holder of the key signed both for members of this cluster, and they are two for one place.
    #[must_use]
    pub fn proves(&self, cluster: Hash, keys: &Keys) -> bool {
        let is_signed = |line: &Line| {
            let Auth::Owner(signature) = line.auth else { return false };
            let statement = Authorized { entry: Digests::default().entry(&line.entry) };
            let scope = Scope { cluster, epoch: Epoch(0) };
            let claim = Claim { statement, scope, signer: NodeId(u32::MAX), key: self.key, signature };
            claim.verify(keys).is_ok()
        };
        let are_two = self.one.entry != self.other.entry && self.one.entry.id == self.other.entry.id;
        are_two && is_signed(&self.one) && is_signed(&self.other)
    }
}
