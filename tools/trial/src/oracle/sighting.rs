//! What oracles see of a HotStuff run, free of production types: what was said on the wire, what was written to the
//! journal, what was delivered.

use synod_crypto::Hash;

/// The rule pack of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// Three phases per view.
    Basic,
    /// Three-chain commit.
    Chain3,
    /// Two-chain commit.
    Chain2,
    /// Two-chain commit or order votes.
    Chain2Order,
    /// Lab: two-chain commit; the rules of its votes are not judged.
    Lab2,
}

/// What a vote is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Basic, first phase.
    Prepare,
    /// Basic, second phase.
    Precommit,
    /// Basic, third phase.
    Commit,
    /// Chained packs.
    Generic,
    /// Order vote.
    Order,
}

/// A block in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkSeen {
    /// The view.
    pub view: u64,
    /// The block.
    pub digest: Hash,
}

/// A certificate on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertSeen {
    /// What the votes were for.
    pub phase: Phase,
    /// The view and block.
    pub of: MarkSeen,
    /// The signers, one bit per member.
    pub signers: u128,
}

/// A header on the wire.
#[derive(Clone, Copy, Debug)]
pub struct HeaderSeen {
    /// Its digest, view.
    pub own: MarkSeen,
    /// Its parent.
    pub parent: Hash,
    /// The view of its justify certificate.
    pub justify: u64,
    /// The last view of the term its timeout certificate gave up and the highest view that certificate lists.
    pub given_up: Option<(u64, u64)>,
    /// Who proposed it.
    pub proposer: u32,
    /// How many entries it adds to the log.
    pub count: u64,
}

/// The promises of a replica as its journal holds them.
#[derive(Clone, Copy, Debug)]
pub struct SafetySeen {
    /// The last vote and its phase.
    pub voted: (MarkSeen, Phase),
    /// The last proposal.
    pub proposed: MarkSeen,
    /// The last order vote.
    pub ordered: MarkSeen,
    /// The highest view complained about.
    pub complained: u64,
    /// The lock.
    pub lock: MarkSeen,
    /// The highest certificate.
    pub high: MarkSeen,
    /// The last view of the newest term given up.
    pub given_up: u64,
}

/// One thing seen.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    /// The node was rebuilt from its journal; the records it found follow.
    Reopened,
    /// The node's first event: everything its journal held was shown.
    Started,
    /// The node armed the timer of this view.
    Entered(u64),
    /// The node goes on behind this position, whose state it fetches.
    Jumped(u64),
    /// A header inside any frame.
    Header(HeaderSeen),
    /// The node proposed a block.
    Proposed(MarkSeen),
    /// The node voted.
    Voted(MarkSeen, Phase),
    /// The node complained: last view of the term, view of its highest certificate.
    Complained {
        /// The last view of the term.
        view: u64,
        /// The view of the highest certificate shown.
        high: u64,
    },
    /// A certificate inside a frame of the node.
    Certificate(CertSeen),
    /// A timeout certificate inside a frame of the node.
    GaveUp {
        /// The last view of the term.
        view: u64,
        /// The signers, one bit per member.
        signers: u128,
        /// The highest view it lists.
        high: u64,
    },
    /// A safety record was written.
    Safety(SafetySeen),
    /// A commit record was written.
    Committed {
        /// The block.
        digest: Hash,
        /// The position of its last entry, or of the last entry below it.
        last: u64,
    },
    /// The record of a stable checkpoint at this position was written.
    Stable(u64),
    /// An entry was delivered.
    Delivered {
        /// Its position.
        position: u64,
        /// Digest of payload, time and the end-of-block mark.
        content: Hash,
    },
    /// The item of a delivered entry, and where.
    Item {
        /// The position.
        position: u64,
        /// Digest of the payload; none of an empty one, whose item is named by who added it.
        id: Option<Hash>,
    },
    /// The node gave a proof that this item stands at this position.
    Proved {
        /// The position.
        position: u64,
        /// Digest of the payload.
        id: Hash,
    },
}

/// One thing seen, with where and when.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// Virtual nanoseconds.
    pub at: u64,
    /// The node.
    pub node: u32,
    /// Whether the node follows the protocol in this run.
    pub honest: bool,
    /// How often it was restarted.
    pub incarnation: u32,
    /// What was seen.
    pub seen: Seen,
}
