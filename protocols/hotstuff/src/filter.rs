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
