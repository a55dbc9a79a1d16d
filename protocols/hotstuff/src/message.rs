//! What replicas say to one another.

use synod_crypto::{Evidence, Group, Hash, Refusal, Signature};
use synod_machine::broadcast::Position;
use synod_machine::{Message as Spoken, Queue, planted};
use synod_quorum::Epoch;
use synod_wire::{Blob, List, wire};

use crate::block::{BODY_MAX, Item};
use crate::certificate::Anchor;
use crate::proof::CommitProof;
use crate::statement::Attested;
use crate::{Header, Kind, Qc, Statement, Tc, View};

/// Most blocks in one answer.
pub(crate) const RANGE_MAX: usize = 256;
/// Most digests in one question.
pub(crate) const WANTED_MAX: usize = 64;
/// Most items in one `Forward`.
pub(crate) const FORWARD_MAX: usize = 16_384;

wire! {
    /// Evidence that moves whoever lacks it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Proof {
        /// A term was given up.
        0 = Tc(Tc),
        /// A block is certified.
        1 = Qc(Qc),
        /// A block is committed.
        2 = Commit(Box<CommitProof>),
    }

    /// What a member knows, for whoever is behind.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Status {
        /// Height of the last committed block.
        pub height: u64,
        /// Its view.
        pub view: View,
        /// The highest QC held.
        pub high: Qc,
        /// The highest TC held.
        pub tc: Option<Tc>,
        /// Position of the newest stable checkpoint.
        pub stable: Position,
        /// The newest statement of the receiver that the sender holds: a receiver that does not know it was rolled
        /// back.
        pub yours: Option<(Statement, Signature)>,
    }

    /// What is asked of one peer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Want {
        /// Committed blocks from a height on.
        0 = Range {
            /// The first height.
            from: u64,
            /// At most this many.
            count: u32,
        },
        /// Blocks by digest, with their bodies.
        1 = Blocks(List<Hash, WANTED_MAX>),
        /// Bodies by payload root.
        2 = Bodies(List<Hash, WANTED_MAX>),
        /// The certificate of a view, if the peer still has it.
        3 = Certificate(View),
        /// The newest commit proof.
        4 = Proof,
        /// The peer's status.
        5 = Status,
    }

    /// An encoded body and the root it was asked for by.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Piece {
        /// The payload root.
        pub root: Hash,
        /// The encoded items.
        pub bytes: Blob<BODY_MAX>,
    }

    /// The answer to a [`Want`] for blocks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Blocks {
        /// Headers, oldest first.
        pub headers: List<Header, RANGE_MAX>,
        /// Bodies of those headers that have items, or of the roots asked for.
        pub bodies: List<Piece, RANGE_MAX>,
        /// Proof of the last header of a range.
        pub proof: Option<CommitProof>,
        /// Where to start when the range is no longer retained.
        pub anchor: Option<Anchor>,
    }

    /// What replicas say to one another.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A signed header; its body was sent before.
        0 = Propose {
            /// The header.
            header: Header,
            /// The proposer's, over view and digest.
            signature: Signature,
        },
        /// The items of a block, sent before its header is durable.
        1 = Body {
            /// The view it is for.
            view: View,
            /// Its payload root.
            root: Hash,
            /// The encoded items.
            bytes: Blob<BODY_MAX>,
        },
        /// A vote.
        2 = Vote {
            /// Of which kind; never an order.
            kind: Kind,
            /// In which view.
            view: View,
            /// For which block.
            digest: Hash,
            /// The sender's.
            signature: Signature,
        },
        /// An order vote.
        3 = Order {
            /// In which view.
            view: View,
            /// For which block.
            digest: Hash,
            /// The sender's.
            signature: Signature,
        },
        /// A certificate of the basic pack that starts the next phase of its view.
        4 = Phase(Qc),
        /// The sender entered a view and this is its highest QC.
        5 = NewView {
            /// The view entered.
            view: View,
            /// The highest QC held.
            high: Qc,
        },
        /// The sender gives up a term.
        6 = Complain {
            /// Last view of the term.
            view: View,
            /// The highest QC held; its view is part of what is signed.
            high: Qc,
            /// The sender's, over `view` and the view of `high`.
            signature: Signature,
        },
        /// Evidence that moves whoever lacks it.
        7 = Advance(Proof),
        /// What the sender knows.
        8 = Status(Status),
        /// A question.
        9 = Fetch(Want),
        /// An answer.
        10 = Blocks(Blocks),
        /// Items for the leader, or for all.
        11 = Forward(List<Item, FORWARD_MAX>),
        /// The sender reached a state.
        12 = Attest {
            /// Which state.
            state: Attested,
            /// The sender's.
            signature: Signature,
        },
    }
}

impl Evidence for Blocks {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.proof.as_ref().map_or(Epoch::default(), |proof| proof.header.epoch)
    }

    /// A range: heights without holes, each block linked to the one before, the last one proved.
    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        let linked = self.headers.windows(2).all(|pair| match pair {
            [below, above] => {
                planted!(H14) || (above.height == below.height + 1 && above.parent == below.digest())
            }
            _ => true,
        });
        match (&self.proof, self.headers.last()) {
            (Some(proof), Some(last)) if linked && proof.header == *last => proof.groups(),
            _ => Err(Refusal::Unfit("a range links every block and ends at its proof")),
        }
    }
}

impl Spoken for Message {
    fn queue(&self) -> Queue {
        match self {
            Self::Propose { .. } | Self::Body { .. } | Self::Forward(_) => Queue::PROPOSAL,
            Self::Blocks(_) => Queue::BULK,
            Self::Vote { .. }
            | Self::Order { .. }
            | Self::Phase(_)
            | Self::NewView { .. }
            | Self::Complain { .. }
            | Self::Advance(_)
            | Self::Status(_)
            | Self::Fetch(_)
            | Self::Attest { .. } => Queue::CONTROL,
        }
    }
}
