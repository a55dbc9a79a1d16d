//! Committing (R7): walk from the block to the last committed one, refuse if the walk does not end there, take over
//! the blocks oldest first, and keep what proves them.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::{Delivered, Position};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, Wire};

use super::state::{Core, Ordered};
use crate::block::Header;
use crate::chain::Link;
use crate::job::{Known, Task};
use crate::message::Proof;
use crate::pacemaker::Pace;
use crate::pool::Source;
use crate::proof::{CommitProof, Commitment, EntryProof, PATH_MAX};
use crate::proven::Proven;
use crate::record::{Mark, Record};
use crate::trace::{Note, NoteName};
use crate::{Fault, Message, Qc, Rule, View};

/// Committed bodies held for a user that lags; beyond it they are read back from their blobs.
const AHEAD_MAX: u64 = 64;

impl Core {
    /// R7: commits `digest` and its ancestors, now or as soon as they are here.
    pub(crate) fn commit_to(
        &mut self,
        digest: Hash,
        proof: Option<Arc<Commitment>>,
        rule: Rule,
        turn: &mut Turn<'_, Self>,
    ) {
        if digest == self.tree.root() || self.chain.by_digest(&digest).is_some() {
            return self.note_proof(digest, proof);
        }
        let Some(header) = self.tree.get(&digest).map(|block| Arc::clone(&block.header)) else {
            let child = self.tree.iter().find(|(_, block)| block.header.parent == digest);
            if let Some(view) = child.map(|(_, block)| block.header.justify.view) {
                self.await_commit(Mark { view, digest }, proof);
            }
            return self.want_block(digest, self.others(), turn);
        };
        let Some(gap) = self.tree.gap(digest) else {
            return self.commit_branch(digest, proof, rule, turn);
        };
        let lowest =
            self.tree.ancestors(digest).last().and_then(|d| self.tree.get(d)).map(|b| b.header.height);
        if lowest.is_some_and(|height| height <= self.tree.root_header().height) || self.is_committed(&gap) {
            let values = [header.height, header.view.0, self.tree.root_header().view.0];
            return self.halt(NoteName::Conflict, values, digest, turn);
        }
        self.await_commit(Mark { view: header.view, digest }, proof);
        self.want_ancestors(gap, header.height, turn);
    }

    /// A block that must commit is not here. When it comes, it commits or proves a conflict.
    pub(crate) fn await_commit(&mut self, mark: Mark, proof: Option<Arc<Commitment>>) {
        if self.pending_commit.as_ref().is_none_or(|(pending, _)| pending.view < mark.view) {
            self.pending_commit = Some((mark, proof));
        }
    }

    fn is_committed(&self, digest: &Hash) -> bool {
        *digest != self.tree.root() && self.chain.by_digest(digest).is_some()
    }

    fn commit_branch(
        &mut self,
        digest: Hash,
        proof: Option<Arc<Commitment>>,
        rule: Rule,
        turn: &mut Turn<'_, Self>,
    ) {
        turn.applied(rule);
        let branch = self.tree.branch(digest).unwrap_or_default();
        branch.iter().rev().for_each(|d| self.store_block(*d));
        let (blocks, fallen) = self.tree.commit(digest);
        assert!(!blocks.is_empty(), "a commit adds at least one block");
        let before = self.chain.top().last;
        let mut last = before;
        for (d, block) in blocks {
            last = Position(last.0 + u64::from(block.header.count));
            let height = block.header.height;
            let values = [height, block.header.view.0, u64::from(block.header.count)];
            turn.note(Note { name: NoteName::Commit, values, digest: d });
            let ahead = height > self.delivery.height + AHEAD_MAX && block.name.is_some();
            let commitment = if d == digest { proof.clone() } else { None };
            let body = block.body.clone();
            self.chain.push(Link {
                digest: d,
                header: block.header,
                last,
                body,
                name: block.name,
                commitment,
            });
            self.take_items(height);
            if ahead {
                self.chain.update(height, |link| link.body = None);
            }
        }
        self.note_commit(before, last, rule);
        for block in fallen {
            if let Some(name) = block.name.filter(|_| block.stored) {
                self.release_blob(name);
            }
        }
        self.after_commit(turn);
    }

