//! H-S7: every commit is justified by votes that were really cast, by the pack's commit rule written out again.

use std::collections::BTreeSet;

use synod_crypto::Hash;

use super::sighting::{Pack, Phase, Seen, Sighting};
use super::{Blocks, Oracle, Verdict, breach, quorum};

/// Watches commit records.
pub struct Commits {
    pack: Pack,
    members: u32,
    justified: BTreeSet<Hash>,
}

impl Commits {
    /// For a cluster of `members` under `pack`.
    #[must_use]
    pub fn new(pack: Pack, members: u32) -> Self {
        Self { pack, members, justified: BTreeSet::new() }
    }

    fn certified(&self, digest: &Hash, blocks: &Blocks) -> bool {
        blocks.support(Phase::Generic, digest) >= quorum(self.members)
    }

    /// A certified child of the very next view.
    fn next<'a>(&'a self, digest: &'a Hash, blocks: &'a Blocks) -> impl Iterator<Item = &'a Hash> + 'a {
        let view = blocks.get(digest).map(|h| h.own.view);
        blocks.children(digest).iter().filter(move |child| {
            let follows = blocks.get(child).map(|h| h.own.view) == view.map(|v| v + 1);
            follows && self.certified(child, blocks)
        })
    }

    fn direct(&self, digest: &Hash, blocks: &Blocks) -> bool {
        let two = || self.certified(digest, blocks) && self.next(digest, blocks).next().is_some();
        match self.pack {
            Pack::Basic => blocks.support(Phase::Commit, digest) >= quorum(self.members),
            Pack::Chain2 | Pack::Lab2 => two(),
            Pack::Chain2Order => blocks.support(Phase::Order, digest) >= quorum(self.members) || two(),
            Pack::Chain3 => {
                let chained = |child: &Hash| self.next(child, blocks).next().is_some();
                self.certified(digest, blocks) && self.next(digest, blocks).any(chained)
            }
        }
    }

    /// The block or a descendant of it is directly committed; the search visits each block once.
    fn is_justified(&self, digest: Hash, blocks: &Blocks) -> bool {
        let mut seen = BTreeSet::new();
        let mut work = vec![digest];
        while let Some(at) = work.pop() {
            if self.justified.contains(&at) || self.direct(&at, blocks) {
                return true;
            }
            work.extend(blocks.children(&at).iter().copied().filter(|child| seen.insert(*child)));
        }
        false
    }
}

impl Oracle for Commits {
    fn see(&mut self, sighting: &Sighting, blocks: &Blocks) -> Verdict {
        let Seen::Committed { digest, .. } = sighting.seen else { return Ok(()) };
        if !sighting.honest || self.justified.contains(&digest) {
            return Ok(());
        }
        if blocks.get(&digest).is_some() && self.is_justified(digest, blocks) {
            self.justified.insert(digest);
            return Ok(());
        }
        let view = blocks.get(&digest).map_or(0, |h| h.own.view);
        breach(
            "H-S7",
            format!("n{} committed {digest} of view {view} without the votes for it", sighting.node),
        )
    }
}
