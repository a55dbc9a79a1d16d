//! What can be signed, and the bytes that are signed for it.

use synod_quorum::Epoch;
use synod_wire::{Wire, Writer, wire};

use crate::Hash;

/// Longest canonical encoding of a statement; statements hold digests, not bulk.
pub const STATEMENT_MAX: usize = 256;

wire! {
    /// Where a signature is good: one cluster, one epoch (0 for statements of no epoch).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Scope {
        /// Digest of the genesis.
        pub cluster: Hash,
        /// The configuration of members.
        pub epoch: Epoch,
    }
}

/// A sentence a node can sign. Signed bytes are protocol, version, kind, cluster, epoch, then the canonical
/// encoding; every protocol uses this prefix and no other.
pub trait Statement: Wire + Clone + PartialEq {
    /// The protocol's number, unique over all protocols.
    const PROTOCOL: u8;
    /// The version of the protocol's statements.
    const VERSION: u8;

    /// What kind of statement this is, unique within the protocol.
    fn kind(&self) -> u16;

    /// The bytes that are signed.
    ///
    /// # Panics
    /// When the encoding exceeds [`STATEMENT_MAX`]: the statement type holds bulk, which is a bug.
    fn signed_bytes(&self, scope: &Scope) -> Vec<u8> {
        let mut out = Writer::with_capacity(40 + STATEMENT_MAX);
        out.byte(Self::PROTOCOL);
        out.byte(Self::VERSION);
        out.bytes(&self.kind().to_be_bytes());
        out.bytes(&scope.cluster.0);
        out.bytes(&scope.epoch.0.to_be_bytes());
        let prefix = out.len();
        self.write(&mut out);
        assert!(out.len() - prefix <= STATEMENT_MAX, "a statement holds digests, not bulk");
        out.as_slice().to_vec()
    }
}
