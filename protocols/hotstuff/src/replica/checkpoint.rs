//! Checkpoints (4.12): attesting states, making them stable, pruning below, and jumping when peers retain no more.

use std::sync::Arc;

use synod_crypto::{Hash, Signature, Verified};
use synod_machine::broadcast::{Checkpoint, Delivered, Position};
use synod_machine::{Event, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Wire};

use super::state::Core;
use crate::certificate::Anchor;
use crate::chain::Link;
use crate::checkpoint::Attesting;
use crate::job::Task;
use crate::outbox::After;
use crate::statement::Attested;
use crate::sync::{Ask, Key};
use crate::trace::{Note, NoteName};
use crate::{CheckpointCert, Fault, Header, Message, Record, Rule, Statement};

/// Statuses without any movement before a peer's certified state is asked for. A user that reads a large state back
/// needs some seconds.
const STANDSTILL: u32 = 5;

impl Core {
    /// The user applied everything up to `position`, with the root where one is due.
    pub(crate) fn on_applied(&mut self, position: Position, root: Option<Hash>, turn: &mut Turn<'_, Self>) {
        let lagged = self.is_lagging();
        self.delivery.stuck &= position <= self.delivery.applied;
        self.delivery.applied = self.delivery.applied.max(position);
        while self.delivery.unapplied.front().is_some_and(|last| *last <= position) {
            self.delivery.unapplied.pop_front();
        }
        if lagged && !self.is_lagging() {
            turn.applied(Rule::Deliver);
        }
        match self.checkpoints.jumping() {
            Some(anchor) if anchor.certificate.state().position == position => {
                return self.land(&anchor, turn);
            }
            // The user got beyond it before it was told to jump. Only a chain that ends below must start anew.
            Some(anchor) if anchor.certificate.state().position < position => {
                if anchor.certificate.state().position > self.chain.top().last {
                    return self.land(&anchor, turn);
                }
                self.checkpoints.set_jumping(None);
            }
            _ => {}
        }
        if let Some(root) = root.filter(|_| self.checkpoints.is_due(position)) {
            self.reach(position, root, turn);
        }
    }

    fn reach(&mut self, position: Position, root: Hash, turn: &mut Turn<'_, Self>) {
        if position <= self.checkpoints.stable_position() || position > self.delivery.position {
            return;
        }
        let Some(link) = self.chain.holding(position) else { return };
        let index = u32::try_from(position.0 - link.before().0).unwrap_or(u32::MAX);
        let state = Attested { position, view: link.header.view, digest: link.digest, index, root };
        self.checkpoints.reach(state);
        if self.may_act() {
            turn.applied(Rule::Attest);
            self.out.sign.push(Statement::Checkpoint(state));
        }
        if let Some(certificate) = self.checkpoints.certified() {
            self.settle_checkpoint(&certificate, turn);
        }
    }

    /// An own attestation is signed: it counts here and goes to all.
    pub(crate) fn on_signed_attestation(
        &mut self,
        state: Attested,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if self.checkpoints.own(state.position) == Some(&state) {
            let others = self.others();
            if !others.is_empty() {
                turn.send(others, Message::Attest { state, signature });
            }
            self.checkpoints.keep_signed(state, signature);
            self.checkpoints.add(self.own(), state, signature);
            self.count_attestations(&state, turn);
        }
    }

    /// Says own attestations again: all that are not certified yet to a member that was away, the overdue ones to all.
    pub(crate) fn attest_again(&mut self, back: Option<NodeId>, turn: &mut Turn<'_, Self>) {
        let (to, attestations) = match back {
            Some(peer) => (NodeSet::only(peer), self.checkpoints.unsettled()),
            None => (self.others(), self.checkpoints.overdue()),
        };
        if !self.may_act() || to.is_empty() {
            return;
        }
        for (state, signature) in attestations {
            turn.applied(Rule::AttestAgain);
            turn.send(to, Message::Attest { state, signature });
        }
    }

