//! Checkpoints of the first level (Algorithm 2, lines 44 to 61; specification, 4.11): f + 1 replicas sign the state behind each half
//! window, and what lies below is let go.

use synod_machine::{Turn, planted};
use synod_quorum::NodeId;
use synod_wire::List;

use super::consensus::{Consensus, Share};
use super::words::Told;
use super::work::Work;
use crate::batch::Slot;
use crate::body::{Body, CheckpointBy};
use crate::certificate::{Certificate, Certified, Checkpoint};
use crate::config::Config;
use crate::statement::Statement;
use crate::stream::Low;
use crate::trace::Rule;

impl Config {
    /// H: a checkpoint is made behind so many slots.
    #[must_use]
    pub const fn half_window(&self) -> u64 {
        self.parameters.window as u64 / 2
    }
}

impl Consensus {
    /// The user executed everything below a half window (line 46).
    pub(super) fn on_executed(&mut self, checkpoint: Checkpoint, turn: &mut Turn<'_, Self>) {
        if checkpoint.low <= self.low.low || checkpoint.epoch != self.config.epoch {
            return;
        }
        turn.applied(Rule::A2CertifyCheckpoint);
        self.sign(turn, |signer| Statement::Checkpoint { signer, checkpoint });
    }

    pub(super) fn is_checkpoint_useful(&self, from: NodeId, checkpoint: &Checkpoint) -> bool {
        let last = self.checkpoints.get(&from).map_or(self.low.low, |(last, _)| last.low);
        checkpoint.epoch == self.config.epoch && checkpoint.low > last.max(self.low.low)
    }

    /// Lines 49 to 52: f + 1 equal shares certify it.
    pub(super) fn on_checkpoint_share(
        &mut self,
        checkpoint: Checkpoint,
        claim: Share,
        turn: &mut Turn<'_, Self>,
    ) {
        self.checkpoints.insert(claim.signer, (checkpoint, claim));
        let need = usize::try_from(self.one_correct()).unwrap_or(usize::MAX);
        let equal = self.checkpoints.iter().filter(|(_, (other, _))| *other == checkpoint);
        let signed: Vec<_> =
            equal.take(need).filter_map(|(id, (_, claim))| Some((id.member()?, claim.signature))).collect();
        if signed.len() == need
            && let Ok(signed) = List::try_from(signed)
        {
            self.adopt(Certificate { subject: checkpoint, signed }, turn);
        }
    }

    /// A certificate came, in an answer or in somebody's stream.
    pub(super) fn on_certificate(
        &mut self,
        from: NodeId,
        certificate: CheckpointBy,
        turn: &mut Turn<'_, Self>,
    ) {
        let Checkpoint { epoch, low, .. } = certificate.subject;
        if epoch == self.config.epoch && low > self.low.low {
            let config = std::sync::Arc::clone(&self.config);
            turn.compute(super::job::Task::Checkpoint { from, certificate, config });
        }
    }

    /// Lines 53 to 61: a newer checkpoint is adopted at once, and said before any message that needs it.
    pub(super) fn adopt(&mut self, certificate: CheckpointBy, turn: &mut Turn<'_, Self>) {
        let Checkpoint { low, end, .. } = certificate.subject;
        if low <= self.low.low {
            return;
        }
        turn.applied(Rule::A2Adopt);
        let digest = certificate.subject.digest();
        self.low = Low { low, digest, end: end.or(self.low.end) };
        self.certified = Some(certificate.clone());
        self.fetches.forget(super::words::Want::Checkpoint);
        self.certified_by.clear();
        let equal = self.checkpoints.values().filter(|(other, _)| *other == certificate.subject);
        self.certified_by.extend(equal.map(|(_, claim)| claim.clone()));
        self.checkpoints.retain(|_, (other, _)| other.low > low);
        self.prune();
        self.release_early(turn);
        turn.output(Told::Certified(Box::new(certificate)));
        self.show_checkpoint(turn);
        self.count_commits(turn);
        self.hand_over(turn);
        self.adopt_prepared(turn);
        self.consider_all(turn);
    }

