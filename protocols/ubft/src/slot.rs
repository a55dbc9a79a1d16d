//! What is said about one slot: promises and certificates (paper, sections 5.1 and 5.4; Algorithm 2). Bookkeeping alone: whether this
//! replica may speak, its view, its window and its endorsement are judged by whoever keeps the slots.
//!
//! *Fast.* A replica that endorses a proposal promises to certify it (WILL_CERTIFY; the leader's proposal is its promise, D5). When all
//! n have promised, it promises to commit to it (WILL_COMMIT); when all n have, it is decided, without a signature. Promises name view
//! and slot alone, for two proposals of one view and slot are impossible. *Slow.* f + 1 signatures certify a proposal, f + 1 replicas
//! whose streams show the certificate decide it, whatever the own view (E14). *Promises* are kept until the slot is checkpointed, for
//! they are honoured before a view is left (E12).
//!
//! *Shares.* Of each replica the share of the view that this one is in and the newest one are kept: whoever went on to a later view can still
//! give the share that this replica needs to leave its own (E12).
//!
//! *Bounds.* [`PROMISES_MAX`] promises; of each replica the newest view it promised in, two shares and one commitment.

use synod_crypto::{Claim, Hash, Signature, Verified};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::List;

use crate::batch::{Slot, View};
use crate::certificate::{Certificate, Certified};
use crate::few::Few;
use crate::statement::Statement;

/// Promises of one slot that are kept: in as many views this replica may have promised to certify something.
pub const PROMISES_MAX: usize = 4;

/// Bytes of a share that is kept.
pub(crate) const SHARE_BYTES: usize = 384;

/// How a replica stands by a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// By a promise, which costs no signature.
    Promise,
    /// By a signature, since it has promised as often as it may.
    Signature,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ballot {
    slot: Slot,
    /// The proposal of the newest view, as the leader's stream shows it.
    proposed: Option<(View, Hash)>,
    /// What this replica promised to certify, oldest first.
    promised: Vec<(View, Hash)>,
    /// What it promised to certify once it is delivered (4.18).
    early: Vec<(View, Hash)>,
    /// The newest view in which this replica promised to commit.
    committing: Option<View>,
    /// Of each replica the newest view in which it promised to certify, and to commit.
    will_certify: Few<NodeId, View>,
    will_commit: Few<NodeId, View>,
    /// Checked shares: of each replica at most two.
    shares: Few<(NodeId, View), Verified<Claim<Statement>>>,
    /// The newest certificate of each stream.
    commits: Few<NodeId, (View, Hash)>,
    certified: Option<(View, Hash)>,
    committed: Option<View>,
    decided: Option<Hash>,
}

impl Ballot {
    /// Of a slot about which nothing was said.
    #[must_use]
    pub const fn new(slot: Slot) -> Self {
        Self {
            slot,
            proposed: None,
            promised: Vec::new(),
            early: Vec::new(),
            committing: None,
            will_certify: Few::new(),
            will_commit: Few::new(),
            shares: Few::new(),
            commits: Few::new(),
            certified: None,
            committed: None,
            decided: None,
        }
    }

    /// The same of another slot, about which nothing was said, in the memory of this one.
    #[must_use]
    pub fn renew(self, slot: Slot) -> Self {
        Self {
            promised: emptied(self.promised),
            early: emptied(self.early),
            will_certify: self.will_certify.cleared(),
            will_commit: self.will_commit.cleared(),
            shares: self.shares.cleared(),
            commits: self.commits.cleared(),
            ..Self::new(slot)
        }
    }

