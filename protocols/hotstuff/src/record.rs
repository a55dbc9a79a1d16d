//! What a replica must remember through a crash, and which promise each record keeps.

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Keep, Record as Kept};
use synod_quorum::Epoch;
use synod_wire::wire;

use crate::certificate::Anchor;
use crate::{Header, Kind, Qc, Tc, View};

wire! {
    /// A block in a view.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub struct Mark {
        /// The view.
        pub view: View,
        /// The block.
        pub digest: Hash,
    }

    /// All promises of a replica, in one record: what it voted for, proposed, ordered, gave up and locked.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Safety {
        /// The epoch.
        pub epoch: Epoch,
        /// The last vote.
        pub voted: Mark,
        /// Its phase; `Generic` in the chained packs.
        pub phase: Kind,
        /// The last proposal.
        pub proposed: Mark,
        /// The last order vote.
        pub ordered: Mark,
        /// The highest view complained about; it never falls.
        pub complained: View,
        /// The lock; it never falls.
        pub lock: Mark,
        /// The highest QC, which stands in a record before this one.
        pub high: Mark,
        /// The view of the highest TC, which stands in a record before this one.
        pub tc: View,
        /// Basic pack: the highest view decided.
        pub decided: View,
    }

    /// Why a replica stopped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Why {
        /// Two committed blocks conflict.
        0 = Conflict,
        /// A quorum has another root.
        1 = Divergence,
        /// A peer holds a statement of this replica that its log lacks.
        2 = RolledBack,
    }

    /// A contradiction that only an operator can resolve, as operators were told of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Stopped {
        /// What it is.
        pub why: Why,
        /// The height, position or peer.
        pub at: u64,
        /// The block or root, or zero.
        pub digest: Hash,
    }

    /// A promise, or what a promise rests on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Record {
        /// Keeps every vote, order, proposal and complaint from being contradicted.
        0 = Safety(Safety),
        /// A certificate that a later `Safety` names.
        1 = Qc(Qc),
        /// A certificate that a later `Safety` names.
        2 = Tc(Tc),
        /// A header voted for or committed, and the blob that holds its body.
        3 = Block {
            /// The header.
            header: Header,
            /// Name of the body's blob; none for an empty block, or while the body is not here.
            body: Option<Hash>,
        },
        /// A block is committed, and with it its ancestors.
        4 = Commit {
            /// The block.
            digest: Hash,
            /// Position of its last entry, or of the last entry before it if it is empty.
            last: Position,
        },
        /// A stable checkpoint.
        5 = Checkpoint(Anchor),
        /// The replica has no memory of its promises and only listens; ended by the next `Rejoined`.
        6 = Listening,
        /// The replica may promise again.
        7 = Rejoined,
        /// The replica stopped, and is stopped when it starts again; ended by a damaged log, which makes it listen.
        8 = Stopped(Stopped),
    }
}

impl Kept for Record {
    fn keep(&self) -> Keep {
        match self {
            Self::Safety(_) => Keep::LogAndSlot,
            Self::Qc(_)
            | Self::Tc(_)
            | Self::Block { .. }
            | Self::Commit { .. }
            | Self::Checkpoint(_)
            | Self::Listening
            | Self::Rejoined
            | Self::Stopped(_) => Keep::Log,
        }
    }
}

impl Safety {
    /// Before the first promise.
    #[must_use]
    pub fn fresh(epoch: Epoch, genesis: Hash, phase: Kind) -> Self {
        let start = Mark { view: View::GENESIS, digest: genesis };
        Self {
            epoch,
            voted: start,
            phase,
            proposed: start,
            ordered: start,
            complained: View::GENESIS,
            lock: start,
            high: start,
            tc: View::GENESIS,
            decided: View::GENESIS,
        }
    }
}
