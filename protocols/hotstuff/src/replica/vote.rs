//! Taking proposals in (R2) and voting for them (R3). Storing, committing and advancing never depend on voting.

use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use super::state::{Core, Far};
use crate::block::{BadBody, Body, Header};
use crate::config::Votes as Route;
use crate::filter::Filter;
use crate::job::{Checked, Purpose, Task, Unknown};
use crate::outbox::Kept;
use crate::pacemaker::Pace;
use crate::proven::Proven;
use crate::record::{Mark, Record};
use crate::rules::Ballot as RuleBallot;
use crate::sync::Key;
use crate::trace::Note;
use crate::tree::{Block, FULL_MAX};
use crate::votes::Ballot;
use crate::{Fault, Kind, Message, Rule, Statement, View};

/// How far ahead of the own clock an agreed time may lie, in milliseconds (4.9).
const AHEAD_MAX_MS: u64 = 5_000;
/// Bodies of one peer in check at a time.
const BODIES_IN_CHECK_MAX: u32 = 4;

impl Core {
    /// Screens a signed header and has it checked.
    pub(crate) fn on_propose(
        &mut self,
        from: NodeId,
        header: Header,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if header.proposer() != from {
            return turn.blame(from, Fault::NotProposer.with(&header));
        }
        if let Err(fault) = self.fit_header(&header) {
            turn.blame(from, fault.with(&header));
            // Its valid certificates are used all the same.
            return self.take_qc(from, Arc::new(header.justify), Purpose::Alone, turn);
        }
        if self.is_too_far(from, header.view, Far::Proposal, turn.now()) {
            return;
        }
        let header = Arc::new(header);
        let justify = self.certificates.qc(&Arc::new(header.justify.clone())).is_none();
        let tc = header.tc.as_ref().is_some_and(|tc| self.certificates.tc(&Arc::new(tc.clone())).is_none());
        let votes = self.known_votes(&header.justify);
        self.compute(Task::Proposal(from, header, signature, Unknown { justify, votes, tc }), turn);
    }

    /// What a header must satisfy whatever its parent is (I2, I5, I6).
    fn fit_header(&self, header: &Header) -> Result<(), Fault> {
        let parameters = self.config.parameters();
        if header.epoch != self.safety.epoch {
            return Err(Fault::WrongEpoch);
        }
        self.fit_qc(&header.justify)?;
        if header.justify.view >= header.view {
            return Err(Fault::JustifyAhead);
        }
        if header.parent != header.justify.digest {
            return Err(Fault::NotExtending);
        }
        let direct = header.justify.view.precedes(header.view);
        match &header.tc {
            None if !direct => return Err(Fault::MissingTc),
            Some(_) if direct && !self.rules.pack.is_basic() => return Err(Fault::SuperfluousTc),
            Some(tc) if !tc.view.precedes(header.view) => return Err(Fault::WrongTc),
            Some(tc) => self.fit_tc(tc)?,
            None => {}
        }
        let items_max = u32::try_from(self.config.items_max()).unwrap_or(u32::MAX);
        let sized = header.bytes <= parameters.block_bytes && header.count <= items_max;
        let empty = header.count > 0 || (header.bytes == 0 && header.root == Body::empty().root);
        if sized && empty { Ok(()) } else { Err(Fault::Oversized) }
    }

    /// A header's signature and certificates were checked: certificates first, then the block, then the vote.
    pub(crate) fn on_checked_proposal(
        &mut self,
        from: NodeId,
        header: Arc<Header>,
        signature: Signature,
        checked: Checked,
        turn: &mut Turn<'_, Self>,
    ) {
        let justify = match checked.justify {
            Ok(Some(sound)) => {
                self.know_votes(sound.votes);
                Some(self.remember_qc(sound.qc))
            }
            Ok(None) => self.certificates.qc(&Arc::new(header.justify.clone())),
            Err(_) => return turn.blame(from, Fault::BadQc.with(&*header)),
        };
        let tc = match (checked.tc, &header.tc) {
            (Ok(Some(verified)), _) => Some(self.remember_tc(verified)),
            (Ok(None), Some(tc)) => self.certificates.tc(&Arc::new(tc.clone())),
            (Ok(None), None) => None,
            (Err(_), _) => return turn.blame(from, Fault::BadTc.with(&*header)),
        };
        if planted!(H22) && header.view <= self.safety.voted.view.max(self.safety.complained) {
            return;
        }
        let Some(justify) = justify else { return };
        self.on_qc(&justify, turn);
        if let Some(tc) = &tc {
            self.on_tc(tc, turn);
        }
        if !checked.signed {
            return turn.blame(from, Fault::ForgedProposal.with(&*header));
        }
        if header.tc.is_some() == tc.is_some() {
            self.take_header(from, header, signature, turn);
        }
    }

