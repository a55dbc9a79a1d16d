//! The Merkle-sum tree: every account under one root, with what all of them were paid, paid, set aside, own and owe.
//!
//! Leaves stand in the order of account names, padded to a power of two with empty ones. A node hashes its level, and the
//! hashes *and* sums of both children, so no child's sums can be traded against the other's. All sums are unsigned and
//! checked: nothing can be hidden behind a negative number.

use synod_crypto::{Hash, Hasher, planted};
use synod_wire::{List, Wire, wire};

use crate::{AccountId, Flags, Opening, Owner, Standing, Total};

/// Most levels above the leaves: 2^32 accounts.
pub const LEVELS_MAX: usize = 32;
/// Leaves of one range.
pub const RANGE_LEAVES: usize = 1 << RANGE_LEVELS;
/// Levels of the tree over one range.
const RANGE_LEVELS: usize = 7;

wire! {
    /// Sums over accounts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Sums {
        /// All that was ever paid to them.
        pub credits: Total,
        /// All that they ever paid.
        pub debits: Total,
        /// What their holds set aside.
        pub pending: Total,
        /// What those above 0 are owed.
        pub liabilities: Total,
        /// What those below 0 owe: the money there is.
        pub issued: Total,
    }

    /// A node of the tree.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Node {
        /// Its hash.
        pub hash: Hash,
        /// Over the accounts below.
        pub sums: Sums,
    }

    /// An account as a leaf shows it to whoever holds a proof of another: its name and a hash that its salt hides.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SumLeaf {
        /// Whose.
        pub account: AccountId,
        /// Of everything else: see [`Opened::inner`].
        pub inner: Hash,
    }

    /// What the owner of an account can show of it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Opened {
        /// Whose.
        pub account: AccountId,
        /// Known to the owner and the replicas.
        pub salt: [u8; 16],
        /// Settled entries.
        pub sequence: u64,
        /// The digest of the last one.
        pub head: Hash,
        /// Who may append.
        pub owner: Owner,
        /// How far below 0 it may go.
        pub limit: Total,
        /// Whether it is closed and whether it is frozen: bits 0 and 1.
        pub flags: Flags,
        /// All that was ever paid to it.
        pub credits: Total,
        /// All that it ever paid.
        pub debits: Total,
        /// What its holds set aside.
        pub pending: Total,
        /// Of what payments do not touch: see [`Opening::rest`].
        pub rest: Hash,
    }

    /// That a leaf stands at an index under a root.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SumPath {
        /// Which leaf, from 0.
        pub index: u32,
        /// The siblings on the way up, and their sums.
        pub siblings: List<Node, LEVELS_MAX>,
    }

    /// That [`RANGE_LEAVES`] neighbours stand under a root, fewer at the end: range 0 has the first.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SumRange {
        /// Which range, from 0.
        pub index: u32,
        /// The siblings on the way up from the node over the range, and their sums.
        pub siblings: List<Node, LEVELS_MAX>,
    }
}

impl Opening {
    /// Sixteen bytes that hide an account in its leaf from whoever does not know how it was opened. Replicas share no secret, so
    /// it is as good as the registrar's `user_data` is hard to guess.
    #[must_use]
    pub fn salt(&self) -> [u8; 16] {
        let hash = Hash::of_value("synod ledger salt", &(self.id, self.terms.user_data));
        let mut salt = [0; 16];
        salt.iter_mut().zip(hash.0).for_each(|(salt, byte)| *salt = byte);
        salt
    }

    /// Of what a leaf shows of an account in no field of its own: recovery key, code, user data, highest limit, representative.
    #[must_use]
    pub fn rest(&self) -> Hash {
        let terms = (self.terms.recovery, (self.terms.code, self.terms.user_data));
        let carried = (self.limit_max, self.representative);
        Hash::of_value("synod ledger rest", &((self.ledger, terms), carried))
    }
}

