//! What members sign: ten kinds, each in its own domain.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_quorum::Epoch;
use synod_wire::wire;

use crate::View;

wire! {
    /// The kind of a vote; a certificate of one kind never passes as another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// First phase of the basic pack.
        0 = Prepare,
        /// Second phase of the basic pack.
        1 = Precommit,
        /// Third phase of the basic pack.
        2 = Commit,
        /// The one phase of the chained packs.
        3 = Generic,
        /// An order vote: commits a certified block without waiting for its child.
        4 = Order,
    }

    /// The state a replica reached, as members attest it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attested {
        /// The last position applied.
        pub position: Position,
        /// View of the block that holds the position.
        pub view: View,
        /// Digest of that block.
        pub digest: Hash,
        /// How many of the block's entries lie at or below the position.
        pub index: u32,
        /// Root of the state there.
        pub root: Hash,
    }

    /// A sentence a member signs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Statement {
        /// The proposer stands behind this header in this view, and behind no other.
        0 = Proposal {
            /// The view.
            view: View,
            /// Digest of the header.
            digest: Hash,
        },
        /// A vote of the basic pack's first phase.
        1 = VotePrepare {
            /// The view.
            view: View,
            /// The block.
            digest: Hash,
        },
        /// A vote of the basic pack's second phase.
        2 = VotePrecommit {
            /// The view.
            view: View,
            /// The block.
            digest: Hash,
        },
        /// A vote of the basic pack's third phase.
        3 = VoteCommit {
            /// The view.
            view: View,
            /// The block.
            digest: Hash,
        },
        /// A vote of the chained packs.
        4 = Vote {
            /// The view.
            view: View,
            /// The block.
            digest: Hash,
        },
        /// An order vote.
        5 = Order {
            /// The view.
            view: View,
            /// The block.
            digest: Hash,
        },
        /// The signer gives up the term that `view` ends, and held no certificate above `high`.
        6 = Complain {
            /// Last view of the term.
            view: View,
            /// View of the highest certificate held.
            high: View,
        },
        /// The signer applied everything up to a position and has this root.
        7 = Checkpoint(Attested),
        /// The signer executed the block that closes the epoch. Reserved for reconfiguration.
        8 = EpochReady {
            /// The epoch to come.
            epoch: Epoch,
            /// Digest of its members.
            members: Hash,
            /// Height of the closing block.
            height: u64,
            /// Digest of the closing block.
            digest: Hash,
            /// State root there.
            root: Hash,
        },
        /// The signer agrees to new members. Reserved for reconfiguration.
        9 = Members {
            /// Digest of the new members and rules.
            members: Hash,
        },
    }
}

impl Statement {
    /// The vote of `kind` for `digest` in `view`.
    #[must_use]
    pub const fn vote(kind: Kind, view: View, digest: Hash) -> Self {
        match kind {
            Kind::Prepare => Self::VotePrepare { view, digest },
            Kind::Precommit => Self::VotePrecommit { view, digest },
            Kind::Commit => Self::VoteCommit { view, digest },
            Kind::Generic => Self::Vote { view, digest },
            Kind::Order => Self::Order { view, digest },
        }
    }

    /// Kind, view and digest, if this is a vote or an order vote.
    #[must_use]
    pub const fn as_vote(&self) -> Option<(Kind, View, Hash)> {
        match self {
            Self::VotePrepare { view, digest } => Some((Kind::Prepare, *view, *digest)),
            Self::VotePrecommit { view, digest } => Some((Kind::Precommit, *view, *digest)),
            Self::VoteCommit { view, digest } => Some((Kind::Commit, *view, *digest)),
            Self::Vote { view, digest } => Some((Kind::Generic, *view, *digest)),
            Self::Order { view, digest } => Some((Kind::Order, *view, *digest)),
            Self::Proposal { .. }
            | Self::Complain { .. }
            | Self::Checkpoint(_)
            | Self::EpochReady { .. }
            | Self::Members { .. } => None,
        }
    }
}

impl synod_crypto::Statement for Statement {
    const PROTOCOL: u8 = 1;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        match self {
            Self::Proposal { .. } => 0,
            Self::VotePrepare { .. } => 1,
            Self::VotePrecommit { .. } => 2,
            Self::VoteCommit { .. } => 3,
            Self::Vote { .. } => 4,
            Self::Order { .. } => 5,
            Self::Complain { .. } => 6,
            Self::Checkpoint(_) => 7,
            Self::EpochReady { .. } => 8,
            Self::Members { .. } => 9,
        }
    }
}