    fn take_header(
        &mut self,
        from: NodeId,
        header: Arc<Header>,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let root_view = self.tree.root_header().view;
        if header.view <= root_view || header.justify.view < root_view {
            return;
        }
        let digest = header.digest();
        let first = *self.proposals.entry((header.view, from)).or_insert((digest, signature));
        if first.0 != digest {
            return turn.blame(from, Fault::EquivocatedProposal.with(&(first, (digest, signature))));
        }
        if let Some(parent) = self.tree.get(&header.parent)
            && let Err(fault) = self.fits(&header, &parent.header)
        {
            self.proposals.remove(&(header.view, from));
            return turn.blame(from, fault.with(&*header));
        }
        turn.applied(Rule::TakeProposal);
        if header.view == self.view && self.leader == Some(from) {
            self.tell(Pace::Proposed(from), turn);
        }
        if self.tree.get(&digest).is_some() {
            return self.consider_vote(digest, turn);
        }
        self.add_block(Block::new(header), NodeSet::only(from), turn);
    }

    /// What a header must satisfy on its parent.
    fn fits(&self, header: &Header, parent: &Header) -> Result<(), Fault> {
        if header.height != parent.height + 1 {
            return Err(Fault::WrongHeight);
        }
        if header.proposer() != self.leaders.of(header, parent) {
            return Err(Fault::NotLeader);
        }
        if header.list != self.leaders.list(parent, header.view, header.tc.is_some()) {
            return Err(Fault::WrongList);
        }
        Ok(())
    }

    /// Puts a block into the tree; whether it is there now.
    pub(crate) fn plant_block(&mut self, digest: Hash, block: Block) -> bool {
        if self.tree.get(&digest).is_some() {
            return true;
        }
        let keep = [
            self.high.digest,
            self.safety.voted.digest,
            self.safety.lock.digest,
            self.safety.proposed.digest,
        ];
        match self.tree.insert(digest, block, &keep) {
            Ok(evicted) => {
                if let Some(name) = evicted.and_then(|b| b.name.filter(|_| b.stored)) {
                    self.release_blob(name);
                }
                self.filter.prune(&self.tree, &mut self.pool);
                true
            }
            Err(_) => false,
        }
    }

    /// Puts a block into the tree, finds its body and its ancestors, and does what was waiting for it.
    pub(crate) fn add_block(&mut self, block: Block, hints: NodeSet, turn: &mut Turn<'_, Self>) {
        let header = Arc::clone(&block.header);
        let digest = header.digest();
        if !self.plant_block(digest, block) {
            return;
        }
        turn.note(Note::taken(&header, digest));
        self.settle_want(Key::Block(digest), hints.iter().next(), turn);
        let early = self.early.values().find(|body| body.root == header.root).cloned();
        match early {
            _ if header.is_empty() => {}
            Some(body) => self.attach(&body, header.proposer(), turn),
            None => self.want_body(header.root, hints.with(header.proposer()), turn),
        }
        if let Some(gap) = self.tree.gap(digest) {
            self.want_block(gap, hints, turn);
        }
        self.after_block(digest, turn);
        self.consider_vote(digest, turn);
    }

    /// A body arrived under a root; its items are checked elsewhere.
    pub(crate) fn on_body(
        &mut self,
        from: NodeId,
        view: View,
        (root, bytes): (Hash, synod_wire::Bytes),
        turn: &mut Turn<'_, Self>,
    ) {
        let window = self.config.parameters().view_window;
        let near = view.next() >= self.view && view.0 <= self.view.0.saturating_add(window);
        let sized = bytes.len() <= usize::try_from(self.config.parameters().block_bytes).unwrap_or(0);
        let known = self.early.get(&from).is_some_and(|body| body.root == root);
        if near && sized && !known {
            self.check_body(from, root, bytes, turn);
        } else if !sized {
            turn.blame(from, Fault::Oversized);
        }
    }

    /// Has a body checked, at most a few of one peer at a time.
    pub(crate) fn check_body(
        &mut self,
        from: NodeId,
        root: Hash,
        bytes: synod_wire::Bytes,
        turn: &mut Turn<'_, Self>,
    ) {
        let in_check = self.bodies_in_check.entry(from).or_default();
        if *in_check < BODIES_IN_CHECK_MAX || from == self.config.own() {
            *in_check += 1;
            self.compute(Task::Body(from, root, bytes), turn);
        }
    }

