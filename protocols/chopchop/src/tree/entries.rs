//! The entry tree: packed leaves, absent entries, proofs of inclusion.

use synod_crypto::Hash;
use synod_wire::Bytes;

use super::{Growing, PART, Tree, climb, path_len, root};
use crate::Domains;
use crate::columns::Entry;

/// The id of an entry that fills the last leaf. No client has it.
pub const ABSENT: u32 = u32::MAX;
/// Leaves that are laid out before they are hashed together.
const LEAVES_AT_ONCE: usize = 64;

/// What shapes an entry tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Number of entries, above 0.
    pub count: u32,
    /// Bytes of each message; 0 when variable.
    pub msg_size: u16,
}

impl TreeShape {
    /// Entries per leaf: 4 for messages up to 11 bytes, 2 up to 27, else 1, and 1 for variable size.
    #[must_use]
    pub const fn arity(&self) -> u32 {
        match self.msg_size {
            1..=11 => 4,
            12..=27 => 2,
            0 | 28.. => 1,
        }
    }

    /// Number of leaves.
    #[must_use]
    pub const fn leaves(&self) -> u32 {
        self.count.div_ceil(self.arity())
    }

    /// Bytes of the other entries of a leaf, in a proof.
    #[must_use]
    pub fn neighbour_bytes(&self) -> usize {
        (self.arity() as usize - 1) * (usize::from(self.msg_size) + 5)
    }

    /// Digests of a path for entry `index`; `None` beyond the last entry.
    #[must_use]
    pub fn path_len(&self, index: u32) -> Option<u32> {
        if index >= self.count {
            return None;
        }
        path_len(index / self.arity(), self.leaves())
    }
}

/// Appends the bytes of an entry as they stand in a leaf.
fn put(entry: &Entry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&entry.id.to_le_bytes());
    match entry.message.as_array::<8>() {
        // The usual size, copied in place: there are 65,536 of them in a batch.
        Some(eight) => out.extend_from_slice(eight),
        None => out.extend_from_slice(entry.message),
    }
    out.push(u8::from(entry.parity));
}

fn put_absent(msg_size: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&ABSENT.to_le_bytes());
    let end = out.len() + usize::from(msg_size) + 1;
    out.resize(end, 0);
}

/// Whether these bytes of a leaf are of no entry.
fn is_absent(bytes: &[u8]) -> bool {
    bytes
        .split_first_chunk::<4>()
        .is_some_and(|(id, rest)| *id == ABSENT.to_le_bytes() && rest.iter().all(|byte| *byte == 0))
}

/// Digests of the leaves, flat.
fn leaves<'a>(domains: &Domains, shape: &TreeShape, mut entries: impl Iterator<Item = Entry<'a>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(shape.leaves() as usize * 32);
    let mut flat = Vec::new();
    if shape.msg_size == 0 {
        for entry in entries {
            flat.clear();
            put(&entry, &mut flat);
            out.extend_from_slice(&domains.leaf.hash(&flat).0);
        }
        return out;
    }
    let arity = shape.arity() as usize;
    let size = arity * (usize::from(shape.msg_size) + 5);
    loop {
        flat.clear();
        for entry in entries.by_ref().take(LEAVES_AT_ONCE * arity) {
            put(&entry, &mut flat);
        }
        if flat.is_empty() {
            return out;
        }
        while !flat.len().is_multiple_of(size) {
            put_absent(shape.msg_size, &mut flat);
        }
        domains.leaf.hash_many(&flat, size, &mut out);
    }
}

/// The root over `entries`, whose messages all have the shape's size unless it is 0. Keeps no level.
#[must_use]
pub fn entry_root<'a>(
    domains: &Domains,
    shape: &TreeShape,
    entries: impl Iterator<Item = Entry<'a>>,
) -> Hash {
    root(&domains.node, leaves(domains, shape, entries))
}

/// The same for messages of eight bytes out of their columns: the usual batch, whose leaves are laid out in the blocks that
/// are hashed.
pub(crate) fn root_of_eights(domains: &Domains, ids: &[u32], messages: &[u8], parity: &[u8]) -> Hash {
    let (messages, _) = messages.as_chunks::<8>();
    let mut growing = Growing::new(&domains.node);
    let mut blocks = vec![[0; BLOCK]; PART];
    let parts = ids.chunks(4 * PART).zip(messages.chunks(4 * PART)).zip(parity.chunks(PART / 2));
    for ((ids, messages), parity) in parts {
        let leaves = ids.len().div_ceil(4);
        let (whole, last) = ids.as_chunks::<4>();
        let (messages, last_messages) = messages.as_chunks::<4>();
        let nibbles = parity.iter().flat_map(|byte| [byte & 0xf, byte >> 4]);
        for (((block, ids), messages), parity) in blocks.iter_mut().zip(whole).zip(messages).zip(nibbles) {
            lay_out(block, ids, messages, parity);
        }
        if !last.is_empty()
            && let Some(block) = blocks.get_mut(whole.len())
        {
            let (mut ids, mut messages) = ([ABSENT; 4], [[0; 8]; 4]);
            ids.iter_mut().zip(last).for_each(|(id, last)| *id = *last);
            messages.iter_mut().zip(last_messages).for_each(|(message, last)| *message = *last);
            // Behind the last entry no parity bit is set.
            let byte = parity.get(whole.len() / 2).copied().unwrap_or(0);
            lay_out(block, &ids, &messages, byte >> (4 * (whole.len() % 2)) & 0xf);
        }
        let blocks = blocks.get(..leaves).unwrap_or_default();
        growing.take(|out| domains.leaf.hash_blocks(blocks, 4 * EIGHT, out));
    }
    growing.root()
}

