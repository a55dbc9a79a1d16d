//! All signature work, as jobs: a job carries its claim through and returns it verified.

use std::sync::Arc;

use synod_crypto::{
    Claim, Hash, Keys, Refusal, Scope, Signature, Verified, verify_all, verify_evidence,
    verify_evidence_beyond,
};
use synod_machine::{Cost, Job as Work};
use synod_quorum::{NodeId, Roster};
use synod_wire::Bytes;

use crate::block::{BadBody, Body};
use crate::certificate::Anchor;
use crate::message::Blocks;
use crate::proof::CommitProof;
use crate::{CheckpointCert, Header, Qc, Statement, Tc};

/// In which cluster, and by whose keys, signatures are checked.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Digest of the genesis.
    pub cluster: Hash,
    /// The members.
    pub roster: Roster,
}

impl Domain {
    /// The scope of statements of the roster's epoch.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        Scope { cluster: self.cluster, epoch: self.roster.epoch() }
    }

    /// The claim that `signer` said `statement`; `None` if it is no member.
    #[must_use]
    pub fn claim(
        &self,
        signer: NodeId,
        statement: Statement,
        signature: Signature,
    ) -> Option<Claim<Statement>> {
        let key = self.roster.member(signer)?.key;
        Some(Claim { statement, scope: self.scope(), signer, key, signature })
    }
}

/// Why a certificate is checked: what the machine does with it then.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// It came alone.
    Alone,
    /// It came with this complaint: (term's last view, signature).
    Complaint(crate::View, Signature),
    /// Its sender entered this view and holds nothing higher.
    NewView(crate::View),
    /// It came in a status, beside a TC of this view.
    Status(crate::View),
}

/// Votes that were verified here before, the own ones included: none of their signatures is checked twice.
pub(crate) type Known = Arc<Vec<Verified<Claim<Statement>>>>;

/// Work for the pool.
#[derive(Clone, Debug)]
pub enum Task {
    /// Signs an own statement.
    Sign(NodeId, Statement),
    /// Checks votes assembled to a certificate; finds the forgers if it does not hold.
    Votes(Arc<Qc>, Known),
    /// Checks complaints assembled to a certificate; finds the forgers if it does not hold.
    Complaints(Arc<Tc>),
    /// Checks attestations assembled to a certificate; finds the forgers if it does not hold.
    Attestations(Arc<CheckpointCert>),
    /// Checks a peer's QC.
    Qc(NodeId, Arc<Qc>, Purpose),
    /// Checks a peer's TC.
    Tc(NodeId, Arc<Tc>),
    /// Checks a header's signature and those of its certificates that are not known yet.
    Proposal(NodeId, Arc<Header>, Signature, Unknown),
    /// Decodes and checks a body.
    Body(NodeId, Hash, Bytes),
    /// Checks a commit proof; the headers come along.
    Commit(NodeId, Arc<CommitProof>),
    /// Checks a range of committed blocks: links, proof and bodies.
    Range(NodeId, Arc<Blocks>),
    /// Checks an anchor.
    Anchor(NodeId, Arc<Anchor>),
    /// Checks a statement that is said to be this node's own.
    Own(NodeId, Statement, Signature),
}

/// Which certificates of a header are not known to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its justify.
    pub justify: bool,
    /// Votes in the justify that are.
    pub votes: Known,
    /// Its TC.
    pub tc: bool,
}

/// A job: a task and the domain it is checked in.
#[derive(Clone, Debug)]
pub struct Job {
    /// Cluster and members.
    pub domain: Arc<Domain>,
    /// What to do.
    pub task: Task,
}

/// What a header's check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Whether the proposer signed it.
    pub signed: bool,
    /// The justify; `Ok(None)` when it was known before.
    pub justify: Result<Option<Sound>, Refusal>,
    /// The TC; `Ok(None)` when there is none or it was known before.
    pub tc: Result<Option<Verified<Arc<Tc>>>, Refusal>,
}

/// A QC that holds, and its votes one by one.
#[derive(Clone, Debug)]
pub struct Sound {
    /// The certificate.
    pub qc: Verified<Arc<Qc>>,
    /// Its votes.
    pub votes: Vec<Verified<Claim<Statement>>>,
}