    /// Has the log say that the top of the chain is committed. What order votes commit is said with the next record: what
    /// is delivered rests on the block and on the high QC, which certifies it or a block above it, and both are in the
    /// log; recovery finds there what the user holds. It is said now if this turn writes anyway, or if there may be a
    /// checkpoint between `before` and `last`, for the record of a stable checkpoint must find its block committed.
    fn note_commit(&mut self, before: Position, last: Position, rule: Rule) {
        let every = self.config.parameters().checkpoint_every;
        let number = |position: Position| position.0.checked_div(every);
        self.commit_due = true;
        let certified = rule == Rule::CommitByOrders && self.logs_way_to_high();
        if !certified || !self.out.kept.is_empty() || number(before) != number(last) {
            self.write_commit();
        }
    }

    /// Whether every block from the committed one up to that of the high QC is in the log: a high QC may certify a block
    /// that this member never voted for, and recovery could not walk down from it.
    fn logs_way_to_high(&self) -> bool {
        let is_stored = |digest: &Hash| self.tree.get(digest).is_some_and(|block| block.stored);
        self.high.digest == self.tree.root()
            || self.tree.branch(self.high.digest).is_some_and(|way| way.iter().all(is_stored))
    }

    /// Writes the record of the newest commit if it is due.
    pub(crate) fn write_commit(&mut self) {
        if core::mem::take(&mut self.commit_due) {
            self.out.keep(self.commit_record());
        }
    }

    /// The record that the top of the chain is committed.
    pub(crate) fn commit_record(&self) -> Record {
        let top = self.chain.top();
        Record::Commit { digest: top.digest, last: top.last }
    }

    fn after_commit(&mut self, turn: &mut Turn<'_, Self>) {
        self.filter.prune(&self.tree, &mut self.pool);
        self.linger.committed(turn.now());
        self.quiet = false;
        let top = Arc::clone(&self.chain.top().header);
        self.early.retain(|_, body| body.root != top.root);
        if self.pending_commit.as_ref().is_some_and(|(mark, _)| mark.view <= top.view) {
            self.pending_commit = None;
        }
        self.tell(Pace::Committed, turn);
        self.bound_chain();
        self.try_rejoin(turn);
        if !self.delivery.proving.is_empty() {
            self.prove_waiting(true, turn);
        }
    }

    /// Items of a committed block leave the pool; own tickets wait for the delivery.
    pub(crate) fn take_items(&mut self, height: u64) {
        let Some(body) = self.chain.at(height).and_then(|link| link.body.clone()) else { return };
        for (index, item) in (0_u32..).zip(&body.items) {
            if let Some(Source::Local(ticket)) = self.pool.commit(&item.id) {
                self.delivery.tickets.insert((height, index), ticket);
            }
        }
    }

    /// Keeps a proof of the last committed block that came after its commit.
    fn note_proof(&mut self, digest: Hash, proof: Option<Arc<Commitment>>) {
        let top = self.chain.top();
        if top.digest == digest && top.commitment.is_none() && proof.is_some() {
            self.chain.update(top.header.height, |link| link.commitment = proof);
        }
    }

    /// What waited for a block: its certificate, its descendants, a commit.
    pub(crate) fn after_block(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let high = Proven::logged(Arc::clone(&self.high));
        if high.digest == digest {
            self.certify_block(&high, turn);
            self.after_certified(&high, turn);
        }
        let children: Vec<Arc<Header>> = self
            .tree
            .iter()
            .filter(|(_, block)| block.header.parent == digest)
            .map(|(_, block)| Arc::clone(&block.header))
            .collect();
        for child in &children {
            let justify = Proven::covered(Arc::new(child.justify.clone()));
            self.certify_block(&justify, turn);
        }
        if !children.is_empty() {
            self.recheck(turn);
        }
        self.retry_commit(turn);
    }

