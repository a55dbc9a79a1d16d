//! What every broadcast keeps per source: a window of slots, and one vote per member and slot.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_quorum::{NodeId, NodeSet};

/// One vote per member, counted by digest. At most as many digests as members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    by: Vec<(Hash, NodeSet)>,
}

/// What came of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It counts; so many now said the same.
    New(NodeSet),
    /// The member said the same before.
    Again,
    /// The member said something else before, which stays.
    Contradicts(Hash),
}

impl Tally {
    pub(crate) fn add(&mut self, from: NodeId, digest: Hash) -> Counted {
        if let Some((said, _)) = self.by.iter().find(|(_, voters)| voters.contains(from)) {
            return if *said == digest { Counted::Again } else { Counted::Contradicts(*said) };
        }
        if let Some((_, voters)) = self.by.iter_mut().find(|(said, _)| *said == digest) {
            voters.insert(from);
            return Counted::New(*voters);
        }
        let voters = NodeSet::only(from);
        self.by.push((digest, voters));
        Counted::New(voters)
    }

    /// Who said so.
    pub(crate) fn voters(&self, digest: Hash) -> NodeSet {
        self.by.iter().find(|(said, _)| *said == digest).map_or(NodeSet::EMPTY, |(_, voters)| *voters)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        (self.by.capacity() * size_of::<(Hash, NodeSet)>()) as u64
    }
}

/// The slots of one source: delivered up to a number, and a window of what comes next.
#[derive(Clone, Debug)]
pub(crate) struct Lane<T> {
    delivered: u64,
    window: u64,
    /// The last slot in which something was promised in an earlier life: what that one had delivered, and its user had not taken care
    /// of, is open again, so that this can lie beyond the window.
    promised: u64,
    open: BTreeMap<u64, T>,
}

/// Where a slot lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Delivered.
    Behind,
    /// Worked on.
    Within,
    /// Not yet.
    Beyond,
}

impl<T: Default> Lane<T> {
    pub(crate) const fn new(delivered: u64, window: u64) -> Self {
        Self { delivered, window, promised: 0, open: BTreeMap::new() }
    }

    /// The last slot delivered; all before it are.
    pub(crate) const fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn place(&self, sequence: u64) -> Where {
        if sequence <= self.delivered {
            Where::Behind
        } else if sequence - self.delivered <= self.span() {
            Where::Within
        } else {
            Where::Beyond
        }
    }

    /// How many slots behind the delivered ones are worked on.
    pub(crate) fn span(&self) -> u64 {
        self.window.max(self.promised.saturating_sub(self.delivered))
    }

    /// Something was promised in a slot in an earlier life.
    pub(crate) fn promise(&mut self, sequence: u64) {
        self.promised = self.promised.max(sequence);
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&T> {
        self.open.get(&sequence)
    }

    /// A slot within the window, made if nobody spoke of it before.
    pub(crate) fn slot(&mut self, sequence: u64) -> Option<&mut T> {
        (self.place(sequence) == Where::Within).then(|| self.open.entry(sequence).or_default())
    }

    /// The slot that comes next, if it is worked on.
    pub(crate) fn next(&self) -> Option<&T> {
        self.open.get(&self.delivered.checked_add(1)?)
    }

    /// Counts the next slot as delivered.
    pub(crate) fn deliver(&mut self) -> Option<T> {
        let next = self.delivered.checked_add(1)?;
        let taken = self.open.remove(&next)?;
        self.delivered = next;
        Some(taken)
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (u64, &T)> {
        self.open.iter().map(|(sequence, slot)| (*sequence, slot))
    }

    pub(crate) fn assert_bounds(&self) {
        assert!(self.open.len() as u64 <= self.span(), "slots beyond the window");
        assert!(
            self.open.keys().all(|sequence| self.place(*sequence) == Where::Within),
            "a slot outside the window"
        );
    }
}
