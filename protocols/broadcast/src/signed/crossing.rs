//! From one view into the next: certificates of older views stand where those were agreed on, and what was open is endorsed again.
//!
//! Slots up to the tip of their lane were certified in older views, and certificates of those are good for them. Above it only members
//! of this view settle anything: whoever has a certificate of an older view signs again when it is asked, and of what was open
//! the one payload is endorsed that older views allow, whether its source is still there to sign it or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::broadcast::{Begun, Broadcast};
use synod_machine::{Turn, Unrecoverable, planted};
use synod_quorum::{Epoch, NodeId, Weights};

use super::slot::{Accepted, Slot};
use super::words::{Certificate, Except, Record, Said};
use super::{Items, Job, SignedBroadcast, View};
use crate::Lot;
use crate::fault::Fault;
use crate::patience::Waiting;
use crate::trace::Rule;

/// In the place of a source's signature that it gave in an older view.
pub(super) const UNSIGNED: Signature = Signature([0; 64]);

/// How many signers certify an item, by view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quora(BTreeMap<Epoch, u32>);

impl Quora {
    /// Those of a view and of the ones before it.
    pub(super) fn new(view: &View, quorum: u32, begun: &Begun) -> Result<Self, Unrecoverable> {
        let of = |weights: &Weights| u32::try_from(weights.intersecting()).unwrap_or(u32::MAX);
        let older = begun.older.iter().map(|older| (older.roster.epoch(), of(older.roster.weights())));
        let mut all: BTreeMap<Epoch, u32> = older.collect();
        if all.keys().any(|epoch| *epoch >= view.roster.epoch()) {
            return Err(Unrecoverable("an older view is not older".into()));
        }
        all.insert(view.roster.epoch(), quorum);
        Ok(Self(all))
    }

    /// Items that a certificate leaves open; all of them where its view is unknown.
    pub(super) fn open(&self, certificate: &Certificate) -> Except {
        certificate.open(self.0.get(&certificate.epoch).copied().unwrap_or(u32::MAX))
    }
}