    /// A gap closed: what is certified may commit, what is proposed may be voted for.
    fn recheck(&mut self, turn: &mut Turn<'_, Self>) {
        let mut certified: Vec<Arc<Qc>> =
            self.tree.iter().filter_map(|(_, block)| block.qc.clone()).collect();
        certified.sort_by_key(|qc| qc.view);
        for qc in certified {
            if self.tree.get(&qc.digest).is_some() {
                self.after_certified(&Proven::logged(qc), turn);
            }
        }
        for digest in self.tree.in_view(self.view) {
            self.consider_vote(digest, turn);
        }
    }

    fn retry_commit(&mut self, turn: &mut Turn<'_, Self>) {
        if let Some((mark, proof)) = self.pending_commit.clone()
            && self.tree.branch(mark.digest).is_some()
            && self.tree.get(&mark.digest).is_some()
        {
            self.pending_commit = None;
            self.commit_to(mark.digest, proof, Rule::CommitByChain, turn);
        }
    }

    /// A peer's commit proof was checked.
    pub(crate) fn on_proof(&mut self, from: NodeId, proof: &CommitProof, turn: &mut Turn<'_, Self>) {
        if !proof.commitment.is_of(self.rules.pack) {
            return turn.blame(from, Fault::BadCommitProof);
        }
        self.settle_want(crate::sync::Key::Proof, Some(from), turn);
        if self.contradicts(&proof.header) {
            let values = [proof.header.height, proof.header.view.0, self.tree.root_header().view.0];
            return self.halt(NoteName::Conflict, values, proof.header.digest(), turn);
        }
        let (header, root) = (&proof.header, self.tree.root_header());
        if header.view <= root.view {
            let digest = header.digest();
            return self.note_proof(digest, Some(Arc::new(proof.commitment.clone())));
        }
        let above = match &proof.commitment {
            Commitment::Direct(_) => vec![],
            Commitment::TwoChain { child, .. } => vec![child],
            Commitment::ThreeChain { child, grandchild, .. } => vec![child, grandchild],
        };
        for header in core::iter::once(header).chain(above.into_iter().map(|boxed| &**boxed)) {
            self.take_certified(header, from, turn);
        }
        let qc = Proven::covered(Arc::new(proof.commitment.qc().clone()));
        self.on_qc(&qc, turn);
        let digest = header.digest();
        let commitment = Some(Arc::new(proof.commitment.clone()));
        self.commit_to(digest, commitment, Rule::CommitByChain, turn);
    }

    /// Whether a block that is proved to be committed is another than the one committed here at its height, or lies
    /// above all of them in a view that is past.
    fn contradicts(&self, header: &Header) -> bool {
        let root = self.tree.root_header();
        match self.chain.at(header.height) {
            Some(link) => link.digest != header.digest(),
            None => header.height > root.height && header.view <= root.view,
        }
    }

    /// A header that a verified certificate reaches: it joins the tree, and the certificate in it is used.
    pub(crate) fn take_certified(&mut self, header: &Header, from: NodeId, turn: &mut Turn<'_, Self>) {
        let root = self.tree.root_header();
        if header.view <= root.view || header.height <= root.height {
            return;
        }
        let justify = Proven::covered(Arc::new(header.justify.clone()));
        let digest = header.digest();
        if self.tree.get(&digest).is_none() {
            let block = crate::tree::Block::new(Arc::new(header.clone()));
            self.add_block(block, NodeSet::only(from), turn);
        }
        self.on_qc(&justify, turn);
    }

