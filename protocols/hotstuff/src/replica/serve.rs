//! Serving peers behind, and taking over what peers serve. Nothing here believes a peer: a block is taken by a digest
//! that a certificate reaches, a range by its proof, a body by its root.

use std::sync::Arc;

use synod_crypto::{Hash, Refusal, Verified};
use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, List};

use super::state::Core;
use crate::block::{Body, Header};
use crate::job::Task;
use crate::message::{Blocks, Message, Proof, RANGE_MAX, Want};
use crate::serve::{ANSWER_BYTES_MAX, Answer};
use crate::sync::Key;
use crate::tree::Block;
use crate::{Fault, Qc, Rule, View};

/// Blocks behind from which a range is asked instead of one block after the other.
pub(crate) const RANGE_FROM: u64 = 8;

impl Core {
    /// Dispatches one question.
    pub(crate) fn on_fetch(&mut self, from: NodeId, want: Want, turn: &mut Turn<'_, Self>) {
        if !self.serving.admits(from, turn.now()) {
            return;
        }
        match want {
            Want::Range { from: height, count } => self.serve_range(from, height, count, turn),
            Want::Blocks(digests) => self.serve_blocks(from, &digests, turn),
            Want::Bodies(roots) => self.serve_bodies(from, &roots, turn),
            Want::Certificate(view) => self.serve_certificate(from, view, turn),
            Want::Proof => {
                if let Some(proof) = self.newest_proof(from, turn) {
                    turn.send(from, Message::Advance(Proof::Commit(Box::new(proof))));
                }
            }
            Want::Status => self.send_status(NodeSet::only(from), turn),
        }
    }

    fn serve_certificate(&self, from: NodeId, view: View, turn: &mut Turn<'_, Self>) {
        let of_view =
            self.tree.in_view(view).into_iter().filter_map(|d| self.tree.get(&d)?.qc.clone()).next();
        let qc = of_view.or_else(|| (self.high.view >= view).then(|| Arc::clone(&self.high)));
        if let Some(qc) = qc.filter(|qc| qc.view > View::GENESIS) {
            turn.send(from, Message::Advance(Proof::Qc(Qc::clone(&qc))));
        }
    }

    /// Committed blocks from a height on, up to the last that can be proved; an anchor if they are gone.
    fn serve_range(&mut self, asker: NodeId, from: u64, count: u32, turn: &mut Turn<'_, Self>) {
        if !self.serving.has_room(asker) {
            return;
        }
        if from <= self.chain.floor().header.height {
            if let Some(anchor) = self.checkpoints.stable() {
                let anchor = Some(crate::certificate::Anchor::clone(&anchor));
                let blocks =
                    Blocks { headers: List::default(), bodies: List::default(), proof: None, anchor };
                turn.send(asker, Message::Blocks(blocks));
            }
            return;
        }
        let most = u64::from(count).min(RANGE_MAX as u64);
        let (mut bytes, mut end) = (0, from);
        for height in from..from.saturating_add(most) {
            let Some(link) = self.chain.at(height) else { break };
            bytes += u64::from(link.header.bytes) + link.header.memory();
            if bytes > ANSWER_BYTES_MAX && height > from {
                break;
            }
            end = height + 1;
        }
        let proved = (from..end).rev().find_map(|h| self.direct_proof(h).map(|proof| (h, proof)));
        let Some((last, proof)) = proved else {
            if from < end {
                self.newest_proof(asker, turn);
            }
            return;
        };
        let mut answer = Answer::to(asker);
        // The range was cut to fit above; its bytes hold back what else this asker wants.
        let _ = answer.takes(bytes);
        answer.proof = Some(proof);
        for height in from..=last {
            self.add_link(&mut answer, height);
        }
        self.answer(answer, turn);
    }

    fn add_link(&self, answer: &mut Answer, height: u64) {
        let Some(link) = self.chain.at(height) else { return };
        answer.headers.push(Header::clone(&link.header));
        match (&link.body, link.name) {
            _ if link.header.is_empty() => {}
            (Some(body), _) => answer.bodies.push((body.root, body.bytes.clone())),
            (None, Some(name)) => {
                answer.missing.insert(name, link.header.root);
            }
            (None, None) => {}
        }
    }

