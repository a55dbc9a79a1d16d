//! Merkle trees: leaf and node domains, index bound, an odd node promoted, length checked.
//!
//! A path proves that a leaf stands at an index of a list of known length; the length is part of the root, so a
//! tree cannot be passed off as one of another size.

mod digests;

pub use digests::{DigestTree, proves_digest};

use crate::keyed;
use crate::{Hash, Hasher};

const LEAF: &str = "synod merkle leaf";
const NODE: &str = "synod merkle node";

/// Hashes one leaf.
#[must_use]
pub fn leaf(bytes: &[u8]) -> Hash {
    Hasher::new(LEAF).add(bytes).finish()
}

/// Hashes many leaves, as [`leaf`] does each, for less time.
#[must_use]
pub fn leaves(each: &[Hash]) -> Vec<Hash> {
    all(LEAF, each.chunks(1))
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Hasher::new(NODE).add(&left.0).add(&right.0).finish()
}

/// The digests of lists of parts in a domain, all of one length.
fn all<'a>(domain: &'static str, each: impl ExactSizeIterator<Item = &'a [Hash]>) -> Vec<Hash> {
    let (count, mut laid_out) = (each.len(), Vec::new());
    for parts in each {
        laid_out.extend_from_slice(&(domain.len() as u64).to_le_bytes());
        laid_out.extend_from_slice(domain.as_bytes());
        for part in parts {
            laid_out.extend_from_slice(&(part.0.len() as u64).to_le_bytes());
            laid_out.extend_from_slice(&part.0);
        }
    }
    let size = laid_out.len().checked_div(count).unwrap_or(0).max(1);
    keyed::digests(laid_out.chunks(size).map(|input| (None, input)), count).into_iter().map(Hash).collect()
}

fn bind(count: u32, top: &Hash) -> Hash {
    Hasher::new("synod merkle root").add(&count.to_le_bytes()).add(&top.0).finish()
}

/// A tree over leaf hashes; keeps every level, so paths cost no hashing.
#[derive(Clone, Debug)]
pub struct Tree {
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// Builds the tree over `leaves`, which [`leaf`] hashed.
    #[must_use]
    pub fn new(leaves: Vec<Hash>) -> Self {
        let mut levels = vec![leaves];
        while let Some(last) = levels.last().filter(|level| level.len() > 1) {
            let pairs = last.chunks_exact(2);
            let odd = pairs.remainder();
            let mut above = all(NODE, pairs);
            above.extend_from_slice(odd);
            levels.push(above);
        }
        Self { levels }
    }

    /// Number of leaves.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.levels.first().map_or(0, |leaves| u32::try_from(leaves.len()).unwrap_or(u32::MAX))
    }

    /// The root, which binds the number of leaves.
    #[must_use]
    pub fn root(&self) -> Hash {
        let top = self.levels.last().and_then(|level| level.first()).copied().unwrap_or(Hash::ZERO);
        bind(self.count(), &top)
    }

    /// The siblings from the leaf at `index` up to the root; `None` beyond the last leaf.
    #[must_use]
    pub fn path(&self, index: u32) -> Option<Vec<Hash>> {
        if index >= self.count() {
            return None;
        }
        let mut at = usize::try_from(index).ok()?;
        let mut path = Vec::new();
        for level in &self.levels {
            if let Some(sibling) = level.get(at ^ 1) {
                path.push(*sibling);
            }
            at /= 2;
        }
        Some(path)
    }
}

/// What `leaf` at `index` of `count` and its siblings come to at the top; `None` where the path is not as long as it must be.
fn climb(
    (count, index): (u32, u32),
    leaf: Hash,
    path: &[Hash],
    node: impl Fn(&Hash, &Hash) -> Hash,
) -> Option<Hash> {
    if index >= count {
        return None;
    }
    let (mut at, mut width, mut top) = (index, count, leaf);
    let mut siblings = path.iter();
    while width > 1 {
        let has_sibling = at ^ 1 < width;
        if has_sibling {
            let sibling = siblings.next()?;
            top = if at % 2 == 0 { node(&top, sibling) } else { node(sibling, &top) };
        }
        at /= 2;
        width = width.div_ceil(2);
    }
    siblings.next().is_none().then_some(top)
}

/// Whether `path` proves that `leaf` stands at `index` of the `count` leaves under `root`.
#[must_use]
pub fn proves(root: &Hash, count: u32, index: u32, leaf: Hash, path: &[Hash]) -> bool {
    climb((count, index), leaf, path, node).is_some_and(|top| bind(count, &top) == *root)
}
