//! Certificates: of a block (QC), of a given-up term (TC), of a state (checkpoint).
//!
//! Each says by [`Evidence`] which signatures prove it; [`crate::Statement`] carries kind and view inside the signed
//! bytes, so a certificate of one kind or view never passes as another.

use synod_crypto::{Certificate, Evidence, Group, Hash, Refusal, Signature, Threshold};
use synod_machine::planted;
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::{List, wire};

use crate::statement::Attested;
use crate::{Header, Kind, Statement, View};

wire! {
    /// A quorum certificate: votes of one kind for one block in one view, of quorum power.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Qc {
        /// The epoch of the voters.
        pub epoch: Epoch,
        /// What kind of votes.
        pub kind: Kind,
        /// The view voted in.
        pub view: View,
        /// The block voted for.
        pub digest: Hash,
        /// Who voted, with their signatures.
        pub votes: Certificate<()>,
    }

    /// One complaint inside a [`Tc`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Complaint {
        /// Who complained.
        pub member: u8,
        /// View of the highest certificate it held.
        pub high: View,
        /// Over the term's last view and `high`.
        pub signature: Signature,
    }

    /// A timeout certificate: complaints of quorum power about one term, and the QC of the highest view they list.
    /// Without that QC it is invalid, so no liar can demand a justify nobody holds.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tc {
        /// The epoch of the complainers.
        pub epoch: Epoch,
        /// Last view of the term given up.
        pub view: View,
        /// The complaints in member order.
        pub complaints: List<Complaint, 128>,
        /// The QC of the highest listed view.
        pub high: Qc,
    }

    /// Attestations of one state, of quorum power.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CheckpointCert {
        /// The epoch of the members.
        pub epoch: Epoch,
        /// What they attest, who, with their signatures.
        pub attested: Certificate<Attested>,
    }

    /// A certified state and the header of the block it lies in: where a replica behind everything starts again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Anchor {
        /// Proof that a quorum has this state.
        pub certificate: CheckpointCert,
        /// The block of the certified position.
        pub header: Header,
    }
}

impl Qc {
    /// The certificate of the genesis: constant and empty, valid for view 0 and the genesis digest only.
    #[must_use]
    pub fn empty(epoch: Epoch, kind: Kind, digest: Hash) -> Self {
        Self { epoch, kind, view: View::GENESIS, digest, votes: Certificate::assemble((), []) }
    }

    /// Assembles a certificate from votes in member order.
    #[must_use]
    pub fn assemble(
        epoch: Epoch,
        of: (Kind, View, Hash),
        votes: impl IntoIterator<Item = (NodeId, Signature)>,
    ) -> Self {
        let (kind, view, digest) = of;
        Self { epoch, kind, view, digest, votes: Certificate::assemble((), votes) }
    }

    /// The digest by which verified certificates are remembered: over every byte, signatures included.
    #[must_use]
    pub fn name(&self) -> Hash {
        Hash::of_value("synod hotstuff qc", self)
    }

    /// Whether it is the genesis certificate of `genesis`.
    #[must_use]
    pub fn is_genesis(&self, genesis: Hash) -> bool {
        self.view == View::GENESIS && self.digest == genesis && self.votes.signers().is_empty()
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn memory(&self) -> u64 {
        64 + self.votes.bytes()
    }

    fn group(&self) -> Group<Statement> {
        let statement = Statement::vote(self.kind, self.view, self.digest);
        let threshold = if planted!(H1) { Threshold::Weak } else { Threshold::Quorum };
        let signed = self.votes.signed().map(|(id, signature)| (id, statement.clone(), signature)).collect();
        Group { threshold, signed }
    }
}

impl Evidence for Qc {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        if self.view == View::GENESIS {
            return Err(Refusal::Unfit("view 0 has no certificate but the genesis one"));
        }
        Ok(vec![self.group()])
    }
}

impl Tc {
    /// The digest by which verified certificates are remembered.
    #[must_use]
    pub fn name(&self) -> Hash {
        Hash::of_value("synod hotstuff tc", self)
    }

    /// The highest high-QC view that a complaint lists.
    #[must_use]
    pub fn highest(&self) -> View {
        self.complaints.iter().map(|c| c.high).max().unwrap_or_default()
    }

    /// Who complained.
    #[must_use]
    pub fn signers(&self) -> NodeSet {
        self.complaints.iter().map(|c| NodeId::from(c.member)).collect()
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn memory(&self) -> u64 {
        64 + 88 * self.complaints.len() as u64 + self.high.memory()
    }
}

impl Evidence for Tc {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        let rising = self.complaints.windows(2).all(|pair| match pair {
            [a, b] => a.member < b.member,
            _ => true,
        });
        if !rising {
            return Err(Refusal::Unfit("complaints stand in member order, one each"));
        }
        if self.high.view != self.highest() || self.high.epoch != self.epoch {
            return Err(Refusal::Unfit("a TC carries the QC of the highest view it lists"));
        }
        if self.high.view > self.view {
            return Err(Refusal::Unfit("no complaint knows a certificate above the term it gives up"));
        }
        let signed = self.complaints.iter().map(|c| {
            let statement = Statement::Complain { view: self.view, high: c.high };
            (NodeId::from(c.member), statement, c.signature)
        });
        let threshold = if planted!(H1) { Threshold::Weak } else { Threshold::Quorum };
        let mut groups = vec![Group { threshold, signed: signed.collect() }];
        // The genesis certificate carries no signature; the machine compares it with the constant while screening.
        if self.high.view != View::GENESIS {
            groups.push(self.high.group());
        }
        Ok(groups)
    }
}

impl CheckpointCert {
    /// What the members attest.
    #[must_use]
    pub const fn state(&self) -> &Attested {
        &self.attested.statement
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn memory(&self) -> u64 {
        128 + self.attested.bytes()
    }
}

impl Evidence for CheckpointCert {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        let statement = Statement::Checkpoint(*self.state());
        let signed =
            self.attested.signed().map(|(id, signature)| (id, statement.clone(), signature)).collect();
        Ok(vec![Group { threshold: Threshold::Quorum, signed }])
    }
}

impl Evidence for Anchor {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.certificate.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        let state = self.certificate.state();
        let bound = self.header.digest() == state.digest && self.header.view == state.view;
        if !bound || state.index > self.header.count {
            return Err(Refusal::Unfit("an anchor's header is the block of its position"));
        }
        self.certificate.groups()
    }
}
