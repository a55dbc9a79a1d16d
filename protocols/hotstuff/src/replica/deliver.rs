//! Delivering committed entries to the user, oldest first, each once, and fetching the bodies that are not in memory.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::{Delivered, Entry, Origin, Position};
use synod_wire::Bytes;

use super::state::Core;
use crate::block::{Body, Header};
use crate::chain::{Link, RECENT_MAX};
use crate::job::Task;
use crate::outbox::Kept;
use crate::record::Record;
use crate::trace::{Note, NoteName};
use crate::{Pack, Rule};

/// Committed headers held beyond those that checkpoints and retention count.
const EMPTY_MAX: u64 = 4_096;
/// Bodies read back ahead of the delivery.
const PREFETCH_MAX: u64 = 8;

impl Core {
    /// Whether the user has not applied what it was given: delivering and proposing pause, timers stop.
    pub(crate) fn is_lagging(&self) -> bool {
        self.delivery.unapplied.len() as u64 >= self.config.parameters().executor_lag_max
    }

    /// Delivers every committed block whose body is here.
    pub(crate) fn deliver(&mut self, turn: &mut Turn<'_, Self>) {
        let mut moved = false;
        while !self.is_lagging() && self.checkpoints.jumping().is_none() {
            let Some(link) = self.chain.at(self.delivery.height + 1).cloned() else { break };
            if link.before() > self.delivery.position {
                self.jump_to_stable(turn);
                break;
            }
            let body = match (&link.body, link.header.is_empty()) {
                (Some(body), _) => Arc::clone(body),
                (None, true) => Arc::new(Body::empty()),
                (None, false) => {
                    if link.name.is_none_or(|name| self.delivery.unreadable.contains(&name)) {
                        self.jump_over(link.header.height, turn);
                    }
                    self.fetch_ahead(turn);
                    break;
                }
            };
            self.deliver_block(&link, &body, turn);
            moved = true;
        }
        // A jump that takes long is overtaken: peers keep the newest states only.
        if self.is_lagging() || self.checkpoints.jumping().is_some() {
            self.jump_over(self.delivery.height + 1, turn);
        }
        if moved {
            self.release_barriers(turn);
        }
    }

    fn deliver_block(&mut self, link: &Link, body: &Body, turn: &mut Turn<'_, Self>) {
        assert_eq!(link.header.height, self.delivery.height + 1, "blocks are delivered one above the other");
        assert_eq!(
            u64::from(link.header.count),
            body.items.len() as u64,
            "a block has the items its header states"
        );
        let height = link.header.height;
        let mut position = link.before();
        let mut given = false;
        for (index, item) in (0_u32..).zip(&body.items) {
            position = Position(position.0 + 1);
            let ticket = self.delivery.tickets.remove(&(height, index));
            if position <= self.delivery.position {
                continue;
            }
            let origin = ticket.map_or(Origin::Member(link.header.proposer()), Origin::Local);
            let last = position == link.last;
            let payload = item.payload.bytes().clone();
            let entry = Entry { position, time: link.header.time, last, origin, payload, proof: None };
            self.out.output(Delivered::Entry(entry));
            given = true;
        }
        if given {
            turn.applied(Rule::Deliver);
            self.delivery.unapplied.push_back(link.last);
        }
        let values = [height, link.last.0, u64::from(link.header.bytes)];
        turn.note(Note { name: NoteName::Delivered, values, digest: link.digest });
        self.delivery.height = height;
        self.delivery.position = self.delivery.position.max(link.last);
        if let Some(old) = height.checked_sub(RECENT_MAX as u64) {
            self.chain.update(old, |link| {
                if link.name.is_some() {
                    link.body = None;
                }
            });
        }
    }

    /// Operators learn from where on blocks are delivered.
    pub(crate) fn note_resumed(&self, turn: &mut Turn<'_, Self>) {
        let top = self.chain.top();
        let values = [top.header.height, self.delivery.height, self.delivery.position.0];
        turn.note(Note { name: NoteName::Resumed, values, digest: top.digest });
    }

    /// Reads the next bodies back from their blobs, or asks peers for those that were never here.
    fn fetch_ahead(&mut self, turn: &mut Turn<'_, Self>) {
        let next = self.delivery.height + 1;
        for height in next..next + PREFETCH_MAX {
            let Some(link) = self.chain.at(height) else { break };
            if link.body.is_some() || link.header.is_empty() {
                continue;
            }
            match link.name {
                Some(_) => self.load_body(link.name, turn),
                None => {
                    let (root, proposer) = (link.header.root, link.header.proposer());
                    self.want_body(root, synod_quorum::NodeSet::only(proposer), turn);
                }
            }
        }
    }

    /// Reads a blob back, once.
    pub(crate) fn load_body(&mut self, name: Option<Hash>, turn: &mut Turn<'_, Self>) {
        if let Some(name) = name
            && !self.delivery.unreadable.contains(&name)
            && self.delivery.loading.insert(name)
        {
            turn.load(name);
        }
    }

