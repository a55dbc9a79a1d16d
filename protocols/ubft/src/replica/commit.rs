//! What is decided (Algorithm 2, lines 38 to 41), and how it is handed over in order.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_quorum::NodeId;

use super::consensus::Consensus;
use super::words::Told;
use crate::batch::{Batch, Slot, View};
use crate::certificate::Certified;
use crate::trace::Rule;

impl Consensus {
    /// A replica's stream shows a certificate: with f + 1 that show it of one view it is decided, whatever the own view (E14).
    pub(super) fn on_committed(&mut self, from: NodeId, certified: Certified, turn: &mut Turn<'_, Self>) {
        let Certified { view, slot, digest } = certified;
        let need = self.one_correct();
        let Some(work) = self.work(slot) else { return };
        if let Some(digest) = work.ballot.committed(from, view, digest, need) {
            turn.applied(Rule::A2DecideSlow);
            work.is_slow |= work.ballot.decided().is_none();
            self.decide(slot, digest, turn);
        }
    }

    /// Certificates that streams show of slots that are kept now, and were not when they came.
    pub(super) fn count_commits(&mut self, turn: &mut Turn<'_, Self>) {
        let rows = |(id, lane): (&NodeId, &super::work::Lane)| {
            let id = *id;
            lane.stream.commits().map(move |row| (id, row)).collect::<Vec<_>>()
        };
        let shown: Vec<_> = self.lanes.iter().flat_map(rows).collect();
        for (id, row) in shown {
            let certified = Certified { view: row.view, slot: row.slot, digest: row.digest };
            self.on_committed(id, certified, turn);
        }
    }

    pub(super) fn decide(&mut self, slot: Slot, digest: Hash, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        let Some(work) = self.works.get_mut(slot) else { return };
        match work.ballot.decide(digest) {
            Err(_) => turn.output(Told::Broken(slot)),
            Ok(false) => {}
            Ok(true) => {
                let (now, since) = (turn.now(), work.since);
                since.into_iter().for_each(|since| self.pace.decided(now.since(since)));
                if work.ballot.proposed().is_some_and(|(proposed, _)| proposed == view) {
                    let is_must = self.stream(self.leader()).is_some_and(|own| own.must(slot).is_some());
                    let first = self.config.parameters.suspect;
                    self.suspicion.decided((first, is_must), since.unwrap_or(now), now);
                }
                if self.works.get(slot).is_some_and(|work| work.batch(digest).is_none()) {
                    self.want_batch(slot, digest, turn);
                }
                self.hand_over(turn);
            }
        }
    }

    /// Gives what is decided to the user, slot by slot.
    pub(super) fn hand_over(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some(work) = self.works.get(self.next) {
            let Some(digest) = work.ballot.decided() else { break };
            // Whoever has the batch may have let it go: below a checkpoint the log is asked instead.
            let Some(batch) = work.batch(digest).cloned() else { break };
            let (slot, is_slow) = (self.next, work.is_slow);
            self.next = Slot(slot.0.saturating_add(1));
            turn.output(Told::Decided { slot, digest, batch, is_slow });
        }
        self.prune();
        if self.next < self.low.low && self.behind != Some(self.low.low) {
            self.behind = Some(self.low.low);
            turn.output(Told::Behind { from: self.next, to: self.low.low });
        }
    }

    /// A batch was found.
    pub(super) fn on_batch(
        &mut self,
        slot: Slot,
        digest: Hash,
        batch: Arc<Batch>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(work) = self.works.get_mut(slot) else { return };
        work.keep(digest, batch);
        self.judge(slot, turn);
        self.consider(slot, turn);
        self.hand_over(turn);
    }

    /// The user executed everything below by other means.
    pub(super) fn resume(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        if slot > self.next {
            self.next = slot;
            self.behind = None;
            self.hand_over(turn);
            self.consider_all(turn);
        }
    }

    /// The user's state is another one: what was handed over is handed over again, or fetched.
    pub(super) fn go_to(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        self.next = slot;
        self.behind = None;
        self.hand_over(turn);
        self.consider_all(turn);
    }

    /// The newest proposal of a slot, and its view.
    #[must_use]
    pub fn proposed(&self, slot: Slot) -> Option<(View, Hash)> {
        self.works.get(slot).and_then(|work| work.ballot.proposed())
    }
}