    /// The certified block on top of `parent`, of the next view, and its certificate. Votes that came late may have certified
    /// another one on top of it, of a later view, which proves nothing.
    fn certified_child(&self, parent: &Header, digest: Hash) -> Option<(Arc<Header>, Hash, Arc<Qc>)> {
        let (header, child) = match self.chain.at(parent.height + 1) {
            Some(link) => (Arc::clone(&link.header), link.digest),
            None => self
                .tree
                .iter()
                .filter(|(_, block)| block.header.parent == digest && block.qc.is_some())
                .find(|(_, block)| parent.view.precedes(block.header.view))
                .map(|(d, block)| (Arc::clone(&block.header), *d))?,
        };
        let above = self.chain.at(parent.height + 2).map(|link| Arc::new(link.header.justify.clone()));
        let qc = above.or_else(|| self.tree.get(&child).and_then(|block| block.qc.clone()))?;
        (parent.view.precedes(header.view) && qc.digest == child).then_some((header, child, qc))
    }

    /// The proof of the committed block at `height` by what is held, if the block is directly committed.
    pub(crate) fn direct_proof(&self, height: u64) -> Option<CommitProof> {
        let link = self.chain.at(height)?;
        let header = Header::clone(&link.header);
        let pack = self.rules.pack;
        if header.view == View::GENESIS {
            return None;
        }
        if let Some(commitment) = &link.commitment {
            return Some(CommitProof { header, commitment: Commitment::clone(commitment) });
        }
        let ordered = self.ordered.as_ref().filter(|o| o.verified && o.qc.digest == link.digest);
        if let Some(ordered) = ordered {
            return Some(CommitProof { header, commitment: Commitment::Direct(Qc::clone(&ordered.qc)) });
        }
        if pack.is_basic() {
            return None;
        }
        let (child, digest, qc) = self.certified_child(&link.header, link.digest)?;
        let child_box = Box::new(Header::clone(&child));
        if !pack.is_chain3() {
            return Some(CommitProof {
                header,
                commitment: Commitment::TwoChain { child: child_box, qc: Qc::clone(&qc) },
            });
        }
        let (grandchild, _, qc) = self.certified_child(&child, digest)?;
        let grandchild = Box::new(Header::clone(&grandchild));
        let commitment = Commitment::ThreeChain { child: child_box, grandchild, qc: Qc::clone(&qc) };
        Some(CommitProof { header, commitment })
    }

    /// The proof of the block at `height`, or of the nearest block above it that has one.
    pub(crate) fn proof_from(&self, height: u64) -> Option<(u64, CommitProof)> {
        let top = self.chain.top().header.height;
        let last = top.min(height.saturating_add(PATH_MAX as u64));
        (height..=last).find_map(|at| self.direct_proof(at).map(|proof| (at, proof)))
    }

    /// The newest proof for `asker`; if its order votes must be verified first, the answer follows then.
    pub(crate) fn newest_proof(&mut self, asker: NodeId, turn: &mut Turn<'_, Self>) -> Option<CommitProof> {
        let top = self.chain.top().header.height;
        if let Some(proof) = self.direct_proof(top) {
            return Some(proof);
        }
        if self.verify_orders(turn) {
            self.proof_waiters.insert(asker);
            return None;
        }
        let lowest = top.saturating_sub(8).max(self.chain.floor().header.height);
        (lowest..top).rev().find_map(|height| self.direct_proof(height))
    }

    /// Has the order votes of the last committed block verified; whether they are in check.
    fn verify_orders(&mut self, turn: &mut Turn<'_, Self>) -> bool {
        let top = self.chain.top().digest;
        let Some(ordered) = self.ordered.as_ref().filter(|o| !o.verified && o.qc.digest == top) else {
            return false;
        };
        let qc = Arc::clone(&ordered.qc);
        if self.checking.insert((qc.kind, qc.view, qc.digest)) {
            self.compute(Task::Votes(qc, Known::default()), turn);
        }
        true
    }

