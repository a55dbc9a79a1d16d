//! One vote per signer.

use crate::{NodeId, NodeSet, Weights};

/// What came of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voted {
    /// It counts.
    New,
    /// The same signer voted before; the first vote stays.
    Repeated,
    /// The signer is no member, or its slot was closed.
    Refused,
}

/// Votes for one thing, at most one per member. A slot closed for a forger stays closed.
#[derive(Clone, Debug)]
pub struct VoteSet<V> {
    slots: Vec<Option<V>>,
    voted: NodeSet,
    closed: NodeSet,
}

impl<V> VoteSet<V> {
    /// An empty set for `members` members.
    #[must_use]
    pub fn new(members: u32) -> Self {
        Self { slots: (0..members).map(|_| None).collect(), voted: NodeSet::EMPTY, closed: NodeSet::EMPTY }
    }

    /// Records the vote of `signer`.
    pub fn add(&mut self, signer: NodeId, vote: V) -> Voted {
        if self.voted.contains(signer) {
            return Voted::Repeated;
        }
        if self.closed.contains(signer) {
            return Voted::Refused;
        }
        match usize::try_from(signer.0).ok().and_then(|at| self.slots.get_mut(at)) {
            None => Voted::Refused,
            Some(slot) => {
                *slot = Some(vote);
                self.voted.insert(signer);
                Voted::New
            }
        }
    }

    /// Drops the vote of a forger and keeps its slot closed.
    pub fn close(&mut self, signer: NodeId) {
        if let Some(slot) = usize::try_from(signer.0).ok().and_then(|at| self.slots.get_mut(at)) {
            *slot = None;
        }
        self.voted.remove(signer);
        self.closed.insert(signer);
    }

    /// The vote of `signer`.
    #[must_use]
    pub fn get(&self, signer: NodeId) -> Option<&V> {
        usize::try_from(signer.0).ok().and_then(|at| self.slots.get(at)).and_then(Option::as_ref)
    }

    /// Who voted.
    #[must_use]
    pub const fn voters(&self) -> NodeSet {
        self.voted
    }

    /// Whether the voters are a quorum.
    #[must_use]
    pub fn is_quorum(&self, weights: &Weights) -> bool {
        weights.is_quorum(self.voted)
    }

    /// The votes, lowest signer first.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &V)> {
        (0_u32..).map(NodeId).zip(&self.slots).filter_map(|(id, slot)| slot.as_ref().map(|vote| (id, vote)))
    }
}
