//! Sets of own members in one word.

use core::fmt;

use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::{MEMBERS_MAX, NodeId};

/// A set of own members, one bit each.
///
/// Encoded as a length byte and that many bytes, lowest members first, the last byte not zero: every set has
/// one encoding, and a bitmap cut short or padded names another set or none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeSet(u128);

impl NodeSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The members `0..count`.
    #[must_use]
    pub const fn first(count: u32) -> Self {
        if count >= MEMBERS_MAX { Self(u128::MAX) } else { Self((1 << count) - 1) }
    }

    /// The set of one member; empty for a guest.
    #[must_use]
    pub const fn only(id: NodeId) -> Self {
        if id.is_member() { Self(1 << id.0) } else { Self(0) }
    }

    /// Whether `id` is in the set.
    #[must_use]
    pub const fn contains(self, id: NodeId) -> bool {
        id.is_member() && self.0 >> id.0 & 1 == 1
    }

    /// Adds `id`; whether it was new. A guest is never added.
    pub const fn insert(&mut self, id: NodeId) -> bool {
        let new = id.is_member() && !self.contains(id);
        self.0 |= Self::only(id).0;
        new
    }

    /// Removes `id`; whether it was there.
    pub const fn remove(&mut self, id: NodeId) -> bool {
        let there = self.contains(id);
        self.0 &= !Self::only(id).0;
        there
    }

    /// This set without `id`.
    #[must_use]
    pub const fn without(self, id: NodeId) -> Self {
        Self(self.0 & !Self::only(id).0)
    }

    /// This set with `id`.
    #[must_use]
    pub const fn with(self, id: NodeId) -> Self {
        Self(self.0 | Self::only(id).0)
    }

    /// Members in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Members in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members here and not in `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every member of this set is in `other`.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Number of members; thresholds are compared by [`crate::Quorums`] and [`crate::Weights`], not with this.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether nobody is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, lowest first.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let lowest = (rest != 0).then(|| rest.trailing_zeros())?;
            // Without its lowest bit.
            rest &= rest - 1;
            Some(NodeId(lowest))
        })
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(ids: I) -> Self {
        ids.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|id| id.0)).finish()
    }
}

impl Wire for NodeSet {
    fn write(&self, out: &mut Writer) {
        let bytes = self.0.to_le_bytes();
        let length = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
        out.count(length);
        out.bytes(&bytes[..length]);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        let length = input.count(16)?;
        let bytes = input.take(length)?;
        if bytes.last() == Some(&0) {
            return Err(refusal);
        }
        let mut word = [0; 16];
        word.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
        Ok(Self(u128::from_le_bytes(word)))
    }

    fn size_hint(&self) -> usize {
        17
    }
}

impl Draw for NodeSet {
    fn draw(from: &mut Drawn) -> Self {
        Self(u128::draw(from))
    }
}
