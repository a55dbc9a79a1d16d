//! Votes and orders waiting for a quorum: one slot per member and kind for the previous view, the current view and
//! one view beyond (I4). A member therefore occupies at most 4 kinds x 3 slots, and one more for its newest vote of all,
//! which it is shown when it comes back without it.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Signature};
use synod_machine::planted;
use synod_quorum::{NodeId, NodeSet};

use crate::{Kind, View};

/// Bytes of one slot, for the memory formula.
pub(crate) const SLOT_BYTES: u64 = 160;

/// One vote as it was received, unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    /// The view.
    pub(crate) view: View,
    /// The block.
    pub(crate) digest: Hash,
    /// Not verified yet.
    pub(crate) signature: Signature,
}

/// What came of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It counts.
    New,
    /// The same vote stands already, or a higher one took its slot, or the slot is closed.
    Nothing,
    /// The member voted for another block in this view and kind: both ballots are evidence.
    Conflict(Ballot),
}

/// The slots of all members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Votes {
    slots: BTreeMap<(Kind, NodeId), Vec<Ballot>>,
    closed: BTreeMap<(Kind, NodeId), View>,
    /// The newest ballot of each member, however old: what it is shown after it was away.
    latest: BTreeMap<NodeId, (Kind, Ballot)>,
}

impl Votes {
    /// Records the vote of `from`, seen from view `current`.
    pub(crate) fn add(&mut self, kind: Kind, from: NodeId, ballot: Ballot, current: View) -> Added {
        if self.closed.get(&(kind, from)).is_some_and(|view| *view >= ballot.view) {
            return Added::Nothing;
        }
        let slots = self.slots.entry((kind, from)).or_default();
        if let Some(first) = slots.iter().find(|b| b.view == ballot.view) {
            return if first.digest == ballot.digest { Added::Nothing } else { Added::Conflict(*first) };
        }
        slots.push(ballot);
        trim(slots, current);
        if !slots.contains(&ballot) {
            return Added::Nothing;
        }
        let latest = self.latest.entry(from).or_insert((kind, ballot));
        if latest.1.view <= ballot.view {
            *latest = (kind, ballot);
        }
        Added::New
    }

    /// Who voted for this block.
    pub(crate) fn tally(&self, kind: Kind, view: View, digest: &Hash) -> NodeSet {
        let read = if planted!(H23) { view.next() } else { view };
        self.ballots(kind).filter(|(_, b)| b.view == read && b.digest == *digest).map(|(id, _)| id).collect()
    }

    /// The votes for this block in member order.
    pub(crate) fn collect(&self, kind: Kind, view: View, digest: &Hash) -> Vec<(NodeId, Signature)> {
        self.ballots(kind)
            .filter(|(_, b)| b.view == view && b.digest == *digest)
            .map(|(id, b)| (id, b.signature))
            .collect()
    }

    /// The newest ballot of a member, of any kind, also one whose view is long over.
    pub(crate) fn newest(&self, from: NodeId) -> Option<(Kind, Ballot)> {
        self.latest.get(&from).copied()
    }

    /// Drops the ballot of a forger and keeps its slots up to `view` closed.
    pub(crate) fn close(&mut self, kind: Kind, view: View, forger: NodeId) {
        if let Some(slots) = self.slots.get_mut(&(kind, forger)) {
            slots.retain(|b| b.view != view);
        }
        if self.latest.get(&forger).is_some_and(|(held, b)| *held == kind && b.view == view) {
            self.latest.remove(&forger);
        }
        let closed = self.closed.entry((kind, forger)).or_default();
        *closed = (*closed).max(view);
    }

    /// Forgets what lies before the view before `current`, and all but the highest beyond it.
    pub(crate) fn advance(&mut self, current: View) {
        self.slots.values_mut().for_each(|slots| trim(slots, current));
        self.slots.retain(|_, slots| !slots.is_empty());
        self.closed.retain(|_, view| view.next() >= current);
    }

    /// Asserts the bound: the previous view, the current one and one beyond them per member and kind.
    pub(crate) fn invariants(&self) {
        assert!(self.slots.values().all(|slots| slots.len() <= 3), "one slot per view near, and one beyond");
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.slots.values().map(Vec::len).sum();
        SLOT_BYTES * (slots + self.latest.len()) as u64 + 48 * self.closed.len() as u64
    }

