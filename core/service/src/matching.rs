//! When a client may believe an answer (surface 2, hotstuff 4.10 and 4.15).
//!
//! Replies are collected by authenticated node, one per node. A result is accepted when nodes of power W = F + 1 gave
//! equal digests and one of them a body with this digest: one of them is correct. A refusal is final only when power W
//! says the same, for a lagging or lying node may refuse what others execute; `Busy` and `NotReady` are never final.

use std::collections::BTreeMap;

use synod_machine::planted;
use synod_quorum::{NodeId, NodeSet, Weights};
use synod_wire::Bytes;

use crate::message::Refused;

/// Whom a client believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody alone: members with these powers, of which F may lie.
    Members(Weights),
    /// One node, entirely: the gateway that this client is part of.
    Gateway(NodeId),
}

impl Trust {
    /// Whether equal results of `set` are true: power W, or the gateway.
    #[must_use]
    pub fn accepts(&self, set: NodeSet) -> bool {
        match self {
            Self::Members(weights) => weights.is_weak(set),
            Self::Gateway(node) => set.contains(*node),
        }
    }

    /// Whether equal answers of `set` to a read are true and fresh: power Q, or the gateway.
    #[must_use]
    pub fn reads(&self, set: NodeSet) -> bool {
        match self {
            Self::Members(weights) => weights.is_quorum(set),
            Self::Gateway(node) => set.contains(*node),
        }
    }

    /// The nodes that are asked.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        match self {
            Self::Members(weights) => NodeSet::first(weights.size()),
            Self::Gateway(node) => NodeSet::only(*node),
        }
    }
}

/// What one node says about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say<D> {
    /// It was executed, with this result.
    Result(D),
    /// As above; the node no longer keeps the body.
    Gone(D),
    /// It was not taken.
    Refused(Refused),
}

impl<D: Copy> Say<D> {
    const fn digest(&self) -> Option<D> {
        match self {
            Self::Result(digest) | Self::Gone(digest) => Some(*digest),
            Self::Refused(_) => None,
        }
    }
}

/// What came of hearing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It counts.
    Counted,
    /// The node gave two results for one request; the first counts.
    Equivocated,
}

/// What is known about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<D> {
    /// Too few agree.
    Open,
    /// Enough agree, and the body is here.
    Accepted(D, Bytes),
    /// Enough agree, and nobody sent the body yet.
    Bodiless(D),
    /// Enough say that the result is too old to be sent again.
    Gone(D),
    /// Enough refuse for the same reason.
    Refused(Refused),
}

/// The answers to one request. Bounded by one word and one body per node.
#[derive(Clone, Debug)]
pub struct Matching<D> {
    says: BTreeMap<NodeId, Say<D>>,
    bodies: BTreeMap<D, Bytes>,
}

impl<D: Copy + Ord> Default for Matching<D> {
    fn default() -> Self {
        Self { says: BTreeMap::new(), bodies: BTreeMap::new() }
    }
}

impl<D: Copy + Ord> Matching<D> {
    /// Records what `from` says. A result replaces a refusal, never the reverse; `body` has the digest of the result.
    pub fn hear(&mut self, from: NodeId, say: Say<D>, body: Option<Bytes>) -> Heard {
        let before = self.says.get(&from).and_then(Say::digest);
        match (before, say.digest()) {
            (Some(first), Some(now)) if first != now => return Heard::Equivocated,
            (Some(_), None) => return Heard::Counted,
            _ => {}
        }
        self.says.insert(from, say);
        if let (Some(digest), Some(body)) = (say.digest(), body) {
            self.bodies.entry(digest).or_insert(body);
        }
        Heard::Counted
    }

    /// What is known now, where `enough` says which sets of nodes are believed.
    pub fn verdict(&self, enough: impl Fn(NodeSet) -> bool) -> Verdict<D> {
        for digest in self.digests() {
            if planted!(H30) || enough(self.agreeing(digest)) {
                return match self.bodies.get(&digest) {
                    Some(body) => Verdict::Accepted(digest, body.clone()),
                    None if enough(self.gone(digest)) => Verdict::Gone(digest),
                    None => Verdict::Bodiless(digest),
                };
            }
        }
        let refusals = self.says.values().filter_map(|say| match say {
            Say::Refused(Refused::Busy { .. } | Refused::NotReady) => None,
            Say::Refused(why) => Some(*why),
            Say::Result(_) | Say::Gone(_) => None,
        });
        let mut refusals = refusals.filter(|why| enough(self.refusing(*why)));
        refusals.next().map_or(Verdict::Open, Verdict::Refused)
    }

    /// The nodes that gave this result.
    pub fn agreeing(&self, digest: D) -> NodeSet {
        self.select(|say| say.digest() == Some(digest))
    }

    /// The nodes that gave another result than this one.
    pub fn contradicting(&self, digest: D) -> NodeSet {
        self.select(|say| say.digest().is_some_and(|other| other != digest))
    }

    /// The nodes that gave a result, whichever.
    pub fn answered(&self) -> NodeSet {
        self.select(|say| say.digest().is_some())
    }

    /// The nodes that said anything.
    pub fn heard(&self) -> NodeSet {
        self.select(|_| true)
    }

    /// Bytes of the bodies held.
    pub fn bytes(&self) -> u64 {
        self.bodies.values().map(|body| body.len() as u64).sum()
    }

    fn gone(&self, digest: D) -> NodeSet {
        self.select(|say| matches!(say, Say::Gone(gone) if *gone == digest))
    }

    fn refusing(&self, why: Refused) -> NodeSet {
        self.select(|say| matches!(say, Say::Refused(other) if *other == why))
    }

    fn select(&self, of: impl Fn(&Say<D>) -> bool) -> NodeSet {
        self.says.iter().filter(|(_, say)| of(say)).map(|(node, _)| *node).collect()
    }

    fn digests(&self) -> impl Iterator<Item = D> {
        self.says.values().filter_map(Say::digest)
    }
}
