//! Learning that a message was delivered, with proof (4.2, step 19).

use synod_crypto::Verified;
use synod_crypto::bls::BlsCertificate;
use synod_quorum::NodeId;

use super::flight::Shown;
use super::job::delivered;
use super::{Client, Output, Step, Task};
use crate::certificate::Legitimacy;
use crate::dedup::{Exceptions, Reason};
use crate::fault::Fault;
use crate::message::{ClientMessage, Delivery};
use crate::receipt::Receipt;
use crate::statement::{Delivered, Kind};
use crate::trace::{Note, NoteName, Rule};

impl Client {
    pub(super) fn on_delivery(&mut self, from: NodeId, delivery: Box<Delivery>, turn: &mut Step<'_>) {
        let shown = self.flight.as_ref().and_then(|flight| flight.named(from, &delivery.root_commit));
        let Some(shown) = shown else {
            // The acknowledgement of what is done was lost.
            if self.last == Some(delivery.root_commit) && self.flight.is_none() {
                Self::say(from, ClientMessage::Ack { height: delivery.height }, turn);
            }
            return;
        };
        if self.is_old(delivery.height) {
            return;
        }
        if delivery.exc_count > shown.shape.count {
            turn.blame(from, Fault::FalseDelivery);
            return;
        }
        let said = Delivered {
            height: delivery.height,
            kind: Kind::Messages,
            digest: delivery.digest,
            root_commit: shown.commit,
            exceptions_root: delivery.exceptions_root,
            exc_count: delivery.exc_count,
        };
        if self.checking.insert(from) {
            self.compute(turn, Task::Delivery(from, delivery, said));
        }
    }

    /// Whether a batch of this height was delivered before the message in flight was first signed. A message may be equal
    /// to an earlier one down to its parity; a broker that shows again where that one stood ends nothing.
    fn is_old(&self, height: u64) -> bool {
        self.flight.as_ref().is_some_and(|flight| height <= flight.after)
    }

    pub(super) fn delivery_checked(
        &mut self,
        from: NodeId,
        delivery: Box<Delivery>,
        proven: Option<Verified<BlsCertificate<Delivered>>>,
        turn: &mut Step<'_>,
    ) {
        self.checking.remove(&from);
        let Some(proven) = proven else {
            turn.blame(from, Fault::FalseDelivery);
            return;
        };
        let certificate = delivered(&proven, &delivery);
        if certificate.statement.height > self.height() {
            self.best = Some(Legitimacy::Delivered(certificate.clone()));
        }
        let Some(flight) = &self.flight else { return };
        let Some(shown) = flight.named(from, &delivery.root_commit).cloned() else { return };
        if shown.commit != certificate.statement.root_commit || self.is_old(certificate.statement.height) {
            return;
        }
        let Some(reason) = self.reason(&delivery, &shown) else {
            turn.blame(from, Fault::FalseDelivery);
            return;
        };
        match reason {
            None => {
                let receipt = self.id.map(|id| Receipt {
                    id,
                    message: flight.message.clone(),
                    parity: flight.parity,
                    k: shown.k,
                    shape: shown.shape,
                    root: shown.root,
                    proof: shown.proof.clone(),
                    certificate,
                    exception: delivery.exception.clone(),
                });
                self.finish(receipt, Some((from, &delivery)), turn);
            }
            Some(Reason::Same) => self.finish(None, Some((from, &delivery)), turn),
            // The message stands without a signature: a broker can always do that, so the next one is asked in time.
            Some(Reason::Void) => {}
            Some(Reason::Stale) => self.ask_one(turn),
        }
    }

    /// What became of the own entry: the outer `None` when the proof does not show it.
    fn reason(&self, delivery: &Delivery, shown: &Shown) -> Option<Option<Reason>> {
        if delivery.exc_count == 0 {
            return (delivery.exceptions_root == synod_crypto::Hash::ZERO).then_some(None);
        }
        let exception = delivery.exception.as_ref()?;
        let at = (shown.proof.index, shown.shape.count);
        let root = &delivery.exceptions_root;
        let domains = self.config.cluster.domains();
        Exceptions::proved(domains, root, at, &exception.leaf, &exception.path)
    }

    /// Step 19: the user is told first, then the record drops the message.
    pub(super) fn finish(
        &mut self,
        receipt: Option<Receipt>,
        by: Option<(NodeId, &Delivery)>,
        turn: &mut Step<'_>,
    ) {
        let Some(flight) = self.flight.take() else { return };
        let took = turn.now().since(flight.since).0;
        turn.applied(Rule::Step19);
        turn.note(Note {
            name: NoteName::Done,
            values: [flight.k0, took, 0],
            digest: synod_crypto::Hash::ZERO,
        });
        let receipt = receipt.map(Box::new);
        turn.output(Output::Delivered { tokens: flight.tokens.to_vec(), receipt });
        self.parity = !flight.parity;
        self.last = by.map(|(_, delivery)| delivery.root_commit);
        self.rest(turn);
        self.persist(turn);
        if !self.launch(turn)
            && let Some((broker, delivery)) = by
        {
            Self::say(broker, ClientMessage::Ack { height: delivery.height }, turn);
        }
    }
}
