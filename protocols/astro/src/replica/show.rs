//! What receipts are made from, on its way to the user: certificates of batches that concern this node's accounts, or of all. They are told
//! before what they settle, and again after a restart until more than that is kept; the last batches of this node's own lane are
//! told again always, for their receipts may not have come before.

use std::collections::VecDeque;
use std::sync::Arc;

use synod_machine::Turn;
use synod_machine::broadcast::Lot;

use super::{Carrier, Replica};
use crate::batch::Opened;
use crate::words::Output;

impl<B: Carrier> Replica<B> {
    /// Whether the user is told of this batch: somebody may ask this node for a receipt of an entry, for its own accounts pay or are
    /// paid, or the user keeps all.
    pub(super) fn concerns(&self, opened: &Opened) -> bool {
        self.config.parameters.shows_all || concerns(self.me(), opened)
    }

    /// How many of a lane's last batches are held though all of them is certified.
    pub(super) fn recent(&self, source: u8) -> u64 {
        if source == self.me() { self.config.parameters.lane_window } else { 0 }
    }

    /// The user is to be told of a certificate, behind so many settled entries.
    pub(super) fn expect_kept(&mut self, position: u64, lot: Lot) {
        self.shown.push_back((position, lot));
        if self.shown.len() as u64 > self.shown_max() {
            // That batch is let go of when it is too old.
            self.shown.pop_front();
        }
    }

    /// As many as there are batches.
    pub(super) fn shown_max(&self) -> u64 {
        let parameters = &self.config.parameters;
        self.lanes.len() as u64 * (2 * parameters.lane_window + parameters.retain)
    }

    /// The user keeps all entries up to this position, and what it was told before them.
    pub(super) fn let_go_shown(&mut self, position: u64) {
        while let Some((at, lot)) = self.shown.front().copied().filter(|(at, _)| *at < position) {
            self.shown.pop_front();
            let recent = self.recent(lot.source);
            let lane = self.lane_mut(lot.source);
            let Some(batch) = lane.batches.get_mut(&lot.sequence).filter(|batch| batch.shown == Some(at))
            else {
                continue;
            };
            batch.shown = None;
            lane.close(lot.sequence, recent);
        }
    }

    /// Tells the user what proves entries of a batch.
    pub(super) fn tell_certificate(&self, opened: &Arc<Opened>, turn: &mut Turn<'_, Self>) {
        let proofs = self.broadcast.get().proofs(opened.lot().into());
        if !proofs.is_empty() && self.concerns(opened) {
            turn.output(Output::Certified { opened: Arc::clone(opened), proofs });
        }
    }

    /// After a restart: certificates that the user may not have kept are told again.
    pub(super) fn tell_shown(&mut self, turn: &mut Turn<'_, Self>) {
        let (kept, me, all) = (self.feed.kept(), self.me(), self.config.parameters.shows_all);
        let mut again: Vec<Arc<Opened>> = Vec::new();
        let batches = self.lanes.values_mut().flat_map(|lane| lane.batches.values_mut());
        for batch in batches.filter(|batch| batch.certified.is_some()) {
            if let Some(opened) = batch.opened.as_ref().filter(|opened| all || concerns(me, opened)) {
                again.push(Arc::clone(opened));
                batch.shown = Some(kept);
            }
        }
        self.shown = again.iter().map(|opened| (kept, opened.lot())).collect::<VecDeque<_>>();
        for opened in again {
            self.tell_certificate(&opened, turn);
        }
    }
}

fn concerns(me: u8, opened: &Opened) -> bool {
    let is_ours = |registrar: u32| registrar == u32::from(me);
    opened.lot().source == me
        || opened.batch.lines.iter().any(|line| {
            is_ours(line.entry.id.spender.registrar)
                || line.entry.names().any(|account| is_ours(account.registrar))
        })
}
