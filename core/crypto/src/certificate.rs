//! Certificates: statements of many members that prove something together.

use core::fmt;
use std::sync::Arc;

use synod_quorum::{NodeId, NodeSet, Roster};
use synod_wire::{Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer};

use crate::{Claim, Hash, Keys, Scope, Signature, Statement, Verified, verify_all};

/// How much power a group of signers must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Q = P - F: any two such groups share a correct member.
    Quorum,
    /// More than (P + F) / 2: any two such groups share a correct member, with as few signers as that takes.
    Intersecting,
    /// W = F + 1: one of them is correct.
    Weak,
    /// Exactly so many members, whatever their power: of 2f + 1 replicas f + 1.
    Members(u32),
}

/// Signed statements that must together reach a threshold.
#[derive(Clone, Debug)]
pub struct Group<S> {
    /// What the distinct signers must reach.
    pub threshold: Threshold,
    /// Who said what.
    pub signed: Vec<(NodeId, S, Signature)>,
}

/// Something that signatures prove: a certificate or a structure of several.
pub trait Evidence {
    /// What its signers signed.
    type Statement: Statement;

    /// The epoch whose members must have signed.
    fn epoch(&self) -> synod_quorum::Epoch;

    /// The groups of statements that prove it, after its own structural checks; an empty list proves nothing
    /// and is refused.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] with the rule that its structure breaks.
    fn groups(&self) -> Result<Vec<Group<Self::Statement>>, Refusal>;
}

/// Shared evidence proves what it proves alone, so a job can verify without copying.
impl<E: Evidence> Evidence for Arc<E> {
    type Statement = E::Statement;

    fn epoch(&self) -> synod_quorum::Epoch {
        E::epoch(self)
    }

    fn groups(&self) -> Result<Vec<Group<E::Statement>>, Refusal> {
        E::groups(self)
    }
}

/// Why evidence proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Signed in another epoch than the roster's.
    Epoch,
    /// A signer is no member.
    Stranger(NodeId),
    /// A signer appears twice in one group.
    Repeated(NodeId),
    /// The signers of a group are too weak.
    TooWeak,
    /// A signature does not verify.
    Forged(NodeId),
    /// The sum of the signatures is not that of the signers.
    Aggregate,
    /// The structure itself breaks the named rule.
    Unfit(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch => f.write_str("signed in another epoch"),
            Self::Stranger(id) => write!(f, "{id} is no member"),
            Self::Repeated(id) => write!(f, "{id} appears twice"),
            Self::TooWeak => f.write_str("the signers do not reach the threshold"),
            Self::Forged(id) => write!(f, "the signature of {id} does not verify"),
            Self::Aggregate => f.write_str("the aggregate signature is not that of its signers"),
            Self::Unfit(rule) => f.write_str(rule),
        }
    }
}

/// Checks evidence against the members of its epoch: signers distinct members, power at the threshold, every
/// signature good. All signatures of all groups are one batch.
///
/// # Errors
/// The first [`Refusal`] found.
pub fn verify_evidence<E: Evidence>(
    evidence: E,
    keys: &Keys,
    cluster: Hash,
    roster: &Roster,
) -> Result<Verified<E>, Refusal> {
    verify_evidence_beyond(evidence, &[], keys, cluster, roster).map(|(evidence, _)| evidence)
}

/// Claims that were verified, one by one.
pub type Claims<S> = Vec<Verified<Claim<S>>>;

/// The same for a verifier that knows some of the claims already: a signature is checked unless a claim in `seen`,
/// which was verified, equals it in every byte of statement, scope, signer, key and signature. Another signature of a
/// known statement is checked like any other. Gives the evidence, and its claims one by one for the next time.
///
/// # Errors
/// The first [`Refusal`] found.
pub fn verify_evidence_beyond<E: Evidence>(
    evidence: E,
    seen: &[Verified<Claim<E::Statement>>],
    keys: &Keys,
    cluster: Hash,
    roster: &Roster,
) -> Result<(Verified<E>, Claims<E::Statement>), Refusal> {
    if evidence.epoch() != roster.epoch() {
        return Err(Refusal::Epoch);
    }
    let groups = evidence.groups()?;
    if groups.is_empty() {
        return Err(Refusal::TooWeak);
    }
    let scope = Scope { cluster, epoch: roster.epoch() };
    let (mut claims, mut good) = (Vec::new(), Vec::new());
    for group in groups {
        screen(&group, roster)?;
        for (signer, statement, signature) in group.signed {
            let key = roster.member(signer).ok_or(Refusal::Stranger(signer))?.key;
            let claim = Claim { statement, scope, signer, key, signature };
            match seen.iter().find(|known| ***known == claim) {
                Some(known) => good.push(known.clone()),
                None => claims.push(claim),
            }
        }
    }
    for checked in verify_all(claims, keys) {
        good.push(checked.map_err(|forged| Refusal::Forged(forged.signer))?);
    }
    Ok((Verified::mint(evidence), good))
}

