//! Certificates of one aggregate: a statement, the bitmap of its signers, the sum of their signatures.

use core::fmt;

use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Draw, Drawn, Malformed, Reader, Wire, Writer};

use super::claim::BlsClaim;
use super::points::{BlsPublicKey, BlsSignature, KeySum};
use crate::{Keys, Refusal, Scope, Statement, Verified};

/// The keys of all members for multi-signatures, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlsMembers(Vec<BlsPublicKey>);

impl BlsMembers {
    /// Members with these keys. Nothing when two share a key, for one could then sign as both, or when there are more than
    /// a [`NodeSet`] holds.
    #[must_use]
    pub fn new(keys: Vec<BlsPublicKey>) -> Option<Self> {
        let mut names: Vec<[u8; 48]> = keys.iter().map(BlsPublicKey::to_bytes).collect();
        names.sort_unstable();
        names.dedup();
        (names.len() == keys.len() && keys.len() <= 128).then_some(Self(keys))
    }

    /// The key of a member.
    #[must_use]
    pub fn key(&self, id: NodeId) -> Option<&BlsPublicKey> {
        self.0.get(usize::from(id.member()?))
    }

    fn sum(&self, signers: NodeSet, keys: &Keys) -> Result<KeySum, Refusal> {
        let found: Result<Vec<BlsPublicKey>, Refusal> =
            signers.iter().map(|id| self.key(id).copied().ok_or(Refusal::Stranger(id))).collect();
        Ok(keys.bls().sum_keys(found?))
    }
}

/// One statement signed by many, in 96 bytes and a bitmap. Bytes of signatures are never an identifier.
#[derive(Clone, PartialEq, Eq)]
pub struct BlsCertificate<S> {
    /// What they signed.
    pub statement: S,
    /// Who is said to have signed.
    pub signers: NodeSet,
    /// The sum of their signatures, compressed.
    pub aggregate: [u8; 96],
}

impl<S: fmt::Debug> fmt::Debug for BlsCertificate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} signed by {:?}", self.statement, self.signers)
    }
}

impl<S: Statement> BlsCertificate<S> {
    /// Checks the certificate: signers are members, `is_enough` of them (a rule of `Quorums` or `Weights`), and their
    /// aggregate is good. 1.1 ms for any number of signers.
    ///
    /// # Errors
    /// The first [`Refusal`] found.
    pub fn verify(
        self,
        scope: Scope,
        members: &BlsMembers,
        is_enough: impl FnOnce(NodeSet) -> bool,
        keys: &Keys,
    ) -> Result<Verified<Self>, Refusal> {
        let sum = members.sum(self.signers, keys)?;
        if self.signers.is_empty() || !is_enough(self.signers) {
            return Err(Refusal::TooWeak);
        }
        let signature = keys.bls().signature(&self.aggregate).map_err(|_| Refusal::Aggregate)?;
        let claim = BlsClaim { statement: self.statement.clone(), scope, keys: sum, signature };
        claim.verify(keys).map_err(|_| Refusal::Aggregate)?;
        Ok(Verified::mint(self))
    }
}

/// Why votes did not become a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncombined {
    /// The rule that they break.
    pub refusal: Refusal,
    /// Whose signatures are not good; empty unless the aggregate was refused.
    pub liars: NodeSet,
}

/// Combines votes for one statement, which are checked together; singly when that fails, so that the liars are named. With
/// them left out the caller asks again.
///
/// # Errors
/// [`Uncombined`] for a stranger, a repeated signer, too few signers, or bad signatures.
pub fn combine<S: Statement>(
    (statement, scope): (S, Scope),
    votes: &[(NodeId, BlsSignature)],
    members: &BlsMembers,
    is_enough: impl FnOnce(NodeSet) -> bool,
    keys: &Keys,
) -> Result<Verified<BlsCertificate<S>>, Uncombined> {
    let refused = |refusal| Uncombined { refusal, liars: NodeSet::EMPTY };
    let mut signers = NodeSet::EMPTY;
    for (signer, _) in votes {
        if members.key(*signer).is_none() {
            return Err(refused(Refusal::Stranger(*signer)));
        }
        if !signers.insert(*signer) {
            return Err(refused(Refusal::Repeated(*signer)));
        }
    }
    let bls = keys.bls();
    let signature = bls.sum_signatures(votes.iter().map(|(_, vote)| *vote)).to_signature();
    let aggregate = signature.to_bytes();
    let certificate = BlsCertificate { statement: statement.clone(), signers, aggregate };
    match certificate.verify(scope, members, is_enough, keys) {
        Err(Refusal::Aggregate) => {
            let claims: Vec<(NodeId, BlsClaim<S>)> = votes
                .iter()
                .filter_map(|(id, signature)| {
                    let sum = bls.sum_keys([*members.key(*id)?]);
                    let statement = statement.clone();
                    Some((*id, BlsClaim { statement, scope, keys: sum, signature: *signature }))
                })
                .collect();
            let mut liars = NodeSet::EMPTY;
            for (id, claim) in claims {
                if claim.verify(keys).is_err() {
                    liars.insert(id);
                }
            }
            Err(Uncombined { refusal: Refusal::Aggregate, liars })
        }
        verdict => verdict.map_err(refused),
    }
}

impl<S: Wire> Wire for BlsCertificate<S> {
    fn write(&self, out: &mut Writer) {
        self.statement.write(out);
        self.signers.write(out);
        out.bytes(&self.aggregate);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let (statement, signers) = (S::read(input)?, NodeSet::read(input)?);
        Ok(Self { statement, signers, aggregate: input.array()? })
    }

    fn size_hint(&self) -> usize {
        self.statement.size_hint() + 17 + 96
    }
}

impl<S: Draw> Draw for BlsCertificate<S> {
    fn draw(from: &mut Drawn) -> Self {
        Self { statement: S::draw(from), signers: Draw::draw(from), aggregate: Draw::draw(from) }
    }
}
