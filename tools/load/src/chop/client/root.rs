//! The roots of late, and the members that sign under them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use synod_chopchop::tree::TreeShape;
use synod_crypto::Hash;
use synod_crypto::bls::FamilyShares;

use super::member::Half;

/// Roots that are kept: more than any brokers have in hand at once, since a delivery is read by its root.
const ROOTS_MAX: usize = 128;
/// Members whose shares one job makes.
pub(super) const TOGETHER: usize = 2_048;
/// Bytes of a member that waits for its share.
const WAITING: u64 = 12;
/// Bytes of what shares under one root are made from: 255 points of 192 bytes.
const MADE_FROM: u64 = 49_152;

/// A member that signs: its place, whose share it sends, and the broker it answers.
pub(super) type Signs = (u32, u32, u32);

/// What shares under one root are made from, once a job made it.
pub(super) type MadeFrom = Arc<OnceLock<FamilyShares>>;

/// A root.
#[derive(Clone)]
pub(super) struct Root {
    pub(super) commit: Hash,
    pub(super) shape: TreeShape,
    pub(super) from: MadeFrom,
    /// Members that wait for their shares, each at most once.
    pub(super) waiting: VecDeque<Signs>,
    /// Whether a job makes shares.
    pub(super) is_busy: bool,
}

/// The newest roots.
#[derive(Clone, Default)]
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
        let (from, waiting) = (MadeFrom::default(), VecDeque::new());
        self.of.insert(half, Root { commit, shape, from, waiting, is_busy: false });
    }

    pub(super) fn get(&self, half: &Half) -> Option<&Root> {
        self.of.get(half)
    }

    pub(super) fn get_mut(&mut self, half: &Half) -> Option<&mut Root> {
        self.of.get_mut(half)
    }

    /// Bytes of roots and of who waits under them.
    pub(super) fn bytes(&self) -> u64 {
        let each = |root: &Root| WAITING * root.waiting.len() as u64 + MADE_FROM;
        self.of.values().map(each).sum()
    }

    /// The most of [`Roots::bytes`] with so many members.
    pub(super) const fn bytes_max(members: u32) -> u64 {
        ROOTS_MAX as u64 * (MADE_FROM + WAITING * members as u64)
    }
}