    /// A member attests a state.
    pub(crate) fn on_attest(
        &mut self,
        from: NodeId,
        state: Attested,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.checkpoints.is_due(state.position) {
            return turn.blame(from, Fault::MisplacedAttestation.with(&state));
        }
        if state.position <= self.checkpoints.stable_position() {
            let answer = self.checkpoints.answer(from, state.position, turn.now());
            if let Some((state, signature)) = answer.filter(|_| self.may_act()) {
                turn.applied(Rule::AttestAgain);
                turn.send(from, Message::Attest { state, signature });
            }
            return;
        }
        match self.checkpoints.add(from, state, signature) {
            Attesting::New => self.count_attestations(&state, turn),
            Attesting::Nothing => {}
            Attesting::Conflict(first) => {
                turn.blame(from, Fault::EquivocatedAttestation.with(&(first, state)));
            }
        }
    }

    fn count_attestations(&mut self, state: &Attested, turn: &mut Turn<'_, Self>) {
        let (epoch, roster) = (self.safety.epoch, self.config.roster());
        if let Some(certificate) = self.checkpoints.assemble(state, epoch, roster) {
            self.compute(Task::Attestations(certificate), turn);
        }
    }

    /// Attestations of quorum power were checked.
    pub(crate) fn on_checked_attestations(
        &mut self,
        certificate: &Arc<CheckpointCert>,
        checked: Result<Verified<Arc<CheckpointCert>>, Vec<NodeId>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let state = *certificate.state();
        match checked {
            Ok(verified) => {
                self.checkpoints.checked(&state, &[]);
                let certificate = verified.into_inner();
                self.checkpoints.certify(Arc::clone(&certificate));
                self.settle_checkpoint(&certificate, turn);
            }
            Err(forgers) => {
                self.checkpoints.checked(&state, &forgers);
                for forger in forgers {
                    turn.blame(forger, Fault::ForgedAttestation.with(&state));
                }
                self.count_attestations(&state, turn);
            }
        }
    }

    /// Acts on a certificate once this member's own state of that position is known: equal makes it stable, unequal
    /// stops this member.
    fn settle_checkpoint(&mut self, certificate: &Arc<CheckpointCert>, turn: &mut Turn<'_, Self>) {
        let state = *certificate.state();
        let Some(own) = self.checkpoints.own(state.position).copied() else { return };
        if own != state {
            return self.halt(NoteName::Divergence, [state.position.0, 0, 0], own.root, turn);
        }
        // Peers are sent here for a state in place of the blocks below it: one the user may have dropped is left to others.
        if !self.checkpoints.is_kept(state.position, self.delivery.position) {
            return;
        }
        let Some(link) = self.chain.holding(state.position).filter(|link| link.digest == state.digest) else {
            return;
        };
        let anchor =
            Anchor { certificate: CheckpointCert::clone(certificate), header: Header::clone(&link.header) };
        self.stabilise(Arc::new(anchor), turn);
        self.out.after.push(After::Compact);
    }

    fn stabilise(&mut self, anchor: Arc<Anchor>, turn: &mut Turn<'_, Self>) {
        let state = *anchor.certificate.state();
        if state.position <= self.checkpoints.stable_position() {
            return;
        }
        turn.applied(Rule::Stable);
        turn.note(Note { name: NoteName::Stable, values: [state.position.0, 0, 0], digest: state.root });
        self.out.keep(Record::Checkpoint(Anchor::clone(&anchor)));
        self.checkpoints.set_stable(Arc::clone(&anchor));
        if let Some(checkpoint) = told(&anchor) {
            self.out.output(Delivered::Stable(checkpoint));
        }
        self.prune_chain();
    }

    /// A crash may have come before the user heard what is stable: it would drop that state like one nobody certified.
    pub(crate) fn say_stable(&mut self) {
        let stable =
            self.checkpoints.stable().filter(|a| a.certificate.state().position <= self.delivery.applied);
        if let Some(checkpoint) = stable.and_then(|anchor| told(&anchor)) {
            self.out.output(Delivered::Stable(checkpoint));
        }
    }

