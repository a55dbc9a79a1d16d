//! Signatures of one replica: screened, checked beside the handlers, and acted on.
//!
//! *Bounds.* [`CHECKS_MAX`] of a peer are checked at a time.

use synod_machine::Turn;
use synod_quorum::NodeId;

use super::consensus::{Consensus, Share};
use super::job::Task;
use super::words::{Word, node};
use super::work::Work;
use crate::config::NUMBER_END;
use crate::fault::Fault;
use crate::statement::Statement;

/// Shares of one peer that are checked at a time.
const CHECKS_MAX: u32 = 64;

impl Consensus {
    /// A share: it is checked if it can be of use.
    pub(super) fn on_share(
        &mut self,
        from: NodeId,
        statement: Statement,
        signature: synod_crypto::Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if !is_sound(&statement) {
            turn.blame(from, Fault::Malformed);
            return;
        }
        if !self.is_useful(from, &statement) {
            return;
        }
        let checks = self.checks.entry(from).or_default();
        // One that sends more than can be checked is heard again when it repeats them.
        if *checks >= CHECKS_MAX {
            return;
        }
        *checks += 1;
        self.config
            .claim(statement, signature)
            .into_iter()
            .for_each(|claim| turn.compute(Task::Share(claim)));
    }

    pub(super) fn is_useful(&self, from: NodeId, statement: &Statement) -> bool {
        match statement {
            Statement::Certify { view, slot, .. } => {
                let is_new = |work: &Work| !work.ballot.has_share(from, *view);
                *slot >= self.low.low
                    && slot.0 < self.low.low.0.saturating_add(2 * u64::from(self.config.parameters.window))
                    && self.works.get(*slot).is_none_or(is_new)
            }
            Statement::Checkpoint { checkpoint, .. } => self.is_checkpoint_useful(from, checkpoint),
            Statement::Summary { about, k, .. } => {
                node(*about) == self.me() && self.own.states.contains_key(k)
            }
            Statement::Left { view, .. } => self.config.leader(*view) == self.me() && *view >= self.view,
            // Of the replica around consensus, or of a broadcaster.
            Statement::Broadcast { .. }
            | Statement::Snapshot { .. }
            | Statement::Rejoin { .. }
            | Statement::Readmit { .. }
            | Statement::Applied { .. } => false,
        }
    }

    pub(super) fn on_good_share(&mut self, claim: Share, turn: &mut Turn<'_, Self>) {
        match claim.statement {
            Statement::Certify { slot, .. } => self.on_certify(slot, &claim, turn),
            Statement::Checkpoint { checkpoint, .. } => self.on_checkpoint_share(checkpoint, claim, turn),
            Statement::Summary { k, .. } => self.on_summary_share(k, claim, turn),
            Statement::Left { about, view, .. } => self.on_left_share(about, view, claim, turn),
            Statement::Broadcast { .. }
            | Statement::Snapshot { .. }
            | Statement::Rejoin { .. }
            | Statement::Readmit { .. }
            | Statement::Applied { .. } => {}
        }
    }

    /// An own signature is made: it is kept like a peer's, and said.
    pub(super) fn on_signed(&mut self, claim: Share, turn: &mut Turn<'_, Self>) {
        let signature = Box::new(claim.signature);
        match claim.statement {
            Statement::Certify { view, slot, digest, .. } => {
                turn.send(self.others(), Word::Certify { view, slot, digest, signature });
            }
            Statement::Checkpoint { checkpoint, .. } => {
                turn.send(
                    self.others(),
                    Word::CertifyCheckpoint { checkpoint: Box::new(checkpoint), signature },
                );
            }
            Statement::Summary { about, k, state, .. } => {
                let summarized = crate::certificate::Summarized { about, k, state };
                let word = Word::CertifySummary { summarized, signature };
                if let Some(lane) = self.lanes.get_mut(&node(about)) {
                    lane.share = Some((k, word.clone()));
                }
                if node(about) != self.me() {
                    turn.send(node(about), word);
                }
            }
            Statement::Left { view, about, low, checkpoint, commits, .. } => {
                let word = Word::CertifyLeft { view, about, low, checkpoint, commits, signature };
                if let Some(lane) = self.lanes.get_mut(&node(about)) {
                    lane.left_share = Some(word.clone());
                }
                let leader = self.config.leader(view);
                if leader != self.me() {
                    turn.send(leader, word);
                }
            }
            Statement::Broadcast { .. }
            | Statement::Snapshot { .. }
            | Statement::Rejoin { .. }
            | Statement::Readmit { .. }
            | Statement::Applied { .. } => {}
        }
        if self.is_useful(self.me(), &claim.statement) {
            self.on_good_share(claim, turn);
        }
    }
}

/// Numbers of a statement are below 2^62.
fn is_sound(statement: &Statement) -> bool {
    let is_low = |number: u64| number < NUMBER_END;
    match statement {
        Statement::Certify { view, slot, .. } => is_low(view.0) && is_low(slot.0),
        Statement::Checkpoint { checkpoint, .. } => {
            is_low(checkpoint.low.0) && checkpoint.end.is_none_or(|end| is_low(end.0))
        }
        Statement::Summary { k, .. } | Statement::Broadcast { k, .. } => is_low(*k),
        Statement::Left { view, low, .. } => is_low(view.0) && is_low(low.0),
        Statement::Snapshot { low, .. } => is_low(low.0),
        Statement::Rejoin { incarnation: number, .. } | Statement::Readmit { boot: number, .. } => {
            is_low(*number)
        }
        Statement::Applied { position, .. } => is_low(position.0),
    }
}
