//! From ACKs to a certificate, and from a certificate to the user (Listing 6, lines 16 to 27).

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Refusal, Verified};
use synod_machine::broadcast::Broadcast;
use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Wire;

use super::job::{CheckedAck, Payload};
use super::words::{Ack, Acked, Certificate, Message, Record, Said, Timer, TwoPayloads};
use super::{Items, Job, SignedBroadcast};
use crate::Lot;
use crate::fault::Fault;
use crate::trace::Rule;

impl<I: Items> SignedBroadcast<I> {
    /// An ACK, unchecked. It waits until those that would make a certificate are checked together.
    pub(super) fn on_ack(&mut self, from: NodeId, ack: Ack, turn: &mut Turn<'_, Self>) {
        let Ack { lot, digest, said } = ack;
        let Some(slot) = self.slot_mut(lot) else { return };
        if slot.taken.is_none_or(|(taken, _)| taken != digest) {
            return;
        }
        let Some(collected) = &slot.collected else { return };
        if collected.forged.contains(from) || !collected.is_news(&said) {
            return;
        }
        let Some(collected) = &mut slot.collected else { return };
        collected.waiting.insert(said.member, said);
        self.collect(lot, false, turn);
    }

    /// Has ACKs checked once they could make a certificate, and makes it of checked ones: when all items are certified, when
    /// everybody answered, or when it is `due`.
    pub(super) fn collect(&mut self, lot: Lot, due: bool, turn: &mut Turn<'_, Self>) {
        let (quorum, members) = (self.quorums.intersecting(), self.quorums.members());
        let quorum = if planted!(A16) { 2 * self.quorums.one_correct() - 1 } else { quorum };
        let view = Arc::clone(&self.view);
        let Some(slot) = self.slot_mut(lot) else { return };
        let payload = slot.taken.and_then(|(digest, _)| slot.payload(digest));
        let payload = payload.map(|payload| payload.bytes.clone());
        let (Some((digest, _)), Some(collected)) = (slot.taken, &mut slot.collected) else { return };
        let known: NodeSet =
            collected.good.keys().chain(collected.waiting.keys()).fold(NodeSet::EMPTY, |mut set, member| {
                set.insert(NodeId(u32::from(*member)));
                set
            });
        if known.count() >= quorum && !collected.waiting.is_empty() && !collected.is_checking {
            if payload.is_none() && collected.has_lists() {
                return self.read_for_lists(lot, turn);
            }
            collected.is_checking = true;
            let said = std::mem::take(&mut collected.waiting).into_values().collect();
            return turn.compute(Job::Acks { view, lot, digest, said, payload, may_except: I::may_except });
        }
        let good = u32::try_from(collected.good.len()).unwrap_or(u32::MAX);
        if good < quorum || collected.is_checking {
            return;
        }
        let said: Vec<Said> = collected.good.values().cloned().collect();
        let all_answered = good.saturating_add(collected.forged.count()) >= members;
        let place = (view.context, view.roster.epoch());
        let Some(certificate) = Certificate::fitting(place, lot, digest, said, quorum) else { return };
        let open = certificate.open(quorum);
        if slot.with(&open).is_none() || !(open.items().is_empty() || all_answered || due) {
            return;
        }
        turn.applied(Rule::L6Commit);
        self.certify(certificate, turn);
        if let Some(certificate) = self.slot(lot).and_then(|slot| slot.certificates.last()) {
            turn.send(self.others(), Message::Commit(certificate.clone()));
        }
    }

    /// A list of exceptions is held against the payload, which is on the disk alone once the user was told of it.
    fn read_for_lists(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let Some(slot) = self.slot(lot).filter(|slot| slot.has_lists()) else { return };
        match slot.wants().and_then(|digest| slot.blob(digest)) {
            Some(name) => turn.load(name),
            None => self.pull(lot, turn),
        }
    }

    pub(super) fn on_acks_checked(
        &mut self,
        lot: Lot,
        digest: Hash,
        said: Vec<CheckedAck>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(slot) = self.slot_mut(lot) else { return };
        if slot.taken.is_none_or(|(taken, _)| taken != digest) {
            return;
        }
        let Some(collected) = &mut slot.collected else { return };
        collected.is_checking = false;
        for one in said {
            match one {
                Ok((_, said)) => {
                    collected.good.insert(said.member, said);
                }
                Err((member, fault)) => {
                    let liar = NodeId(u32::from(member));
                    collected.forged.insert(liar);
                    turn.blame(liar, fault);
                }
            }
        }
        self.collect(lot, false, turn);
        if let Some(slot) = self.slot_mut(lot).filter(|slot| slot.is_told() && !slot.has_lists()) {
            slot.payload = None;
        }
    }