    /// A blob was read, or is missing.
    pub(crate) fn on_loaded(&mut self, name: Hash, bytes: Option<Bytes>, turn: &mut Turn<'_, Self>) {
        self.on_loaded_to_serve(name, bytes.as_ref(), turn);
        if !self.delivery.loading.remove(&name) {
            return;
        }
        let in_tree = self.tree.iter().find(|(_, b)| b.name == Some(name)).map(|(_, b)| b.header.root);
        let root = self.chain.iter().rev().find(|link| link.name == Some(name)).map(|link| link.header.root);
        let Some(root) = in_tree.or(root) else { return };
        match bytes {
            Some(bytes) => {
                // It counts as loading until it is checked: a body on its way through the pool is not missing.
                self.delivery.loading.insert(name);
                self.compute(Task::Body(self.own(), root, bytes), turn);
            }
            None => {
                turn.note(Note { name: NoteName::BodyMissing, values: [0; 3], digest: name });
                self.delivery.unreadable.insert(name);
                self.want_body(root, self.others(), turn);
            }
        }
    }

    /// A body that was read back is checked; it may be read again.
    pub(crate) fn end_loading(&mut self, root: &Hash, body: Option<&Arc<Body>>) {
        match body {
            Some(body) => drop(self.delivery.loading.remove(&body.name)),
            None => {
                let of_root = self.chain.iter().filter(|link| link.header.root == *root);
                let names: Vec<Hash> = of_root.filter_map(|link| link.name).collect();
                self.delivery.loading.retain(|name| !names.contains(name));
            }
        }
    }

    /// Whether a committed block waits for a body of this root.
    pub(crate) fn awaits_delivery(&self, root: &Hash) -> bool {
        self.awaiting_links(root).next().is_some()
    }

    fn awaiting_links<'a>(&'a self, root: &'a Hash) -> impl Iterator<Item = u64> + 'a {
        let next = self.delivery.height + 1;
        let delivering = (next..next + PREFETCH_MAX).filter_map(|height| self.chain.at(height));
        let proving = self.delivery.proving.iter().filter_map(|position| self.chain.holding(*position));
        delivering
            .chain(proving)
            .filter(|link| link.body.is_none() && link.header.root == *root)
            .map(|link| link.header.height)
    }

    /// Joins a body to the committed blocks that wait for it, and writes it if it never was.
    pub(crate) fn attach_committed(&mut self, body: &Arc<Body>, turn: &mut Turn<'_, Self>) {
        let heights: Vec<u64> = self.awaiting_links(&body.root).collect();
        for height in heights {
            let Some(link) = self.chain.at(height).filter(|link| body.fits(&link.header)) else { continue };
            if self.delivery.unreadable.remove(&body.name) {
                // What could not be read is written again.
                self.out.kept.push(Kept::Blob(body.name, body.bytes.clone()));
            }
            if link.name != Some(body.name) {
                let header = Header::clone(&link.header);
                self.retain_blob(body.name, &body.bytes);
                self.out.keep(Record::Block { header, body: Some(body.name) });
            }
            self.chain.update(height, |link| {
                link.body = Some(Arc::clone(body));
                link.name = Some(body.name);
            });
            self.take_items(height);
        }
        if !self.delivery.proving.is_empty() {
            self.prove_waiting(false, turn);
        }
    }

    /// A body joined a block of the tree: order votes and commits may have waited for it.
    pub(crate) fn after_body(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let certified = self.tree.get(&digest).and_then(|block| block.qc.clone());
        if let Some(qc) = certified {
            self.try_order(qc.view, digest, turn);
        }
    }

    /// Counts a block's claim to a blob out, and releases the blob with the last claim.
    pub(crate) fn release_blob(&mut self, name: Hash) {
        if self.blobs.release(&name) {
            self.out.kept.push(Kept::Erase(name));
        }
    }

    /// Forgets the oldest committed headers beyond what memory holds; peers that need them start from a checkpoint.
    pub(crate) fn bound_chain(&mut self) {
        let max = self.chain_max();
        if self.chain.count() > max {
            let delivered = self.delivery.height;
            let floor = self.chain.top().header.height.saturating_sub(max);
            let dropped =
                self.chain.prune(|link| link.header.height < floor && link.header.height < delivered);
            for name in dropped.into_iter().filter_map(|link| link.name) {
                self.release_blob(name);
            }
        }
    }

    /// Most committed headers held: two checkpoints of blocks with one item and of the empty blocks that commit each of
    /// them, what is retained, and room for the empty blocks of given-up terms. No less, or a restart of all members
    /// would find a user below every chain.
    pub(crate) fn chain_max(&self) -> u64 {
        let p = self.config.parameters();
        let blocks_per_item = match p.rules {
            Pack::Basic | Pack::Chain2Order => 1,
            Pack::Chain2 | Pack::Hs2 | Pack::Naive2 => 2,
            Pack::Chain3 | Pack::Paper => 3,
        };
        let checkpoints = p.checkpoint_every.saturating_mul(1 + blocks_per_item);
        checkpoints.saturating_add(2 * p.retain_blocks + EMPTY_MAX)
    }
}
