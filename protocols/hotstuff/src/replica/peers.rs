//! What peers say and what jobs answer: one line per kind.

use std::sync::Arc;

use synod_machine::Event;
use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};

use super::state::Core;
use crate::job::{Done, Purpose, Task};
use crate::message::{Message, Proof};
use crate::pool::Source;
use crate::sync::{Ask, Key};
use crate::votes::Ballot;
use crate::{Fault, Kind, Statement};

impl Core {
    /// Dispatches one message.
    pub(crate) fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        if self.config.roster().member(from).is_none() {
            return turn.blame(from, Fault::Stranger);
        }
        if from == self.own() {
            return;
        }
        match message {
            Message::Propose { header, signature } => self.on_propose(from, header, signature, turn),
            Message::Body { view, root, bytes } => self.on_body(from, view, (root, bytes.into_bytes()), turn),
            Message::Vote { kind: Kind::Order, .. } => turn.blame(from, Fault::WrongKind),
            Message::Vote { kind, view, digest, signature } => {
                self.on_vote(from, kind, Ballot { view, digest, signature }, turn);
            }
            Message::Order { view, digest, signature } => {
                self.on_vote(from, Kind::Order, Ballot { view, digest, signature }, turn);
            }
            Message::Phase(qc) => self.on_phase(from, qc, turn),
            Message::NewView { view, high } => self.on_new_view(from, view, high, turn),
            Message::Complain { view, high, signature } => {
                self.on_complain(from, view, high, signature, turn)
            }
            Message::Advance(Proof::Tc(tc)) => self.take_tc(from, Arc::new(tc), turn),
            Message::Advance(Proof::Qc(qc)) => self.on_advance_qc(from, qc, turn),
            Message::Advance(Proof::Commit(proof)) => {
                self.compute(Task::Commit(from, Arc::new(*proof)), turn)
            }
            Message::Status(status) => self.on_status(from, status, turn),
            Message::Fetch(want) => self.on_fetch(from, want, turn),
            Message::Blocks(blocks) => self.on_blocks(from, blocks, turn),
            Message::Forward(items) => self.on_forward(from, items.into_vec(), turn),
            Message::Attest { state, signature } => self.on_attest(from, state, signature, turn),
        }
    }

    /// What was asked for is here once the certificate holds, not before.
    fn on_advance_qc(&mut self, from: NodeId, qc: crate::Qc, turn: &mut Turn<'_, Self>) {
        self.take_qc(from, Arc::new(qc), Purpose::Alone, turn);
    }

    /// Items of a member: for the leader, or for all. Over a budget they are dropped; their owner holds them.
    fn on_forward(&mut self, from: NodeId, items: Vec<crate::block::Item>, turn: &mut Turn<'_, Self>) {
        let max = self.config.payload_max();
        for item in items {
            if !item.is_sound() || item.payload.len() > max {
                return turn.blame(from, Fault::BadForward.with(&item.id));
            }
            let id = item.id;
            // One that is over the budget of its session says nothing of the next, which may be another's.
            if self.may_act() && self.pool.add(item, Source::Member(from)).is_ok() {
                self.filter.admit(&id, &mut self.pool);
            }
        }
    }

    /// Dispatches one job's answer: screened again as if it had just arrived.
    pub(crate) fn on_done(&mut self, done: Done, turn: &mut Turn<'_, Self>) {
        match done {
            Done::Signed(claim) => {
                if claim.statement.as_vote().is_some() {
                    self.know_votes(vec![claim.clone()]);
                }
                let claim = claim.into_inner();
                self.on_signed(claim.statement, claim.signature, turn);
            }
            Done::Votes(qc, checked) => self.on_checked_votes(&qc, checked, turn),
            Done::Complaints(tc, checked) => self.on_checked_complaints(&tc, checked, turn),
            Done::Attestations(cert, checked) => self.on_checked_attestations(&cert, checked, turn),
            Done::Qc(from, checked, purpose) => self.on_checked_qc(from, checked, purpose, turn),
            Done::Tc(from, checked) => self.on_checked_tc(from, checked, turn),
            Done::Proposal(from, header, signature, checked) => {
                self.on_checked_proposal(from, header, signature, checked, turn);
            }
            Done::Body(from, root, body) => {
                if from == self.own() {
                    self.end_loading(&root, body.as_ref().ok());
                }
                self.on_checked_body(from, root, body, turn);
            }
            Done::Commit(from, Ok(proof)) => self.on_proof(from, &proof.into_inner(), turn),
            Done::Commit(from, Err(_)) => turn.blame(from, Fault::BadCommitProof),
            Done::Range(from, range, checked, bodies) => {
                self.on_checked_range(from, &range, checked, bodies, turn)
            }
            Done::Anchor(from, Ok(anchor)) => self.on_anchor(from, anchor.into_inner(), turn),
            Done::Anchor(from, Err(_)) => turn.blame(from, Fault::BadAnchor),
            Done::Own(from, checked) => self.on_checked_own(from, checked, turn),
        }
    }

    /// An own statement is signed; it leaves only if it is still what was promised last.
    fn on_signed(
        &mut self,
        statement: Statement,
        signature: synod_crypto::Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.may_act() {
            return;
        }
        match statement {
            Statement::Proposal { view, digest } => self.on_signed_proposal(view, digest, signature, turn),
            Statement::Order { view, digest } => self.on_signed_order((view, digest), signature, turn),
            Statement::Complain { view, high } => self.on_signed_complaint(view, high, signature, turn),
            Statement::Checkpoint(state) => self.on_signed_attestation(state, signature, turn),
            Statement::VotePrepare { .. }
            | Statement::VotePrecommit { .. }
            | Statement::VoteCommit { .. }
            | Statement::Vote { .. } => {
                if let Some(vote) = statement.as_vote() {
                    self.on_signed_vote(vote, signature, turn);
                }
            }
            Statement::EpochReady { .. } | Statement::Members { .. } => {
                unreachable!("this build signs no statement of reconfiguration")
            }
        }
    }

    /// Something is missing; block sync asks for it until it is here.
    pub(crate) fn want_key(&mut self, key: Key, hints: NodeSet, turn: &mut Turn<'_, Self>) {
        self.want(Event::Input(Ask::Want(key, hints)), turn);
    }

    /// A block is missing.
    pub(crate) fn want_block(
        &mut self,
        digest: synod_crypto::Hash,
        hints: NodeSet,
        turn: &mut Turn<'_, Self>,
    ) {
        self.want_key(Key::Block(digest), hints, turn);
    }

    /// A body is missing.
    pub(crate) fn want_body(&mut self, root: synod_crypto::Hash, hints: NodeSet, turn: &mut Turn<'_, Self>) {
        self.want_key(Key::Body(root), hints, turn);
    }

    /// Something is here, or wanted no longer.
    pub(crate) fn settle_want(&mut self, key: Key, by: Option<NodeId>, turn: &mut Turn<'_, Self>) {
        if self.sync.get().wants(key) {
            self.want(Event::Input(Ask::Settled(key, by)), turn);
        }
    }

    /// A peer answered badly.
    pub(crate) fn bad_answer(&mut self, key: Key, from: NodeId, turn: &mut Turn<'_, Self>) {
        self.want(Event::Input(Ask::Bad(key, from)), turn);
    }
}