impl Sums {
    /// Of both; `None` where one would pass 2^192.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self {
            credits: self.credits.checked_add(other.credits)?,
            debits: self.debits.checked_add(other.debits)?,
            pending: self.pending.checked_add(other.pending)?,
            liabilities: self.liabilities.checked_add(other.liabilities)?,
            issued: self.issued.checked_add(other.issued)?,
        })
    }

    /// Whether nothing was made or lost, given what came from other shards and left for them in all:
    /// credits - debits = imported - exported.
    #[must_use]
    pub fn balances(&self, imported: Total, exported: Total) -> bool {
        let came = self.debits.checked_add(imported);
        came.is_some() && came == self.credits.checked_add(exported)
    }
}

impl Opened {
    /// Of an account as it stands, whose holds set `pending` aside.
    #[must_use]
    pub fn of(standing: &Standing, pending: Total, salt: [u8; 16]) -> Self {
        let Opening { id, terms, .. } = &standing.opening;
        Self {
            account: *id,
            salt,
            sequence: standing.sequence,
            head: standing.head,
            owner: terms.owner,
            limit: Total::of(terms.limit.0),
            flags: Flags(u16::from(standing.is_closed) | u16::from(standing.is_frozen) << 1),
            credits: standing.credits,
            debits: standing.debits,
            pending,
            rest: standing.opening.rest(),
        }
    }

    /// The hash of all but the name.
    #[must_use]
    pub fn inner(&self) -> Hash {
        Hash::of_value("synod ledger account", self)
    }

    /// The leaf of this account.
    #[must_use]
    pub fn leaf(&self) -> SumLeaf {
        SumLeaf { account: self.account, inner: self.inner() }
    }

    /// What this account adds to the sums.
    #[must_use]
    pub fn sums(&self) -> Sums {
        Sums {
            credits: self.credits,
            debits: self.debits,
            pending: self.pending,
            liabilities: self.credits.saturating_sub(self.debits),
            issued: self.debits.saturating_sub(self.credits),
        }
    }
}

impl SumLeaf {
    /// The node at the bottom of the tree.
    #[must_use]
    pub fn node(&self, sums: Sums) -> Node {
        let mut hasher = Hasher::new("synod ledger leaf");
        hasher.add(&self.account.to_be_bytes()).add(&self.inner.0).add(&sums.encode());
        Node { hash: hasher.finish(), sums }
    }
}

/// A place that no account fills.
fn empty() -> Node {
    Node { hash: Hasher::new("synod ledger empty leaf").finish(), sums: Sums::default() }
}

/// The node above two; `None` where a sum would pass 2^192.
fn above(level: usize, left: &Node, right: &Node) -> Option<Node> {
    let sums = left.sums.checked_add(&right.sums)?;
    let mut hasher = Hasher::new("synod ledger node");
    hasher.add(&(level as u64).to_le_bytes());
    if planted!(A31) {
        hasher.add(&left.hash.0).add(&right.hash.0).add(&sums.encode());
    } else {
        hasher.add(&left.hash.0).add(&left.sums.encode()).add(&right.hash.0).add(&right.sums.encode());
    }
    Some(Node { hash: hasher.finish(), sums })
}

/// The tree over all accounts of one ledger; keeps every level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumTree {
    count: u32,
    levels: Vec<Vec<Node>>,
}

impl SumTree {
    /// Builds it over accounts in the order of their names; `None` where a sum passes 2^192 or there are more than 2^31.
    ///
    /// # Panics
    /// When names do not rise: the caller reads them from a book.
    #[must_use]
    pub fn new<'a>(accounts: impl IntoIterator<Item = &'a Opened>) -> Option<Self> {
        let (mut bottom, mut last) = (Vec::new(), None);
        for opened in accounts {
            assert!(last < Some(opened.account), "accounts in the order of their names");
            last = Some(opened.account);
            bottom.push(opened.leaf().node(opened.sums()));
        }
        let count = u32::try_from(bottom.len()).ok().filter(|count| *count <= 1 << 31)?;
        bottom.resize(bottom.len().max(1).next_power_of_two(), empty());
        let mut levels = vec![bottom];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let level = levels.len();
            let pairs = below.chunks_exact(2).map(|pair| above(level, &pair[0], &pair[1]));
            let next = pairs.collect::<Option<Vec<Node>>>()?;
            levels.push(next);
        }
        Some(Self { count, levels })
    }

    /// Number of accounts.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Node {
        *self.levels.last().and_then(|top| top.first()).expect("a tree has at least its bottom")
    }

    /// That the account at `index` is under the root; `None` beyond the last.
    #[must_use]
    pub fn path(&self, index: u32) -> Option<SumPath> {
        let mut at = usize::try_from(index).ok().filter(|_| index < self.count)?;
        let mut siblings = List::default();
        for level in &self.levels {
            if let Some(sibling) = level.get(at ^ 1) {
                siblings.push(*sibling).ok()?;
            }
            at /= 2;
        }
        Some(SumPath { index, siblings })
    }
}

