//! Where entries live: a tree by the hash of the key, whose leaves are the chunks of the state.
//!
//! 256 branches by the first byte of the key's hash; below, a leaf halves by the next bit as soon as its
//! encoding passes one chunk, and two leaves that fit one chunk join. So the shape depends on the contents
//! alone, never on their history: a subtree is divided if and only if it holds two entries or more and more than
//! [`CHUNK_BYTES`] of encoding. Each leaf keeps the Merkle hashes of its chunks until it changes; the root costs
//! the leaves that changed, and the hashing of their hashes.
//!
//! Lookups hash the key, take at most one step per doubling of the state beyond 16 MiB, and search a sorted run
//! of numbers; they compare one key.
//!
//! *Bounds.* Depth at most [`DEPTH_MAX`] bits, so recursion is bounded by a constant. Keys ground to share that many bits
//! of their hash make one long leaf, which is still searched in logarithmic time.

use bytes::Bytes;
use synod_crypto::{Hash, merkle};

use crate::{
    CHUNK_BYTES, snapshot,
    value::{LENGTH_BYTES, Value},
};

/// Branches of the top level.
const TOPS: usize = 256;
/// Bits that the top level distinguishes.
const TOP_BITS: u32 = 8;
/// Most bits of the hash that choose a leaf.
const DEPTH_MAX: u32 = 40;

/// The place of a key: the first eight bytes of its BLAKE3 hash.
pub(crate) fn place(key: &[u8]) -> u64 {
    Hash::of(key).short()
}

/// A key with its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Bytes,
    /// Number of the write that last changed it.
    pub(crate) version: u64,
    /// When it expires, in ms of agreed time.
    pub(crate) deadline: Option<u64>,
    pub(crate) value: Value,
}

/// Bytes of an entry's encoding beside key and value: kind, version, deadline, length of the key, length of the
/// value.
pub(crate) const ENTRY_FIXED_BYTES: u64 = 1 + 8 + 8 + LENGTH_BYTES + LENGTH_BYTES;

impl Entry {
    /// Length of the encoding, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        ENTRY_FIXED_BYTES + self.key.len() as u64 + self.value.weight()
    }
}

/// Entries that share the leading bits of their place, by (place, key).
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    entries: Vec<(u64, Box<Entry>)>,
    /// Length of the encoding of all entries, in bytes.
    bytes: u64,
    /// Merkle leaf hash of each chunk; empty when out of date.
    hashes: Vec<Hash>,
}

impl Leaf {
    /// The index of `key`, or where it belongs.
    pub(crate) fn find(&self, place: u64, key: &[u8]) -> Result<usize, usize> {
        let mut at = self.entries.partition_point(|(other, _)| *other < place);
        while let Some((other, entry)) = self.entries.get(at) {
            if *other != place || entry.key.as_ref() > key {
                break;
            }
            if entry.key.as_ref() == key {
                return Ok(at);
            }
            at += 1;
        }
        Err(at)
    }

    pub(crate) fn entry(&self, index: usize) -> &Entry {
        &self.entries[index].1
    }

    /// Changes an entry and keeps the leaf's length right.
    pub(crate) fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Entry) -> R) -> R {
        let entry = &mut self.entries[index].1;
        let before = entry.weight();
        let result = change(entry);
        self.bytes = self.bytes - before + entry.weight();
        self.hashes.clear();
        result
    }

    pub(crate) fn insert(&mut self, index: usize, place: u64, entry: Entry) {
        self.bytes += entry.weight();
        self.hashes.clear();
        self.entries.insert(index, (place, Box::new(entry)));
    }

    pub(crate) fn remove(&mut self, index: usize) -> Entry {
        let (_, entry) = self.entries.remove(index);
        self.bytes -= entry.weight();
        self.hashes.clear();
        *entry
    }

    fn chunks(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(CHUNK_BYTES as u64)).unwrap_or(u32::MAX)
    }

    fn is_over(&self, depth: u32) -> bool {
        self.bytes > CHUNK_BYTES as u64 && self.entries.len() >= 2 && depth < DEPTH_MAX
    }

    /// Brings the hashes up to date and appends them.
    fn hash(&mut self, out: &mut Vec<Hash>) {
        if self.hashes.is_empty() && self.bytes > 0 {
            let bytes = snapshot::encode(self.entries.iter().map(|(_, entry)| &**entry), self.bytes);
            self.hashes = bytes.chunks(CHUNK_BYTES).map(merkle::leaf).collect();
        }
        out.extend_from_slice(&self.hashes);
    }
}

