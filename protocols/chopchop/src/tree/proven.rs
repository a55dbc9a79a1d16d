//! What was proven of one entry tree: whoever checks many of its paths computes each digest once.
//!
//! A node is known when some proof led from it to the root, and then so is everything beside and above its way. So a path
//! needs no hash from the first known node on; what it says above is compared with what is known.
//!
//! *Cost.* A hash for the entry's leaf and one for each node that is new: 1.5 hashes per entry when all come, whose paths have
//! up to 16. *Bounds.* 65 bytes per leaf.

use synod_crypto::Hash;

use super::{EntryProof, NODE, TreeShape, above};
use crate::Domains;
use crate::columns::Entry;

/// Levels of a tree at most: whoever counts in 32 bits has no more.
const LEVELS_MAX: usize = 33;

/// Where a level lies among the nodes.
#[derive(Clone, Copy, Debug)]
struct Level {
    first: usize,
    width: u32,
}

/// The part of an entry tree that was proven.
#[derive(Clone, Debug)]
pub struct Proven {
    shape: TreeShape,
    levels: Vec<Level>,
    /// All levels, the leaves first.
    nodes: Vec<[u8; NODE]>,
    /// A bit for each node.
    known: Vec<u64>,
    hashed: u64,
}

impl Proven {
    /// Nothing but the root of the tree of this shape.
    #[must_use]
    pub fn new(shape: TreeShape, root: Hash) -> Self {
        let (mut levels, mut width, mut first) = (Vec::new(), shape.leaves(), 0);
        while width > 0 {
            levels.push(Level { first, width });
            first += width as usize;
            width = if width == 1 { 0 } else { above(width) };
        }
        let (nodes, known) = (vec![[0; NODE]; first], vec![0; first.div_ceil(64)]);
        let mut proven = Self { shape, levels, nodes, known, hashed: 0 };
        if let Some(top) = first.checked_sub(1) {
            proven.learn(top, &root);
        }
        proven
    }

    /// Whether `proof` shows that `entry` stands under the root: what [`EntryProof::root`] would say.
    pub fn proves(&mut self, domains: &Domains, proof: &EntryProof, entry: &Entry<'_>) -> bool {
        let leaf = proof.index / self.shape.arity();
        let is_long =
            self.shape.path_len(proof.index).is_some_and(|length| length as usize == proof.path.len());
        let Some(digest) = proof.leaf(domains, &self.shape, entry).filter(|_| is_long) else { return false };
        self.hashed += 1;
        let (mut at, mut top) = (leaf, digest);
        let (mut siblings, mut new) = (proof.path.iter(), [Hash::ZERO; LEVELS_MAX]);
        let mut climbed = 0;
        for (level, new) in self.levels.iter().zip(&mut new) {
            if let Some(known) = self.node(level, at) {
                if *known != top.0 {
                    return false;
                }
                break;
            }
            *new = top;
            if at ^ 1 < level.width {
                let Some(sibling) = siblings.next() else { return false };
                let (left, right) = if at % 2 == 0 { (&top, sibling) } else { (sibling, &top) };
                top = domains.node.hash_parts(&[&left.0, &right.0]);
                self.hashed += 1;
            }
            (at, climbed) = (at / 2, climbed + 1);
        }
        self.agrees(climbed, at, siblings.as_slice()) && {
            self.take(leaf, new.get(..climbed).unwrap_or_default(), &proof.path);
            true
        }
    }

    /// Digests that were computed so far.
    #[must_use]
    pub const fn hashed(&self) -> u64 {
        self.hashed
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (NODE * self.nodes.len() + 8 * self.known.len() + 16 * self.levels.len()) as u64
    }

    /// The most of [`Proven::bytes`] for a tree of this shape.
    #[must_use]
    pub fn bytes_max(shape: &TreeShape) -> u64 {
        // Each level has at most one node more than half of the one below.
        let nodes = 2 * u64::from(shape.leaves()) + LEVELS_MAX as u64;
        nodes * (NODE as u64 + 1) + 16 * LEVELS_MAX as u64 + 8
    }

    /// Whether the siblings from a known node on are those that are known.
    fn agrees(&self, from: usize, mut at: u32, siblings: &[Hash]) -> bool {
        let mut siblings = siblings.iter();
        for level in self.levels.get(from..).unwrap_or_default() {
            if at ^ 1 < level.width {
                let said = siblings.next().map(|sibling| &sibling.0);
                if said.is_none() || self.node(level, at ^ 1) != said {
                    return false;
                }
            }
            at /= 2;
        }
        true
    }

    /// Learns the way from `leaf` up, and what is beside it.
    fn take(&mut self, leaf: u32, way: &[Hash], path: &[Hash]) {
        let (mut at, mut siblings) = (leaf, path.iter());
        for (level, digest) in way.iter().enumerate() {
            let Some(Level { first, width }) = self.levels.get(level).copied() else { return };
            self.learn(first + at as usize, digest);
            if at ^ 1 < width
                && let Some(sibling) = siblings.next()
            {
                self.learn(first + (at ^ 1) as usize, sibling);
            }
            at /= 2;
        }
    }

    fn learn(&mut self, place: usize, digest: &Hash) {
        if let (Some(node), Some(known)) = (self.nodes.get_mut(place), self.known.get_mut(place / 64)) {
            *node = digest.0;
            *known |= 1 << (place % 64);
        }
    }

    fn node(&self, level: &Level, at: u32) -> Option<&[u8; NODE]> {
        let place = level.first + at as usize;
        let is_known = self.known.get(place / 64)? >> (place % 64) & 1 == 1;
        self.nodes.get(place).filter(|_| is_known)
    }
}