    /// A body was checked: it joins its blocks, or waits for a header of its sender.
    pub(crate) fn on_checked_body(
        &mut self,
        from: NodeId,
        root: Hash,
        body: Result<Arc<Body>, BadBody>,
        turn: &mut Turn<'_, Self>,
    ) {
        if let Some(in_check) = self.bodies_in_check.get_mut(&from) {
            *in_check = in_check.saturating_sub(1);
        }
        match body {
            Err(_) if from == self.own() => self.want_body(root, self.others(), turn),
            Err(_) => {
                turn.blame(from, Fault::BadBody.with(&root));
                self.bad_answer(Key::Body(root), from, turn);
            }
            Ok(body) => {
                let awaited = !self.tree.awaiting(&root).is_empty() || self.awaits_delivery(&root);
                if awaited {
                    self.attach(&body, from, turn);
                } else if from != self.own() {
                    self.early.insert(from, body);
                }
            }
        }
    }

    /// Joins a body to every block that binds it.
    pub(crate) fn attach(&mut self, body: &Arc<Body>, from: NodeId, turn: &mut Turn<'_, Self>) {
        self.settle_want(Key::Body(body.root), Some(from), turn);
        self.attach_committed(body, turn);
        for digest in self.tree.awaiting(&body.root) {
            let Some(block) = self.tree.get_mut(&digest) else { continue };
            if !body.fits(&block.header) {
                let proposer = block.header.proposer();
                turn.blame(proposer, Fault::BodyMismatch.with(&*block.header));
                continue;
            }
            block.body = Some(Arc::clone(body));
            Filter::see(self.config.parameters().filter, body, &mut self.pool);
            self.after_body(digest, turn);
            self.consider_vote(digest, turn);
        }
    }

    /// R3: votes for a block if everything about it is right. Called again whenever something it lacked arrives.
    pub(crate) fn consider_vote(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(block) = self.tree.get(&digest) else { return };
        let header = Arc::clone(&block.header);
        if !self.may_act() || !self.is_votable_view(&header, &digest) {
            return;
        }
        let phase = self.rules.pack.kind();
        if self.safety.voted == (Mark { view: header.view, digest }) && self.safety.phase == phase {
            turn.applied(Rule::VoteAgain);
            return self.out.promise(Statement::vote(phase, header.view, digest));
        }
        if !self.is_whole(&header, &digest) || !self.is_timely(&header, turn) {
            return;
        }
        if let Some(parent) = self.tree.get(&header.parent)
            && let Err(fault) = self.fits(&header, &parent.header)
        {
            return turn.blame(header.proposer(), fault.with(&*header));
        }
        if self.repeats_items(&header, &digest) {
            return turn.blame(header.proposer(), Fault::RepeatedItem.with(&*header));
        }
        if !self.rules.pack.is_basic() {
            // Its certificate may have come before the block it certifies, which locks only now that it is here.
            self.raise_lock(&header.justify, turn);
        }
        let extends_lock = self.tree.extends(digest, &self.safety.lock);
        let ballot = RuleBallot { safety: &self.safety, header: &header, extends_lock };
        if (self.rules.may_vote)(&ballot) {
            turn.applied(Rule::Vote);
            self.cast(phase, header.view, digest);
        }
    }

    /// h.view >= current, above the last vote (or the very same), above what was given up.
    fn is_votable_view(&self, header: &Header, digest: &Hash) -> bool {
        let view = header.view;
        let now = if self.rules.pack.is_basic() { view == self.view } else { view >= self.view };
        let last = self.safety.voted;
        // The very same again, but not below a later phase of its view.
        let same = view == last.view && *digest == last.digest && self.safety.phase == self.rules.pack.kind();
        let fresh = view > last.view || same || planted!(H2);
        // A block found in the log after a restart is voted for only if its certificates were acted on, for the lock rests
        // on them.
        let learned = header.justify.view <= self.high.view;
        now && fresh && learned && (view > self.safety.complained || planted!(O2))
    }

    /// The body is here, and every ancestor down to the last committed block.
    fn is_whole(&self, header: &Header, digest: &Hash) -> bool {
        let body = self.tree.get(digest).and_then(|block| block.body.as_ref());
        let bound = body.is_some_and(|body| header.is_empty() || body.fits(header));
        bound && self.tree.branch(*digest).is_some() && self.tree.full(*digest).len() <= FULL_MAX
    }

