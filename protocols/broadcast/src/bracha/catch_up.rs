//! Those who are behind: votes said again, payloads served, and how far everybody is.

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::Broadcast;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, List};

use super::slot::Open;
use super::{Bracha, Job, Message, Timer, Vote};
use crate::Lot;
use crate::fault::Fault;
use crate::slots::Where;
use crate::trace::Rule;

impl Bracha {
    /// A start, first or again: what was promised is said again, and everybody is told how far this node is.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        let open = self.lanes.iter().flat_map(|(source, lane)| {
            lane.open().map(|(sequence, slot)| (Lot { source: *source, sequence }, slot.stored))
        });
        let open: Vec<_> = open.collect();
        for (lot, stored) in open {
            if let Some(digest) = stored {
                turn.load(digest);
            }
            self.wait(lot, turn);
        }
        turn.arm(Timer::Frontier, self.config.bounds.frontier_every);
    }

    /// Votes of a slot that is not delivered are said again, and everybody else is asked for theirs.
    pub(super) fn on_resend_due(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (others, longest) = (self.others(), self.config.bounds.resend_max);
        let slot = self.lanes.get_mut(&lot.source).and_then(|lane| lane.slot(lot.sequence));
        let Some(waiting) = slot.and_then(|slot| slot.resend.as_mut()) else { return };
        let next = waiting.again(longest);
        self.patience.say_again(lot.source, waiting);
        turn.arm(Timer::Resend(lot), next);
        turn.send(others, Message::Ask(lot));
        self.say_again(lot, others, turn);
    }

    /// Everything this node ever said about a slot, as far as it is kept.
    fn say_again(&self, lot: Lot, to: NodeSet, turn: &mut Turn<'_, Self>) {
        if let Some(digest) = self.kept.get(&lot) {
            return turn.send(to, Message::Ready(Vote { lot, digest: *digest }));
        }
        let Some(slot) = self.lanes.get(&lot.source).and_then(|lane| lane.get(lot.sequence)) else { return };
        if let Some((_, payload)) = slot.proposed.as_ref().filter(|_| lot.source == self.me()) {
            self.send_payload(lot, payload, turn);
        }
        if let Some(digest) = slot.echoed {
            turn.send(to, Message::Echo(Vote { lot, digest }));
        }
        if let Some(digest) = slot.readied {
            turn.send(to, Message::Ready(Vote { lot, digest }));
        }
    }

    pub(super) fn on_ask(&self, from: NodeId, lot: Lot, turn: &mut Turn<'_, Self>) {
        self.say_again(lot, NodeSet::only(from), turn);
    }

    /// A payload is wanted: from memory, or from the disk.
    pub(super) fn on_pull(&mut self, from: NodeId, vote: Vote, turn: &mut Turn<'_, Self>) {
        let slot = self.lanes.get(&vote.lot.source).and_then(|lane| lane.get(vote.lot.sequence));
        if let Some(payload) = slot.and_then(|slot| slot.payload(vote.digest)) {
            return serve(NodeSet::only(from), vote.lot, payload, turn);
        }
        if self.kept.get(&vote.lot) != Some(&vote.digest) {
            return;
        }
        let (_, wanting) = self.wanted.entry(vote.digest).or_insert((vote.lot, NodeSet::EMPTY));
        if wanting.insert(from) && wanting.count() == 1 {
            turn.load(vote.digest);
        }
    }

    /// A payload was read: for peers, or this node's own after a start.
    pub(super) fn on_loaded(&mut self, name: Hash, bytes: Option<Bytes>, turn: &mut Turn<'_, Self>) {
        if let Some((lot, wanting)) = self.wanted.remove(&name)
            && let Some(payload) = &bytes
        {
            serve(wanting, lot, payload, turn);
        }
        let Some(payload) = bytes else { return };
        let waits = |slot: &Open| slot.stored == Some(name) && slot.proposed.is_none();
        let lots = self.lanes.iter().flat_map(|(source, lane)| {
            let waiting = lane.open().filter(|(_, slot)| waits(slot));
            waiting.map(|(sequence, _)| Lot { source: *source, sequence })
        });
        let lots: Vec<Lot> = lots.collect();
        for lot in lots {
            self.on_own_loaded(lot, name, &payload, turn);
        }
    }

    /// The payload of an open slot, which an earlier life stored: the runtime checked its digest.
    fn on_own_loaded(&mut self, lot: Lot, digest: Hash, payload: &Bytes, turn: &mut Turn<'_, Self>) {
        let is_mine = lot.source == self.me();
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        slot.proposed = Some((digest, payload.clone()));
        let is_open = slot.echoed.is_none();
        if is_mine {
            self.send_payload(lot, payload, turn);
        }
        if is_open {
            turn.output(Broadcast::Proposed { slot: lot.into(), payload: payload.clone() });
        }
        self.deliver(lot.source, turn);
    }

    /// A payload that was asked for.
    pub(super) fn on_pulled(&mut self, from: NodeId, lot: Lot, payload: Bytes, turn: &mut Turn<'_, Self>) {
        if self.is_too_long(&payload) {
            return turn.blame(from, Fault::TooLong);
        }
        let slot = self.lanes.get(&lot.source).and_then(|lane| lane.get(lot.sequence));
        if slot.is_some_and(|slot| slot.pull.is_some()) {
            turn.compute(Job { from, lot, payload });
        }
    }

    /// How far a member is. What f + 1 members delivered was delivered by a correct one, so its votes exist (totality).
    pub(super) fn on_frontier(&mut self, from: NodeId, lots: List<Lot, 128>, turn: &mut Turn<'_, Self>) {
        let Ok(member) = u8::try_from(from.0) else { return };
        self.frontiers.insert(member, lots.into_vec());
        for (source, sequence) in self.ahead() {
            let lot = Lot { source, sequence };
            let is_new = self.lanes.get(&source).is_some_and(|lane| lane.get(sequence).is_none());
            if is_new {
                turn.applied(Rule::CatchUp);
                self.wait(lot, turn);
                turn.send(self.others(), Message::Ask(lot));
            }
        }
    }

    /// Slots within the windows that f + 1 members delivered and this node did not.
    fn ahead(&self) -> Vec<(u8, u64)> {
        let mut ahead = Vec::new();
        for (source, lane) in &self.lanes {
            let claims =
                self.frontiers.values().filter_map(|lots| lots.iter().find(|lot| lot.source == *source));
            let mut claims: Vec<u64> = claims.map(|lot| lot.sequence).collect();
            claims.sort_unstable_by(|one, other| other.cmp(one));
            let correct = usize::try_from(self.quorums.faulty()).unwrap_or(usize::MAX);
            let Some(reached) = claims.get(correct) else { continue };
            let first = lane.delivered().saturating_add(1);
            let within = (first..=*reached).take_while(|sequence| lane.place(*sequence) == Where::Within);
            ahead.extend(within.map(|sequence| (*source, sequence)));
        }
        ahead
    }

    /// Says how far this node is, where that is news or somebody is behind.
    pub(super) fn on_frontier_due(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Frontier, self.config.bounds.frontier_every);
        let lots =
            self.lanes.iter().map(|(source, lane)| Lot { source: *source, sequence: lane.delivered() });
        let lots: Vec<Lot> = lots.filter(|lot| lot.sequence > 0).collect();
        let reached = far(&lots);
        let is_behind = |member: NodeId| {
            let said = u8::try_from(member.0).ok().and_then(|member| self.frontiers.get(&member));
            said.map_or(0, |said| far(said)) < reached
        };
        let somebody = self.others().iter().any(is_behind);
        if reached > self.said || (somebody && reached > 0) {
            self.said = reached;
            let lots = List::try_from(lots).expect("a lane per member at most");
            turn.send(self.others(), Message::Frontier(lots));
        }
    }
}

/// Slots delivered, over all sources.
fn far(lots: &[Lot]) -> u64 {
    lots.iter().fold(0, |sum, lot| sum.saturating_add(lot.sequence))
}

fn serve(to: NodeSet, lot: Lot, payload: &Bytes, turn: &mut Turn<'_, Bracha>) {
    let payload = Blob::try_from(payload.clone()).expect("the configuration bounds payloads");
    turn.send(to, Message::Pulled { lot, payload });
}
