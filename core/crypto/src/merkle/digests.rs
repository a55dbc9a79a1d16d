//! Merkle trees over digests that were made under a key: the digests are the leaves, and a node is one block under a key of its own.
//!
//! Leaves and nodes are told apart by their keys, so no leaf is hashed again, and the number of leaves is part of the root.

use super::climb;
use crate::{Hash, HashKey};

/// Bytes of two digests: one block of BLAKE3.
const PAIR: usize = 64;

fn key() -> HashKey {
    HashKey::derive("synod merkle digests", &[])
}

fn bind(key: &HashKey, count: u32, top: &[u8]) -> Hash {
    // Shorter than a pair, so it is no node.
    key.hash_parts(&[&count.to_le_bytes(), top])
}

fn digest(bytes: &[u8]) -> Option<Hash> {
    bytes.first_chunk::<32>().copied().map(Hash)
}

/// A tree over digests; keeps every level, so paths cost no hashing.
#[derive(Clone, Debug)]
pub struct DigestTree {
    key: HashKey,
    count: u32,
    /// Digests one after the other, the leaves first.
    levels: Vec<Vec<u8>>,
}

impl DigestTree {
    /// Builds the tree over `digests`, which somebody hashed under a key that hashes nothing else.
    #[must_use]
    pub fn new(digests: &[Hash]) -> Self {
        let (key, count) = (key(), u32::try_from(digests.len()).unwrap_or(u32::MAX));
        let mut leaves = Vec::with_capacity(digests.len().saturating_mul(32));
        digests.iter().for_each(|digest| leaves.extend_from_slice(&digest.0));
        let mut levels = vec![leaves];
        while let Some(last) = levels.last().filter(|level| level.len() >= PAIR) {
            let (pairs, odd) = last.split_at(last.len() - last.len() % PAIR);
            let mut above = Vec::with_capacity(last.len() / 2 + odd.len());
            key.hash_many(pairs, PAIR, &mut above);
            above.extend_from_slice(odd);
            levels.push(above);
        }
        Self { key, count, levels }
    }

    /// Number of leaves.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The root, which binds the number of leaves.
    #[must_use]
    pub fn root(&self) -> Hash {
        let top = self.levels.last().and_then(|level| digest(level)).unwrap_or(Hash::ZERO);
        bind(&self.key, self.count, &top.0)
    }

    /// The siblings from the leaf at `index` up to the root; `None` beyond the last leaf.
    #[must_use]
    pub fn path(&self, index: u32) -> Option<Vec<Hash>> {
        if index >= self.count {
            return None;
        }
        let mut at = usize::try_from(index).ok()?;
        let mut path = Vec::new();
        for level in &self.levels {
            path.extend(level.chunks_exact(32).nth(at ^ 1).and_then(digest));
            at /= 2;
        }
        Some(path)
    }
}

/// Whether `path` proves that `leaf` stands at `index` of the `count` digests under `root`.
#[must_use]
pub fn proves_digest(root: &Hash, count: u32, index: u32, leaf: Hash, path: &[Hash]) -> bool {
    let key = key();
    let node = |left: &Hash, right: &Hash| key.hash_parts(&[&left.0, &right.0]);
    climb((count, index), leaf, path, node).is_some_and(|top| bind(&key, count, &top.0) == *root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(count: u32) -> Vec<Hash> {
        (0..count).map(|n| Hash::of(&n.to_le_bytes())).collect()
    }

    /// The root, level by level and one node after the other.
    fn walked(digests: &[Hash]) -> Hash {
        let key = HashKey::derive("synod merkle digests", &[]);
        let mut level = digests.to_vec();
        while level.len() > 1 {
            let above = level.chunks(2).map(|pair| match pair {
                [left, right] => key.hash(&[left.0, right.0].concat()),
                odd => odd[0],
            });
            level = above.collect();
        }
        let top = level.first().copied().unwrap_or(Hash::ZERO);
        key.hash(&[&u32::try_from(digests.len()).expect("few").to_le_bytes()[..], &top.0].concat())
    }

    #[test]
    fn each_leaf_is_proved_at_its_index_of_its_list_and_nowhere_else() {
        for count in [0, 1, 2, 3, 4, 5, 15, 16, 17, 33, 100] {
            let leaves = digests(count);
            let tree = DigestTree::new(&leaves);
            let root = tree.root();
            assert_eq!((root, tree.count()), (walked(&leaves), count));
            assert_eq!(tree.path(count), None);
            for (index, leaf) in (0..count).zip(&leaves) {
                let path = tree.path(index).expect("a leaf");
                assert!(proves_digest(&root, count, index, *leaf, &path));
                let other = leaves[usize::try_from((index + 1) % count).expect("few")];
                assert!(other == *leaf || !proves_digest(&root, count, index, other, &path));
                assert!(!proves_digest(&root, count + 1, index, *leaf, &path));
                assert!(!proves_digest(&root, count, count, *leaf, &path));
                assert!(!proves_digest(&root, count, index, *leaf, &[&path[..], &[root]].concat()));
                assert!(path.is_empty() || !proves_digest(&root, count, index, *leaf, &path[1..]));
                if let [sibling, above @ ..] = path.as_slice() {
                    // A node is no leaf of the tree of half the size.
                    let node =
                        HashKey::derive("synod merkle digests", &[]).hash(&[leaf.0, sibling.0].concat());
                    let half = count.div_ceil(2);
                    assert!(!proves_digest(&root, half, index / 2, node, above), "{count} {index}");
                }
            }
        }
    }

    #[test]
    fn roots_tell_lists_apart() {
        let mut roots: Vec<Hash> = (0..40).map(|count| DigestTree::new(&digests(count)).root()).collect();
        let mut swapped = digests(5);
        swapped.swap(1, 2);
        roots.push(DigestTree::new(&swapped).root());
        roots.sort_unstable();
        let all = roots.len();
        roots.dedup();
        assert_eq!(roots.len(), all);
    }
}
