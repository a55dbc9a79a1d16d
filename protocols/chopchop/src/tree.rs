//! Trees over entries, exceptions and assigned ids (chopchop section 3.4).
//!
//! A leaf of the entry tree packs 4, 2 or 1 entries, so that small leaves are one hash block; the last leaf is filled
//! with absent entries. An unpaired last node moves up unchanged. The shape of a proof follows from index and count;
//! both are checked, and the root alone is never signed: [`root_commit`] binds it to k, count and size.
//!
//! *Cost.* Levels are flat bytes and hashed by `HashKey::hash_many`, the one function a wide kernel replaces.
//! *Bounds.* A tree holds at most 64 bytes per leaf; a root needs 32 bytes per leaf while it is computed.

mod entries;
mod proven;
#[cfg(test)]
mod tests;

use synod_crypto::{Hash, HashKey};

pub(crate) use entries::root_of_eights;
pub use entries::{ABSENT, EntryProof, EntryTree, TreeShape, entry_root, root_commit};
pub use proven::Proven;

/// Bytes of a digest in a flat level.
const NODE: usize = 32;

/// Nodes of the level above one of `width` nodes.
const fn above(width: u32) -> u32 {
    width.div_ceil(2)
}

/// Digests in the path of leaf `index` of `count`; `None` beyond the last leaf.
#[must_use]
pub fn path_len(index: u32, count: u32) -> Option<u32> {
    if index >= count {
        return None;
    }
    let (mut at, mut width, mut length) = (index, count, 0);
    while width > 1 {
        length += u32::from(at ^ 1 < width);
        at /= 2;
        width = above(width);
    }
    Some(length)
}

/// The root over the digests of leaves, flat in `level`; zero when there is none.
#[must_use]
pub fn root(node: &HashKey, mut level: Vec<u8>) -> Hash {
    while level.len() > NODE {
        level = next(node, &level);
    }
    level.first_chunk::<NODE>().map_or(Hash::ZERO, |top| Hash(*top))
}

fn next(node: &HashKey, level: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(level.len() / 2 + NODE);
    hash_pairs(node, level, &mut out);
    out
}

/// Appends the level above `level`.
fn hash_pairs(node: &HashKey, level: &[u8], out: &mut Vec<u8>) {
    let paired = level.len() - level.len() % (2 * NODE);
    let (pairs, odd) = level.split_at(paired);
    node.hash_many(pairs, 2 * NODE, out);
    out.extend_from_slice(odd);
}

/// Leaves that go through the first levels together, in memory that is used again for the next ones.
const PART: usize = 512;
/// These levels: as many as leave sixteen nodes, which are hashed side by side.
const PART_LEVELS: u32 = PART.ilog2() - 4;

/// A root that is computed while leaves come, whatever they are of. Equal to [`root`]: a part begins at an even place on each of
/// its levels, so only the last one can have an unpaired node.
struct Growing<'a> {
    node: &'a HashKey,
    part: Vec<u8>,
    spare: Vec<u8>,
    above: Vec<u8>,
}

impl<'a> Growing<'a> {
    fn new(node: &'a HashKey) -> Self {
        let room = || Vec::with_capacity(PART * NODE);
        Self { node, part: room(), spare: room(), above: Vec::new() }
    }

    /// Takes the next leaves, whose digests `fill` appends: [`PART`] of them, fewer in the last call.
    fn take(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        self.part.clear();
        fill(&mut self.part);
        assert!(self.part.len() <= PART * NODE, "a part has its size");
        for _ in 0..PART_LEVELS {
            self.spare.clear();
            hash_pairs(self.node, &self.part, &mut self.spare);
            core::mem::swap(&mut self.part, &mut self.spare);
        }
        self.above.extend_from_slice(&self.part);
    }

    fn root(self) -> Hash {
        root(self.node, self.above)
    }
}

/// A tree that keeps every level, so that paths cost no hashing.
#[derive(Clone, Debug)]
pub struct Tree {
    levels: Vec<Vec<u8>>,
}

impl Tree {
    /// Grows the tree over the digests of leaves, flat in `leaves`.
    #[must_use]
    pub fn grow(node: &HashKey, leaves: Vec<u8>) -> Self {
        let mut levels = vec![leaves];
        while let Some(last) = levels.last().filter(|level| level.len() > NODE) {
            let above = next(node, last);
            levels.push(above);
        }
        Self { levels }
    }

    /// The root; zero when there is no leaf.
    #[must_use]
    pub fn root(&self) -> Hash {
        let top = self.levels.last().and_then(|level| level.first_chunk::<NODE>());
        top.map_or(Hash::ZERO, |top| Hash(*top))
    }

    /// The siblings from leaf `index` up to the root; `None` beyond the last leaf.
    #[must_use]
    pub fn path(&self, index: u32) -> Option<Vec<Hash>> {
        let mut at = usize::try_from(index).ok()?;
        digest(self.levels.first()?, at)?;
        let mut path = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            path.extend(digest(level, at ^ 1));
            at /= 2;
        }
        Some(path)
    }
}

fn digest(level: &[u8], at: usize) -> Option<Hash> {
    let from = at.checked_mul(NODE)?;
    level.get(from..)?.first_chunk::<NODE>().map(|digest| Hash(*digest))
}

/// The root that `path` leads to from `leaf` at `index` of `count`; `None` when the path has another shape.
#[must_use]
pub fn climb(node: &HashKey, leaf: Hash, index: u32, count: u32, path: &[Hash]) -> Option<Hash> {
    if path_len(index, count)? as usize != path.len() {
        return None;
    }
    let (mut at, mut width, mut top) = (index, count, leaf);
    let mut siblings = path.iter();
    while width > 1 {
        if at ^ 1 < width {
            let sibling = siblings.next()?;
            let (left, right) = if at % 2 == 0 { (&top, sibling) } else { (sibling, &top) };
            top = node.hash_parts(&[&left.0, &right.0]);
        }
        at /= 2;
        width = above(width);
    }
    Some(top)
}
