//! Telling clients what became of their messages (4.5, step 18).

use synod_machine::Span;
use synod_quorum::NodeId;

use super::job::LEAF_ENTRIES;
use super::open::{Batch, Phase};
use super::{Broker, Step, Timer};
use crate::message::{ClientMessage, Delivery};
use crate::trace::Rule;

/// Times that a delivery is sent on the broker's own account.
const ROUNDS_MAX: u32 = 5;
/// Wait before a delivery is sent again, doubled each time.
const RESEND: Span = Span::millis(200);

impl Broker {
    /// Step 18. Those that did not sign are shown their place first, for they cannot read the delivery without it.
    pub(super) fn respond(&mut self, number: u64, turn: &mut Step<'_>) {
        turn.applied(Rule::Step18);
        let Some(messages) = self.batches.get(&number).and_then(Batch::messages) else { return };
        let open = (0_u32..).zip(&messages.slots).filter(|(_, slot)| !slot.acknowledged);
        let open: Vec<(u32, bool)> = open.map(|(index, slot)| (index, slot.signs)).collect();
        if open.is_empty() {
            return;
        }
        for (index, signs) in open {
            if !signs {
                self.show(number, index, None, turn);
            }
            self.respond_to(number, index, None, turn);
        }
        turn.arm(Timer::Resend(number, 0), RESEND);
    }

    pub(super) fn respond_again(&mut self, number: u64, turn: &mut Step<'_>) {
        let Some(proof) = self.batches.get_mut(&number).and_then(|batch| batch.proof.as_mut()) else {
            return;
        };
        proof.rounds += 1;
        let rounds = proof.rounds;
        if rounds < ROUNDS_MAX {
            self.respond(number, turn);
            turn.arm(Timer::Resend(number, 0), RESEND.times(1 << rounds));
        }
    }

    /// Sends one client its delivery: on this link, or on those that carried its submission.
    pub(super) fn respond_to(&self, number: u64, index: u32, link: Option<NodeId>, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get(&number).filter(|batch| batch.phase == Phase::Delivered) else {
            return;
        };
        let (Some(messages), Some(proof)) = (batch.messages(), &batch.proof) else { return };
        let Some(slot) = messages.slots.get(index as usize) else { return };
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
        let to: Vec<NodeId> = link.map_or_else(|| slot.admitted.carriers.iter().collect(), |link| vec![link]);
        for link in to {
            Self::tell(link, ClientMessage::Delivery(Box::new(delivery.clone())), turn);
        }
    }

    /// The clients of this link have their delivery of this height.
    pub(super) fn on_ack(&mut self, link: NodeId, height: u64) {
        let numbers: Vec<u64> = self.kept.iter().copied().collect();
        for number in numbers {
            let Some(batch) = self.batches.get_mut(&number) else { continue };
            if batch.proof.as_ref().is_none_or(|proof| proof.statement.height != height) {
                continue;
            }
            let Some(messages) = batch.messages_mut() else { continue };
            let all = messages.carried.range((link, 0)..=(link, u32::MAX)).map(|(_, index)| *index);
            let all: Vec<u32> = all.collect();
            for index in all {
                if let Some(slot) = messages.slot_mut(index) {
                    slot.acknowledged = true;
                }
            }
        }
    }

    /// A delivered batch is no longer kept for those who ask again.
    pub(super) fn forget(&mut self, number: u64, turn: &mut Step<'_>) {
        if !self.kept.remove(&number) {
            return;
        }
        turn.disarm(Timer::Keep(number));
        if let Some(batch) = self.batches.remove(&number) {
            self.kept_bytes = self.kept_bytes.saturating_sub(batch.bytes());
            self.unname(number, &batch);
        }
    }
}
