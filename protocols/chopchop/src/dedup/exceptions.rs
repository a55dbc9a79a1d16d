//! The entries of a batch that were not delivered: a list, a vector of two bits each, and a tree over the vector.

use synod_crypto::Hash;
use synod_wire::Bytes;

use super::Reason;
use crate::Domains;
use crate::tree::{Tree, climb, root};

/// Bytes of a leaf of the exceptions tree: 256 entries.
pub const EXC_LEAF_BYTES: usize = 64;
/// Entries of a leaf.
const LEAF_ENTRIES: u32 = 256;

/// Number of leaves over the exceptions of `count` entries.
#[must_use]
pub const fn exceptions_leaves(count: u32) -> u32 {
    count.div_ceil(LEAF_ENTRIES)
}

/// What was not delivered of a batch. Entry i has bits 2(i mod 4) and 2(i mod 4) + 1 of byte i / 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceptions {
    count: u32,
    list: Vec<(u32, Reason)>,
}

impl Exceptions {
    /// The exceptions of a batch of `count` entries, by rising index.
    ///
    /// # Panics
    /// When indices do not rise strictly below `count`: they come from own lanes.
    #[must_use]
    pub fn new(count: u32, list: Vec<(u32, Reason)>) -> Self {
        match Self::checked(count, list) {
            Some(exceptions) => exceptions,
            None => unreachable!("lanes list entries of the batch in rising order"),
        }
    }

    /// The same, of a list that a peer sent; `None` when its indices do not rise strictly below `count`.
    #[must_use]
    pub fn checked(count: u32, list: Vec<(u32, Reason)>) -> Option<Self> {
        let rising = list.windows(2).all(|pair| matches!(pair, [(a, _), (b, _)] if a < b));
        let below = list.last().is_none_or(|(last, _)| *last < count);
        (rising && below).then_some(Self { count, list })
    }

    /// Reads the vector of `count` entries; `None` at another length or with bits behind the last entry.
    #[must_use]
    pub fn from_vector(count: u32, vector: &[u8]) -> Option<Self> {
        let fits = vector.len() as u64 == u64::from(count).div_ceil(4);
        if !fits || !crate::bits::tail_is_zero(vector, 2 * u64::from(count)) {
            return None;
        }
        let reason = |index: u32| {
            let byte = vector.get((index / 4) as usize)?;
            Reason::of(byte >> (2 * (index % 4)) & 3)
        };
        let list = (0..count).filter_map(|index| Some((index, reason(index)?))).collect();
        Some(Self { count, list })
    }

    /// Entries of the batch.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The entries that were not delivered, by rising index.
    #[must_use]
    pub fn list(&self) -> &[(u32, Reason)] {
        &self.list
    }

    /// Number of entries that were not delivered.
    #[must_use]
    pub fn exc_count(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    /// Why entry `index` was not delivered; `None` when it was.
    #[must_use]
    pub fn reason(&self, index: u32) -> Option<Reason> {
        let at = self.list.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.list.get(at).map(|(_, reason)| *reason)
    }

    /// The vector: two bits per entry, the last byte filled with zeros.
    #[must_use]
    pub fn vector(&self) -> Bytes {
        self.filled(self.count.div_ceil(4) as usize).into()
    }

    fn filled(&self, length: usize) -> Vec<u8> {
        let mut vector = vec![0; length];
        for (index, reason) in &self.list {
            if let Some(byte) = vector.get_mut((index / 4) as usize) {
                *byte |= reason.code() << (2 * (index % 4));
            }
        }
        vector
    }

    fn leaves(&self) -> Vec<u8> {
        self.filled(exceptions_leaves(self.count) as usize * EXC_LEAF_BYTES)
    }

    fn hashed(&self, domains: &Domains) -> Vec<u8> {
        let mut out = Vec::new();
        domains.exc_leaf.hash_many(&self.leaves(), EXC_LEAF_BYTES, &mut out);
        out
    }

    /// What servers sign: the root over the vector in leaves of 64 bytes; zero when everything was delivered.
    #[must_use]
    pub fn root(&self, domains: &Domains) -> Hash {
        if self.list.is_empty() { Hash::ZERO } else { root(&domains.exc_node, self.hashed(domains)) }
    }

    /// The leaf that holds entry `index`, and its path; `None` beyond the last entry.
    #[must_use]
    pub fn prove(&self, domains: &Domains, index: u32) -> Option<([u8; EXC_LEAF_BYTES], Vec<Hash>)> {
        if index >= self.count {
            return None;
        }
        let number = index / LEAF_ENTRIES;
        let leaves = self.leaves();
        let leaf = leaves.get(number as usize * EXC_LEAF_BYTES..)?.first_chunk::<EXC_LEAF_BYTES>()?;
        let path = Tree::grow(&domains.exc_node, self.hashed(domains)).path(number)?;
        Some((*leaf, path))
    }

    /// What `leaf` and `path` prove of entry `index` of `count` under `root`: the outer `None` when they prove nothing,
    /// the inner one when the entry was delivered.
    #[must_use]
    pub fn proved(
        domains: &Domains,
        root: &Hash,
        (index, count): (u32, u32),
        leaf: &[u8; EXC_LEAF_BYTES],
        path: &[Hash],
    ) -> Option<Option<Reason>> {
        if index >= count {
            return None;
        }
        let top = domains.exc_leaf.hash(leaf);
        let top = climb(&domains.exc_node, top, index / LEAF_ENTRIES, exceptions_leaves(count), path)?;
        if top != *root {
            return None;
        }
        let within = index % LEAF_ENTRIES;
        let byte = leaf.get((within / 4) as usize)?;
        Some(Reason::of(byte >> (2 * (within % 4)) & 3))
    }
}