    /// 4.9: agreed time never falls and never runs far ahead of an honest clock.
    fn is_timely(&self, header: &Header, turn: &Turn<'_, Self>) -> bool {
        let Some(parent) = self.tree.get(&header.parent) else { return false };
        let (old, new) = (parent.header.time.0, header.time.0);
        old <= new && new <= old.max(turn.wall().0.saturating_add(AHEAD_MAX_MS))
    }

    /// Whether an item stands in an uncommitted ancestor too. A body that is missing there is no reason to vote.
    fn repeats_items(&self, header: &Header, digest: &Hash) -> bool {
        let Some(body) = self.tree.get(digest).and_then(|block| block.body.clone()) else { return true };
        let branch = self.config.parameters().filter == crate::config::Filter::Branch;
        let ancestors = if branch { self.tree.full(header.parent) } else { Vec::new() };
        let bodies = ancestors.iter().filter_map(|d| self.tree.get(d)).filter_map(|b| b.body.as_ref());
        bodies.into_iter().any(|other| !body.is_disjoint(other))
    }

    /// Promises a vote: the block and the promise are written before the signature is made.
    pub(crate) fn cast(&mut self, kind: Kind, view: View, digest: Hash) {
        assert!(self.may_act(), "a replica that may not promise does not vote");
        assert!(view >= self.safety.voted.view || planted!(H2), "votes only rise");
        self.safety.voted = Mark { view, digest };
        self.safety.phase = kind;
        self.store_block(digest);
        self.out.promise(Statement::vote(kind, view, digest));
    }

    /// Writes header and body of a block, once.
    pub(crate) fn store_block(&mut self, digest: Hash) {
        let Some(block) = self.tree.get_mut(&digest).filter(|block| !block.stored) else { return };
        block.stored = true;
        let header = Header::clone(&block.header);
        let body = block.body.clone().filter(|_| !header.is_empty());
        let name = body.as_ref().map(|body| body.name);
        block.name = name;
        if let Some(body) = body {
            self.retain_blob(body.name, &body.bytes);
        }
        self.out.keep(Record::Block { header, body: name });
    }

    /// Counts a block's claim to its body's blob and writes the blob if it is the first.
    pub(crate) fn retain_blob(&mut self, name: Hash, bytes: &synod_wire::Bytes) {
        if self.blobs.retain(name) {
            self.out.kept.push(Kept::Blob(name, bytes.clone()));
        }
    }

    /// An own vote is signed: it counts here, and goes to all or to the collectors.
    pub(crate) fn on_signed_vote(
        &mut self,
        (kind, view, digest): (Kind, View, Hash),
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let promised = self.safety.voted == Mark { view, digest } && self.safety.phase == kind;
        if !promised || (view <= self.safety.complained && !planted!(O2)) {
            return;
        }
        let to = self.collectors(view, &digest);
        let others = to.without(self.own());
        if !others.is_empty() {
            turn.send(others, Message::Vote { kind, view, digest, signature });
        }
        if to.contains(self.own()) {
            self.votes.add(kind, self.own(), Ballot { view, digest, signature }, self.view);
            self.certify(kind, view, digest, turn);
        }
    }

    /// R6: all members, or leader(v+1), and for the last view of a term leader(v) as well; basic: leader(v).
    fn collectors(&self, view: View, digest: &Hash) -> NodeSet {
        let Some(header) = self.tree.get(digest).map(|block| &block.header) else { return NodeSet::EMPTY };
        if self.rules.pack.is_basic() {
            return NodeSet::only(header.proposer());
        }
        if self.config.parameters().votes == Route::Broadcast && !planted!(H15) {
            return self.config.roster().all();
        }
        let next = NodeSet::only(self.leaders.after(header, view.next()));
        let paper = self.rules.pack == crate::Pack::Paper || planted!(H15);
        if self.terms.is_end(view) && !paper { next.with(header.proposer()) } else { next }
    }

    /// A verified certificate is remembered and may be acted on.
    pub(crate) fn remember_qc(
        &mut self,
        verified: synod_crypto::Verified<Arc<crate::Qc>>,
    ) -> Proven<crate::Qc> {
        let proven = Proven::checked(verified);
        self.certificates.remember(proven.name());
        proven
    }

    /// A verified certificate is remembered and may be acted on.
    pub(crate) fn remember_tc(
        &mut self,
        verified: synod_crypto::Verified<Arc<crate::Tc>>,
    ) -> Proven<crate::Tc> {
        let proven = Proven::checked(verified);
        self.certificates.remember(proven.name());
        proven
    }
}
