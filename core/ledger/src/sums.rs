//! The Merkle-sum tree: every account under one root, with what all of them were paid, paid, set aside, own and owe.
//!
//! Leaves stand in the order of account names, padded to a power of two with empty ones. A node hashes its level, and the
//! hashes *and* sums of both children, so no child's sums can be traded against the other's. All sums are unsigned and
//! checked: nothing can be hidden behind a negative number.

use synod_crypto::{Hash, Hasher};
use synod_wire::{List, Wire, wire};

use crate::{Account, AccountId, Flags, Owner, Terms, Total};

/// Most levels above the leaves: 2^32 accounts.
pub const LEVELS_MAX: usize = 32;

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
    }

    /// That a leaf stands at an index under a root.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SumPath {
        /// Which leaf, from 0.
        pub index: u32,
        /// The siblings on the way up, and their sums.
        pub siblings: List<Node, LEVELS_MAX>,
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
    /// Of an account as the book has it.
    #[must_use]
    pub fn of(id: AccountId, account: &Account, terms: &Terms, salt: [u8; 16]) -> Self {
        Self {
            account: id,
            salt,
            sequence: account.sequence(),
            head: account.head(),
            owner: terms.owner,
            limit: Total::of(terms.limit.0),
            flags: Flags(u16::from(account.is_closed()) | u16::from(account.is_frozen()) << 1),
            credits: account.credits_posted(),
            debits: account.debits_posted(),
            pending: account.debits_pending(),
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
    hasher.add(&left.hash.0).add(&left.sums.encode()).add(&right.hash.0).add(&right.sums.encode());
    Some(Node { hash: hasher.finish(), sums })
}

/// The tree over all accounts of one ledger; keeps every level.
#[derive(Clone, Debug)]
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

impl SumPath {
    /// Whether it shows that `leaf` with `sums` stands at its index under `root`, a tree over `count` accounts.
    #[must_use]
    pub fn shows(&self, leaf: &SumLeaf, sums: Sums, root: &Node, count: u32) -> bool {
        let levels = count.max(1).next_power_of_two().trailing_zeros();
        if self.index >= count || u32::try_from(self.siblings.len()) != Ok(levels) {
            return false;
        }
        let (mut node, mut at) = (leaf.node(sums), self.index);
        for (level, sibling) in (1_usize..).zip(&self.siblings) {
            let pair = if at % 2 == 0 { (&node, sibling) } else { (sibling, &node) };
            let Some(next) = above(level, pair.0, pair.1) else { return false };
            (node, at) = (next, at / 2);
        }
        node == *root
    }
}
