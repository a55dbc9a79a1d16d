//! From a payload to its delivery (Listing 5, lines 8 to 34).

use synod_crypto::Hash;
use synod_machine::broadcast::{Broadcast, Except};
use synod_machine::{Turn, planted};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

use super::slot::Open;
use super::{Bracha, Hashed, Job, Message, Record, Timer, Vote};
use crate::Lot;
use crate::fault::Fault;
use crate::patience::{Waiting, doubled};
use crate::slots::{Counted, Where};
use crate::trace::Rule;

impl Bracha {
    /// A payload came for a slot of its sender.
    pub(super) fn on_prepare(
        &mut self,
        from: NodeId,
        sequence: u64,
        payload: Bytes,
        turn: &mut Turn<'_, Self>,
    ) {
        let Ok(source) = u8::try_from(from.0) else { return };
        let lot = Lot { source, sequence };
        if self.is_too_long(&payload) {
            return turn.blame(from, Fault::TooLong);
        }
        match self.place(lot) {
            None => return turn.blame(from, Fault::NotItsSlot),
            Some(Where::Behind | Where::Beyond) => return,
            Some(Where::Within) => {}
        }
        let slot = self.lanes.get(&source).and_then(|lane| lane.get(sequence));
        match slot.and_then(|slot| slot.proposed.as_ref()) {
            None => turn.compute(Job { from, lot, payload }),
            Some((_, first)) if *first == payload => {}
            Some(_) => turn.blame(from, Fault::TwoPayloads),
        }
    }

    pub(super) fn is_too_long(&self, payload: &Bytes) -> bool {
        u32::try_from(payload.len()).is_ok_and(|long| long > self.config.bounds.payload_max)
    }

    /// A payload is hashed: this node's own, a proposed one, or one that was asked for.
    pub(super) fn on_hashed(&mut self, hashed: Hashed, turn: &mut Turn<'_, Self>) {
        let Hashed { job: Job { from, lot, payload }, digest } = hashed;
        let is_mine = from == self.config.me;
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        if slot.decided == Some(digest) && slot.payload(digest).is_none() {
            slot.pulled = Some((digest, payload));
            slot.pull = None;
            turn.disarm(Timer::Pull(lot));
            return self.deliver(lot.source, turn);
        }
        if u32::from(lot.source) != from.0 {
            return;
        }
        let stored = slot.stored;
        if is_mine && stored.is_some_and(|stored| stored != digest) {
            return;
        }
        match &slot.proposed {
            Some((first, _)) if *first == digest => return,
            Some(_) => return turn.blame(from, Fault::TwoPayloads),
            None => slot.proposed = Some((digest, payload.clone())),
        }
        if is_mine {
            // Listing 5, lines 3 and 4.
            match stored {
                // An earlier life promised it, and its disk may have lost it.
                Some(_) => turn.store(digest, payload.clone()),
                None => {
                    self.store(lot, digest, &payload, turn);
                    turn.persist(Record::Mine { sequence: lot.sequence, digest });
                }
            }
            turn.applied(Rule::L5Prepare);
            self.send_payload(lot, &payload, turn);
        }
        self.wait(lot, turn);
        turn.output(Broadcast::Proposed { slot: lot.into(), payload });
    }

    /// Puts the payload of a slot on the disk, once.
    fn store(&mut self, lot: Lot, digest: Hash, payload: &Bytes, turn: &mut Turn<'_, Self>) {
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        if slot.stored.is_none() {
            slot.stored = Some(digest);
            *self.stored.entry(digest).or_default() += 1;
            turn.store(digest, payload.clone());
        }
    }

    /// Takes the payload of one slot off the disk, unless that of another slot is the same.
    fn release(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(slots) = self.stored.get_mut(&digest) else { return };
        *slots -= 1;
        if *slots == 0 {
            self.stored.remove(&digest);
            turn.erase(digest);
        }
    }

    pub(super) fn send_payload(&self, lot: Lot, payload: &Bytes, turn: &mut Turn<'_, Self>) {
        let payload = Blob::try_from(payload.clone()).expect("the configuration bounds payloads");
        turn.send(self.others(), Message::Prepare { sequence: lot.sequence, payload });
    }

    /// Listing 5, lines 11 to 13: the user endorses all of the payload, or not yet.
    pub(super) fn on_judged(&mut self, lot: Lot, digest: Hash, endorsed: bool, turn: &mut Turn<'_, Self>) {
        let members = self.config.members;
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        let Some((proposed, payload)) = &slot.proposed else { return };
        if !endorsed || *proposed != digest || slot.echoed.is_some() {
            return;
        }
        slot.echoed = Some(digest);
        let payload = payload.clone();
        self.store(lot, digest, &payload, turn);
        let vote = Vote { lot, digest };
        turn.persist(Record::Echoed(vote));
        turn.applied(Rule::L5Echo);
        turn.send(members, Message::Echo(vote));
    }

    /// Listing 5, lines 17 to 21.
    pub(super) fn on_echo(&mut self, from: NodeId, vote: Vote, turn: &mut Turn<'_, Self>) {
        let quorums = self.quorums;
        let Some(slot) = self.lane(vote.lot.source).and_then(|lane| lane.slot(vote.lot.sequence)) else {
            return;
        };
        match slot.echoes.add(from, vote.digest) {
            Counted::Again => return,
            Counted::Contradicts(said) => {
                return turn.blame(from, Fault::TwoEchoes.with(&(Vote { digest: said, ..vote }, vote)));
            }
            Counted::New(voters) => {
                if quorums.intersects(voters) {
                    self.ready(vote, Rule::L5ReadyByEchoes, turn);
                }
            }
        }
        self.wait(vote.lot, turn);
    }

