//! The roots of late, and the members that sign under them.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use synod_chopchop::Domains;
use synod_chopchop::columns::Entry;
use synod_chopchop::message::Inclusion;
use synod_chopchop::tree::{Proven, TreeShape, root_commit};
use synod_crypto::Hash;
use synod_crypto::bls::FamilyShares;

use super::member::Half;

/// Roots that are kept: more than any brokers have in hand at once, since a delivery is read by its root.
const ROOTS_MAX: usize = 128;
/// Roots whose trees are kept as far as they were shown: as many as two brokers have in hand at once. Paths under others are
/// checked from leaf to root.
const PROVEN_MAX: usize = 16;
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
    half: Half,
    /// What the commitment is made of beside the shape.
    of: (Hash, u64),
    /// What members were shown of the tree, while the root is one of the newest.
    proven: Option<Proven>,
}

/// The newest roots, the newest last. Whatever comes is under one of the newest, so they are looked through from behind.
#[derive(Clone, Default)]
pub(super) struct Roots(VecDeque<Root>);

impl Roots {
    /// Whether an inclusion shows where `entry` stands, and the name of its root, which is known from now on; the oldest gives
    /// way. All members together compute each digest of a tree once.
    pub(super) fn show(
        &mut self,
        domains: &Domains,
        inclusion: &Inclusion,
        entry: &Entry<'_>,
    ) -> Option<Half> {
        let Inclusion { root, k, shape, proof, .. } = inclusion;
        let same = |known: &&mut Root| known.of == (*root, *k) && known.shape == *shape;
        if let Some(known) = self.0.iter_mut().rev().find(same) {
            let holds = match &mut known.proven {
                Some(proven) => proven.proves(domains, proof, entry),
                None => proof.root(domains, shape, entry) == Some(*root),
            };
            return holds.then_some(known.half);
        }
        if proof.root(domains, shape, entry) != Some(*root) {
            return None;
        }
        let commit = root_commit(domains, *k, shape, root);
        let half = commit.0.first_chunk().copied().unwrap_or_default();
        self.know(half, commit, (*root, *k), *shape);
        Some(half)
    }

    fn know(&mut self, half: Half, commit: Hash, of: (Hash, u64), shape: TreeShape) {
        if self.0.len() >= ROOTS_MAX {
            self.0.pop_front();
        }
        if let Some(older) = self.0.len().checked_sub(PROVEN_MAX).and_then(|at| self.0.get_mut(at)) {
            older.proven = None;
        }
        let (from, waiting) = (MadeFrom::default(), VecDeque::new());
        let proven = Some(Proven::new(shape, of.0));
        self.0.push_back(Root { commit, shape, from, waiting, is_busy: false, half, of, proven });
    }

    pub(super) fn get(&self, half: &Half) -> Option<&Root> {
        self.0.iter().rev().find(|root| root.half == *half)
    }

    pub(super) fn get_mut(&mut self, half: &Half) -> Option<&mut Root> {
        self.0.iter_mut().rev().find(|root| root.half == *half)
    }

    /// Digests that trees of the newest roots cost.
    #[cfg(test)]
    pub(super) fn hashed(&self) -> u64 {
        self.0.iter().filter_map(|root| root.proven.as_ref()).map(Proven::hashed).sum()
    }

    /// Bytes of roots and of who waits under them.
    pub(super) fn bytes(&self) -> u64 {
        let proven = |root: &Root| root.proven.as_ref().map_or(0, Proven::bytes);
        let each = |root: &Root| WAITING * root.waiting.len() as u64 + MADE_FROM + proven(root);
        self.0.iter().map(each).sum()
    }

    /// The most of [`Roots::bytes`] with so many members, under batches of this shape.
    pub(super) fn bytes_max(members: u32, shape: &TreeShape) -> u64 {
        ROOTS_MAX as u64 * (MADE_FROM + WAITING * u64::from(members))
            + PROVEN_MAX as u64 * Proven::bytes_max(shape)
    }
}
