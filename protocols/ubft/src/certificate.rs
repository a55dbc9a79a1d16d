//! What f + 1 replicas signed: one of them is correct (specification, section 3.4).

use synod_crypto::{
    Claim, Claims, Evidence, Group, Hash, Keys, Refusal, Signature, Threshold, Verified,
    verify_evidence_beyond,
};
use synod_machine::planted;
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Draw, Drawn, List, Malformed, Reader, Wire, Writer, wire};

use crate::batch::{Slot, View};
use crate::config::Config;
use crate::statement::Statement;

/// Replicas at most.
pub const REPLICAS_MAX: usize = 128;
/// Slots of a window at most.
pub const WINDOW_MAX: usize = 1 << 12;

/// Something that replicas sign together.
pub trait Subject: Wire + Clone + PartialEq {
    /// What one of them signs about it.
    fn statement(&self, signer: u8) -> Statement;
}

wire! {
    /// The proposal of a slot in a view is this one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Certified {
        /// The view.
        pub view: View,
        /// The slot.
        pub slot: Slot,
        /// Of the batch.
        pub digest: Hash,
    }

    /// The state behind all slots below `low`: a checkpoint of the first level.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Checkpoint {
        /// The epoch in which it was reached.
        pub epoch: Epoch,
        /// The first slot that it does not have.
        pub low: Slot,
        /// Over the digests of all batches below.
        pub log_chain: Hash,
        /// Over the digests of all replies to them.
        pub exec_chain: Hash,
        /// Of the configuration that holds from `end` on, or holds now.
        pub config: Hash,
        /// The first slot that is none of this epoch's, once that is known.
        pub end: Option<Slot>,
    }

    /// What a broadcaster said up to message `k`, as a state of its stream.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Summarized {
        /// The broadcaster.
        pub about: u8,
        /// The message.
        pub k: u64,
        /// Of the state.
        pub state: Hash,
    }

    /// The state behind all slots below `low` has this root: a checkpoint of the second level.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Snapshotted {
        /// The epoch in which it was reached.
        pub epoch: Epoch,
        /// The first slot that it does not have.
        pub low: Slot,
        /// Of the state: see [`crate::snapshot::Snapshot`].
        pub root: Hash,
    }

    /// A slot that a replica has a certificate for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Committed {
        /// The slot.
        pub slot: Slot,
        /// The view of its newest certificate.
        pub view: View,
        /// Of the batch.
        pub digest: Hash,
    }

    /// Where a replica stood when it left for a view.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Left {
        /// The view that it went to.
        pub view: View,
        /// The replica.
        pub about: u8,
        /// The first slot that its checkpoint does not have.
        pub low: Slot,
        /// Of its checkpoint.
        pub checkpoint: Hash,
        /// What it is committed to, by slot.
        pub commits: List<Committed, WINDOW_MAX>,
    }
}

impl Checkpoint {
    /// Whether it is the last one of its epoch.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.end == Some(self.low)
    }

    /// What stands for it.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("ubft checkpoint", self)
    }
}

impl Subject for Certified {
    fn statement(&self, signer: u8) -> Statement {
        Statement::Certify { signer, view: self.view, slot: self.slot, digest: self.digest }
    }
}

impl Subject for Checkpoint {
    fn statement(&self, signer: u8) -> Statement {
        Statement::Checkpoint { signer, checkpoint: *self }
    }
}

impl Subject for Summarized {
    fn statement(&self, signer: u8) -> Statement {
        Statement::Summary { signer, about: self.about, k: self.k, state: self.state }
    }
}

impl Subject for Snapshotted {
    fn statement(&self, signer: u8) -> Statement {
        Statement::Snapshot { signer, low: self.low, root: self.root }
    }
}

impl Subject for Left {
    fn statement(&self, signer: u8) -> Statement {
        let commits = Hash::of_value("ubft commits", &self.commits);
        let Self { view, about, low, checkpoint, .. } = self;
        Statement::Left { signer, view: *view, about: *about, low: *low, checkpoint: *checkpoint, commits }
    }
}

/// A statement with the signatures of f + 1 replicas, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate<T> {
    /// What they signed.
    pub subject: T,
    /// Who, and the signature.
    pub signed: List<(u8, Signature), REPLICAS_MAX>,
}

impl<T: Wire> Wire for Certificate<T> {
    fn write(&self, out: &mut Writer) {
        self.subject.write(out);
        self.signed.write(out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { subject: T::read(input)?, signed: List::read(input)? })
    }

    fn size_hint(&self) -> usize {
        self.subject.size_hint() + self.signed.size_hint()
    }
}

impl<T: Draw> Draw for Certificate<T> {
    fn draw(from: &mut Drawn) -> Self {
        Self { subject: T::draw(from), signed: List::draw(from) }
    }
}

/// A certificate, with what it is judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged<T> {
    certificate: Certificate<T>,
    epoch: Epoch,
    need: u32,
}

impl<T> Judged<T> {
    /// The certificate.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate<T> {
        &self.certificate
    }

    /// The certificate, by value.
    #[must_use]
    pub fn into_certificate(self) -> Certificate<T> {
        self.certificate
    }

    /// What it proves.
    #[must_use]
    pub const fn subject(&self) -> &T {
        &self.certificate.subject
    }
}

impl<T: Subject> Evidence for Judged<T> {
    type Statement = Statement;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Statement>>, Refusal> {
        let signed = &self.certificate.signed;
        if !signed.iter().is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(Refusal::Unfit("signers of a certificate come in order, each once"));
        }
        let each = |(member, signature): &(u8, Signature)| {
            (NodeId(u32::from(*member)), self.certificate.subject.statement(*member), *signature)
        };
        Ok(vec![Group {
            threshold: Threshold::Members(self.need),
            signed: signed.iter().map(each).collect(),
        }])
    }
}

impl<T: Subject> Certificate<T> {
    /// Checks it against the replicas of a configuration: exactly f + 1 distinct ones, every signature good (E20).
    ///
    /// # Errors
    /// Why it proves nothing.
    pub fn verify(self, config: &Config, keys: &Keys) -> Result<Verified<Judged<T>>, Refusal> {
        self.verify_beyond(&[], config, keys).map(|(judged, _)| judged)
    }

    /// The same for whoever checked some of its signatures before: those are not checked again. Gives all of them for the next time.
    ///
    /// # Errors
    /// Why it proves nothing.
    pub fn verify_beyond(
        self,
        seen: &[Verified<Claim<Statement>>],
        config: &Config,
        keys: &Keys,
    ) -> Result<(Verified<Judged<T>>, Claims<Statement>), Refusal> {
        let quorums = config.quorums().map_err(|_| Refusal::Unfit("the configuration cannot work"))?;
        let judged = Judged {
            certificate: self,
            epoch: config.epoch,
            need: quorums.one_correct() - u32::from(planted!(U12)),
        };
        verify_evidence_beyond(judged, seen, keys, config.cluster, &config.roster)
    }
}