    /// Once per slot, whatever made it so.
    fn ready(&mut self, vote: Vote, why: Rule, turn: &mut Turn<'_, Self>) {
        let members = self.config.members;
        let Some(slot) = self.lane(vote.lot.source).and_then(|lane| lane.slot(vote.lot.sequence)) else {
            return;
        };
        if slot.readied.is_some() {
            return;
        }
        slot.readied = Some(vote.digest);
        turn.persist(Record::Readied(vote));
        turn.applied(why);
        turn.send(members, Message::Ready(vote));
    }

    /// Listing 5, lines 25 to 34.
    pub(super) fn on_ready(&mut self, from: NodeId, vote: Vote, turn: &mut Turn<'_, Self>) {
        let quorums = self.quorums;
        let Some(slot) = self.lane(vote.lot.source).and_then(|lane| lane.slot(vote.lot.sequence)) else {
            return;
        };
        let voters = match slot.readies.add(from, vote.digest) {
            Counted::Again => return,
            Counted::Contradicts(said) => {
                return turn.blame(from, Fault::TwoReadies.with(&(Vote { digest: said, ..vote }, vote)));
            }
            Counted::New(voters) => voters,
        };
        let decides = voters.count() >= quorums.majority_correct();
        if decides {
            slot.decided = Some(vote.digest);
        }
        if quorums.has_correct(voters) || planted!(A9) && voters.count() >= quorums.faulty() {
            self.ready(vote, Rule::L5ReadyByReady, turn);
        }
        if decides {
            self.pull(vote.lot, turn);
            self.deliver(vote.lot.source, turn);
        }
        self.wait(vote.lot, turn);
    }

    /// Delivers a source's slots in order, as far as they are decided on and here. What is delivered lets the next be (E7).
    pub(super) fn deliver(&mut self, source: u8, turn: &mut Turn<'_, Self>) {
        let retain = self.config.bounds.retain;
        let mut delivered = 0_u32;
        loop {
            let Some(lane) = self.lanes.get_mut(&source) else { return };
            let Some((digest, payload)) = lane.next().and_then(Open::deliverable) else { break };
            let payload = payload.clone();
            let slot = lane.deliver().expect("the next slot is open");
            let lot = Lot { source, sequence: lane.delivered() };
            if slot.stored != Some(digest) {
                // Whoever is behind may ask for it here.
                *self.stored.entry(digest).or_default() += 1;
                turn.store(digest, payload.clone());
                if let Some(other) = slot.stored {
                    self.release(other, turn);
                }
            }
            if let Some(waited) = slot.resend {
                self.patience.done(source, waited, turn.now());
            }
            turn.disarm(Timer::Resend(lot));
            turn.disarm(Timer::Pull(lot));
            turn.applied(if delivered == 0 { Rule::L5Deliver } else { Rule::Successor });
            turn.persist(Record::Delivered(lot));
            self.keep(lot, digest, retain, turn);
            turn.output(Broadcast::Delivered {
                slot: lot.into(),
                payload,
                open: Except::default(),
                proof: None,
            });
            delivered += 1;
        }
    }

    /// Remembers a delivered slot for those behind, and forgets the oldest beyond `retain`.
    fn keep(&mut self, lot: Lot, digest: Hash, retain: u64, turn: &mut Turn<'_, Self>) {
        self.kept.insert(lot, digest);
        let Some(old) = lot.sequence.checked_sub(retain).filter(|old| *old > 0) else { return };
        if let Some(digest) = self.kept.remove(&Lot { sequence: old, ..lot }) {
            self.release(digest, turn);
            self.gone += 1;
        }
        // A snapshot takes as long as what is kept: not one per slot.
        if self.gone >= retain.saturating_mul(u64::from(self.config.members.count())) {
            self.gone = 0;
            turn.compact();
        }
    }

    /// Asks for the payload that was decided on, if it is not here (E5).
    fn pull(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let first = self.config.bounds.pull;
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        let missing = slot.decided.filter(|digest| slot.payload(*digest).is_none());
        if missing.is_none() || slot.pull.is_some() {
            return;
        }
        slot.pull = Some((first, 0));
        turn.applied(Rule::Pull);
        self.on_pull_due(lot, turn);
    }

    /// Asks the next of those who are ready for it.
    pub(super) fn on_pull_due(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, longest) = (self.config.me, self.config.bounds.pull_max);
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        let (Some(digest), Some((wait, asked))) = (slot.decided, slot.pull) else { return };
        let ready = slot.readies.voters(digest).without(me);
        let nth = asked.checked_rem(ready.count()).unwrap_or_default();
        slot.pull = Some((doubled(wait, longest), asked.wrapping_add(1)));
        turn.arm(Timer::Pull(lot), wait);
        if let Some(peer) = ready.iter().nth(usize::try_from(nth).unwrap_or_default()) {
            turn.send(peer, Message::Pull(Vote { lot, digest }));
        }
    }

    /// Has the votes of a slot said again until it is delivered.
    pub(super) fn wait(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let first = self.patience.first(lot.source, &self.config.bounds);
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else { return };
        if slot.resend.is_none() {
            slot.resend = Some(Waiting::new(turn.now(), first));
            turn.arm(Timer::Resend(lot), first);
        }
    }
}