    fn ballots(&self, kind: Kind) -> impl Iterator<Item = (NodeId, &Ballot)> {
        let of_kind = self.slots.range((kind, NodeId(0))..=(kind, NodeId(u32::MAX)));
        of_kind.flat_map(|((_, id), slots)| slots.iter().map(|b| (*id, b)))
    }
}

fn trim(slots: &mut Vec<Ballot>, current: View) {
    let highest = slots.iter().map(|b| b.view).max().unwrap_or_default();
    slots.retain(|b| {
        let near = b.view == current || b.view.next() == current;
        near || (b.view > current && (b.view == highest || planted!(H17)))
    });
}

#[cfg(test)]
mod tests {
    use super::{Added, Ballot, Votes};
    use crate::{Kind, View};
    use synod_crypto::{Hash, Signature};
    use synod_quorum::{NodeId, Weights};

    fn ballot(view: u64, block: u8) -> Ballot {
        Ballot { view: View(view), digest: Hash([block; 32]), signature: Signature([block; 64]) }
    }

    #[test]
    fn a_repeated_signer_never_completes_a_quorum() {
        let mut votes = Votes::default();
        let weights = Weights::equal(4);
        for _ in 0..5 {
            votes.add(Kind::Generic, NodeId(1), ballot(3, 7), View(3));
        }
        votes.add(Kind::Generic, NodeId(2), ballot(3, 7), View(3));
        assert!(!weights.is_quorum(votes.tally(Kind::Generic, View(3), &Hash([7; 32]))));
        votes.add(Kind::Generic, NodeId(3), ballot(3, 7), View(3));
        assert!(weights.is_quorum(votes.tally(Kind::Generic, View(3), &Hash([7; 32]))));
    }

    #[test]
    fn a_second_vote_for_another_block_is_evidence_and_does_not_count() {
        let mut votes = Votes::default();
        assert_eq!(votes.add(Kind::Generic, NodeId(1), ballot(3, 7), View(3)), Added::New);
        let conflict = votes.add(Kind::Generic, NodeId(1), ballot(3, 8), View(3));
        assert_eq!(conflict, Added::Conflict(ballot(3, 7)));
        assert!(votes.tally(Kind::Generic, View(3), &Hash([8; 32])).is_empty());
    }

    #[test]
    fn kinds_are_counted_apart() {
        let mut votes = Votes::default();
        votes.add(Kind::Generic, NodeId(1), ballot(3, 7), View(3));
        votes.add(Kind::Order, NodeId(2), ballot(3, 7), View(3));
        assert_eq!(votes.tally(Kind::Generic, View(3), &Hash([7; 32])).count(), 1);
    }

    #[test]
    fn previous_current_and_one_beyond_are_kept_whatever_is_sent() {
        let mut votes = Votes::default();
        for view in 0..1_000 {
            votes.add(Kind::Generic, NodeId(1), ballot(view, 7), View(10));
        }
        let kept: Vec<u64> = votes.slots[&(Kind::Generic, NodeId(1))].iter().map(|b| b.view.0).collect();
        assert_eq!(kept, [9, 10, 999]);
        votes.advance(View(999));
        assert_eq!(votes.slots[&(Kind::Generic, NodeId(1))].len(), 1);
    }

    #[test]
    fn the_newest_vote_of_a_member_outlives_its_view_unless_it_was_forged() {
        let mut votes = Votes::default();
        votes.add(Kind::Generic, NodeId(1), ballot(3, 7), View(3));
        votes.add(Kind::Order, NodeId(1), ballot(2, 7), View(3));
        votes.advance(View(90));
        assert_eq!(votes.newest(NodeId(1)), Some((Kind::Generic, ballot(3, 7))));
        assert_eq!(votes.tally(Kind::Generic, View(3), &Hash([7; 32])).count(), 0, "it counts no more");
        assert_eq!(votes.bytes(), 160);
        votes.close(Kind::Generic, View(3), NodeId(1));
        assert_eq!(votes.newest(NodeId(1)), None);
    }

    #[test]
    fn a_forgers_slot_stays_closed_for_the_view() {
        let mut votes = Votes::default();
        votes.add(Kind::Generic, NodeId(1), ballot(3, 7), View(3));
        votes.close(Kind::Generic, View(3), NodeId(1));
        assert_eq!(votes.add(Kind::Generic, NodeId(1), ballot(3, 7), View(3)), Added::Nothing);
        assert_eq!(votes.add(Kind::Generic, NodeId(1), ballot(4, 7), View(3)), Added::New);
    }
}
