//! Telling clients what became of their messages (4.5, step 18).

use synod_quorum::NodeId;

use super::job::LEAF_ENTRIES;
use super::open::{Batch, Phase};
use super::{Broker, Step, Timer};
use crate::message::{ClientMessage, Delivery};
use crate::trace::Rule;

impl Broker {
    /// Step 18. Those that did not sign are shown their place first, for they cannot read the delivery without it.
    pub(super) fn respond(&mut self, number: u64, turn: &mut Step<'_>) {
        turn.applied(Rule::Step18);
        self.end_places(number);
        self.deliveries.queue(number);
        turn.arm(Timer::Resend(number), self.deliveries.timeout(1));
        self.tell_more(turn);
    }

    /// Sends one client its delivery on this link.
    pub(super) fn respond_to(&self, number: u64, index: u32, link: NodeId, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get(&number).filter(|batch| batch.phase == Phase::Delivered) else {
            return;
        };
        let Some(proof) = &batch.proof else { return };
        let leaf = proof.leaves.get((index / LEAF_ENTRIES) as usize).cloned();
        let said = &proof.statement;
        let delivery = Delivery {
            root_commit: super::distil::half(&said.root_commit),
            height: said.height,
            digest: said.digest,
            exceptions_root: said.exceptions_root,
            exc_count: said.exc_count,
            aggregate: proof.aggregate.clone(),
            exception: leaf,
        };
        Self::tell(link, ClientMessage::Delivery(Box::new(delivery)), turn);
    }

    /// The clients of this link have their delivery of this height.
    pub(super) fn on_ack(&mut self, link: NodeId, height: u64, turn: &mut Step<'_>) {
        let Some(number) = self.by_height.get(&height).copied() else { return };
        let Some(messages) = self.batches.get_mut(&number).and_then(Batch::messages_mut) else { return };
        let all = messages.carried_by(link);
        for index in &all {
            if let Some(slot) = messages.slot_mut(*index) {
                slot.acknowledged.add(link);
            }
        }
        all.into_iter().for_each(|index| self.heard_of_delivery(number, index, turn.now()));
        self.tell_more(turn);
    }

    /// A delivered batch is no longer kept for those who ask again.
    pub(super) fn forget(&mut self, number: u64, turn: &mut Step<'_>) {
        if !self.kept.remove(&number) {
            return;
        }
        turn.disarm(Timer::Keep(number));
        if let Some(batch) = self.batches.remove(&number) {
            self.kept_bytes = self.kept_bytes.saturating_sub(batch.bytes());
            if let Some(proof) = &batch.proof {
                self.by_height.remove(&proof.statement.height);
            }
            self.unname(number, &batch);
        }
    }
}
