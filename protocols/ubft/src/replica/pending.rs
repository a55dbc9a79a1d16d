//! A request that is not executed yet (specification, 4.8): what its client said of it on its link, what it signed, and who heard it.
//!
//! A client that lies says one operation and signs another. Both are kept, so neither takes the place of the other: what all heard may be
//! proposed though something else is signed, and what is signed may be proposed though something else was heard. The first of each kind is the one.
//!
//! *Bounds.* Two operations, and a digest of each replica.

use synod_crypto::{Hash, Signature};
use synod_machine::Time;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use crate::batch::{Auth, View};
use crate::few::Few;

/// What its client said on its link.
#[derive(Debug)]
struct Heard {
    op: Bytes,
    digest: Hash,
    since: Time,
    /// Who said it, where that was no replica.
    guest: Option<NodeId>,
}

/// What its client signed.
#[derive(Debug)]
struct Signed {
    op: Bytes,
    digest: Hash,
    signature: Signature,
    since: Time,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pending {
    heard: Option<Heard>,
    signed: Option<Signed>,
    /// What followers say they heard.
    echoes: Few<NodeId, Hash>,
    /// The view in which it was said to the leader, or proposed.
    pub(super) said: Option<View>,
    was_asked: bool,
}

impl Pending {
    /// Takes what the client said on its link; false where it said something before.
    pub(super) fn hear(&mut self, (op, digest): (Bytes, Hash), now: Time, guest: Option<NodeId>) -> bool {
        if self.heard.is_some() {
            return false;
        }
        let same = self.signed.as_ref().filter(|signed| signed.digest == digest);
        let op = same.map_or(op, |signed| signed.op.clone());
        self.heard = Some(Heard { op, digest, since: now, guest });
        true
    }

    /// Takes what the client signed; false where it signed something before.
    pub(super) fn sign(&mut self, (op, digest): (Bytes, Hash), now: Time, signature: Signature) -> bool {
        if self.signed.is_some() {
            return false;
        }
        let same = self.heard.as_ref().filter(|heard| heard.digest == digest);
        let op = same.map_or(op, |heard| heard.op.clone());
        self.signed = Some(Signed { op, digest, signature, since: now });
        true
    }

    /// What a follower tells the leader that it heard.
    pub(super) fn echo(&self) -> Option<Hash> {
        self.heard.as_ref().map(|heard| heard.digest)
    }

    /// What a follower passes on to the leader.
    pub(super) fn forward(&self) -> Option<(&Bytes, Signature)> {
        self.signed.as_ref().map(|signed| (&signed.op, signed.signature))
    }

    pub(super) fn echoed(&mut self, by: NodeId, digest: Hash) {
        self.echoes.insert(by, digest);
    }

    /// Whether it may be proposed: all these followers heard what was heard here, or it is signed.
    pub(super) fn is_ready(&self, followers: NodeSet) -> bool {
        let is_echoed = |heard: &Heard| followers.iter().all(|id| self.echoes.get(id) == Some(&heard.digest));
        self.signed.is_some() || self.heard.as_ref().is_some_and(is_echoed)
    }

    /// What is proposed of it: what anybody can check, where there is that.
    pub(super) fn proposed(&self) -> Option<(&Bytes, Auth)> {
        let signed = self.signed.as_ref().map(|signed| (&signed.op, Auth::Signed(signed.signature)));
        signed.or_else(|| self.heard.as_ref().map(|heard| (&heard.op, Auth::Heard)))
    }

    /// Whether its client said or signed this operation here.
    pub(super) fn is_of(&self, op: &Bytes) -> bool {
        self.heard.as_ref().is_some_and(|heard| heard.op == *op)
            || self.signed.as_ref().is_some_and(|signed| signed.op == *op)
    }

    /// Since when its signature is here.
    pub(super) fn signed_since(&self) -> Option<Time> {
        self.signed.as_ref().map(|signed| signed.since)
    }

    /// Since when a leader waits for others to hear it, and whose it is: until it is asked to sign.
    pub(super) fn waits(&self) -> Option<(Time, NodeId)> {
        let heard = self.heard.as_ref().filter(|_| self.signed.is_none() && !self.was_asked)?;
        heard.guest.filter(|_| self.said.is_none()).map(|guest| (heard.since, guest))
    }

    /// Its client is asked to sign.
    pub(super) const fn ask(&mut self) {
        self.was_asked = true;
    }

    pub(super) fn bytes(&self) -> u64 {
        let heard = self.heard.as_ref().map(|heard| heard.digest);
        let other = self.signed.as_ref().filter(|signed| Some(signed.digest) != heard);
        let ops =
            self.heard.as_ref().map_or(0, |heard| heard.op.len()) + other.map_or(0, |other| other.op.len());
        (ops + self.echoes.len() * 48 + size_of::<Self>()) as u64
    }
}
