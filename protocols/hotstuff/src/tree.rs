//! The block tree: headers from the last committed block upward, by digest, with their bodies and certificates.
//!
//! *Bounds.* At most [`BLOCKS_MAX`] blocks; a further one takes the place of the lowest block off the kept branches.
//! Every walk is iterative and ends at the root, at a gap, or after [`BLOCKS_MAX`] steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Time, planted};

use crate::block::Body;
use crate::record::Mark;
use crate::rules::Ancestry;
use crate::{Header, Qc, View};

/// Most uncommitted blocks held.
pub(crate) const BLOCKS_MAX: usize = 256;
/// Most uncommitted blocks with items on one branch: a longer branch gets no vote.
pub(crate) const FULL_MAX: usize = 64;

/// One block of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Its header.
    pub(crate) header: Arc<Header>,
    /// Its items, once they are here.
    pub(crate) body: Option<Arc<Body>>,
    /// Its certificate, once one is known.
    pub(crate) qc: Option<Arc<Qc>>,
    /// When the certificate was first known.
    pub(crate) certified_at: Time,
    /// Whether header and body are in the journal.
    pub(crate) stored: bool,
    /// Name of the body's blob in the journal, after a restart.
    pub(crate) name: Option<Hash>,
}

impl Block {
    /// A block of which only the header is known.
    pub(crate) fn new(header: Arc<Header>) -> Self {
        let body = header.is_empty().then(|| Arc::new(Body::empty()));
        Self { header, body, qc: None, certified_at: Time::ZERO, stored: false, name: None }
    }

    fn memory(&self) -> u64 {
        let qc = self.qc.as_ref().map_or(0, |qc| qc.memory());
        self.header.memory() + qc + self.body.as_ref().map_or(0, |b| b.memory()) + 128
    }
}

/// The tree.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Hash,
    blocks: BTreeMap<Hash, Block>,
}

impl Ancestry for Tree {
    fn header(&self, digest: &Hash) -> Option<&Header> {
        self.blocks.get(digest).map(|block| &*block.header)
    }
}

impl Tree {
    /// A tree of only its root, which is committed.
    pub(crate) fn new(root: Hash, header: Arc<Header>) -> Self {
        let mut blocks = BTreeMap::new();
        blocks.insert(root, Block::new(header));
        Self { root, blocks }
    }

    /// Digest of the last committed block.
    pub(crate) const fn root(&self) -> Hash {
        self.root
    }

    /// Header of the last committed block.
    pub(crate) fn root_header(&self) -> &Arc<Header> {
        match self.blocks.get(&self.root) {
            Some(block) => &block.header,
            None => unreachable!("the root is in the tree"),
        }
    }

    /// The block of `digest`.
    pub(crate) fn get(&self, digest: &Hash) -> Option<&Block> {
        self.blocks.get(digest)
    }

    /// The block of `digest`, to change.
    pub(crate) fn get_mut(&mut self, digest: &Hash) -> Option<&mut Block> {
        self.blocks.get_mut(digest)
    }