/// The answer of a job.
#[derive(Clone, Debug)]
pub enum Done {
    /// An own statement, signed.
    Signed(Verified<Claim<Statement>>),
    /// A certificate from votes, or who forged.
    Votes(Arc<Qc>, Result<Sound, Vec<NodeId>>),
    /// A certificate from complaints, or who forged.
    Complaints(Arc<Tc>, Result<Verified<Arc<Tc>>, Vec<NodeId>>),
    /// A certificate from attestations, or who forged.
    Attestations(Arc<CheckpointCert>, Result<Verified<Arc<CheckpointCert>>, Vec<NodeId>>),
    /// A peer's QC.
    Qc(NodeId, Result<Verified<Arc<Qc>>, Refusal>, Purpose),
    /// A peer's TC.
    Tc(NodeId, Result<Verified<Arc<Tc>>, Refusal>),
    /// A peer's header.
    Proposal(NodeId, Arc<Header>, Signature, Checked),
    /// A peer's body, or the blob of an own one.
    Body(NodeId, Hash, Result<Arc<Body>, BadBody>),
    /// A peer's commit proof.
    Commit(NodeId, Result<Verified<Arc<CommitProof>>, Refusal>),
    /// A peer's range, with those of its bodies that are sound.
    Range(NodeId, Arc<Blocks>, Result<Verified<Arc<Blocks>>, Refusal>, Vec<Arc<Body>>),
    /// A peer's anchor.
    Anchor(NodeId, Result<Verified<Arc<Anchor>>, Refusal>),
    /// A statement that is said to be this node's own.
    Own(NodeId, Result<Verified<Claim<Statement>>, Statement>),
}

impl Job {
    fn prove<E>(&self, evidence: &Arc<E>, keys: &Keys) -> Result<Verified<Arc<E>>, Refusal>
    where
        Arc<E>: synod_crypto::Evidence,
    {
        verify_evidence(Arc::clone(evidence), keys, self.domain.cluster, &self.domain.roster)
    }

    /// Verifies assembled statements as one batch; on failure names those whose own signature is bad.
    fn assemble<E>(
        &self,
        evidence: &Arc<E>,
        keys: &Keys,
        signed: impl Iterator<Item = (NodeId, Statement, Signature)>,
    ) -> Result<Verified<Arc<E>>, Vec<NodeId>>
    where
        Arc<E>: synod_crypto::Evidence,
    {
        self.prove(evidence, keys).map_err(|_| self.forgers(signed, keys))
    }

    fn claims(&self, signed: impl Iterator<Item = (NodeId, Statement, Signature)>) -> Vec<Claim<Statement>> {
        signed.filter_map(|(id, statement, signature)| self.domain.claim(id, statement, signature)).collect()
    }

    /// A QC whose votes are checked as far as they are not known to be good.
    fn sound(&self, qc: &Arc<Qc>, known: &Known, keys: &Keys) -> Result<Sound, Refusal> {
        let (cluster, roster) = (self.domain.cluster, &self.domain.roster);
        let (qc, votes) = verify_evidence_beyond(Arc::clone(qc), known, keys, cluster, roster)?;
        Ok(Sound { qc, votes })
    }

    fn votes(&self, qc: &Arc<Qc>, known: &Known, keys: &Keys) -> Result<Sound, Vec<NodeId>> {
        let statement = Statement::vote(qc.kind, qc.view, qc.digest);
        let signed = || qc.votes.signed().map(|(id, signature)| (id, statement.clone(), signature));
        self.sound(qc, known, keys).map_err(|_| self.forgers(signed(), keys))
    }

    /// Whose own signature is bad.
    fn forgers(
        &self,
        signed: impl Iterator<Item = (NodeId, Statement, Signature)>,
        keys: &Keys,
    ) -> Vec<NodeId> {
        let checked = verify_all(self.claims(signed), keys);
        checked.into_iter().filter_map(Result::err).map(|claim| claim.signer).collect()
    }

    fn complaints(&self, tc: &Arc<Tc>, keys: &Keys) -> Result<Verified<Arc<Tc>>, Vec<NodeId>> {
        let signed = tc.complaints.iter().map(|c| {
            let statement = Statement::Complain { view: tc.view, high: c.high };
            (NodeId::from(c.member), statement, c.signature)
        });
        self.assemble(tc, keys, signed)
    }

    fn attestations(
        &self,
        cert: &Arc<CheckpointCert>,
        keys: &Keys,
    ) -> Result<Verified<Arc<CheckpointCert>>, Vec<NodeId>> {
        let statement = Statement::Checkpoint(*cert.state());
        let signed = cert.attested.signed().map(|(id, signature)| (id, statement.clone(), signature));
        self.assemble(cert, keys, signed)
    }

    fn proposal(
        &self,
        header: &Arc<Header>,
        signature: Signature,
        unknown: &Unknown,
        keys: &Keys,
    ) -> Checked {
        let statement = Statement::Proposal { view: header.view, digest: header.digest() };
        let claim = self.domain.claim(header.proposer(), statement, signature);
        let signed = claim.is_some_and(|claim| claim.verify(keys).is_ok());
        let justify = match unknown.justify {
            true => self.sound(&Arc::new(header.justify.clone()), &unknown.votes, keys).map(Some),
            false => Ok(None),
        };
        let tc = match header.tc.as_ref().filter(|_| unknown.tc) {
            Some(tc) => self.prove(&Arc::new(tc.clone()), keys).map(Some),
            None => Ok(None),
        };
        Checked { signed, justify, tc }
    }
}

