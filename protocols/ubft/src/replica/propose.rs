//! Leading a view (Algorithm 2, lines 14 to 17; Algorithm 3, lines 25 to 27).

use synod_machine::{Turn, Wall};
use synod_quorum::NodeId;
use synod_wire::List;

use super::consensus::Consensus;
use crate::batch::{Batch, REQUESTS_MAX, Request, Slot};
use crate::body::Body;
use crate::stream::Stream;
use crate::trace::Rule;

impl Consensus {
    /// The slot that this replica may propose: it leads, shows what it must propose, is not leaving, and nothing it said waits.
    fn next_slot(&self) -> Option<Slot> {
        // What costs nothing to look at first: this is asked behind every event.
        if self.leader() != self.me() || self.own.view != self.view || self.sealing.is_some() {
            return None;
        }
        let next = self.own.next_prepare?;
        let own = self.stream(self.me())?;
        let is_shown = own.view() == self.view && own.may_propose(&self.config);
        if !is_shown || !self.is_said() || !self.can_say() {
            return None;
        }
        // The own stream shows the checkpoint whose window this is.
        ((self.own.low..self.window_end(self.own.low)).contains(&next)).then_some(next)
    }

    /// Whether this replica may propose requests now.
    #[must_use]
    pub fn may_propose(&self) -> bool {
        self.next_slot().is_some_and(|slot| !self.must(slot))
    }

    /// Slots that this leader proposed in its view and that are not known to be decided, with all before them.
    #[must_use]
    pub fn open(&self) -> u64 {
        let known = self.next.max(self.low.low);
        self.own.next_prepare.map_or(0, |next| next.0.saturating_sub(known.0))
    }

    /// Whether a slot's batch is not for this leader to choose.
    fn must(&self, slot: Slot) -> bool {
        self.stream(self.me()).is_some_and(|own| own.must(slot).is_some())
    }

    pub(super) fn propose(
        &mut self,
        time: Wall,
        requests: List<Request, REQUESTS_MAX>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(slot) = self.next_slot().filter(|slot| !self.must(*slot)) else { return };
        let batch = Batch { origin: self.view, time_ms: time.0, requests };
        self.prepare(slot, batch, turn);
    }

    fn prepare(&mut self, slot: Slot, batch: Batch, turn: &mut Turn<'_, Self>) {
        turn.applied(Rule::A2Propose);
        self.own.next_prepare = Some(Slot(slot.0.saturating_add(1)));
        self.say(&Body::Prepare { view: self.view, slot, batch }, turn);
    }

    /// What a leader says of its own accord: its view, what it must propose, and nothing for the slots between and for those that the
    /// epoch ends with (Alg. 3, lines 25 to 27).
    pub(super) fn lead(&mut self, turn: &mut Turn<'_, Self>) {
        self.show_view(turn);
        self.show_checkpoint(turn);
        let window = usize::try_from(self.config.parameters.window).unwrap_or(0);
        for _ in 0..window {
            let Some(slot) = self.next_slot() else { return };
            let Some(own) = self.stream(self.me()) else { return };
            if let Some(digest) = own.must(slot) {
                let batch = self.works.get(slot).and_then(|work| work.batch(digest));
                let Some(batch) = batch.map(|batch| Batch::clone(batch)) else {
                    let _ = self.work(slot);
                    self.want_batch(slot, digest, turn);
                    return;
                };
                self.prepare(slot, batch, turn);
            } else if self.is_filling(own, slot) {
                turn.applied(Rule::A3Fill);
                let batch = Batch { origin: self.view, time_ms: turn.wall().0, requests: List::default() };
                self.prepare(slot, batch, turn);
            } else {
                return;
            }
            self.settle(turn);
        }
    }

    /// Whether a slot is below one that must be proposed, or below the end of the epoch.
    fn is_filling(&self, own: &Stream, slot: Slot) -> bool {
        own.last_must().is_some_and(|last| slot < last) || self.end().is_some_and(|end| slot < end)
    }

    /// The leader of the view that this replica is in, if it is not this replica.
    #[must_use]
    pub fn follows(&self) -> Option<NodeId> {
        Some(self.leader()).filter(|leader| *leader != self.me())
    }
}