    /// Slots of this node's own that a quorum answered in part are certified so far as they can be, before the next goes out.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_, Self>) {
        let me = self.me();
        let open = self.lanes.get(&me).map_or_else(Vec::new, |lane| {
            let open = lane.slots.range(lane.certified.saturating_add(1)..);
            open.filter(|(_, slot)| slot.certificates.is_empty()).map(|(sequence, _)| *sequence).collect()
        });
        for sequence in open {
            self.collect(Lot { source: me, sequence }, true, turn);
        }
    }

    /// A certificate, unchecked.
    pub(super) fn on_commit(&mut self, from: NodeId, certificate: Certificate, turn: &mut Turn<'_, Self>) {
        let here = (self.view.context, self.view.roster.epoch());
        let view = if (certificate.context, certificate.epoch) == here {
            Arc::clone(&self.view)
        } else {
            match self.older(from, &certificate, turn) {
                Some(view) => view,
                None => return,
            }
        };
        let open = self.quora.open(&certificate);
        let Some(slot) = self.slot_mut(certificate.lot) else { return };
        let is_news = match slot.certified() {
            Some(digest) if digest != certificate.digest => !slot.is_disputed,
            _ => slot.with(&open).is_some(),
        };
        if is_news {
            turn.compute(Job::Certify { view, from, certificate });
        }
    }

    pub(super) fn on_certified(
        &mut self,
        from: NodeId,
        certificate: Result<Verified<Certificate>, Refusal>,
        turn: &mut Turn<'_, Self>,
    ) {
        match certificate {
            Ok(certificate) if self.decide(&certificate, turn) => {}
            Ok(certificate) => self.certify(certificate.into_inner(), turn),
            Err(_) => turn.blame(from, Fault::BadCertificate),
        }
    }

    /// A certificate that was checked, or put together here: recorded, then acted upon.
    pub(super) fn certify(&mut self, certificate: Certificate, turn: &mut Turn<'_, Self>) {
        let quora = Arc::clone(&self.quora);
        let (lot, open) = (certificate.lot, quora.open(&certificate));
        let Some(slot) = self.slot_mut(lot) else { return };
        if let Some(one) = slot.certificates.first().filter(|one| one.digest != certificate.digest) {
            // Over the budget: two quorums share a correct member else.
            if !slot.is_disputed {
                let evidence = TwoPayloads::Certified { one: one.clone(), other: certificate };
                slot.is_disputed = true;
                turn.output(Broadcast::Conflict { slot: lot.into(), evidence: evidence.encode() });
            }
            return;
        }
        let Some(open) = slot.with(&open) else { return };
        let is_first = slot.certificates.is_empty();
        slot.certificates.push(certificate.clone());
        if !slot.shed(&quora) {
            slot.certificates.pop();
            return;
        }
        let behind = self.skip(lot);
        let Some(slot) = self.slot_mut(lot) else { return };
        slot.open = open.clone();
        if let Some(waited) = slot.resend.take() {
            self.patience.done(lot.source, waited, turn.now());
        }
        turn.persist(Record::Committed(certificate));
        turn.disarm(Timer::Resend(lot));
        turn.applied(if is_first { Rule::L6Deliver } else { Rule::Fuller });
        if !is_first || !open.items().is_empty() {
            self.rows.push(lot, open);
        }
        if self.is_short(lot) {
            self.wait(lot, turn);
        }
        self.deliver(lot, turn);
        behind.iter().for_each(|(payload, acked)| self.prepare_behind(payload.clone(), acked, turn));
    }

    /// A slot of this node's own is certified: one that an earlier life filled, and lost with its disk, is not filled again.
    /// Gives what was signed and had not gone out.
    pub(super) fn skip(&mut self, lot: Lot) -> Vec<(Payload, Verified<Claim<Acked>>)> {
        if lot.source != self.me() {
            return Vec::new();
        }
        self.mine = self.mine.max(lot.sequence);
        self.sealed = self.sealed.max(lot.sequence);
        let ahead = self.ahead.split_off(&self.sealed.saturating_add(1));
        std::mem::replace(&mut self.ahead, ahead).into_values().collect()
    }

    /// Tells the user of certificates it was not told of, if the payload is here; has it brought otherwise.
    pub(super) fn deliver(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let quora = Arc::clone(&self.quora);
        let Some(slot) = self.slot_mut(lot) else { return };
        let Some(digest) = slot.certified().filter(|_| slot.told < slot.certificates.len()) else { return };
        let is_its = |payload: &&Payload| payload.digest == digest || planted!(A4);
        let Some(payload) = slot.payload.as_ref().filter(is_its).cloned() else {
            if let Some(name) = slot.blob(digest) {
                return turn.load(name);
            }
            return self.pull(lot, turn);
        };
        if slot.pull.take().is_some() {
            turn.disarm(Timer::Pull(lot));
        }
        let news: Vec<Certificate> = slot.certificates.iter().skip(slot.told).cloned().collect();
        slot.told = slot.certificates.len();
        // From now on the payload is on the disk alone.
        slot.payload = None;
        self.hold(lot, &payload, turn);
        for certificate in news {
            let (payload, proof) = (payload.bytes.clone(), Some(certificate.encode()));
            let open = quora.open(&certificate);
            turn.output(Broadcast::Delivered { slot: lot.into(), payload, open, proof });
        }
        self.advance(lot.source, turn);
    }

    /// Moves a source's frontier on, and lets go of what is kept no longer.
    fn advance(&mut self, source: u8, turn: &mut Turn<'_, Self>) {
        let Some(lane) = self.lanes.get_mut(&source) else { return };
        let gone = lane.advance();
        self.carry_on(source, turn);
        if gone.is_empty() {
            return;
        }
        self.gone += gone.len() as u64;
        for (_, slot) in gone {
            if let Some((_, name)) = slot.stored {
                self.release(name, turn);
            }
        }
        // A snapshot takes as long as what is kept: not one per slot.
        let kept = self.config.bounds.retain.saturating_mul(u64::from(self.quorums.members()));
        if self.gone >= kept {
            self.gone = 0;
            turn.compact();
        }
    }
}