    fn serve_blocks(&mut self, asker: NodeId, digests: &[Hash], turn: &mut Turn<'_, Self>) {
        if !self.serving.has_room(asker) {
            return;
        }
        let mut answer = Answer::to(asker);
        for digest in digests {
            if let Some(link) = self.chain.by_digest(digest) {
                let height = link.header.height;
                if answer.takes(u64::from(link.header.bytes) + link.header.memory()) {
                    self.add_link(&mut answer, height);
                }
            } else if let Some(block) = self.tree.get(digest)
                && answer.takes(u64::from(block.header.bytes) + block.header.memory())
            {
                answer.headers.push(Header::clone(&block.header));
                if let Some(body) = block.body.as_ref().filter(|_| !block.header.is_empty()) {
                    answer.bodies.push((body.root, body.bytes.clone()));
                }
            }
        }
        if !answer.headers.is_empty() {
            self.answer(answer, turn);
        }
    }

    fn serve_bodies(&mut self, asker: NodeId, roots: &[Hash], turn: &mut Turn<'_, Self>) {
        if !self.serving.has_room(asker) {
            return;
        }
        let mut answer = Answer::to(asker);
        // Nobody needs the empty body; a header that states its root and a count is a lie.
        let empty = Body::empty().root;
        for root in roots.iter().filter(|root| **root != empty) {
            let in_tree =
                self.tree.iter().filter_map(|(_, b)| b.body.clone()).find(|body| body.root == *root);
            let body = in_tree.or_else(|| self.early.values().find(|body| body.root == *root).cloned());
            let link = self.chain.by_root(root);
            let bytes = link.map_or(0, |link| u64::from(link.header.bytes));
            if let Some(body) = body.or_else(|| link.and_then(|link| link.body.clone())) {
                if answer.takes(body.bytes.len() as u64) {
                    answer.bodies.push((*root, body.bytes.clone()));
                }
            } else if let Some(name) = link.and_then(|link| link.name).filter(|_| answer.takes(bytes)) {
                answer.missing.insert(name, *root);
            }
        }
        if !answer.bodies.is_empty() || !answer.missing.is_empty() {
            self.answer(answer, turn);
        }
    }

    fn answer(&mut self, answer: Answer, turn: &mut Turn<'_, Self>) {
        self.serving.charge(answer.asker, answer.taken(), turn.now());
        if answer.missing.is_empty() {
            return turn.send(answer.asker, Message::Blocks(answer.blocks()));
        }
        for name in self.serving.park(answer) {
            turn.load(name);
        }
    }

    /// A blob was read: answers may be complete.
    pub(crate) fn on_loaded_to_serve(
        &mut self,
        name: Hash,
        bytes: Option<&Bytes>,
        turn: &mut Turn<'_, Self>,
    ) {
        for answer in self.serving.loaded(&name, bytes) {
            turn.send(answer.asker, Message::Blocks(answer.blocks()));
        }
    }

    /// A peer answers: an anchor, a proved range, or single blocks and bodies.
    pub(crate) fn on_blocks(&mut self, from: NodeId, blocks: Blocks, turn: &mut Turn<'_, Self>) {
        if let Some(anchor) = blocks.anchor {
            let sync = self.sync.get();
            if sync.was_asked(Key::Anchor, from) || !sync.ranges_of(from).is_empty() {
                self.compute(Task::Anchor(from, Arc::new(anchor)), turn);
            }
            return;
        }
        if blocks.proof.is_some() {
            let start = blocks.headers.first().map(|header| header.height);
            let asked = self.sync.get().ranges_of(from);
            if start.is_some_and(|start| asked.contains(&start)) {
                self.compute(Task::Range(from, Arc::new(blocks)), turn);
            }
            return;
        }
        for piece in blocks.bodies {
            let wanted = !self.tree.awaiting(&piece.root).is_empty()
                || self.awaits_delivery(&piece.root)
                || self.sync.get().wants(Key::Body(piece.root));
            if wanted || !blocks.headers.is_empty() {
                // A body of its own memory: one small body would keep the whole answer.
                let bytes = Bytes::copy_from_slice(&piece.bytes);
                self.check_body(from, piece.root, bytes, turn);
            }
        }
        for header in blocks.headers {
            let digest = header.digest();
            if self.sync.get().wants(Key::Block(digest)) {
                self.take_wanted(from, header, digest, turn);
            }
        }
    }