impl<I: Items> SignedBroadcast<I> {
    /// What stays good: payloads that are stored, and certificates.
    pub(super) fn crossing_records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for (source, lane) in &self.lanes {
            for (sequence, slot) in &lane.slots {
                let lot = Lot { source: *source, sequence: *sequence };
                records.extend(slot.stored.map(|(digest, name)| Record::Held { lot, digest, name }));
                records.extend(slot.certificates.iter().cloned().map(Record::Committed));
            }
        }
        records
    }

    /// Slots that were open in older views, and of which one payload may be endorsed.
    pub(super) fn carry(&mut self) {
        for (lot, digest) in self.begun.slots.clone() {
            self.carry_one(lot, digest);
        }
    }

    /// Whether this slot is worked on from now on as one that was open in older views.
    fn carry_one(&mut self, lot: Lot, digest: Option<Hash>) -> bool {
        let is_untouched =
            |slot: &Slot| slot.certificates.is_empty() && slot.accepted.is_none() && slot.carried.is_none();
        let Some(slot) = self.slot_mut(lot).filter(|slot| is_untouched(slot)) else { return false };
        slot.carried = digest;
        digest.is_some()
    }

    /// Slots that were open in older views come into the window where a member began far behind.
    pub(super) fn carry_on(&mut self, source: u8, turn: &mut Turn<'_, Self>) {
        let Some(lane) = self.lanes.get(&source).filter(|_| !self.begun.slots.is_empty()) else { return };
        let last = lane.certified.saturating_add(self.config.bounds.window);
        let within = Lot { source, sequence: lane.certified }..=Lot { source, sequence: last };
        let open: Vec<(Lot, Option<Hash>)> =
            self.begun.slots.range(within).map(|(lot, digest)| (*lot, *digest)).collect();
        for (lot, digest) in open {
            if self.carry_one(lot, digest) {
                self.wait(lot, turn);
                self.pull(lot, turn);
            }
        }
    }

    /// The view of a certificate of an older one, if that stands here: up to the tip of its lane, or where it decides.
    pub(super) fn older(
        &self,
        from: NodeId,
        certificate: &Certificate,
        turn: &mut Turn<'_, Self>,
    ) -> Option<Arc<View>> {
        let (context, epoch, lot) = (certificate.context, certificate.epoch, certificate.lot);
        let Some(view) = self.begun.view(context, epoch) else {
            turn.blame(from, Fault::OtherView);
            return None;
        };
        let stands = lot.sequence <= self.begun.tip(lot.source) || planted!(A29);
        (stands || self.begun.slots.get(&lot) == Some(&None)).then(|| Arc::clone(view))
    }

    /// Whether a slot of this node's own is open, behind one that others certified in this view already: older views leave it one
    /// payload, which it still signs, for a quorum may need that.
    pub(super) fn is_left_behind(&self, lot: Lot) -> bool {
        let is_unsigned = |slot: &Slot| {
            slot.carried.is_some()
                && slot.certificates.is_empty()
                && slot.taken.is_none_or(|(_, signature)| signature == UNSIGNED)
        };
        lot.source == self.me() && lot.sequence <= self.sealed && self.slot(lot).is_some_and(is_unsigned)
    }

    /// A certificate of an older view above the tip settles nothing: it decides between payloads. Whether it is one.
    pub(super) fn decide(&mut self, certificate: &Certificate, turn: &mut Turn<'_, Self>) -> bool {
        let (lot, digest) = (certificate.lot, certificate.digest);
        let is_older = certificate.epoch != self.view.roster.epoch();
        if !is_older || lot.sequence <= self.begun.tip(lot.source) || planted!(A29) {
            return false;
        }
        self.decide_for(lot, digest, turn);
        true
    }

    /// Of a slot that was open to nothing but a certificate this payload alone may be endorsed.
    pub(super) fn decide_for(&mut self, lot: Lot, digest: Hash, turn: &mut Turn<'_, Self>) {
        let is_certified = self.slot(lot).is_some_and(|slot| !slot.certificates.is_empty());
        if is_certified || self.begun.slots.get(&lot) != Some(&None) {
            return;
        }
        turn.applied(Rule::Decide);
        self.begun.slots.insert(lot, Some(digest));
        if let Some(slot) = self.slot_mut(lot) {
            slot.carried = Some(digest);
        }
        self.wait(lot, turn);
        self.pull(lot, turn);
    }

    /// The payload that older views allow is here: may it be endorsed? Its source may not be there to sign it.
    pub(super) fn propose_carried(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (is_mine, first) = (lot.source == self.me(), self.config.bounds.resend);
        let Some(slot) = self.slot_mut(lot).filter(|slot| slot.certificates.is_empty()) else { return };
        let Some(digest) = slot.carried.filter(|_| slot.taken.is_none() && !is_mine) else { return };
        let Some(payload) = slot.payload(digest).map(|payload| payload.bytes.clone()) else { return };
        slot.taken = Some((digest, UNSIGNED));
        turn.applied(Rule::Carry);
        self.wait(lot, turn);
        turn.output(Broadcast::Proposed { slot: lot.into(), payload });
        if self.asks(lot)
            && let Some(slot) = self.slot_mut(lot)
        {
            slot.resend = Some(Waiting::new(turn.now(), first).ended());
            self.on_resend_due(lot, turn);
        }
    }

    /// A slot that is certified here by older views alone is endorsed in this one, once somebody asks: all that is certified of it.
    pub(super) fn endorse_again(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let (me, epoch, context) = (self.me(), self.view.roster.epoch(), self.view.context);
        let view = Arc::clone(&self.view);
        let Some(slot) = self.slot_mut(lot).filter(|slot| slot.accepted.is_none()) else { return };
        let Some(digest) = slot.certified() else { return };
        if slot.certificates.iter().any(|certificate| certificate.epoch == epoch) {
            return;
        }
        let (except, authorized) = (slot.open.clone(), true);
        slot.accepted = Some(Accepted { digest, except: except.clone(), authorized });
        let signature = slot.taken.map_or(UNSIGNED, |(_, signature)| signature);
        turn.persist(Record::Accepted { lot, digest, except: except.clone(), authorized, signature });
        turn.applied(Rule::Carry);
        let said = Said { member: me, except, authorized, signature: UNSIGNED };
        let acked = said.statement(context, lot, digest);
        turn.compute(Job::Sign { view, me: self.config.me, acked, said });
    }

    /// Whether a slot that was open in older views is certified in part. Others, its source among them, may know all of it to be certified by an older
    /// view, and collect nothing more: whoever lacks the rest does, for they sign it again.
    pub(super) fn is_short(&self, lot: Lot) -> bool {
        let is_part = |slot: &Slot| !slot.certificates.is_empty() && !slot.open.items().is_empty();
        self.begun.slots.contains_key(&lot) && self.slot(lot).is_some_and(is_part)
    }

    /// Whether this member asks for a slot that was open in older views at once. Others do so when it stays silent.
    fn asks(&self, lot: Lot) -> bool {
        let count = u64::from(self.config.members.count());
        let nth = lot.sequence.checked_rem(count).and_then(|nth| usize::try_from(nth).ok());
        nth.and_then(|nth| self.config.members.iter().nth(nth)) == Some(self.config.me)
    }
}