    /// The order votes of a committed block are good: whoever asked is answered.
    pub(crate) fn on_orders_verified(&mut self, qc: &Arc<Qc>, turn: &mut Turn<'_, Self>) {
        if self.ordered.as_ref().is_some_and(|o| o.qc.digest == qc.digest) {
            self.ordered = Some(Ordered { qc: Arc::clone(qc), verified: true });
            self.note_proof(qc.digest, Some(Arc::new(Commitment::Direct(Qc::clone(qc)))));
        }
        let waiters = core::mem::take(&mut self.proof_waiters);
        let height = self.chain.top().header.height;
        if let Some(proof) = self.direct_proof(height).filter(|_| !waiters.is_empty()) {
            turn.applied(Rule::AnswerWithProof);
            self.out.send(waiters, Message::Advance(Proof::Commit(Box::new(proof))));
        }
        self.prove_waiting(false, turn);
    }

    /// Some order votes were forged: the rest may still be enough, else the chain must move on to prove anything.
    pub(crate) fn on_orders_forged(&mut self, qc: &Qc, forgers: &[NodeId], turn: &mut Turn<'_, Self>) {
        if self.ordered.as_ref().is_none_or(|o| o.qc.digest != qc.digest) {
            return;
        }
        let good: Vec<_> = qc.votes.signed().filter(|(id, _)| !forgers.contains(id)).collect();
        let voters: NodeSet = good.iter().map(|(id, _)| *id).collect();
        if self.config.roster().weights().is_quorum(voters) {
            let qc = Arc::new(Qc::assemble(qc.epoch, (qc.kind, qc.view, qc.digest), good));
            self.ordered = Some(Ordered { qc, verified: false });
            self.verify_orders(turn);
        } else {
            self.ordered = None;
            self.proof_waiters = NodeSet::EMPTY;
            self.add_empty_item(turn);
        }
    }

    /// Answers the proofs asked for, as far as the chain supplies them; `move_on` adds an empty item where it cannot.
    pub(crate) fn prove_waiting(&mut self, move_on: bool, turn: &mut Turn<'_, Self>) {
        let waiting: Vec<Position> = self.delivery.proving.iter().copied().collect();
        let mut unproved = false;
        for position in waiting {
            match self.prove(position, turn) {
                Some(proof) => {
                    turn.applied(Rule::Prove);
                    self.delivery.proving.remove(&position);
                    self.out.output(Delivered::Proof { position, proof: Some(proof.encode()) });
                }
                None if position <= self.chain.floor().before() => {
                    self.delivery.proving.remove(&position);
                    self.out.output(Delivered::Proof { position, proof: None });
                }
                None => {
                    unproved |= self
                        .chain
                        .holding(position)
                        .is_some_and(|l| self.proof_from(l.header.height).is_none())
                }
            }
        }
        if unproved && move_on && !self.verify_orders(turn) {
            self.add_empty_item(turn);
        }
    }

    fn prove(&mut self, position: Position, turn: &mut Turn<'_, Self>) -> Option<EntryProof> {
        let link = self.chain.holding(position)?;
        let (height, before, name) = (link.header.height, link.before(), link.name);
        let (at, proof) = self.proof_from(height)?;
        let Some(body) = link.body.clone() else {
            self.load_body(name, turn);
            return None;
        };
        let index = u32::try_from(position.0 - before.0 - 1).ok()?;
        let id = usize::try_from(index).ok().and_then(|i| body.items.get(i)).map(|item| item.id)?;
        let path = List::try_from(body.path(index)?).ok()?;
        let headers =
            (height..at).filter_map(|h| self.chain.at(h)).map(|l| Header::clone(&l.header)).collect();
        let headers = List::try_from(Vec::from_iter::<Vec<Header>>(headers)).ok()?;
        Some(EntryProof { position, index, id, path, headers, proof })
    }
}