fn screen<S>(group: &Group<S>, roster: &Roster) -> Result<(), Refusal> {
    let mut signers = NodeSet::EMPTY;
    for (signer, _, _) in &group.signed {
        if roster.member(*signer).is_none() {
            return Err(Refusal::Stranger(*signer));
        }
        if !signers.insert(*signer) {
            return Err(Refusal::Repeated(*signer));
        }
    }
    let enough = match group.threshold {
        Threshold::Quorum => roster.weights().is_quorum(signers),
        Threshold::Intersecting => roster.weights().intersects(signers),
        Threshold::Weak => roster.weights().is_weak(signers),
        Threshold::Members(count) => count > 0 && signers.count() == count,
    };
    if enough { Ok(()) } else { Err(Refusal::TooWeak) }
}

/// One statement signed by many: the bitmap of signers and their signatures, lowest member first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate<S> {
    /// What they signed.
    pub statement: S,
    /// Who signed.
    signers: NodeSet,
    signatures: Vec<Signature>,
}

impl<S> Certificate<S> {
    /// Assembles a certificate from votes, given lowest member first.
    ///
    /// # Panics
    /// When a signer repeats or is out of order; votes come from a `VoteSet`, which holds each signer once.
    #[must_use]
    pub fn assemble(statement: S, votes: impl IntoIterator<Item = (NodeId, Signature)>) -> Self {
        let mut signers = NodeSet::EMPTY;
        let mut signatures = Vec::new();
        let mut last = None;
        for (signer, signature) in votes {
            assert!(last < Some(signer), "votes come in member order, one per signer");
            last = Some(signer);
            signers.insert(signer);
            signatures.push(signature);
        }
        Self { statement, signers, signatures }
    }

    /// Who signed.
    #[must_use]
    pub const fn signers(&self) -> NodeSet {
        self.signers
    }

    /// Signers with their signatures, lowest member first.
    pub fn signed(&self) -> impl Iterator<Item = (NodeId, Signature)> {
        self.signers.iter().zip(self.signatures.iter().copied())
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        96 + 64 * self.signatures.len() as u64
    }

    /// The one group that proves this certificate at `threshold`.
    #[must_use]
    pub fn group(&self, threshold: Threshold) -> Group<S>
    where
        S: Clone,
    {
        let signed = self.signed().map(|(id, sig)| (id, self.statement.clone(), sig)).collect();
        Group { threshold, signed }
    }
}

impl<S: Wire> Wire for Certificate<S> {
    fn write(&self, out: &mut Writer) {
        self.statement.write(out);
        self.signers.write(out);
        for signature in &self.signatures {
            signature.write(out);
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let statement = S::read(input)?;
        let signers = NodeSet::read(input)?;
        let refusal = input.refuse(Why::Short);
        let count = usize::try_from(signers.count()).map_err(|_| refusal)?;
        if count.saturating_mul(64) > input.remaining() {
            return Err(refusal);
        }
        let mut signatures = Vec::with_capacity(count);
        for _ in 0..count {
            signatures.push(Signature::read(input)?);
        }
        Ok(Self { statement, signers, signatures })
    }

    fn size_hint(&self) -> usize {
        self.statement.size_hint() + 17 + 64 * self.signatures.len()
    }
}

impl<S: Draw> Draw for Certificate<S> {
    fn draw(from: &mut Drawn) -> Self {
        let signatures: List<Signature, 4> = List::draw(from);
        let votes = (0_u32..).map(|n| NodeId(n * 3)).zip(signatures);
        Self::assemble(S::draw(from), votes)
    }
}
