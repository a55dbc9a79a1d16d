//! The committed chain: what was ordered, from the oldest retained block on, and where each block's entries stand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::broadcast::Position;

use crate::Header;
use crate::block::Body;
use crate::proof::Commitment;

/// Committed bodies kept in memory for peers slightly behind; older ones are read from their blobs.
pub(crate) const RECENT_MAX: usize = 16;
/// Newest blocks looked through for a digest.
pub(crate) const SEARCH_MAX: usize = 1_024;

/// One committed block.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Its digest.
    pub(crate) digest: Hash,
    /// Its header.
    pub(crate) header: Arc<Header>,
    /// Position of its last entry, or of the last before it.
    pub(crate) last: Position,
    /// Its items, while they are in memory.
    pub(crate) body: Option<Arc<Body>>,
    /// Name of the body's blob, once it is in the journal.
    pub(crate) name: Option<Hash>,
    /// Its own commitment where the headers above do not show it.
    pub(crate) commitment: Option<Arc<Commitment>>,
}

impl Link {
    /// Position before its first entry.
    pub(crate) fn before(&self) -> Position {
        Position(self.last.0.saturating_sub(u64::from(self.header.count)))
    }

    fn memory(&self) -> u64 {
        let body = self.body.as_ref().map_or(0, |b| b.memory());
        let commitment = self.commitment.as_ref().map_or(0, |c| c.qc().memory());
        self.header.memory() + body + commitment + 192
    }
}

/// The committed chain.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    links: VecDeque<Link>,
    /// Height of the newest retained block of each payload root: a peer far behind asks for old ones.
    roots: BTreeMap<Hash, u64>,
    bytes: u64,
}

impl Chain {
    /// A chain of only its first retained block.
    pub(crate) fn new(first: Link) -> Self {
        let mut chain = Self { links: VecDeque::new(), roots: BTreeMap::new(), bytes: 0 };
        chain.append(first);
        chain
    }

    /// The last committed block.
    pub(crate) fn top(&self) -> &Link {
        match self.links.back() {
            Some(link) => link,
            None => unreachable!("a chain holds at least one block"),
        }
    }

    /// The oldest retained block.
    pub(crate) fn floor(&self) -> &Link {
        match self.links.front() {
            Some(link) => link,
            None => unreachable!("a chain holds at least one block"),
        }
    }

    /// The block at `height`.
    pub(crate) fn at(&self, height: u64) -> Option<&Link> {
        let index = height.checked_sub(self.floor().header.height)?;
        self.links.get(usize::try_from(index).ok()?)
    }

    /// Changes the block at `height`.
    pub(crate) fn update(&mut self, height: u64, change: impl FnOnce(&mut Link)) {
        let floor = self.floor().header.height;
        let index = height.checked_sub(floor).and_then(|i| usize::try_from(i).ok());
        if let Some(link) = index.and_then(|i| self.links.get_mut(i)) {
            self.bytes -= link.memory();
            change(link);
            self.bytes += link.memory();
        }
    }

    /// Appends the next block.
    pub(crate) fn push(&mut self, link: Link) {
        assert_eq!(
            link.header.height,
            self.top().header.height + 1,
            "blocks are committed one above the other"
        );
        assert_eq!(link.header.parent, self.top().digest, "a committed block links to the last one");
        self.append(link);
    }

    fn append(&mut self, link: Link) {
        self.bytes += link.memory();
        if !link.header.is_empty() {
            self.roots.insert(link.header.root, link.header.height);
        }
        self.links.push_back(link);
    }

    /// The block that holds `position`.
    pub(crate) fn holding(&self, position: Position) -> Option<&Link> {
        let index = self.links.partition_point(|link| link.last < position);
        self.links.get(index).filter(|link| link.before() < position)
    }

    /// The block of `digest`.
    pub(crate) fn by_digest(&self, digest: &Hash) -> Option<&Link> {
        self.links.iter().rev().take(SEARCH_MAX).find(|link| link.digest == *digest)
    }

    /// The newest retained block whose payload has this root.
    pub(crate) fn by_root(&self, root: &Hash) -> Option<&Link> {
        self.at(*self.roots.get(root)?)
    }

    /// Drops the oldest blocks while `obsolete` says so, keeping at least one; gives them.
    pub(crate) fn prune(&mut self, obsolete: impl Fn(&Link) -> bool) -> Vec<Link> {
        let mut dropped = Vec::new();
        while self.links.len() > 1 && self.links.front().is_some_and(&obsolete) {
            if let Some(link) = self.links.pop_front() {
                self.bytes -= link.memory();
                if self.roots.get(&link.header.root) == Some(&link.header.height) {
                    self.roots.remove(&link.header.root);
                }
                dropped.push(link);
            }
        }
        dropped
    }