    /// The slot.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        self.slot
    }

    /// The proposal of the newest view.
    #[must_use]
    pub const fn proposed(&self) -> Option<(View, Hash)> {
        self.proposed
    }

    /// What is decided.
    #[must_use]
    pub const fn decided(&self) -> Option<Hash> {
        self.decided
    }

    /// What this replica promised to certify.
    #[must_use]
    pub fn promised(&self) -> &[(View, Hash)] {
        &self.promised
    }

    /// Whether it promised to commit in a view.
    #[must_use]
    pub fn is_committing(&self, view: View) -> bool {
        self.committing == Some(view)
    }

    /// A leader's stream shows its proposal.
    pub fn propose(&mut self, view: View, digest: Hash) {
        if self.proposed.is_none_or(|(last, _)| last < view) {
            self.proposed = Some((view, digest));
        }
    }

    /// This replica stands by the proposal of a view: how, if it does not yet. Its leader's promise is the proposal, which it may not
    /// refuse to sign, so of too many it drops the oldest; another replica signs instead.
    pub fn stand(&mut self, view: View, digest: Hash, is_leader: bool) -> Option<Stand> {
        if self.promised.iter().any(|(promised, _)| *promised == view)
            || self.certified == Some((view, digest))
        {
            return None;
        }
        if self.promised.len() + self.early.len() >= PROMISES_MAX {
            if !is_leader {
                return Some(Stand::Signature);
            }
            self.promised.drain(..self.promised.len().min(1));
        }
        self.promised.push((view, digest));
        Some(Stand::Promise)
    }

    /// Whether this replica may promise to certify what is proposed in a view before it is delivered.
    #[must_use]
    pub fn may_promise(&self, view: View) -> bool {
        let of_view = |(other, _): &(View, Hash)| *other >= view;
        let held = self.promised.iter().chain(&self.early);
        let is_new = held.chain(&self.certified).chain(&self.proposed).all(|one| !of_view(one));
        is_new && self.promised.len() + self.early.len() < PROMISES_MAX
    }

    /// Promises it, if it may.
    pub fn promise_early(&mut self, view: View, digest: Hash) -> bool {
        let may = self.may_promise(view);
        if may {
            self.early.push((view, digest));
        }
        may
    }

    /// Whether a promise of a view waits for its proposal to be delivered.
    #[must_use]
    pub fn is_early(&self, view: View) -> bool {
        self.early.iter().any(|(early, _)| *early == view)
    }

    /// A proposal is delivered: if it is what was promised before, the promise binds; if it is another, nothing was.
    pub fn fulfil(&mut self, view: View, digest: Hash) -> bool {
        let Some(at) = self.early.iter().position(|(early, _)| *early == view) else { return false };
        let (_, promised) = self.early.remove(at);
        if promised == digest {
            self.promised.push((view, digest));
        }
        promised == digest
    }

    /// A replica promises to certify what is proposed in a view, perhaps before that is here (E11).
    pub fn will_certify(&mut self, from: NodeId, view: View) {
        self.will_certify.raise(from, view);
    }

    /// A replica promises to commit to it.
    pub fn will_commit(&mut self, from: NodeId, view: View) {
        self.will_commit.raise(from, view);
    }

    /// Whether all promised to certify the proposal of a view, the leader by proposing it.
    #[must_use]
    pub fn is_certain(&self, view: View, leader: NodeId, all: NodeSet) -> bool {
        let is_proposed = self.proposed.is_some_and(|(proposed, _)| proposed == view);
        is_proposed && all.without(leader).iter().all(|replica| self.will_certify.get(replica) == Some(&view))
    }

    /// This replica promises to commit in a view; false if it did.
    pub fn promise_commit(&mut self, view: View) -> bool {
        let is_new = self.committing.is_none_or(|last| last < view);
        if is_new {
            self.committing = Some(view);
        }
        is_new
    }

    /// What all promised to commit to in a view (Alg. 2, lines 29 to 31).
    #[must_use]
    pub fn unanimous(&self, view: View, all: NodeSet) -> Option<Hash> {
        let (_, digest) = self.proposed.filter(|(proposed, _)| *proposed == view)?;
        all.iter().all(|replica| self.will_commit.get(replica) == Some(&view)).then_some(digest)
    }

    /// Whether this replica signs, or signed, the proposal of a view, or of a later one.
    #[must_use]
    pub fn is_certified(&self, view: View) -> bool {
        self.certified.is_some_and(|(last, _)| last >= view)
    }

    /// Whether this replica's certificate of a view was said.
    #[must_use]
    pub fn is_committed(&self, view: View) -> bool {
        self.committed == Some(view)
    }

    /// This replica begins to sign the proposal of a view; false if it did.
    pub fn certify(&mut self, view: View, digest: Hash) -> bool {
        let is_new = self.certified.is_none_or(|(last, _)| last < view);
        if is_new {
            self.certified = Some((view, digest));
        }
        is_new
    }

    /// A checked share, while this replica is in the view `own`; of another view the newest one is kept.
    pub fn share(&mut self, claim: &Verified<Claim<Statement>>, own: View) {
        let Statement::Certify { view, slot, .. } = claim.statement else { return };
        let is_other = |(signer, last): &(NodeId, View)| *signer == claim.signer && *last != own;
        let kept: Vec<(NodeId, View)> = self.shares.keys().filter(is_other).collect();
        if slot != self.slot || (view != own && kept.iter().any(|(_, last)| *last >= view)) {
            return;
        }
        for key in kept.into_iter().filter(|_| view != own) {
            self.shares.remove(key);
        }
        self.shares.insert((claim.signer, view), claim.clone());
    }

    /// Whether a replica's share of a view is here.
    #[must_use]
    pub fn has_share(&self, of: NodeId, view: View) -> bool {
        self.shares.contains((of, view))
    }

    /// This replica's own share of a view: the digest and the signature.
    #[must_use]
    pub fn own_share(&self, me: NodeId, view: View) -> Option<(Hash, Signature)> {
        self.shares.get((me, view)).and_then(said)
    }

    /// The checked shares of a view: whoever shows them again need not have them checked again.
    pub fn shares(&self, view: View) -> impl Iterator<Item = &Verified<Claim<Statement>>> {
        self.shares.iter().filter(move |((_, of), _)| *of == view).map(|(_, claim)| claim)
    }

    /// Batches that this or another replica is bound to; one may come more than once.
    pub fn bound(&self) -> impl Iterator<Item = Hash> {
        let promised = self.promised.iter().chain(&self.proposed).chain(&self.certified);
        let commits = self.commits.values();
        promised.chain(commits).map(|(_, digest)| *digest).chain(self.decided)
    }

    /// Bytes beside the ballot itself.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let promises = (self.will_certify.len() + self.will_commit.len()) * 32;
        let own = (self.promised.len() + self.early.len()) * 48;
        (promises + self.shares.len() * SHARE_BYTES + self.commits.len() * 64 + own) as u64
    }

    /// The certificate of a view's proposal, once so many signed it, this replica among them (Alg. 2, line 34; E31).
    #[must_use]
    pub fn certificate(&self, me: NodeId, view: View, need: u32) -> Option<Certificate<Certified>> {
        let (digest, own) = self.own_share(me, view)?;
        let of_others = self.shares.iter().filter(|((replica, of), _)| *replica != me && *of == view);
        let same = of_others.filter_map(|((replica, _), claim)| Some((replica, said(claim)?)));
        let same = same.filter(|(_, (other, _))| *other == digest);
        let mut signed: Vec<(u8, Signature)> = same
            .take(usize::try_from(need.saturating_sub(1)).unwrap_or(0))
            .map(|(replica, (_, signature))| (replica, signature))
            .chain([(me, own)])
            .filter_map(|(replica, signature)| Some((replica.member()?, signature)))
            .collect();
        signed.sort_unstable_by_key(|(member, _)| *member);
        let is_enough = u32::try_from(signed.len()) == Ok(need);
        let subject = Certified { view, slot: self.slot, digest };
        is_enough.then_some(Certificate { subject, signed: List::try_from(signed).ok()? })
    }

    /// This replica commits in a view; false if it did (Alg. 2, line 36).
    pub fn commit(&mut self, view: View) -> bool {
        let is_new = self.committed.is_none_or(|last| last < view);
        if is_new {
            self.committed = Some(view);
        }
        is_new
    }

    /// A replica's stream shows a certificate; what so many streams show is decided (Alg. 2, lines 38 to 41).
    pub fn committed(&mut self, from: NodeId, view: View, digest: Hash, need: u32) -> Option<Hash> {
        if self.commits.get(from).is_none_or(|(last, _)| *last < view) {
            self.commits.insert(from, (view, digest));
        }
        let same = self.commits.values().filter(|commit| **commit == (view, digest)).count();
        u32::try_from(same).is_ok_and(|same| same >= need).then_some(digest)
    }

    /// Decides, once; whether it is decided now.
    ///
    /// # Errors
    /// What was decided before, if that is another batch: more replicas lie than may.
    pub fn decide(&mut self, digest: Hash) -> Result<bool, Hash> {
        match self.decided {
            Some(decided) if decided != digest => Err(decided),
            Some(_) => Ok(false),
            None => {
                self.decided = Some(digest);
                Ok(true)
            }
        }
    }
}

/// What a share is of, and its signature.
fn said(claim: &Verified<Claim<Statement>>) -> Option<(Hash, Signature)> {
    match claim.statement {
        Statement::Certify { digest, .. } => Some((digest, claim.signature)),
        _ => None,
    }
}

fn emptied<T>(mut list: Vec<T>) -> Vec<T> {
    list.clear();
    list
}