    /// Signatures of a message's certificate that were checked here before: what f + 1 certify each replica shows in its own stream.
    pub(super) fn seen(&self, body: &Body) -> Vec<Share> {
        match body {
            Body::Commit(certificate) => {
                let Certified { view, slot, .. } = certificate.subject;
                self.works.get(slot).map_or(Vec::new(), |work| work.ballot.shares(view).cloned().collect())
            }
            Body::Checkpoint(certificate) => {
                let waiting = self.checkpoints.values().map(|(_, claim)| claim);
                let of_it = |claim: &&Share| is_of(claim, &certificate.subject);
                self.certified_by.iter().chain(waiting).filter(of_it).cloned().collect()
            }
            Body::Prepare { .. } | Body::SealView(_) | Body::NewView { .. } | Body::Ref { .. } => Vec::new(),
        }
    }

    /// Signatures of a checkpoint were checked.
    pub(super) fn see(&mut self, claims: Vec<Share>) {
        let Some(certified) = &self.certified else { return };
        for claim in claims {
            let is_known = self.certified_by.iter().any(|known| known.signer == claim.signer);
            if !is_known && is_of(&claim, &certified.subject) {
                self.certified_by.push(claim);
            }
        }
    }

    /// The own stream shows the newest checkpoint (line 61; E8).
    pub(super) fn show_checkpoint(&mut self, turn: &mut Turn<'_, Self>) {
        if self.low.low > self.own.low
            && !(planted!(V14) && self.sealing.is_some())
            && self.can_say()
            && let Some(certificate) = self.certified.clone()
        {
            turn.applied(Rule::A2Checkpoint);
            self.own.low = self.low.low;
            self.own.next_prepare = self.own.next_prepare.map(|next| next.max(self.low.low));
            self.say(&Body::Checkpoint(certificate), turn);
        }
    }

    /// Slots below the checkpoint go, but for those that are decided and not handed over.
    pub(super) fn prune(&mut self) {
        let (low, next, window) = (self.low.low, self.next, u64::from(self.config.parameters.window));
        let is_near = low.0.saturating_sub(next.0) <= window;
        // Those above are not looked at: this is done behind every decision.
        let is_kept = |slot: Slot, work: &Work| is_near && slot >= next && work.ballot.decided().is_some();
        let below = self.works.iter().take_while(|(slot, _)| *slot < low);
        let gone: Vec<Slot> =
            below.filter(|(slot, work)| !is_kept(*slot, work)).map(|(slot, _)| slot).collect();
        for slot in gone {
            let work = self.works.remove(slot);
            self.spare.extend(work.filter(|_| (self.spare.len() as u64) < window));
        }
    }

    /// Proposals that streams show of slots that are kept now, and were not when they came.
    fn adopt_prepared(&mut self, turn: &mut Turn<'_, Self>) {
        let leader = self.leader();
        let Some(lane) = self.lanes.get(&leader).filter(|lane| lane.stream.view() == self.view) else {
            return;
        };
        let shown: Vec<_> = lane.stream.prepares().collect();
        for (slot, digest) in shown {
            let is_here = self.works.get(slot).and_then(|work| work.ballot.proposed());
            if is_here.is_none_or(|(view, _)| view < self.view) {
                let batch = None;
                self.on_proposed((0, self.view, slot), digest, batch, turn);
            }
        }
    }

    /// The first slot that no checkpoint has.
    #[must_use]
    pub const fn checkpointed(&self) -> Slot {
        self.low.low
    }
}

fn is_of(claim: &Share, subject: &Checkpoint) -> bool {
    matches!(&claim.statement, Statement::Checkpoint { checkpoint, .. } if checkpoint == subject)
}
