//! Leaving a view (Algorithm 3, lines 1 to 6; specification, 4.13): promises are honoured before it is sealed.
//!
//! Of every slot with a WILL_CERTIFY (or, of the leader, a PREPARE) of the view the signature is given; of every slot with a WILL_COMMIT
//! the certificate is shown, or a checkpoint covers it. Only then SEAL_VIEW is said. While a view is being sealed no new promise is made
//! in it (E13). It ends: n WILL_CERTIFY mean f + 1 correct replicas that sign, at any time and in any view.

use synod_crypto::Hash;
use synod_machine::{Turn, planted};

use super::consensus::Consensus;
use super::words::{Told, Want};
use crate::batch::{Slot, View};
use crate::body::Body;
use crate::stream::Stream;
use crate::trace::Rule;

impl Consensus {
    /// Begins to leave for a view; a later target takes the place of one that is not reached.
    pub(super) fn change_view(&mut self, to: View, turn: &mut Turn<'_, Self>) {
        if to <= self.view || self.sealing.is_some_and(|target| target >= to) {
            return;
        }
        let is_new = self.sealing.replace(to).is_none();
        if is_new {
            turn.applied(Rule::A3Change);
            self.certify_promised(turn);
            self.miss_shares(turn);
        }
    }

    /// What this replica promised to certify in its view; a leader by proposing it (D5).
    fn promises(&self) -> Vec<(Slot, Hash)> {
        let (view, me) = (self.view, self.me());
        let promised = self.works.from(self.low.low).filter_map(|(slot, work)| {
            let promise = work.ballot.promised().iter().find(|(promised, _)| *promised == view)?;
            Some((slot, promise.1))
        });
        let own = self.stream(me).filter(|own| self.leader() == me && own.view() == view);
        let proposed = own.into_iter().flat_map(Stream::prepares).filter(|(slot, _)| *slot >= self.low.low);
        promised.chain(proposed).collect()
    }

    /// Signs what this replica promised to certify in its view (E12).
    fn certify_promised(&mut self, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        for (slot, digest) in self.promises().into_iter().filter(|_| !planted!(V1)) {
            if self.works.get_mut(slot).is_some_and(|work| work.ballot.certify(view, digest)) {
                turn.applied(Rule::A3Honour);
                self.sign_proposal(view, slot, digest, turn);
            }
        }
    }

    /// Slots whose promise to commit is not honoured: neither a certificate is shown nor a checkpoint that covers them.
    fn unhonoured(&self) -> impl Iterator<Item = Slot> {
        let (view, shown) = (self.view, self.own.low);
        self.works
            .from(shown)
            .filter(move |(_, work)| work.ballot.is_committing(view) && !work.ballot.is_committed(view))
            .map(|(slot, _)| slot)
    }

    /// Asks for signatures that are missing for the view to be left.
    pub(super) fn miss_shares(&mut self, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        let slots: Vec<Slot> = self.unhonoured().collect();
        for slot in slots.into_iter().take(super::fetch::ANSWERS_MAX) {
            turn.applied(Rule::MissingShare);
            turn.send(self.others(), super::words::Word::Fetch(Want::Share { view, slot }));
            self.show_lock(slot, turn);
        }
    }

    /// Lines 4 to 6, once all promises are honoured.
    pub(super) fn try_seal(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(to) = self.sealing else { return };
        let (view, me) = (self.view, self.me());
        // Promises may have been freed by a checkpoint: the own stream shows it first (E38).
        self.show_checkpoint(turn);
        let is_shown = planted!(V14) || self.own.low >= self.low.low;
        let slots: Vec<Slot> = self.works.from(self.own.low).map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.try_commit(slot, turn));
        self.certify_promised(turn);
        let has_share = |(slot, _): &(Slot, Hash)| {
            self.works.get(*slot).is_none_or(|work| work.ballot.has_share(me, view))
        };
        let is_signed = planted!(V1) || self.promises().iter().all(has_share);
        let is_honoured = planted!(U9) || self.unhonoured().next().is_none();
        // A proposal that waits in the own stream behind a certificate that is being checked is a promise like any other.
        let is_applied = self.lanes.get(&me).is_some_and(|lane| lane.waiting.is_empty());
        if !is_shown || !is_applied || !self.is_said() || !is_signed || !is_honoured {
            return;
        }
        turn.applied(Rule::A3Seal);
        self.sealing = None;
        self.view = to;
        self.own.view = to;
        self.own.is_shown = false;
        self.own.next_prepare = None;
        self.left
            .retain(|_, claim| matches!(claim.statement, crate::Statement::Left { view, .. } if view >= to));
        self.say(&Body::SealView(to), turn);
        self.suspicion.enter(turn.now());
        self.suspicion.look();
        turn.output(Told::View(to));
        self.adopt_view(turn);
    }
}
