//! What replicas sign (specification, section 3.4): each statement names its signer, in its own domain.

use synod_crypto::Hash;
use synod_wire::wire;

wire! {
    /// A sentence a replica signs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Statement {
        /// Message `k` of this broadcaster has this digest, and no other (Alg. 1, line 4).
        1 = Broadcast {
            /// The broadcaster.
            signer: u8,
            /// The number of the message, from 1.
            k: u64,
            /// Of its body.
            digest: Hash,
        },
    }
}

impl Statement {
    /// Who signs it.
    #[must_use]
    pub const fn signer(&self) -> u8 {
        match self {
            Self::Broadcast { signer, .. } => *signer,
        }
    }
}

impl synod_crypto::Statement for Statement {
    const PROTOCOL: u8 = 2;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        match self {
            Self::Broadcast { .. } => 1,
        }
    }
}