    /// All blocks with their digests, in digest order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Hash, &Block)> {
        self.blocks.iter()
    }

    /// Adds a block above the root; `keep` names branches that must not give way. Returns the block that gave way,
    /// or gives the new one back as `Err` when nothing may.
    pub(crate) fn insert(
        &mut self,
        digest: Hash,
        block: Block,
        keep: &[Hash],
    ) -> Result<Option<Block>, Block> {
        assert!(!self.blocks.contains_key(&digest), "a block is inserted once");
        let mut evicted = None;
        if self.blocks.len() >= BLOCKS_MAX {
            match self.lowest_loose(keep) {
                Some(loose) => evicted = self.blocks.remove(&loose),
                None => return Err(block),
            }
        }
        self.blocks.insert(digest, block);
        Ok(evicted)
    }

    fn lowest_loose(&self, keep: &[Hash]) -> Option<Hash> {
        let mut kept = vec![self.root];
        for tip in keep {
            kept.extend(self.ancestors(*tip));
        }
        let loose = self.blocks.iter().filter(|(digest, _)| !kept.contains(digest));
        loose.min_by_key(|(_, block)| block.header.view).map(|(digest, _)| *digest)
    }

    /// `digest` and its ancestors above the root that are here, newest first.
    pub(crate) fn ancestors(&self, digest: Hash) -> Vec<Hash> {
        let mut path = Vec::new();
        let mut at = digest;
        while at != self.root && path.len() < BLOCKS_MAX {
            let Some(block) = self.blocks.get(&at) else { break };
            path.push(at);
            at = block.header.parent;
        }
        path
    }

    /// `digest` and its ancestors above the root, newest first; `None` if they do not reach the root.
    pub(crate) fn branch(&self, digest: Hash) -> Option<Vec<Hash>> {
        let path = self.ancestors(digest);
        let lowest = path.last().and_then(|d| self.header(d)).map_or(digest, |h| h.parent);
        (lowest == self.root || planted!(H14)).then_some(path)
    }

    /// The first digest below `digest` that is not here; `None` when the branch reaches the root.
    pub(crate) fn gap(&self, digest: Hash) -> Option<Hash> {
        let path = self.ancestors(digest);
        let lowest = path.last().and_then(|d| self.header(d)).map_or(digest, |h| h.parent);
        (lowest != self.root && !planted!(H14)).then_some(lowest)
    }

    /// Whether the branch of `digest` contains the locked block.
    pub(crate) fn extends(&self, digest: Hash, lock: &Mark) -> bool {
        match self.branch(digest) {
            // A lock at or below the root is committed: the root's branch contains it.
            Some(_) if lock.view <= self.root_header().view => true,
            Some(path) => path.contains(&lock.digest),
            None => false,
        }
    }

    /// The uncommitted blocks with items on the branch of `digest`, newest first.
    pub(crate) fn full(&self, digest: Hash) -> Vec<Hash> {
        let mut path = self.ancestors(digest);
        path.retain(|d| self.header(d).is_some_and(|h| !h.is_empty()));
        path
    }

    /// The certified uncommitted block with items of the highest view, if there is one.
    pub(crate) fn certified_work(&self) -> Option<(&Hash, &Block)> {
        let work = self.blocks.iter().filter(|(digest, block)| {
            **digest != self.root && block.qc.is_some() && !block.header.is_empty()
        });
        work.max_by_key(|(_, block)| block.header.view)
    }

    /// Whether a certificate proves an uncommitted block with items: itself, or a descendant of it.
    pub(crate) fn has_certified_work(&self) -> bool {
        self.certified_work().is_some()
    }

    /// Digests of blocks in `view`.
    pub(crate) fn in_view(&self, view: View) -> Vec<Hash> {
        self.blocks.iter().filter(|(_, b)| b.header.view == view).map(|(d, _)| *d).collect()
    }

    /// Digests of blocks with this payload root that lack their body.
    pub(crate) fn awaiting(&self, root: &Hash) -> Vec<Hash> {
        let waiting = self.blocks.iter().filter(|(_, b)| b.body.is_none() && b.header.root == *root);
        waiting.map(|(digest, _)| *digest).collect()
    }

    /// Makes `tip` the root. Gives the blocks from the old root (not included) to `tip`, oldest first, and the blocks
    /// that fell off.
    ///
    /// # Panics
    /// When the branch of `tip` does not reach the root; the caller looked.
    pub(crate) fn commit(&mut self, tip: Hash) -> (Vec<(Hash, Block)>, Vec<Block>) {
        let path = self.branch(tip);
        assert!(path.is_some(), "only a block above the root is committed");
        let mut path = path.unwrap_or_default();
        path.reverse();
        let committed: Vec<(Hash, Block)> =
            path.iter().filter_map(|d| self.blocks.get(d).map(|b| (*d, b.clone()))).collect();
        let height = self.header(&tip).map_or(0, |h| h.height);
        let view = self.header(&tip).map_or(View::GENESIS, |h| h.view);
        // The old root is not fallen: it stays committed, and the chain holds it.
        let old = core::mem::replace(&mut self.root, tip);
        let above: Vec<Hash> =
            self.blocks.keys().copied().filter(|d| self.may_stay(*d, height, view)).collect();
        let all = core::mem::take(&mut self.blocks);
        let mut fallen = Vec::new();
        for (digest, block) in all {
            if digest == tip || above.contains(&digest) {
                self.blocks.insert(digest, block);
            } else if digest != old && !path.contains(&digest) {
                fallen.push(block);
            }
        }
        (committed, fallen)
    }

    /// Starts anew from another committed block. Gives the blocks that fell off.
    pub(crate) fn reset(&mut self, root: Hash, header: Arc<Header>) -> Vec<Block> {
        let all = core::mem::take(&mut self.blocks);
        let old = core::mem::replace(&mut self.root, root);
        self.blocks.insert(root, Block::new(header));
        let fallen = all.into_iter().filter(|(digest, _)| *digest != root && *digest != old);
        fallen.map(|(_, block)| block).collect()
    }

    /// Connected above the new root, or not connected and possibly above it.
    fn may_stay(&self, digest: Hash, height: u64, view: View) -> bool {
        let Some(block) = self.blocks.get(&digest) else { return false };
        let above = block.header.height > height && block.header.view > view;
        let lowest = self.ancestors(digest).last().and_then(|d| self.header(d)).map(|h| h.parent);
        let falls = lowest.is_some_and(|parent| parent != self.root && self.blocks.contains_key(&parent));
        let connected = lowest == Some(self.root);
        let gap = lowest.is_some_and(|parent| !self.blocks.contains_key(&parent));
        above && !falls && (connected || (gap && !self.below_gap_is_old(digest, height)))
    }

    /// A branch whose lowest block stands at or below the new root cannot reach it any more.
    fn below_gap_is_old(&self, digest: Hash, height: u64) -> bool {
        let lowest = self.ancestors(digest).last().and_then(|d| self.header(d)).map_or(0, |h| h.height);
        lowest <= height
    }

    /// Number of blocks above the root.
    pub(crate) fn count(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.values().map(Block::memory).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Tree};
    use crate::record::Mark;
    use crate::{Header, Kind, View};
    use std::sync::Arc;
    use synod_quorum::Epoch;

    struct Grown {
        tree: Tree,
        genesis: Header,
    }

    impl Grown {
        fn new() -> Self {
            let genesis = Header::genesis(Epoch(0), Kind::Generic);
            Self { tree: Tree::new(genesis.digest(), Arc::new(genesis.clone())), genesis }
        }

        fn add(&mut self, parent: &Header, view: u64) -> Header {
            let header = Header {
                view: View(view),
                height: parent.height + 1,
                parent: parent.digest(),
                count: 1,
                ..self.genesis.clone()
            };
            let added = self.tree.insert(header.digest(), Block::new(Arc::new(header.clone())), &[]);
            assert!(added.is_ok());
            header
        }
    }

    #[test]
    fn a_commit_gives_ancestors_oldest_first_and_drops_the_other_branch() {
        let mut grown = Grown::new();
        let genesis = grown.genesis.clone();
        let a = grown.add(&genesis, 1);
        let fork = grown.add(&genesis, 2);
        let b = grown.add(&a, 4);
        let c = grown.add(&b, 9);
        let on_fork = grown.add(&fork, 10);
        let (committed, fallen) = grown.tree.commit(b.digest());
        assert_eq!(committed.iter().map(|(d, _)| *d).collect::<Vec<_>>(), [a.digest(), b.digest()]);
        assert_eq!(fallen.len(), 2);
        assert!(grown.tree.get(&c.digest()).is_some() && grown.tree.get(&on_fork.digest()).is_none());
        assert_eq!((grown.tree.root(), grown.tree.count()), (b.digest(), 1));
        let (_, fallen) = grown.tree.commit(c.digest());
        assert!(fallen.is_empty(), "the block committed before stays committed");
    }

    #[test]
    fn a_branch_with_a_gap_names_the_missing_block() {
        let mut grown = Grown::new();
        let genesis = grown.genesis.clone();
        let unseen = Header { view: View(3), height: 1, parent: genesis.digest(), ..genesis };
        let above = grown.add(&unseen, 4);
        assert_eq!(grown.tree.gap(above.digest()), Some(unseen.digest()));
        assert!(grown.tree.branch(above.digest()).is_none());
    }

    #[test]
    fn a_branch_extends_the_locks_it_contains_and_no_other() {
        let mut grown = Grown::new();
        let genesis = grown.genesis.clone();
        let a = grown.add(&genesis, 1);
        let b = grown.add(&a, 2);
        let fork = grown.add(&genesis, 3);
        let lock = Mark { view: View(1), digest: a.digest() };
        assert!(grown.tree.extends(b.digest(), &lock) && !grown.tree.extends(fork.digest(), &lock));
    }

    #[test]
    fn beyond_its_cap_the_lowest_block_off_the_kept_branches_gives_way() {
        let mut grown = Grown::new();
        let genesis = grown.genesis.clone();
        let kept = grown.add(&genesis, 1);
        let loose = grown.add(&genesis, 2);
        for view in 3..u64::try_from(super::BLOCKS_MAX).expect("small") {
            grown.add(&genesis, view);
        }
        let newest = Header { view: View(999), height: 1, parent: genesis.digest(), ..genesis };
        let digest = newest.digest();
        let gave_way = grown.tree.insert(digest, Block::new(Arc::new(newest)), &[kept.digest()]);
        assert_eq!(gave_way.ok().flatten().map(|b| b.header.view), Some(loose.view));
        assert!(grown.tree.get(&kept.digest()).is_some());
    }
}
