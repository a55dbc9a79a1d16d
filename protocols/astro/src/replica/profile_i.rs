//! What only profile I does: batches are endorsed as a whole, in their turn, and what is not funded waits in its log (Listings 2 to 5).
//!
//! A batch that may not be endorsed yet holds its lane up, and nobody else's: its representative saw settle what it rests on, so
//! all others will. What more of a lane waits for money than its representative may let wait holds it up as well.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_ledger::{Entry, EntryId};
use synod_machine::Turn;
use synod_machine::broadcast::Lot;

use super::{Carrier, Replica};
use crate::batch::Opened;
use crate::trace::Rule;
use crate::waits::Cause;

/// What stood before a batch was looked at.
#[derive(Default)]
pub(super) struct Before {
    placed: BTreeSet<EntryId>,
    stirred: BTreeSet<Cause>,
}

impl<B: Carrier> Replica<B> {
    /// Certified entries of one lane that may wait: what its representative may let wait, and what is under way to a member that is
    /// behind.
    fn waiting_max(&self) -> u64 {
        let parameters = &self.config.parameters;
        let under_way = parameters.lane_window.saturating_mul(u64::from(parameters.batch_max));
        under_way.saturating_add(u64::from(parameters.unfunded_max))
    }

    /// Whether so much of a lane waits for money that this batch is not endorsed.
    pub(super) fn is_crowded(&self, opened: &Opened) -> bool {
        let count = opened.digests.len() as u64;
        let is_full = |lane: &super::Lane| lane.unsettled.saturating_add(count) > self.waiting_max();
        let lane = self.lanes.get(&opened.lot().source);
        self.config.parameters.profile.is_whole() && lane.is_some_and(is_full)
    }

    /// What stands as it does while a batch is looked at that may be held: entries of it that have their places here already, by this
    /// node's desk or an earlier batch.
    pub(super) fn before(&self, opened: &Opened) -> Before {
        if !self.config.parameters.profile.is_whole() {
            return Before::default();
        }
        let ids = opened.lines().map(|(_, line, _)| line.entry.id);
        let placed = ids.filter(|id| self.ledger.slot(*id).is_some()).collect();
        Before { placed, stirred: self.ledger.stirred().clone() }
    }

    /// What was accepted of a batch that is held is promised to nobody: nothing may be endorsed behind it, its place is free, and
    /// nobody was woken by it, or two batches that are held would wake each other for ever.
    pub(super) fn take_back(&mut self, opened: &Opened, before: Before) {
        for (_, line, digest) in opened.lines().filter(|(_, line, _)| !before.placed.contains(&line.entry.id))
        {
            self.ledger.unaccept(line.entry.id, digest);
        }
        self.ledger.stirred_before(before.stirred);
    }

    /// The next batch of a lane is not endorsed yet.
    pub(super) fn hold(&mut self, opened: &Arc<Opened>, is_crowded: bool, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::Hold);
        let Lot { source, sequence } = opened.lot();
        let lane = self.lane_mut(source);
        lane.held = Some((sequence, is_crowded));
        lane.waiting.insert(sequence, Arc::clone(opened));
    }

    /// Whether a batch was held, and may be judged now.
    pub(super) fn release(&mut self, lot: Lot) -> bool {
        let lane = self.lane_mut(lot.source);
        let is_held = lane.held.is_some_and(|(sequence, _)| sequence == lot.sequence);
        if is_held {
            lane.held = None;
        }
        is_held
    }

    /// Lanes that were held because they are crowded, and are no more, go on.
    pub(super) fn let_in_again(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.config.parameters.profile.is_whole() {
            return;
        }
        let held = self.lanes.iter().filter_map(|(source, lane)| {
            let (sequence, _) = lane.held.filter(|(_, is_crowded)| *is_crowded)?;
            let opened = lane.waiting.get(&sequence).filter(|opened| !self.is_crowded(opened));
            opened.map(|_| *source)
        });
        for source in held.collect::<Vec<u8>>() {
            self.lane_mut(source).held = None;
            self.go_on(source, turn);
        }
    }

    /// Whether an order that is not funded has no place in the queue.
    pub(super) fn has_no_queue(&self, entry: &Entry) -> bool {
        let is_full = self.desk.queued_count() >= self.config.parameters.unfunded_max;
        is_full && !self.ledger.is_funded(entry)
    }

    /// After a restart: what may wait for money is counted again. What is on its way counts, whether it is funded or not: more than that
    /// at the others would hold the lane up, with all of it that is funded.
    pub(super) fn queue_again(&mut self) {
        if !self.config.parameters.profile.is_whole() {
            return;
        }
        let source = self.me();
        let own = self.ledger.open().flat_map(|(_, xlog)| xlog.slots());
        let own = own.map(|slot| slot.line.entry.id).filter(|id| self.ledger.is_carried_by(*id, source));
        let own: Vec<EntryId> = own.collect();
        self.desk.queue(own);
    }
}