impl SumTree {
    /// The nodes of all accounts, in their order.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        self.levels.iter().take(1).flat_map(move |bottom| bottom.iter().take(count))
    }

    /// That a range is under the root; `None` beyond the last.
    #[must_use]
    pub fn range(&self, index: u32) -> Option<SumRange> {
        let first = usize::try_from(index).ok()?.checked_mul(RANGE_LEAVES)?;
        let mut at = (first < usize::try_from(self.count).ok()?).then_some(first / RANGE_LEAVES)?;
        let mut siblings = List::default();
        for level in self.levels.iter().skip(RANGE_LEVELS) {
            if let Some(sibling) = level.get(at ^ 1) {
                siblings.push(*sibling).ok()?;
            }
            at /= 2;
        }
        Some(SumRange { index, siblings })
    }
}

/// How many levels a tree over so many accounts has above its leaves.
const fn levels(count: u32) -> u32 {
    let count = if count == 0 { 1 } else { count };
    count.next_power_of_two().trailing_zeros()
}

/// The node at the top of a way from `node`, at an index of `level`.
fn climb(mut node: Node, mut at: u32, level: usize, siblings: &[Node]) -> Option<Node> {
    for (level, sibling) in (level + 1..).zip(siblings) {
        let pair = if at.is_multiple_of(2) { (&node, sibling) } else { (sibling, &node) };
        (node, at) = (above(level, pair.0, pair.1)?, at / 2);
    }
    Some(node)
}

impl SumPath {
    /// Whether it shows that `leaf` with `sums` stands at its index under `root`, a tree over `count` accounts.
    #[must_use]
    pub fn shows(&self, leaf: &SumLeaf, sums: Sums, root: &Node, count: u32) -> bool {
        let is_its_length = u32::try_from(self.siblings.len()) == Ok(levels(count));
        self.index < count && is_its_length && self.root(leaf, sums) == Some(*root)
    }

    /// The root that it leads to; `None` where a sum would pass 2^192.
    #[must_use]
    pub fn root(&self, leaf: &SumLeaf, sums: Sums) -> Option<Node> {
        climb(leaf.node(sums), self.index, 0, &self.siblings)
    }
}

impl SumRange {
    /// How many leaves it has in a tree over `count` accounts.
    #[must_use]
    pub fn leaves(index: u32, count: u32) -> usize {
        let first = u64::from(index).saturating_mul(RANGE_LEAVES as u64);
        let left = u64::from(count).saturating_sub(first);
        usize::try_from(left).unwrap_or(usize::MAX).min(RANGE_LEAVES)
    }

    /// How many ranges a tree over `count` accounts has.
    #[must_use]
    pub const fn of(count: u32) -> u32 {
        count.div_ceil(1 << RANGE_LEVELS)
    }

    /// Whether it shows that these are the nodes of its range under `root`, a tree over `count` accounts.
    #[must_use]
    pub fn shows(&self, nodes: Vec<Node>, root: &Node, count: u32) -> bool {
        let height = usize::try_from(levels(count)).unwrap_or(LEVELS_MAX);
        let below = height.min(RANGE_LEVELS);
        if nodes.is_empty()
            || nodes.len() != Self::leaves(self.index, count)
            || self.siblings.len() != height - below
        {
            return false;
        }
        let mut nodes = nodes;
        nodes.resize(1 << below, empty());
        for level in 1..=below {
            let pairs = nodes.chunks_exact(2).map(|pair| above(level, &pair[0], &pair[1]));
            let Some(next) = pairs.collect::<Option<Vec<Node>>>() else { return false };
            nodes = next;
        }
        let top = nodes.first().and_then(|top| climb(*top, self.index, below, &self.siblings));
        top == Some(*root)
    }
}
