//! Broadcasting: one message at a time, from broker to broker (4.1).

use synod_crypto::Signature;
use synod_machine::Span;
use synod_machine::planted;
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, List};

use super::flight::Flight;
use super::record::Flying;
use super::{Client, Output, Queued, Refusal, Step, Task, Timer};
use crate::config::Class;
use crate::message::{ClientMessage, Nack, Submit};
use crate::statement::Submission;
use crate::trace::Rule;

/// Bytes of a frame's length in a packed message.
const FRAME: usize = 2;
/// Retransmissions to one broker, after which only T_submit helps.
const ATTEMPTS_MAX: u32 = 8;

impl Client {
    /// Step 1.
    pub(super) fn broadcast(&mut self, token: u64, payload: Bytes, turn: &mut Step<'_>) {
        let refusal = if self.id.is_none() {
            Some(Refusal::NotInDirectory)
        } else if !self.takes(payload.len()) {
            Some(Refusal::Class)
        } else if self.queue.len() >= self.config.parameters.queue_max as usize {
            Some(Refusal::Busy)
        } else {
            None
        };
        if let Some(why) = refusal {
            turn.output(Output::Refused { token, why });
            return;
        }
        turn.applied(Rule::Step1);
        self.queued += payload.len() as u64 + 48;
        self.queue.push_back(Queued { token, payload });
        self.launch(turn);
    }

    fn takes(&self, length: usize) -> bool {
        match self.config.class {
            Class::Variable(most) if self.config.parameters.burst => {
                (1..=usize::from(most)).contains(&(length + FRAME)) && length > 0
            }
            class => class.takes(length),
        }
    }

    /// Starts the next message, when none is in flight and it is known where this client stands.
    pub(super) fn launch(&mut self, turn: &mut Step<'_>) -> bool {
        if self.flight.is_some() || self.lost || self.sync.is_some() || self.queue.is_empty() {
            return false;
        }
        let Some(next_k) = self.next_k.checked_add(1).filter(|_| self.next_k < u64::MAX - 1) else {
            return false;
        };
        let (tokens, message) = self.pack(turn);
        turn.applied(Rule::OneAtATime);
        let (k0, parity, after) = (self.next_k, self.parity, self.height());
        let flying = Flying { tokens, k0, message, parity, after };
        self.next_k = next_k;
        self.flight = Some(Flight::new(flying, turn.now()));
        self.rounds = 0;
        self.sign_submission(turn);
        true
    }

    /// The next message: one payload, or as many as fit one message, each behind its length.
    fn pack(&mut self, turn: &mut Step<'_>) -> (List<u64, { super::BURST_MAX }>, Blob<65_535>) {
        let most = usize::try_from(self.config.payload_max()).unwrap_or(0);
        let (mut tokens, mut bytes) = (List::default(), Vec::new());
        while let Some(next) = self.queue.front() {
            let length = u16::try_from(next.payload.len()).unwrap_or(u16::MAX);
            let framed = if self.config.parameters.burst { FRAME } else { 0 };
            let fits = bytes.len() + framed + next.payload.len() <= most;
            if !fits || tokens.push(next.token).is_err() {
                break;
            }
            bytes.extend(length.to_le_bytes().iter().take(framed));
            bytes.extend_from_slice(&next.payload);
            self.queued -= next.payload.len() as u64 + 48;
            self.queue.pop_front();
            if framed == 0 {
                break;
            }
        }
        if tokens.len() > 1 {
            turn.applied(Rule::Burst);
        }
        match Blob::try_from(Bytes::from(bytes)) {
            Ok(message) => (tokens, message),
            Err(_) => unreachable!("a class has messages of at most 65,535 bytes"),
        }
    }

    fn submission(&self) -> Option<Submission> {
        let flight = self.flight.as_ref()?;
        let message = self.config.cluster.domains().msg.hash(&flight.message);
        let parity = flight.parity && !planted!(C20);
        Some(Submission { id: self.id?, k0: flight.k0, parity, message })
    }

    pub(super) fn sign_submission(&self, turn: &mut Step<'_>) {
        if let Some(submission) = self.submission() {
            self.compute(turn, Task::Submit(submission));
        }
    }

    /// The message is signed: it is remembered, then it leaves.
    pub(super) fn submitted(&mut self, submission: &Submission, t: Signature, turn: &mut Step<'_>) {
        if self.submission().as_ref() != Some(submission) {
            return;
        }
        let Some(flight) = &mut self.flight else { return };
        flight.t = Some(t);
        flight.since = turn.now();
        self.persist(turn);
        self.submit(turn);
        self.patience(turn);
    }