    /// A block wanted by digest: a verified certificate reaches it.
    fn take_wanted(&mut self, from: NodeId, header: Header, digest: Hash, turn: &mut Turn<'_, Self>) {
        self.settle_want(Key::Block(digest), Some(from), turn);
        let root = self.tree.root_header();
        if header.height <= root.height || header.view <= root.view {
            return self.on_low_block(&header, digest, turn);
        }
        if header.height > root.height + RANGE_FROM {
            let next = root.height + 1;
            self.want_key(Key::Range(next), NodeSet::only(from), turn);
        }
        self.take_certified(&header, from, turn);
    }

    /// A wanted block lies at or below the committed height: it is committed here, or something waits for a conflict.
    fn on_low_block(&mut self, header: &Header, digest: Hash, turn: &mut Turn<'_, Self>) {
        let waits = self
            .pending_commit
            .as_ref()
            .is_some_and(|(mark, _)| self.tree.gap(mark.digest) == Some(digest) || mark.digest == digest);
        if waits && self.chain.by_digest(&digest).is_none() && self.chain.at(header.height).is_some() {
            let values = [header.height, header.view.0, self.tree.root_header().view.0];
            self.halt(crate::trace::NoteName::Conflict, values, digest, turn);
        }
    }

    /// A range was checked: its blocks are taken over one above the other.
    pub(crate) fn on_checked_range(
        &mut self,
        from: NodeId,
        range: &Arc<Blocks>,
        checked: Result<Verified<Arc<Blocks>>, Refusal>,
        bodies: Vec<Arc<Body>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(start) = range.headers.first().map(|header| header.height) else { return };
        let key = Key::Range(start);
        if checked.is_err() {
            turn.blame(from, Fault::BadRange);
            return self.bad_answer(key, from, turn);
        }
        self.settle_want(key, Some(from), turn);
        turn.applied(Rule::SyncRange);
        for header in &range.headers {
            let body = bodies.iter().find(|body| body.root == header.root && body.fits(header));
            self.adopt(from, header, body, turn);
        }
        let proof = range.proof.as_ref().map(|proof| Arc::new(proof.commitment.clone()));
        if let Some(last) = range.headers.last() {
            self.commit_to(last.digest(), proof, Rule::CommitByChain, turn);
        }
        let next = self.chain.top().header.height + 1;
        self.want_key(Key::Range(next), NodeSet::only(from), turn);
    }

    /// Takes one committed block over and commits it, so that the tree stays small.
    fn adopt(&mut self, from: NodeId, header: &Header, body: Option<&Arc<Body>>, turn: &mut Turn<'_, Self>) {
        let root = self.tree.root_header();
        if header.height != root.height + 1 || header.parent != self.tree.root() {
            return;
        }
        let digest = header.digest();
        if self.tree.get(&digest).is_none() {
            let mut block = Block::new(Arc::new(header.clone()));
            block.body = block.body.or_else(|| body.cloned());
            if !self.plant_block(digest, block) {
                return;
            }
        } else if let Some(body) = body {
            self.attach(body, from, turn);
        }
        self.settle_want(Key::Block(digest), Some(from), turn);
        self.commit_to(digest, None, Rule::SyncRange, turn);
        self.deliver(turn);
    }

    /// The ancestors of a block that must commit: one by one if few are missing, else by range.
    pub(crate) fn want_ancestors(&mut self, gap: Hash, height: u64, turn: &mut Turn<'_, Self>) {
        let next = self.chain.top().header.height + 1;
        if height > next + RANGE_FROM {
            self.want_key(Key::Range(next), NodeSet::EMPTY, turn);
        }
        self.want_block(gap, NodeSet::EMPTY, turn);
    }
}
