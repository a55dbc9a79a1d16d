//! The branch filter (paper 3.4.1, Alg. 3 corrected): which pending items the next block may carry.
//!
//! Eligible is what is pending and in no uncommitted ancestor of the block being built. Marks follow the branch the
//! leader builds on: when another branch wins they fall, and the items are eligible again, oldest first.

use std::sync::Arc;

use synod_crypto::Hash;

use crate::block::Body;
use crate::config::Filter as Policy;
use crate::pool::Pool;
use crate::tree::Tree;

/// The marked blocks of one branch, newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    marked: Vec<(Hash, Arc<Body>)>,
}

/// What following a branch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    /// Whether the body of every uncommitted ancestor is here; if not, nothing is eligible.
    pub(crate) complete: bool,
    /// Blocks whose marks fell.
    pub(crate) fell: usize,
}

impl Filter {
    /// Moves the marks to the branch of `tip`.
    pub(crate) fn follow(&mut self, policy: Policy, tip: Hash, tree: &Tree, pool: &mut Pool) -> Followed {
        if policy != Policy::Branch {
            return Followed { complete: true, fell: 0 };
        }
        let branch = tree.ancestors(tip);
        let mut fell = 0;
        let (keep, drop): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.marked).into_iter().partition(|(digest, _)| branch.contains(digest));
        for (_, body) in &drop {
            unmark(body, pool);
            fell += 1;
        }
        self.marked = keep;
        if fell > 0 {
            // An item may stand in a fallen and in a kept block.
            self.marked.iter().for_each(|(_, body)| mark(body, pool));
        }
        let mut complete = true;
        for digest in branch.iter().rev() {
            let body = tree.get(digest).and_then(|block| block.body.clone());
            match body {
                Some(body) if !self.marked.iter().any(|(d, _)| d == digest) => {
                    mark(&body, pool);
                    self.marked.push((*digest, body));
                }
                Some(_) => {}
                None => complete = false,
            }
        }
        Followed { complete, fell }
    }

    /// Marks an item that came after a block with it was marked.
    pub(crate) fn admit(&self, id: &Hash, pool: &mut Pool) {
        if self.marked.iter().any(|(_, body)| body.contains(id)) {
            pool.mark(id);
        }
    }

    /// Marks the items of a proposal for good: the paper's Algorithm 3.
    pub(crate) fn see(policy: Policy, body: &Body, pool: &mut Pool) {
        if policy == Policy::Seen {
            mark(body, pool);
        }
    }

    /// The marked blocks.
    pub(crate) fn marked(&self) -> impl Iterator<Item = &Hash> {
        self.marked.iter().map(|(digest, _)| digest)
    }

    /// Marks of blocks that are no longer in the tree fall.
    pub(crate) fn prune(&mut self, tree: &Tree, pool: &mut Pool) {
        let (keep, drop): (Vec<_>, Vec<_>) = core::mem::take(&mut self.marked)
            .into_iter()
            .partition(|(digest, _)| *digest != tree.root() && tree.get(digest).is_some());
        let loosened = drop.iter().fold(false, |any, (_, body)| unmark(body, pool) || any);
        self.marked = keep;
        if loosened {
            self.marked.iter().for_each(|(_, body)| mark(body, pool));
        }
    }
}

fn mark(body: &Body, pool: &mut Pool) {
    body.items.iter().for_each(|item| pool.mark(&item.id));
}

/// Whether any item of the body is still pending.
fn unmark(body: &Body, pool: &mut Pool) -> bool {
    let fallen = body.items.iter().filter(|item| pool.unmark(&item.id)).count();
    fallen > 0
}

#[cfg(test)]
mod tests {
    use super::{Filter, Policy};
    use crate::block::{Body, Item};
    use crate::pool::{Budget, Pool, Source};
    use crate::tree::{Block, Tree};
    use crate::{Header, Kind, View};
    use std::sync::Arc;
    use synod_crypto::Hash;
    use synod_machine::broadcast::Ticket;
    use synod_quorum::Epoch;
    use synod_wire::Bytes;

    const BUDGET: Budget =
        Budget { bytes: 1 << 20, items: 100, session_bytes: 1 << 20, session_items: 100, members: 3 };

    fn item(name: &'static str) -> Item {
        Item::new(Bytes::from_static(name.as_bytes())).expect("not empty")
    }

    /// A block of these items on `parent`.
    fn block(tree: &mut Tree, parent: &Header, view: u64, names: &[&'static str]) -> Header {
        let body = Body::pack(names.iter().map(|name| item(name)).collect());
        let header = Header {
            view: View(view),
            height: parent.height + 1,
            parent: parent.digest(),
            count: 1,
            root: body.root,
            ..parent.clone()
        };
        let mut block = Block::new(Arc::new(header.clone()));
        block.body = Some(Arc::new(body));
        assert!(tree.insert(header.digest(), block, &[]).is_ok());
        header
    }

    fn eligible(pool: &mut Pool) -> Vec<Hash> {
        let mut ids: Vec<Hash> = pool.batch(1 << 20, 100).into_iter().map(|item| item.id).collect();
        ids.sort();
        ids
    }

    #[test]
    fn items_of_a_branch_that_lost_come_back_unless_the_winner_holds_them_too() {
        let genesis = Header::genesis(Epoch(0), Kind::Generic);
        let mut tree = Tree::new(genesis.digest(), Arc::new(genesis.clone()));
        let both = block(&mut tree, &genesis, 1, &["both"]);
        let lost = block(&mut tree, &both, 2, &["both", "lost"]);
        let won = block(&mut tree, &both, 3, &["won"]);
        let mut pool = Pool::new(BUDGET);
        for (number, name) in (1..).zip(["both", "lost", "won", "free"]) {
            assert_eq!(pool.add(item(name), Source::Local(Ticket(number))), Ok(true));
        }
        let ids = |names: &[&'static str]| {
            let mut ids: Vec<Hash> = names.iter().map(|name| item(name).id).collect();
            ids.sort();
            ids
        };
        let mut filter = Filter::default();
        let first = filter.follow(Policy::Branch, lost.digest(), &tree, &mut pool);
        assert_eq!((first.complete, first.fell), (true, 0));
        assert_eq!(eligible(&mut pool), ids(&["won", "free"]));
        let second = filter.follow(Policy::Branch, won.digest(), &tree, &mut pool);
        assert_eq!((second.complete, second.fell), (true, 1));
        assert_eq!(eligible(&mut pool), ids(&["lost", "free"]), "`both` stands in a block that is kept");
        let third = filter.follow(Policy::Branch, won.digest(), &tree, &mut pool);
        assert_eq!((third.complete, third.fell), (true, 0), "the same branch again moves nothing");
        assert_eq!(eligible(&mut pool), ids(&["lost", "free"]));
    }
}
