//! From a payload to this node's ACK (Listing 6, lines 10 to 15).

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Signature, Verified};
use synod_machine::Turn;
use synod_machine::broadcast::Broadcast;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Wire};

use super::crossing::UNSIGNED;
use super::job::Payload;
use super::slot::{Accepted, Collected, Slot};
use super::words::{Ack, Acked, Except, Message, Record, Said, Timer, TwoPayloads, UNCHECKED};
use super::{Items, Job, SignedBroadcast};
use crate::Lot;
use crate::fault::Fault;
use crate::patience::Waiting;
use crate::trace::Rule;

impl<I: Items> SignedBroadcast<I> {
    /// A payload of this node's own is signed. They go out in the order of their slots: one that a crash found unsigned is the
    /// last, and is offered again.
    pub(super) fn on_sealed(
        &mut self,
        payload: Option<Payload>,
        acked: Option<Verified<Claim<Acked>>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (payload, acked) = payload.zip(acked).expect("the user broadcasts payloads");
        if acked.statement.lot.sequence <= self.sealed {
            return self.prepare_behind(payload, &acked, turn);
        }
        self.ahead.insert(acked.statement.lot.sequence, (payload, acked));
        while let Some(next) = self.sealed.checked_add(1)
            && let Some((payload, acked)) = self.ahead.remove(&next)
        {
            self.sealed = next;
            self.prepare(payload, &acked, turn);
        }
    }

    /// The same of a slot that this node's lane went past.
    pub(super) fn prepare_behind(
        &mut self,
        payload: Payload,
        acked: &Verified<Claim<Acked>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (lot, digest) = (acked.statement.lot, acked.statement.digest);
        if self.is_left_behind(lot) && self.begun.allows(lot, &digest) {
            self.prepare(payload, acked, turn);
        }
    }

    /// Its source's ACK is the signature in PREPARE.
    fn prepare(&mut self, payload: Payload, acked: &Verified<Claim<Acked>>, turn: &mut Turn<'_, Self>) {
        let (lot, digest, signature) = (acked.statement.lot, acked.statement.digest, acked.signature);
        self.hold(lot, &payload, turn);
        turn.persist(Record::Mine { sequence: lot.sequence, digest, signature });
        turn.applied(Rule::L6Prepare);
        let Some(slot) = self.slot_mut(lot) else { return };
        slot.payload = Some(payload);
        own(slot, lot, digest, signature);
        self.send_payload(lot, self.others(), turn);
        self.wait(lot, turn);
        // It may be certified by an older view, and what is read from the disk to tell of it is here now.
        self.deliver(lot, turn);
        self.collect(lot, false, turn);
    }

    /// PREPARE with the payload in memory, to some.
    pub(super) fn send_payload(&self, lot: Lot, to: NodeSet, turn: &mut Turn<'_, Self>) {
        let slot = self.slot(lot);
        // Of an older view: whoever may endorse it knows so, and has it brought.
        let taken = slot.and_then(|slot| slot.taken).filter(|(_, signature)| *signature != UNSIGNED);
        let Some((digest, signature)) = taken else { return };
        let Some(payload) = slot.and_then(|slot| slot.payload(digest)) else {
            // Of an earlier life: it goes out the next time.
            return slot.and_then(|slot| slot.blob(digest)).into_iter().for_each(|name| turn.load(name));
        };
        let payload = Blob::try_from(payload.bytes.clone()).expect("the configuration bounds payloads");
        turn.send(to, Message::Prepare { lot, payload, signature });
    }

    /// A payload with its source's signature, from the source or from somebody who passes it on.
    pub(super) fn on_prepare(
        &mut self,
        from: NodeId,
        lot: Lot,
        payload: Bytes,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if self.is_too_long(&payload) {
            return turn.blame(from, Fault::TooLong);
        }
        let Some(slot) = self.slot_mut(lot) else { return };
        if slot.taken.is_some_and(|(_, known)| known == signature) {
            return self.answer(lot, NodeSet::only(from), turn);
        }
        turn.compute(Job::Take {
            view: Arc::clone(&self.view),
            from,
            lot,
            payload,
            signature: Some(signature),
            reading: I::read,
        });
    }

