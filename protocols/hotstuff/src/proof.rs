//! Proofs that somebody else can check: that a block is committed, that an entry stands in it.

use synod_crypto::{Evidence, Group, Hash, Refusal, merkle};
use synod_machine::broadcast::Position;
use synod_quorum::Epoch;
use synod_wire::{Bytes, List, Wire, wire};

use crate::block::Item;
use crate::{Header, Kind, Pack, Qc, Statement};

/// Most headers between a proved block and the directly committed one above it.
pub(crate) const PATH_MAX: usize = 256;

wire! {
    /// Why a block is committed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Commitment {
        /// A commit certificate of the basic pack, or an order certificate.
        0 = Direct(Qc),
        /// A child of the next view is certified.
        1 = TwoChain {
            /// The child; its justify certifies the block.
            child: Box<Header>,
            /// Certificate of the child.
            qc: Qc,
        },
        /// A child and a grandchild of the next two views, the latter certified.
        2 = ThreeChain {
            /// The child; its justify certifies the block.
            child: Box<Header>,
            /// The grandchild; its justify certifies the child.
            grandchild: Box<Header>,
            /// Certificate of the grandchild.
            qc: Qc,
        },
    }

    /// A block and why it is committed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CommitProof {
        /// The block.
        pub header: Header,
        /// Why it is committed.
        pub commitment: Commitment,
    }

    /// An entry, its place in its block, and the proof that the block or a descendant is committed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EntryProof {
        /// The position at the node that answered.
        pub position: Position,
        /// Index of the item in its block.
        pub index: u32,
        /// Id of the item.
        pub id: Hash,
        /// Siblings from the item to the payload root.
        pub path: List<Hash, 32>,
        /// Headers from the item's block up to the parent of the proved one, oldest first; empty when the block
        /// itself is proved.
        pub headers: List<Header, PATH_MAX>,
        /// Proof of the block, or of a descendant of it.
        pub proof: CommitProof,
    }
}

impl Commitment {
    /// The certificate that carries the signatures.
    #[must_use]
    pub const fn qc(&self) -> &Qc {
        match self {
            Self::Direct(qc) | Self::TwoChain { qc, .. } | Self::ThreeChain { qc, .. } => qc,
        }
    }

    /// Whether members under the rules of `pack` commit for this reason. What commits under one pack need not under
    /// another: two certified blocks in a row are no commit where the rules ask for three.
    #[must_use]
    pub fn is_of(&self, pack: Pack) -> bool {
        match self {
            Self::Direct(qc) if pack.is_basic() => qc.kind == Kind::Commit,
            Self::Direct(qc) => pack.has_orders() && qc.kind == Kind::Order,
            Self::TwoChain { .. } => !pack.is_basic() && !pack.is_chain3(),
            Self::ThreeChain { .. } => pack.is_chain3(),
        }
    }
}

fn certifies(qc: &Qc, header: &Header, digest: Hash) -> bool {
    qc.view == header.view && qc.digest == digest && qc.epoch == header.epoch
}

fn follows(child: &Header, parent: &Header) -> Result<(), Refusal> {
    let digest = parent.digest();
    let linked = child.parent == digest && certifies(&child.justify, parent, digest);
    if linked && parent.view.precedes(child.view) && child.justify.kind == Kind::Generic {
        Ok(())
    } else {
        Err(Refusal::Unfit("a chain links each block to a parent of the view before"))
    }
}

impl CommitProof {
    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let more = match &self.commitment {
            Commitment::Direct(qc) => qc.memory(),
            Commitment::TwoChain { child, qc } => child.memory() + qc.memory(),
            Commitment::ThreeChain { child, grandchild, qc } => {
                child.memory() + grandchild.memory() + qc.memory()
            }
        };
        self.header.memory() + more
    }

    fn screen(&self) -> Result<(), Refusal> {
        let (top, kinds): (&Header, &[Kind]) = match &self.commitment {
            Commitment::Direct(_) => (&self.header, &[Kind::Commit, Kind::Order]),
            Commitment::TwoChain { child, .. } => {
                follows(child, &self.header)?;
                (child, &[Kind::Generic])
            }
            Commitment::ThreeChain { child, grandchild, .. } => {
                follows(child, &self.header)?;
                follows(grandchild, child)?;
                (grandchild, &[Kind::Generic])
            }
        };
        let qc = self.commitment.qc();
        if certifies(qc, top, top.digest()) && kinds.contains(&qc.kind) {
            Ok(())
        } else {
            Err(Refusal::Unfit("the certificate is of the last block of the chain"))
        }
    }
}

impl Evidence for CommitProof {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.header.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        self.screen()?;
        self.commitment.qc().groups()
    }
}

impl EntryProof {
    /// Whether `payload` is the entry that this proves.
    #[must_use]
    pub fn is_of(&self, payload: &Bytes) -> bool {
        match Item::new(payload.clone()) {
            Some(item) => item.id == self.id,
            None => payload.is_empty() && Item::names_empty(&self.id),
        }
    }
}

impl Evidence for EntryProof {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.proof.header.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        let block = self.headers.first().unwrap_or(&self.proof.header);
        let leaf = merkle::leaf(&self.id.0);
        if !merkle::proves(&block.root, block.count, self.index, leaf, &self.path) {
            return Err(Refusal::Unfit("the path leads to the payload root"));
        }
        let above = self.headers.iter().skip(1).chain([&self.proof.header]);
        let linked = self.headers.iter().zip(above).all(|(parent, child)| child.parent == parent.digest());
        if !linked {
            return Err(Refusal::Unfit("headers link the entry's block to the proved one"));
        }
        self.proof.groups()
    }
}

impl EntryProof {
    /// The bytes handed to users.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.encode()
    }
}