#[derive(Debug)]
enum Node {
    Leaf(Leaf),
    Branch(Box<Branch>),
}

#[derive(Debug)]
struct Branch {
    /// Whether something below may have changed since the last settling.
    touched: bool,
    /// Chunks of all leaves below, as of the last settling.
    chunks: u32,
    /// By the bit of this depth: 0, 1.
    halves: [Node; 2],
}

impl Node {
    fn chunks(&self) -> u32 {
        match self {
            Self::Leaf(leaf) => leaf.chunks(),
            Self::Branch(branch) => branch.chunks,
        }
    }

    /// Restores the canonical shape of what was touched.
    fn settle(&mut self, depth: u32) {
        match self {
            Self::Leaf(leaf) if leaf.is_over(depth) => {
                *self = Self::Branch(Box::new(split(core::mem::take(leaf), depth)));
            }
            Self::Leaf(_) => {}
            Self::Branch(branch) if branch.touched => {
                let [left, right] = &mut branch.halves;
                left.settle(depth + 1);
                right.settle(depth + 1);
                branch.touched = false;
                branch.chunks = left.chunks() + right.chunks();
                if let (Self::Leaf(left), Self::Leaf(right)) = (left, right)
                    && (left.bytes + right.bytes <= CHUNK_BYTES as u64
                        || left.entries.len() + right.entries.len() < 2)
                {
                    let mut joined = core::mem::take(left);
                    joined.entries.append(&mut right.entries);
                    joined.bytes += right.bytes;
                    joined.hashes.clear();
                    *self = Self::Leaf(joined);
                }
            }
            Self::Branch(_) => {}
        }
    }

    fn hash(&mut self, out: &mut Vec<Hash>) {
        match self {
            Self::Leaf(leaf) => leaf.hash(out),
            Self::Branch(branch) => branch.halves.iter_mut().for_each(|half| half.hash(out)),
        }
    }
}

/// Divides a leaf by the bit at `depth`, and the halves again as far as they need it.
fn split(mut leaf: Leaf, depth: u32) -> Branch {
    let bit = half_bit(depth);
    let middle = leaf.entries.partition_point(|(place, _)| place & bit == 0);
    let upper = leaf.entries.split_off(middle);
    let halves = [leaf.entries, upper].map(|entries| {
        let bytes = entries.iter().map(|(_, entry)| entry.weight()).sum();
        let mut half = Node::Leaf(Leaf { entries, bytes, hashes: Vec::new() });
        half.settle(depth + 1);
        half
    });
    let chunks = halves.iter().map(Node::chunks).sum();
    Branch { touched: false, chunks, halves }
}

/// The bit of a place that divides at `depth`.
fn half_bit(depth: u32) -> u64 {
    1 << (u64::BITS - 1 - depth)
}

#[derive(Debug)]
struct Top {
    touched: bool,
    chunks: u32,
    node: Node,
}