    /// A payload is hashed, and its source's signature checked where it came with one.
    pub(super) fn on_taken(
        &mut self,
        (from, lot): (NodeId, Lot),
        payload: Payload,
        signed: Option<Result<Verified<Claim<Acked>>, Signature>>,
        turn: &mut Turn<'_, Self>,
    ) {
        match signed {
            Some(Err(_)) => return turn.blame(from, Fault::BadSignature),
            Some(Ok(acked)) => self.take(lot, payload, &acked, turn),
            None => match self.slot_mut(lot) {
                Some(slot) if slot.wants() == Some(payload.digest) => self.on_brought(lot, payload, turn),
                Some(slot) if slot.pull.is_some() => return turn.blame(from, Fault::WrongPayload),
                _ => return,
            },
        }
        self.deliver(lot, turn);
        self.collect(lot, false, turn);
    }

    /// A payload that was wanted is here again.
    fn on_brought(&mut self, lot: Lot, payload: Payload, turn: &mut Turn<'_, Self>) {
        let (is_mine, others) = (lot.source == self.me(), self.others());
        let Some(slot) = self.slot_mut(lot) else { return };
        let (is_open, is_told) = (slot.certificates.is_empty(), slot.is_told());
        slot.payload = Some(payload.clone());
        if !is_open && !is_told {
            return;
        }
        if slot.pull.take().is_some() {
            turn.disarm(Timer::Pull(lot));
        }
        self.hold(lot, &payload, turn);
        self.propose_carried(lot, turn);
        if is_mine && is_open {
            self.send_payload(lot, others, turn);
        }
    }

    fn take(
        &mut self,
        lot: Lot,
        payload: Payload,
        acked: &Verified<Claim<Acked>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (source, digest) = (NodeId(u32::from(lot.source)), payload.digest);
        if !self.begun.allows(lot, &digest) {
            return;
        }
        let Some(slot) = self.slot_mut(lot) else { return };
        match slot.taken {
            Some((first, UNSIGNED)) if first == digest => slot.taken = Some((digest, acked.signature)),
            Some((_, UNSIGNED)) => {}
            Some((first, _)) if first == digest => {}
            Some((first, signature)) => {
                let one = Acked { digest: first, ..acked.statement };
                let (other, second) = (acked.statement, acked.signature);
                let evidence = TwoPayloads::Signed { one, first: signature, other, second };
                turn.blame(source, Fault::TwoPayloads.with(&evidence));
                turn.output(Broadcast::Conflict { slot: lot.into(), evidence: evidence.encode() });
            }
            None => {
                slot.taken = Some((digest, acked.signature));
                let bytes = payload.bytes.clone();
                if slot.certified().is_none_or(|certified| certified == digest) {
                    slot.payload = Some(payload);
                }
                self.wait(lot, turn);
                turn.output(Broadcast::Proposed { slot: lot.into(), payload: bytes });
            }
        }
    }

    /// The user endorses all but some items. What it endorsed once it endorses for ever, so a list only shrinks.
    pub(super) fn on_judged(
        &mut self,
        lot: Lot,
        digest: Hash,
        mut except: Vec<u32>,
        turn: &mut Turn<'_, Self>,
    ) {
        let authorized = except.last() != Some(&UNCHECKED);
        if !authorized {
            except.pop();
        }
        let except = Except::new(except).expect("the user excepts items in order");
        let (me, context, view) = (self.me(), self.view.context, Arc::clone(&self.view));
        let Some(slot) = self.slot_mut(lot) else { return };
        let Some((_, signature)) = slot.taken.filter(|(taken, _)| *taken == digest) else { return };
        if let Some(before) = &slot.accepted {
            let grows = except.within(&before.except) && authorized >= before.authorized;
            let is_same = except == before.except && authorized == before.authorized;
            if before.digest != digest || !grows || is_same {
                return;
            }
        }
        slot.accepted = Some(Accepted { digest, except: except.clone(), authorized });
        let payload = slot.payload(digest).cloned();
        if let Some(payload) = payload {
            self.hold(lot, &payload, turn);
        }
        turn.persist(Record::Accepted { lot, digest, except: except.clone(), authorized, signature });
        turn.applied(Rule::L6Ack);
        let said = Said { member: me, except, authorized, signature: Signature([0; 64]) };
        let acked = said.statement(context, lot, digest);
        turn.compute(Job::Sign { view, me: self.config.me, acked, said });
    }