    /// Starts anew at `first`; gives what was there.
    pub(crate) fn reset(&mut self, first: Link) -> Vec<Link> {
        core::mem::replace(self, Self::new(first)).links.into()
    }

    /// The blocks, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Link> {
        self.links.iter()
    }

    /// Number of retained blocks.
    pub(crate) fn count(&self) -> u64 {
        self.links.len() as u64
    }

    /// Bytes held.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How many blocks share a body's blob: a blob is written once and released with the last of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blobs {
    held: BTreeMap<Hash, u32>,
}

impl Blobs {
    /// Counts one more block; whether the blob must be written.
    pub(crate) fn retain(&mut self, name: Hash) -> bool {
        let count = self.held.entry(name).or_default();
        *count += 1;
        *count == 1
    }

    /// Counts one block less; whether the blob must be released.
    pub(crate) fn release(&mut self, name: &Hash) -> bool {
        match self.held.get_mut(name) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => self.held.remove(name).is_some(),
            None => false,
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        64 * self.held.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Blobs, Chain, Link, SEARCH_MAX};
    use crate::{Header, Kind, View};
    use std::sync::Arc;
    use synod_crypto::Hash;
    use synod_machine::broadcast::Position;
    use synod_quorum::Epoch;

    fn link(parent: Option<&Link>, count: u32) -> Link {
        let genesis = Header::genesis(Epoch(0), Kind::Generic);
        let header = match parent {
            None => genesis,
            Some(p) => Header {
                view: View(p.header.view.0 + 2),
                height: p.header.height + 1,
                parent: p.digest,
                count,
                ..genesis
            },
        };
        let last = Position(parent.map_or(0, |p| p.last.0) + u64::from(header.count));
        Link {
            digest: header.digest(),
            header: Arc::new(header),
            last,
            body: None,
            name: None,
            commitment: None,
        }
    }

    fn chain() -> Chain {
        let mut chain = Chain::new(link(None, 0));
        for count in [2, 0, 3] {
            let next = link(Some(chain.top()), count);
            chain.push(next);
        }
        chain
    }

    #[test]
    fn a_position_is_found_in_the_block_that_holds_it() {
        let chain = chain();
        let height = |p| chain.holding(Position(p)).map(|l| l.header.height);
        assert_eq!([0, 1, 2, 3, 5, 6].map(height), [None, Some(1), Some(1), Some(3), Some(3), None]);
    }

    #[test]
    fn a_payload_is_found_in_any_retained_block_and_in_no_other() {
        let mut chain = Chain::new(link(None, 0));
        let root = |height: u64| Hash::of(&(height / 2).to_le_bytes());
        let blocks = 2 * SEARCH_MAX as u64;
        for height in 1..=blocks {
            let mut next = link(Some(chain.top()), 1);
            next.header = Arc::new(Header { root: root(height), ..Header::clone(&next.header) });
            next.digest = next.header.digest();
            chain.push(next);
        }
        let height = |chain: &Chain, of: u64| chain.by_root(&root(of)).map(|link| link.header.height);
        assert_eq!((height(&chain, 2), height(&chain, blocks)), (Some(3), Some(blocks)));
        chain.prune(|link| link.header.height <= 4);
        assert_eq!((height(&chain, 2), height(&chain, 5), height(&chain, 6)), (None, Some(5), Some(7)));
        chain.prune(|link| link.header.height <= 6);
        assert_eq!((height(&chain, 5), height(&chain, 6)), (None, Some(7)));
        chain.reset(link(None, 0));
        assert_eq!(height(&chain, blocks), None);
    }

    #[test]
    fn pruning_keeps_at_least_one_block_and_the_count_of_bytes() {
        let mut chain = chain();
        let dropped = chain.prune(|_| true);
        assert_eq!((dropped.len(), chain.count(), chain.floor().header.height), (3, 1, 3));
        assert_eq!(chain.bytes(), chain.iter().map(Link::memory).sum::<u64>());
    }

    #[test]
    fn a_blob_is_written_once_and_released_with_its_last_block() {
        let mut blobs = Blobs::default();
        let name = Hash::of(b"body");
        assert!(blobs.retain(name) && !blobs.retain(name));
        assert!(!blobs.release(&name) && blobs.release(&name) && !blobs.release(&name));
    }
}