    /// Below the stable checkpoint only the newest blocks are kept, for peers slightly behind.
    pub(crate) fn prune_chain(&mut self) {
        let stable = self.checkpoints.stable_position();
        let top = self.chain.top().header.height;
        let retain = self.config.parameters().retain_blocks;
        let delivered = self.delivery.height;
        let dropped = self.chain.prune(|link| {
            let height = link.header.height;
            link.last < stable && height + retain < top && height < delivered
        });
        for name in dropped.into_iter().filter_map(|link| link.name) {
            self.release_blob(name);
        }
    }

    /// A peer retains nothing of what is missing, but a certified state above it: the user must fetch that state.
    pub(crate) fn on_anchor(&mut self, from: NodeId, anchor: Arc<Anchor>, turn: &mut Turn<'_, Self>) {
        for height in self.sync.get().ranges_of(from) {
            self.settle_want(Key::Range(height), None, turn);
        }
        let state = *anchor.certificate.state();
        // A user that is stuck goes on above all it was given; at a standstill any state ahead may help.
        let (stuck, still) = (self.delivery.stuck, self.is_at_standstill());
        let here = if stuck && !still { self.delivery.position } else { self.delivery.applied };
        let useful = state.position > here;
        if self.sync.get().was_asked(Key::Anchor, from) {
            match useful {
                true => self.settle_want(Key::Anchor, Some(from), turn),
                false => self.want(Event::Input(Ask::Useless(from)), turn),
            }
        }
        let above = state.position > self.chain.top().last;
        let held = self.chain.holding(state.position).is_some_and(|link| link.digest == state.digest);
        if above || (useful && (stuck || still) && held) {
            self.jump(anchor, turn);
        }
    }

    /// Counts the statuses for which committed blocks waited and nothing was delivered or applied.
    pub(crate) fn count_standstill(&mut self) {
        let waits = !self.delivery.unapplied.is_empty() || self.chain.at(self.delivery.height + 1).is_some();
        let here = (self.delivery.applied, self.delivery.position);
        let (last, count) = self.delivery.still;
        let same = waits && last == here;
        self.delivery.still = (here, if same { count.saturating_add(1) } else { 0 });
    }

    /// Whether the user seems unable to go on, or a body to be found: its own snapshot may be damaged and dropped by all
    /// others, the body pruned. Only a newer certified state helps then, also one this member's chain has passed.
    pub(crate) const fn is_at_standstill(&self) -> bool {
        self.delivery.still.1 >= STANDSTILL
    }

    /// The next body to deliver is missing here, or the user does not take it: where peers that hold the newest certified
    /// state have dropped what lies below, the user starts again from that state.
    pub(crate) fn jump_over(&mut self, next: u64, turn: &mut Turn<'_, Self>) {
        let (Some(certificate), Some(link)) = (self.checkpoints.certified(), self.chain.at(next)) else {
            return;
        };
        let retained = next + self.config.parameters().retain_blocks >= self.chain.top().header.height;
        if link.last < certificate.state().position && !retained {
            self.jump_ahead(turn);
        }
    }

    /// The user cannot go on. Where no certificate above what it was given is here, as at a member that was away when the others
    /// attested, they are asked for their newest certified state: what is stable there they do not attest again.
    pub(crate) fn on_stuck(&mut self, turn: &mut Turn<'_, Self>) {
        self.jump_ahead(turn);
        self.delivery.stuck = self.checkpoints.jumping().is_none();
        if self.delivery.stuck {
            self.want_key(Key::Anchor, NodeSet::EMPTY, turn);
        }
    }