    /// An ACK is signed: it goes to the source and to whoever asked meanwhile.
    pub(super) fn on_signed(
        &mut self,
        acked: &Verified<Claim<Acked>>,
        said: Said,
        turn: &mut Turn<'_, Self>,
    ) {
        let (lot, me) = (acked.statement.lot, self.config.me);
        let Some(slot) = self.slot_mut(lot) else { return };
        let is_latest = |accepted: &Accepted| {
            (accepted.digest, &accepted.except, accepted.authorized)
                == (acked.statement.digest, &said.except, said.authorized)
        };
        if !slot.accepted.as_ref().is_some_and(is_latest) {
            return;
        }
        slot.said = Some(said.clone());
        let askers = std::mem::take(&mut slot.askers).with(NodeId(u32::from(lot.source))).without(me);
        if let Some(collected) = &mut slot.collected {
            collected.good.insert(said.member, said);
        }
        self.answer(lot, askers, turn);
        self.collect(lot, false, turn);
    }

    /// What this node says of a slot: certificates of all that it knows to be certified, and its ACK while items are open, now or once it is signed.
    pub(super) fn answer(&mut self, lot: Lot, to: NodeSet, turn: &mut Turn<'_, Self>) {
        let (quora, epoch) = (Arc::clone(&self.quora), self.view.roster.epoch());
        let Some(slot) = self.slot_mut(lot) else { return };
        for certificate in slot.said_of(&quora) {
            turn.send(to, Message::Commit(certificate.clone()));
        }
        let is_of_this = slot.certificates.iter().any(|certificate| certificate.epoch == epoch);
        if is_of_this && slot.open.items().is_empty() {
            return;
        }
        let is_signing = (slot.accepted.is_some() || slot.carried.is_some()) && slot.said.is_none();
        if is_signing {
            slot.askers = slot.askers.or(to);
        }
        if let (Some(said), Some(accepted)) = (&slot.said, &slot.accepted) {
            turn.send(to, Message::Ack(Ack { lot, digest: accepted.digest, said: said.clone() }));
        }
    }

    /// Puts a payload on the disk, once per slot.
    pub(super) fn hold(&mut self, lot: Lot, payload: &Payload, turn: &mut Turn<'_, Self>) {
        let (digest, name) = (payload.digest, payload.name);
        let Some(slot) = self.slot_mut(lot) else { return };
        if slot.stored == Some((digest, name)) {
            return;
        }
        let other = slot.stored.replace((digest, name));
        *self.stored.entry(name).or_default() += 1;
        turn.store(name, payload.bytes.clone());
        turn.persist(Record::Held { lot, digest, name });
        if let Some((_, other)) = other {
            self.release(other, turn);
        }
    }

    /// Takes the payload of one slot off the disk, unless that of another slot is the same.
    pub(super) fn release(&mut self, name: Hash, turn: &mut Turn<'_, Self>) {
        let Some(slots) = self.stored.get_mut(&name) else { return };
        *slots -= 1;
        if *slots == 0 {
            self.stored.remove(&name);
            turn.erase(name);
        }
    }

    /// Has the ACKs of a slot collected again until it is certified and here. Those that came make a certificate after the usual wait; what
    /// others may have lost is said again once the lane's own wait is over.
    pub(super) fn wait(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (usual, first) =
            (self.config.bounds.resend, self.patience.first(lot.source, &self.config.bounds));
        let is_short = self.is_short(lot);
        let Some(slot) = self.slot_mut(lot) else { return };
        if slot.resend.is_none() && (slot.certificates.is_empty() || is_short) {
            slot.resend = Some(Waiting::new(turn.now(), first));
            turn.arm(Timer::Resend(lot), usual);
        }
    }
}

/// A source endorses all of its own payload.
pub(super) fn own(slot: &mut Slot, lot: Lot, digest: Hash, signature: Signature) {
    let said = Said { member: lot.source, except: Except::default(), authorized: true, signature };
    slot.taken = Some((digest, signature));
    slot.accepted = Some(Accepted { digest, except: Except::default(), authorized: true });
    slot.said = Some(said.clone());
    let collected = slot.collected.get_or_insert_with(Collected::default);
    collected.good.insert(lot.source, said);
}
