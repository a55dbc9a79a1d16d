//! The roots of late, and the shares of members under them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_chopchop::statement::BlsShareBytes;
use synod_chopchop::tree::TreeShape;
use synod_crypto::Hash;

use super::member::Half;

/// Roots that are kept.
const ROOTS_MAX: usize = 8;
/// Members whose shares are made together.
pub(super) const TOGETHER: u32 = 2_048;

/// The shares of some members under one root.
#[derive(Clone, Debug)]
pub(super) enum Shares {
    /// A job makes them; these members wait, each for the broker that it answers.
    Waiting(Vec<(u32, u32)>),
    /// Made.
    Made(Arc<Vec<BlsShareBytes>>),
}

/// A root.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) commit: Hash,
    pub(super) shape: TreeShape,
    pub(super) shares: BTreeMap<u32, Shares>,
}

/// The newest roots.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots {
    of: BTreeMap<Half, Root>,
    order: VecDeque<Half>,
}

impl Roots {
    /// The root of this name, from now on known; the oldest gives way.
    pub(super) fn know(&mut self, half: Half, commit: Hash, shape: TreeShape) {
        if self.of.contains_key(&half) {
            return;
        }
        if self.order.len() >= ROOTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
        self.order.push_back(half);
        self.of.insert(half, Root { commit, shape, shares: BTreeMap::new() });
    }

    pub(super) fn get(&self, half: &Half) -> Option<&Root> {
        self.of.get(half)
    }

    pub(super) fn get_mut(&mut self, half: &Half) -> Option<&mut Root> {
        self.of.get_mut(half)
    }

    /// Bytes of roots and shares, as few look at them.
    pub(super) fn bytes(&self) -> u64 {
        let each = self.of.values().flat_map(|root| root.shares.values());
        each.map(|shares| match shares {
            Shares::Waiting(members) => 8 * members.len() as u64,
            Shares::Made(shares) => 192 * shares.len() as u64,
        })
        .sum()
    }

    /// The most of [`Roots::bytes`] with so many members.
    pub(super) const fn bytes_max(members: u32) -> u64 {
        ROOTS_MAX as u64 * 192 * (members as u64 + TOGETHER as u64)
    }
}