    /// Step 2. The certificate goes along only after the broker asked for it.
    fn submit(&self, turn: &mut Step<'_>) {
        let (broker, best) = (self.broker(), self.best.clone());
        let (Some(id), Some(flight)) = (self.id, &self.flight) else { return };
        let Some(t) = flight.t else { return };
        turn.applied(Rule::Step2);
        let submit = Submit {
            id,
            k0: flight.k0,
            message: flight.message.clone(),
            parity: flight.parity,
            t,
            legitimacy: best.filter(|_| flight.explain),
        };
        Self::say(broker, ClientMessage::Submit(submit), turn);
    }

    /// Arms the timers of the broker whose turn it is.
    fn patience(&mut self, turn: &mut Step<'_>) {
        let old = self.serial;
        self.serial += 1;
        turn.disarm(Timer::Retransmit(old));
        turn.disarm(Timer::Submit(old));
        turn.arm(Timer::Retransmit(self.serial), self.timeout());
        turn.arm(Timer::Submit(self.serial), self.silence());
    }

    /// The broker of the turn showed a root after so long: it is there. The rest of its work has as much time again, once.
    pub(super) fn included(&mut self, took: Span, turn: &mut Step<'_>) {
        if self.attempts == 0 && self.rounds == 0 {
            let smooth = self.trip.map_or(took, |old| Span((old.0 / 8).saturating_mul(7) + took.0 / 8));
            self.trip = Some(smooth);
        }
        turn.disarm(Timer::Retransmit(self.serial));
        turn.arm(Timer::Submit(self.serial), self.silence());
    }

    /// Silence after which the message is sent again: a broker answers when its window closes, whatever that takes now.
    fn timeout(&self) -> Span {
        let least = self.config.parameters.retransmit;
        self.trip.map_or(least, |trip| trip.times(3)).max(least).min(self.config.parameters.submit)
    }

    /// T_submit after the rounds done so far.
    pub(super) fn silence(&self) -> Span {
        let doubled = self.config.parameters.submit.times(1 << self.rounds.min(16));
        doubled.min(self.config.parameters.submit_max)
    }

    pub(super) fn retransmit(&mut self, turn: &mut Step<'_>) {
        let waits = self.flight.as_ref().is_some_and(|flight| !flight.included && flight.t.is_some());
        if !waits || self.attempts >= ATTEMPTS_MAX {
            return;
        }
        self.submit(turn);
        self.attempts += 1;
        let after = self.timeout().times(1 << self.attempts);
        turn.arm(Timer::Retransmit(self.serial), after);
    }

    /// Nothing was delivered in time: the same message, under the same number and signature, to the next broker.
    pub(super) fn other_broker(&mut self, turn: &mut Step<'_>) {
        let Some(flight) = self.flight.as_mut().filter(|flight| flight.t.is_some()) else { return };
        flight.included = false;
        flight.explain = false;
        turn.applied(Rule::OtherBroker);
        self.next_broker();
        self.submit(turn);
        self.patience(turn);
    }

    /// There is a new link to this broker, which knows the old one alone: it hears from where to answer.
    pub(super) fn linked(&self, broker: NodeId, turn: &mut Step<'_>) {
        if broker == self.broker() {
            self.submit(turn);
            self.show_card(turn);
        }
    }

    pub(super) fn on_nack(&mut self, from: NodeId, why: Nack, retry_ms: u32, turn: &mut Step<'_>) {
        if from != self.broker() {
            return;
        }
        let has_certificate = self.best.is_some();
        let Some(flight) = self.flight.as_mut().filter(|flight| flight.t.is_some()) else { return };
        match why {
            Nack::NeedCertificate if has_certificate && !flight.explain => {
                flight.explain = true;
                turn.applied(Rule::LegitimacyProof);
                self.submit(turn);
            }
            Nack::Busy => {
                // A broker's number delays nothing beyond the silence after which the next one is asked.
                let after = Span::millis(u64::from(retry_ms)).max(Span::millis(50)).min(self.silence());
                turn.arm(Timer::Retransmit(self.serial), after);
            }
            // The next broker is asked when the time of this one is up.
            Nack::NeedCertificate | Nack::NotInDirectory | Nack::Class | Nack::NeedClaim | Nack::Refused => {}
        }
    }

    /// Disarms the timers of a message that is done.
    pub(super) fn rest(&mut self, turn: &mut Step<'_>) {
        turn.disarm(Timer::Retransmit(self.serial));
        turn.disarm(Timer::Submit(self.serial));
        self.serial += 1;
        self.attempts = 0;
    }
}