    /// The user starts again from the newest certified state, if this chain holds its block and it lies above all that the user
    /// was given.
    pub(crate) fn jump_ahead(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(certificate) = self.checkpoints.certified() else { return };
        let state = *certificate.state();
        let Some(holder) = self.chain.holding(state.position).filter(|holder| holder.digest == state.digest)
        else {
            return;
        };
        if state.position > self.delivery.position {
            let certificate = CheckpointCert::clone(&certificate);
            let anchor = Anchor { certificate, header: Header::clone(&holder.header) };
            self.jump(Arc::new(anchor), turn);
        }
    }

    /// The user holds less than the retained chain begins with: it starts again from the stable state.
    pub(crate) fn jump_to_stable(&mut self, turn: &mut Turn<'_, Self>) {
        let stable = self.checkpoints.stable();
        if let Some(anchor) = stable.filter(|a| a.certificate.state().position > self.delivery.position) {
            self.jump(anchor, turn);
        }
    }

    fn jump(&mut self, anchor: Arc<Anchor>, turn: &mut Turn<'_, Self>) {
        let position = anchor.certificate.state().position;
        let further = self.checkpoints.jumping().is_none_or(|a| a.certificate.state().position < position);
        if !further || !self.checkpoints.is_due(position) {
            return;
        }
        turn.applied(Rule::Jump);
        turn.note(Note { name: NoteName::Jump, values: [position.0, 0, 0], digest: anchor.header.digest() });
        if let Some(checkpoint) = told(&anchor) {
            // A crash may come when the user has the state and nothing else is written of it here.
            self.out.keep(Record::Checkpoint(Anchor::clone(&anchor)));
            self.checkpoints.set_jumping(Some(anchor));
            self.out.output(Delivered::Jump(checkpoint));
        }
    }

    /// The user holds the state of the anchor, or more: the chain starts again there.
    pub(crate) fn land(&mut self, anchor: &Arc<Anchor>, turn: &mut Turn<'_, Self>) {
        let state = *anchor.certificate.state();
        self.checkpoints.set_jumping(None);
        let header = Arc::new(anchor.header.clone());
        let last = Position(state.position.0 + u64::from(header.count - state.index));
        let whole = state.index == header.count;
        let height = header.height;
        self.delivery.height = if whole { height } else { height.saturating_sub(1) };
        self.delivery.position = state.position.max(self.delivery.applied);
        self.delivery.unapplied.clear();
        if self.chain.at(height).is_some_and(|link| link.digest == state.digest) {
            // The chain is here already, or came meanwhile: only bodies were missing.
            let delivered = self.delivery.height;
            self.delivery.tickets.retain(|(height, _), _| *height > delivered);
            self.note_resumed(turn);
            return self.stabilise(Arc::clone(anchor), turn);
        }
        let fallen = self.tree.reset(state.digest, Arc::clone(&header));
        let (digest, name, commitment) = (state.digest, None, None);
        let body = None;
        let link = Link { digest, header: Arc::clone(&header), last, body, name, commitment };
        let dropped = self.chain.reset(link);
        let loose = fallen.into_iter().filter(|b| b.stored).filter_map(|b| b.name);
        for name in loose.chain(dropped.into_iter().filter_map(|link| link.name)) {
            self.release_blob(name);
        }
        self.delivery.tickets.clear();
        self.note_resumed(turn);
        self.pending_commit = None;
        self.ordered = None;
        self.filter.prune(&self.tree, &mut self.pool);
        self.out.keep(Record::Block { header: Header::clone(&header), body: None });
        self.out.keep(Record::Commit { digest, last });
        self.commit_due = false;
        self.stabilise(Arc::clone(anchor), turn);
        self.want_key(Key::Range(height + 1), self.others(), turn);
    }
}

/// The checkpoint as the user sees it.
fn told(anchor: &Anchor) -> Option<Checkpoint> {
    let state = anchor.certificate.state();
    let certificate = Blob::try_from(anchor.certificate.encode()).ok()?;
    Some(Checkpoint { position: state.position, root: state.root, certificate })
}
