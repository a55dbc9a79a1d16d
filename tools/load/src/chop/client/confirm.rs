//! Reading deliveries, and asking where a member stands.

use synod_chopchop::certificate::DeliveryCertificate;
use synod_chopchop::dedup::{Exceptions, Reason, tag};
use synod_chopchop::message::{ClientMessage, Delivery, StateAnswer};
use synod_chopchop::receipt::Receipt;
use synod_chopchop::statement::{Delivered, Kind};
use synod_crypto::Hash;
use synod_wire::{Blob, Bytes};

use super::machine::{LoadClient, Output, Step};
use super::member::{Shown, Stage};

/// The part of a second whose messages are begun soon enough to acknowledge a delivery: they begin slower than the pace allows
/// while brokers are slower.
const SOON: u32 = 100;

impl LoadClient {
    pub(super) fn on_delivery(&mut self, broker: u32, at: u32, delivery: &Delivery, turn: &mut Step<'_>) {
        let Some(member) = self.members.get(at as usize) else { return };
        let flies = member.stage == Stage::Flying;
        let Some(shown) = member.named(&delivery.root_commit).filter(|_| flies).cloned() else {
            if member.last == delivery.root_commit && !flies {
                self.say(at, broker, ClientMessage::Ack { height: delivery.height }, turn);
            }
            return;
        };
        let Some(certificate) = self.certificate(delivery) else { return };
        let Some(reason) = self.reason(delivery, &shown) else { return };
        match reason {
            None => {
                self.receipt(at, &shown, &certificate, delivery, turn);
                self.finish(at, Some((broker, delivery)), turn);
            }
            Some(Reason::Same) => {
                self.stats.same += 1;
                self.finish(at, Some((broker, delivery)), turn);
            }
            Some(Reason::Stale) => {
                self.stats.stale += 1;
                self.ask(at, turn);
            }
            Some(Reason::Void) => self.stats.stale += 1,
        }
        if certificate.statement.height > self.stats.height {
            self.stats.height = certificate.statement.height;
            self.height = self.height.max(self.stats.height);
            self.best = Some(certificate);
        }
    }

    /// The certificate, as it is believed here; `None` for a root that was forgotten.
    fn certificate(&self, delivery: &Delivery) -> Option<DeliveryCertificate> {
        let statement = Delivered {
            height: delivery.height,
            kind: Kind::Messages,
            digest: delivery.digest,
            root_commit: self.roots.get(&delivery.root_commit)?.commit,
            exceptions_root: delivery.exceptions_root,
            exc_count: delivery.exc_count,
        };
        Some(DeliveryCertificate { statement, aggregate: delivery.aggregate.clone() })
    }

    /// What became of the entry: the outer `None` when the proof does not show it.
    fn reason(&self, delivery: &Delivery, shown: &Shown) -> Option<Option<Reason>> {
        if delivery.exc_count == 0 {
            return (delivery.exceptions_root == Hash::ZERO).then_some(None);
        }
        let exception = delivery.exception.as_ref()?;
        let count = self.roots.get(&shown.half)?.shape.count;
        let (domains, root) = (self.crowd.cluster.domains(), &delivery.exceptions_root);
        Exceptions::proved(domains, root, (shown.index, count), &exception.leaf, &exception.path)
    }

    fn receipt(
        &self,
        at: u32,
        shown: &Shown,
        certificate: &DeliveryCertificate,
        delivery: &Delivery,
        turn: &mut Step<'_>,
    ) {
        let (Some(member), Some(proof)) = (self.members.get(at as usize), &shown.proof) else { return };
        let Ok(message) = Blob::try_from(Bytes::copy_from_slice(&self.payload(at))) else { return };
        let receipt = Receipt {
            id: member.id,
            message,
            parity: member.parity,
            k: proof.k,
            shape: proof.shape,
            root: proof.root,
            proof: proof.proof.clone(),
            certificate: certificate.clone(),
            exception: delivery.exception.clone(),
        };
        turn.output(Output::Receipt(Box::new(receipt)));
    }

    /// The message is delivered: the next one may begin.
    fn finish(&mut self, at: u32, by: Option<(u32, &Delivery)>, turn: &mut Step<'_>) {
        let now = turn.now();
        let Some(member) = self.members.get_mut(at as usize) else { return };
        let took = now.since(member.since);
        self.unshown -= u32::from(core::mem::take(&mut member.unshown));
        member.confirmed += 1;
        member.parity = !member.parity;
        member.stage = Stage::Idle;
        member.shown.clear();
        self.stats.confirmed += 1;
        let goes_on = member.begun < self.goal;
        if member.rounds == 0 {
            self.delivery_trip.add(took);
        }
        if let Some((broker, delivery)) = by {
            member.last = delivery.root_commit;
            let pace = self.crowd.pace;
            let room = pace.unshown.saturating_sub(self.unshown).min(pace.per_second / SOON);
            let soon = self.ready.len() < room as usize;
            if !(goes_on && soon) {
                self.say(at, broker, ClientMessage::Ack { height: delivery.height }, turn);
            }
        }
        if goes_on {
            self.ready.push_back(at);
        }
        self.set_due(at, None);
    }

    /// Asks f + 1 servers where this member stands.
    fn ask(&mut self, at: u32, turn: &mut Step<'_>) {
        let nonce = turn.rng().draw();
        let submit = self.crowd.pace.submit;
        let Some(member) = self.members.get_mut(at as usize) else { return };
        (member.stage, member.nonce) = (Stage::Asking, nonce);
        let (id, broker) = (member.id, member.broker);
        self.say(at, broker, ClientMessage::Query { nonce, id }, turn);
        self.set_due(at, Some(turn.now() + submit));
    }

    pub(super) fn ask_again(&mut self, at: u32, turn: &mut Step<'_>) {
        self.next_broker(at);
        self.ask(at, turn);
    }

    pub(super) fn on_state(&mut self, at: u32, answer: &StateAnswer, turn: &mut Step<'_>) {
        let payload = self.payload(at);
        let Some(member) = self.members.get_mut(at as usize) else { return };
        if member.stage != Stage::Asking {
            return;
        }
        let delivered = answer.next_k > member.k0 && answer.tag == tag(&payload, member.parity);
        member.next_k = member.next_k.max(answer.next_k);
        if delivered {
            self.stats.same += 1;
            self.finish(at, None, turn);
        } else {
            member.k0 = member.next_k;
            member.next_k += 1;
            self.sign(&[at], turn);
        }
    }
}