/// How many votes of a QC are not known to be good.
fn unknown_votes(qc: &Qc, known: &Known) -> usize {
    let is_known = |of: &(NodeId, Signature)| known.iter().any(|c| (c.signer, c.signature) == *of);
    qc.votes.signed().filter(|vote| !is_known(vote)).count()
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match &self.task {
            Task::Sign(own, statement) => {
                Done::Signed(keys.sign(self.domain.scope(), *own, statement.clone()))
            }
            Task::Votes(qc, known) => Done::Votes(Arc::clone(qc), self.votes(qc, known, keys)),
            Task::Complaints(tc) => Done::Complaints(Arc::clone(tc), self.complaints(tc, keys)),
            Task::Attestations(cert) => Done::Attestations(Arc::clone(cert), self.attestations(cert, keys)),
            Task::Qc(from, qc, purpose) => Done::Qc(*from, self.prove(qc, keys), purpose.clone()),
            Task::Tc(from, tc) => Done::Tc(*from, self.prove(tc, keys)),
            Task::Proposal(from, header, signature, unknown) => {
                let checked = self.proposal(header, *signature, unknown, keys);
                Done::Proposal(*from, Arc::clone(header), *signature, checked)
            }
            Task::Body(from, root, bytes) => {
                Done::Body(*from, *root, Body::open(*root, bytes.clone()).map(Arc::new))
            }
            Task::Commit(from, proof) => Done::Commit(*from, self.prove(proof, keys)),
            Task::Range(from, range) => {
                let bodies =
                    range.bodies.iter().filter_map(|p| Body::open(p.root, p.bytes.bytes().clone()).ok());
                let bodies = bodies.map(Arc::new).collect();
                Done::Range(*from, Arc::clone(range), self.prove(range, keys), bodies)
            }
            Task::Anchor(from, anchor) => Done::Anchor(*from, self.prove(anchor, keys)),
            Task::Own(from, statement, signature) => {
                let own = self.domain.roster.holder(&keys.public()).unwrap_or_default();
                let claim = self.domain.claim(own, statement.clone(), *signature);
                let verified = claim.ok_or(()).and_then(|claim| claim.verify(keys).map_err(|_| ()));
                Done::Own(*from, verified.map_err(|()| statement.clone()))
            }
        }
    }

    fn cost(&self) -> Cost {
        let none = Cost::default();
        let batch =
            |signers: usize| Cost { batch_verify: u32::try_from(signers).unwrap_or(u32::MAX), ..none };
        let qc = |qc: &Qc| batch(usize::try_from(qc.votes.signers().count()).unwrap_or(0));
        let tc = |tc: &Tc| batch(tc.complaints.len()) + qc(&tc.high);
        match &self.task {
            Task::Sign(..) => Cost { sign: 1, ..none },
            Task::Votes(cert, known) => batch(unknown_votes(cert, known)),
            Task::Qc(_, cert, _) => qc(cert),
            Task::Complaints(cert) | Task::Tc(_, cert) => tc(cert),
            Task::Attestations(cert) => batch(usize::try_from(cert.attested.signers().count()).unwrap_or(0)),
            Task::Proposal(_, header, _, unknown) => {
                let votes = || batch(unknown_votes(&header.justify, &unknown.votes));
                let justify = if unknown.justify { votes() } else { none };
                let second = header.tc.as_ref().filter(|_| unknown.tc).map_or(none, tc);
                Cost { verify: 1, ..none } + justify + second
            }
            Task::Body(_, _, bytes) => {
                Cost { hashed: 2 * bytes.len() as u64, coded: bytes.len() as u64, ..none }
            }
            Task::Commit(_, proof) => qc(proof.commitment.qc()),
            Task::Range(_, range) => {
                let bytes: u64 = range.bodies.iter().map(|p| p.bytes.len() as u64).sum();
                let proof = range.proof.as_ref().map_or(none, |p| qc(p.commitment.qc()));
                Cost { hashed: 2 * bytes, coded: bytes, ..none } + proof
            }
            Task::Anchor(_, anchor) => {
                batch(usize::try_from(anchor.certificate.attested.signers().count()).unwrap_or(0))
            }
            Task::Own(..) => Cost { verify: 1, ..none },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match &self.task {
            Task::Sign(..) | Task::Votes(..) | Task::Complaints(_) | Task::Attestations(_) => None,
            Task::Qc(from, ..)
            | Task::Tc(from, _)
            | Task::Proposal(from, ..)
            | Task::Body(from, ..)
            | Task::Commit(from, _)
            | Task::Range(from, _)
            | Task::Anchor(from, _)
            | Task::Own(from, ..) => Some(*from),
        }
    }
}