/// Bytes of an entry with a message of eight bytes.
const EIGHT: usize = 13;
/// Bytes of a block that holds a leaf.
const BLOCK: usize = 64;

/// Lays out a leaf of four entries; bit i of `parity` is entry i's.
#[inline]
fn lay_out(block: &mut [u8; BLOCK], ids: &[u32; 4], messages: &[[u8; 8]; 4], parity: u8) {
    for at in 0..4 {
        let message = u64::from_le_bytes(messages[at]);
        let parity = u128::from(parity >> at & 1);
        let entry = u128::from(ids[at]) | u128::from(message) << 32 | parity << 96;
        // Its three zero bytes are where the next entry begins, or behind the leaf.
        block[EIGHT * at..EIGHT * at + 16].copy_from_slice(&entry.to_le_bytes());
    }
}

/// What clients sign: k, count and message size once, beside the root, and not in each leaf.
#[must_use]
pub fn root_commit(domains: &Domains, k: u64, shape: &TreeShape, root: &Hash) -> Hash {
    let (k, count, size) = (k.to_le_bytes(), shape.count.to_le_bytes(), shape.msg_size.to_le_bytes());
    domains.commit.hash_parts(&[&k, &count, &size, &root.0])
}

/// Proof that an entry stands in a batch. Its shape follows from index, count and message size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryProof {
    /// Which entry.
    pub index: u32,
    /// The other entries of its leaf, in order, as they stand there.
    pub neighbours: Bytes,
    /// The siblings above the leaf.
    pub path: Vec<Hash>,
}

impl EntryProof {
    /// The root under which this proves `entry`; `None` when the proof or the message does not have the shape that
    /// index and count imply, or the leaf is not filled as it must be.
    #[must_use]
    pub fn root(&self, domains: &Domains, shape: &TreeShape, entry: &Entry<'_>) -> Option<Hash> {
        let digest = self.leaf(domains, shape, entry)?;
        climb(&domains.node, digest, self.index / shape.arity(), shape.leaves(), &self.path)
    }

    /// The digest of the leaf with `entry` and its neighbours; `None` as for [`EntryProof::root`].
    pub(super) fn leaf(&self, domains: &Domains, shape: &TreeShape, entry: &Entry<'_>) -> Option<Hash> {
        let fits = shape.msg_size == 0 || entry.message.len() == usize::from(shape.msg_size);
        if self.index >= shape.count || !fits || self.neighbours.len() != shape.neighbour_bytes() {
            return None;
        }
        let (arity, size) = (shape.arity(), usize::from(shape.msg_size) + 5);
        let (before, after) = self.neighbours.split_at_checked((self.index % arity) as usize * size)?;
        let (id, parity) = (entry.id.to_le_bytes(), [u8::from(entry.parity)]);
        let parts = [before, &id, entry.message, &parity, after];
        let (mut block, mut long) = ([0; BLOCK], Vec::new());
        // Packed leaves, and others of short messages, are one block.
        let length = self.neighbours.len() + entry.message.len() + 5;
        let leaf = match block.get_mut(..length) {
            Some(block) => block,
            None => {
                long.resize(length, 0);
                long.as_mut_slice()
            }
        };
        let mut rest = &mut *leaf;
        for part in parts {
            let (own, behind) = core::mem::take(&mut rest).split_at_mut(part.len());
            own.copy_from_slice(part);
            rest = behind;
        }
        let present = (shape.count - self.index / arity * arity).min(arity);
        let mut beyond = leaf.chunks_exact(size).skip(present as usize);
        if arity > 1 && !beyond.all(is_absent) {
            return None;
        }
        Some(domains.leaf.hash(leaf))
    }
}

/// The tree a broker keeps while it distils.
#[derive(Clone, Debug)]
pub struct EntryTree {
    shape: TreeShape,
    tree: Tree,
}

impl EntryTree {
    /// Grows the tree over `entries`, whose messages all have the shape's size unless it is 0.
    #[must_use]
    pub fn grow<'a>(domains: &Domains, shape: TreeShape, entries: impl Iterator<Item = Entry<'a>>) -> Self {
        let tree = Tree::grow(&domains.node, leaves(domains, &shape, entries));
        Self { shape, tree }
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// What shapes the tree.
    #[must_use]
    pub const fn shape(&self) -> &TreeShape {
        &self.shape
    }

    /// The proof of entry `index`; `entry` gives the entries the tree was grown over. `None` beyond the last.
    #[must_use]
    pub fn prove<'a>(&self, index: u32, entry: impl Fn(u32) -> Option<Entry<'a>>) -> Option<EntryProof> {
        if index >= self.shape.count {
            return None;
        }
        let arity = self.shape.arity();
        let leaf = index / arity;
        let mut neighbours = Vec::with_capacity(self.shape.neighbour_bytes());
        for place in (0..arity).filter(|place| *place != index % arity) {
            match (leaf * arity).checked_add(place).filter(|at| *at < self.shape.count) {
                Some(at) => put(&entry(at)?, &mut neighbours),
                None => put_absent(self.shape.msg_size, &mut neighbours),
            }
        }
        Some(EntryProof { index, neighbours: neighbours.into(), path: self.tree.path(leaf)? })
    }
}
