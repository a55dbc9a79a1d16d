//! Entering the directory (2.2): a card goes to broker after broker until f + 1 servers say which id it has.

use synod_crypto::bls::BlsCertificate;
use synod_crypto::{Hash, Verified};
use synod_machine::Span;
use synod_quorum::NodeId;

use super::{Client, Output, Refusal, Step, Task, Timer};
use crate::card::Card;
use crate::directory::NO_ID;
use crate::fault::Fault;
use crate::message::{COUNT_MAX, ClientMessage, Signed};
use crate::statement::{Delivered, Kind};
use crate::trace::Rule;
use crate::tree::climb;

/// A card on its way.
#[derive(Clone, Debug)]
pub(super) struct Enrolment {
    /// None while a job makes it.
    card: Option<Box<Card>>,
    serial: u64,
}

impl Client {
    pub(super) fn sign_up(&mut self, turn: &mut Step<'_>) {
        if self.id.is_some() {
            turn.output(Output::Refused { token: 0, why: Refusal::Enrolled });
        } else if self.enrolment.is_none() {
            self.enrolment = Some(Enrolment { card: None, serial: 0 });
            self.compute(turn, Task::Card);
        }
    }

    pub(super) fn card_made(&mut self, card: Option<Box<Card>>, turn: &mut Step<'_>) {
        let Some(enrolment) = &mut self.enrolment else { return };
        if card.is_none() {
            self.enrolment = None;
            turn.output(Output::CardRefused);
            return;
        }
        enrolment.card = card;
        self.send_card(turn);
    }

    fn send_card(&mut self, turn: &mut Step<'_>) {
        let (broker, silence) = (self.broker(), self.silence());
        self.serial += 1;
        let serial = self.serial;
        let Some(enrolment) = &mut self.enrolment else { return };
        enrolment.serial = serial;
        if let Some(card) = enrolment.card.clone() {
            Self::say(broker, ClientMessage::SignUp(card), turn);
            turn.arm(Timer::Enrol(serial), silence.max(Span::millis(50)));
        }
    }

    /// Shows the card again to the broker whose turn it is: its answer to the link before is lost.
    pub(super) fn show_card(&self, turn: &mut Step<'_>) {
        if let Some(card) = self.enrolment.as_ref().and_then(|enrolment| enrolment.card.clone()) {
            Self::say(self.broker(), ClientMessage::SignUp(card), turn);
        }
    }

    pub(super) fn enrol_silent(&mut self, serial: u64, turn: &mut Step<'_>) {
        if self.enrolment.as_ref().is_some_and(|enrolment| enrolment.serial == serial) {
            self.next_broker();
            self.send_card(turn);
        }
    }

    /// What servers must have signed, for `signed` to give `card` this id.
    fn assigned(&self, card: &Card, signed: &Signed) -> Option<Delivered> {
        let domains = self.config.cluster.domains();
        let name = Hash::of(&card.to_bytes());
        let leaf = domains.ids_leaf.hash_parts(&[&name.0, &signed.id.to_le_bytes()]);
        let root = climb(&domains.ids_node, leaf, signed.index, signed.count, &signed.path)?;
        Some(Delivered {
            height: signed.height,
            kind: Kind::SignUp,
            digest: signed.digest,
            root_commit: Hash::ZERO,
            exceptions_root: root,
            exc_count: signed.exc_count,
        })
    }

    pub(super) fn on_signed(&mut self, from: NodeId, signed: Box<Signed>, turn: &mut Step<'_>) {
        let Some(card) = self.enrolment.as_ref().and_then(|enrolment| enrolment.card.as_ref()) else {
            return;
        };
        let said = self.assigned(card, &signed).filter(|_| signed.count <= COUNT_MAX);
        let Some(said) = said else {
            turn.blame(from, Fault::FalseId);
            return;
        };
        if self.checking.insert(from) {
            self.compute(turn, Task::SignUp(from, signed, said));
        }
    }

    pub(super) fn id_checked(
        &mut self,
        from: NodeId,
        signed: Box<Signed>,
        proven: Option<Verified<BlsCertificate<Delivered>>>,
        turn: &mut Step<'_>,
    ) {
        self.checking.remove(&from);
        if proven.is_none() {
            turn.blame(from, Fault::FalseId);
            return;
        }
        if self.enrolment.take().is_none() {
            return;
        }
        turn.applied(Rule::Directory);
        if signed.id == NO_ID {
            turn.output(Output::CardRefused);
            return;
        }
        self.id = Some(signed.id);
        // The key is new to the servers unless an earlier life of it signed up, whose numbers they know.
        // Nothing is remembered before they said them: a crash in between signs up again, and finds the same id.
        self.lost = true;
        turn.output(Output::SignedUp { id: signed.id });
        self.ask_everyone(turn);
    }
}
