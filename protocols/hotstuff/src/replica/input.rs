//! What the local user asks: order a payload, take note of what was applied, prove an entry, wait behind a barrier.

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::{Delivered, Position, Refusal, Submit, Ticket};
use synod_wire::{Bytes, List};

use super::state::Core;
use crate::block::Item;
use crate::message::FORWARD_MAX;
use crate::pool::Source;
use crate::{Message, Rule, View};

/// Most barriers and most proofs waited for; beyond it the user is refused, or answered that there is none.
pub(crate) const WAITING_MAX: usize = 4_096;

/// Bytes of items in one `Forward`: with the largest item there is, it fits the frame of its queue.
const FORWARD_BYTES_MAX: usize = 3 << 20;

impl Core {
    /// Dispatches one input.
    pub(crate) fn on_input(&mut self, input: Submit, turn: &mut Turn<'_, Self>) {
        match input {
            Submit::Payload { ticket, payload } => self.on_payload(ticket, payload),
            Submit::Applied { position, root } => self.on_applied(position, root, turn),
            Submit::Prove(position) => self.on_prove(position, turn),
            Submit::Barrier(ticket) => self.on_barrier(ticket, turn),
            Submit::Stuck => self.on_stuck(turn),
        }
    }

    fn on_payload(&mut self, ticket: Ticket, payload: Bytes) {
        if let Err(why) = self.take_payload(ticket, payload) {
            self.out.output(Delivered::Refused { ticket, why });
        }
    }

    fn take_payload(&mut self, ticket: Ticket, payload: Bytes) -> Result<(), Refusal> {
        if !self.may_act() {
            return Err(Refusal::NotReady);
        }
        if payload.len() > self.config.payload_max() {
            return Err(Refusal::TooLarge);
        }
        let item = match Item::new(payload) {
            Some(item) => item,
            None => self.empty_item(),
        };
        if self.pool.add(item.clone(), Source::Local(ticket))? {
            self.filter.admit(&item.id, &mut self.pool);
            self.unforwarded.push(item);
        }
        Ok(())
    }

    /// An empty item of this member, never named before in this incarnation or, by the view, in an earlier one.
    pub(crate) fn empty_item(&mut self) -> Item {
        self.empties += 1;
        Item::empty(self.own(), (self.view.0 << 20) + self.empties)
    }

    /// Puts an empty item into the pool: the chain moves, and supplies what its next commits prove.
    pub(crate) fn add_empty_item(&mut self, turn: &mut Turn<'_, Self>) {
        let item = self.empty_item();
        if self.may_act() && self.pool.add(item.clone(), Source::Own).is_ok() {
            turn.applied(Rule::ProveByEmptyItem);
            self.unforwarded.push(item);
        }
    }

    /// 4.5: accepted items go to the current leader, in one message per turn, and again at a change of term.
    pub(crate) fn forward(&mut self, turn: &mut Turn<'_, Self>) {
        let again = core::mem::take(&mut self.forward_again);
        if !again && self.unforwarded.is_empty() {
            return;
        }
        let mut items = core::mem::take(&mut self.unforwarded);
        // A view can be entered by a certificate whose block, which tells the leader, comes later.
        self.leader = self.leader.or_else(|| self.expected_leader());
        let Some(leader) = self.leader else {
            self.forward_again = true;
            return;
        };
        if leader == self.own() || !self.may_act() {
            return;
        }
        if again {
            items = self.pool.oldest(u64::from(self.config.parameters().block_bytes), FORWARD_MAX);
        }
        if !items.is_empty() {
            turn.applied(Rule::Forward);
            self.send_items(leader, items, turn);
        }
    }

    /// Sends items in as many messages as the frame allows.
    pub(crate) fn send_items(
        &self,
        to: impl Into<synod_machine::To>,
        items: Vec<Item>,
        turn: &mut Turn<'_, Self>,
    ) {
        let to = to.into();
        let limit = usize::try_from(self.config.parameters().block_bytes).unwrap_or(0);
        let limit = (2 * limit).min(FORWARD_BYTES_MAX);
        let (mut part, mut bytes) = (List::default(), 0);
        for item in items {
            let cost = item.cost();
            if bytes + cost > limit || part.len() == FORWARD_MAX {
                turn.send(to, Message::Forward(core::mem::take(&mut part)));
                bytes = 0;
            }
            bytes += cost;
            if part.push(item).is_err() {
                unreachable!("the part was sent when it was full");
            }
        }
        if !part.is_empty() {
            turn.send(to, Message::Forward(part));
        }
    }

    /// 4.10: a barrier returns behind the newest entry that could have been committed by what is known now.
    fn on_barrier(&mut self, ticket: Ticket, turn: &mut Turn<'_, Self>) {
        if self.delivery.barriers.len() >= WAITING_MAX {
            self.out.output(Delivered::Refused { ticket, why: Refusal::Busy { retry_ms: 10 } });
        } else if !self.may_act() {
            self.out.output(Delivered::Refused { ticket, why: Refusal::NotReady });
        } else {
            let view = self.barrier_view();
            self.delivery.barriers.push((ticket, view));
            self.release_barriers(turn);
        }
    }

    /// View of the newest block with items at or below the high QC's block. What is not here may have items: the QC's
    /// own view counts if its block is missing, the highest view a missing ancestor can have if one is.
    fn barrier_view(&self) -> View {
        let digest = self.high.digest;
        let view = |digest: &Hash| self.tree.get(digest).map(|block| block.header.view);
        if view(&digest).is_none() {
            return self.high.view.max(self.newest_committed_items());
        }
        let newest = self.tree.full(digest).first().and_then(view);
        let lowest = self.tree.ancestors(digest).last().and_then(|d| self.tree.get(d));
        let missing = lowest.filter(|_| self.tree.gap(digest).is_some()).map(|b| b.header.justify.view);
        newest.or(missing).unwrap_or_else(|| self.newest_committed_items())
    }

    fn newest_committed_items(&self) -> View {
        let undelivered = self.chain.iter().rev().take_while(|l| l.header.height > self.delivery.height);
        let with_items = undelivered.filter(|l| !l.header.is_empty()).map(|l| l.header.view);
        with_items.max().unwrap_or_default()
    }

    /// Releases the barriers whose view is delivered or conflicts with what is.
    pub(crate) fn release_barriers(&mut self, turn: &mut Turn<'_, Self>) {
        if self.delivery.barriers.is_empty() {
            return;
        }
        let delivered = self.chain.at(self.delivery.height).map_or(View::GENESIS, |l| l.header.view);
        let (ready, waiting): (Vec<_>, Vec<_>) = core::mem::take(&mut self.delivery.barriers)
            .into_iter()
            .partition(|(_, view)| *view <= delivered);
        self.delivery.barriers = waiting;
        for (ticket, _) in ready {
            turn.applied(Rule::Barrier);
            self.out.output(Delivered::Barrier(ticket));
        }
    }

    fn on_prove(&mut self, position: Position, turn: &mut Turn<'_, Self>) {
        let known = position > self.chain.floor().last || self.chain.holding(position).is_some();
        if !known || position == Position(0) || self.delivery.proving.len() >= WAITING_MAX {
            self.out.output(Delivered::Proof { position, proof: None });
            return;
        }
        self.delivery.proving.insert(position);
        self.prove_waiting(true, turn);
    }
}