/// All entries, by the hash of their key.
#[derive(Debug)]
pub(crate) struct Tree {
    tops: Vec<Top>,
    /// Tops touched since the last settling.
    touched: Vec<usize>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let top = || Top { touched: false, chunks: 0, node: Node::Leaf(Leaf::default()) };
        Self { tops: core::iter::repeat_with(top).take(TOPS).collect(), touched: Vec::new() }
    }

    /// The entry of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        let place = place(key);
        let mut node = &self.tops[top_of(place)].node;
        let mut depth = TOP_BITS;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.find(place, key).ok().map(|index| leaf.entry(index)),
                Node::Branch(branch) => node = &branch.halves[usize::from(place & half_bit(depth) != 0)],
            }
            depth += 1;
        }
    }

    /// The leaf of a place, to change it.
    pub(crate) fn leaf_mut(&mut self, place: u64) -> &mut Leaf {
        let number = top_of(place);
        let top = &mut self.tops[number];
        if !top.touched {
            top.touched = true;
            self.touched.push(number);
        }
        let mut node = &mut top.node;
        let mut depth = TOP_BITS;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(branch) => {
                    branch.touched = true;
                    node = &mut branch.halves[usize::from(place & half_bit(depth) != 0)];
                }
            }
            depth += 1;
        }
    }

    /// Restores the canonical shape after changes.
    pub(crate) fn settle(&mut self) {
        for number in core::mem::take(&mut self.touched) {
            let top = &mut self.tops[number];
            top.node.settle(TOP_BITS);
            top.touched = false;
            top.chunks = top.node.chunks();
        }
    }

    /// Number of chunks of a settled tree.
    pub(crate) fn chunks(&self) -> u32 {
        assert!(self.touched.is_empty(), "chunks are counted between blocks");
        self.tops.iter().map(|top| top.chunks).sum()
    }

    /// The chunk at `index`; empty beyond the last.
    pub(crate) fn chunk(&self, index: u32) -> Bytes {
        assert!(self.touched.is_empty(), "chunks are read between blocks");
        let mut left = index;
        for top in &self.tops {
            if left < top.chunks {
                return chunk_below(&top.node, left);
            }
            left -= top.chunks;
        }
        Bytes::new()
    }

    /// Brings all hashes up to date and appends them in the order of the chunks.
    pub(crate) fn hash(&mut self, out: &mut Vec<Hash>) {
        self.settle();
        self.tops.iter_mut().for_each(|top| top.node.hash(out));
    }

    /// Visits entries whose place is at least `from`, in (place, key) order, until `visit` says stop.
    pub(crate) fn walk<'a>(&'a self, from: u64, visit: &mut dyn FnMut(u64, &'a Entry) -> bool) {
        for number in top_of(from)..TOPS {
            // At most one right half per depth waits here.
            let mut waiting = vec![&self.tops[number].node];
            while let Some(node) = waiting.pop() {
                match node {
                    Node::Branch(branch) => waiting.extend(branch.halves.iter().rev()),
                    Node::Leaf(leaf) => {
                        let first = leaf.entries.partition_point(|(place, _)| *place < from);
                        for (place, entry) in &leaf.entries[first..] {
                            if !visit(*place, entry) {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Asserts that the shape is canonical and every count is right.
    pub(crate) fn invariants(&self) {
        for top in &self.tops {
            check(&top.node, TOP_BITS);
            assert!(top.touched || top.chunks == top.node.chunks());
        }
    }
}

/// The chunk at `index` below a node; the caller has made sure that there are so many.
fn chunk_below(node: &Node, index: u32) -> Bytes {
    let (mut node, mut left) = (node, index);
    loop {
        match node {
            Node::Branch(branch) => {
                let [low, high] = &branch.halves;
                if left < low.chunks() {
                    node = low;
                } else {
                    left -= low.chunks();
                    node = high;
                }
            }
            Node::Leaf(leaf) => {
                let entries = leaf.entries.iter().map(|(_, entry)| &**entry);
                let whole = Bytes::from(snapshot::encode(entries, leaf.bytes));
                let start = (left as usize * CHUNK_BYTES).min(whole.len());
                return whole.slice(start..(start + CHUNK_BYTES).min(whole.len()));
            }
        }
    }
}

fn top_of(place: u64) -> usize {
    usize::from(place.to_be_bytes()[0])
}

fn check(node: &Node, depth: u32) -> (u64, usize) {
    match node {
        Node::Leaf(leaf) => {
            let weight: u64 = leaf.entries.iter().map(|(_, entry)| entry.weight()).sum();
            assert_eq!(weight, leaf.bytes, "a leaf knows its length");
            assert!(leaf.entries.is_sorted_by(|(p, a), (q, b)| (p, &a.key) < (q, &b.key)));
            assert!(leaf.hashes.is_empty() || leaf.hashes.len() == leaf.chunks() as usize);
            (leaf.bytes, leaf.entries.len())
        }
        Node::Branch(branch) => {
            let (left, left_count) = check(&branch.halves[0], depth + 1);
            let (right, right_count) = check(&branch.halves[1], depth + 1);
            let (bytes, count) = (left + right, left_count + right_count);
            if !branch.touched {
                assert!(bytes > CHUNK_BYTES as u64 && count >= 2, "a branch at {depth} has a reason");
                assert_eq!(branch.chunks, branch.halves.iter().map(Node::chunks).sum::<u32>());
            }
            (bytes, count)
        }
    }
}
