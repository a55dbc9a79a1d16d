//! The client's session: opening it, telling nodes where its replies go, losing it.

use synod_machine::{Span, Time, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::job::{ClientJob, unsigned};
use super::latency::back_off;
use super::{Client, ClientDone, ClientOutput, ClientTimer, Doubt, Outcome, Rejection, RequestId};
use crate::executor::ClientAuth;
use crate::frame::{Item, Opening, UNSIGNED};
use crate::matching::{Matching, Say, Verdict};
use crate::message::{Attach, ClientMessage, Refused};

/// A node is told again where replies go at most this often.
const ATTACH_EVERY: Span = Span::secs(1);

/// How far the session is.
#[derive(Debug)]
pub(super) enum Opened {
    /// Not asked for; the nonce of the next opening.
    Not(u64),
    /// Being signed or sent.
    Asked {
        nonce: u64,
        payload: Option<Bytes>,
        wait: Span,
        /// Whether a node's advice moved the present try.
        advised: bool,
        matching: Matching<u64>,
    },
    /// Open.
    Session(u64),
}

impl Client {
    /// Starts opening the session, unless that is done.
    pub(super) fn ensure_open(&mut self, turn: &mut Turn<'_, Self>) {
        let Opened::Not(nonce) = self.opened else { return };
        let wait = self.config.escalate_min;
        let matching = Matching::default();
        self.opened = Opened::Asked { nonce, payload: None, wait, advised: false, matching };
        let opening = Opening { key: self.config.key, nonce, signature: UNSIGNED };
        self.sign(Item::Open(opening), turn);
    }

    /// Has an item signed, or takes it as it is where channels are trusted.
    pub(super) fn sign(&mut self, item: Item, turn: &mut Turn<'_, Self>) {
        match self.config.auth {
            ClientAuth::Signed => turn.compute(ClientJob::Sign { item, scope: self.config.scope() }),
            ClientAuth::Channel => match unsigned(item) {
                ClientDone::Signed { session: 0, first, payload } => {
                    self.on_opening_signed(first, payload, turn)
                }
                ClientDone::Signed { session, first, payload } => {
                    self.on_frame_signed(session, first, payload, turn);
                }
                ClientDone::Attach(_) => unreachable!("an item is no attachment"),
            },
        }
    }

    pub(super) fn on_opening_signed(&mut self, of: u64, signed: Bytes, turn: &mut Turn<'_, Self>) {
        if let Opened::Asked { nonce, payload: payload @ None, .. } = &mut self.opened
            && *nonce == of
        {
            *payload = Some(signed);
            self.send_opening(turn);
        }
    }

    /// To all: each node then knows where the replies of the session go.
    fn send_opening(&mut self, turn: &mut Turn<'_, Self>) {
        let Opened::Asked { payload: Some(payload), wait, advised, .. } = &mut self.opened else { return };
        *advised = false;
        let Ok(item) = Blob::try_from(payload.clone()) else { unreachable!("an opening fits an item") };
        for node in self.config.trust.nodes().iter() {
            turn.send(node, ClientMessage::Item(item.clone()));
        }
        turn.arm(ClientTimer::Open, *wait);
        *wait = back_off(*wait, turn.rng());
    }

    pub(super) fn on_open_late(&mut self, turn: &mut Turn<'_, Self>) {
        self.send_opening(turn);
    }

    /// A node says which session the opening is.
    pub(super) fn on_opened(&mut self, from: NodeId, of: u64, session: u64, turn: &mut Turn<'_, Self>) {
        let Opened::Asked { nonce, matching, .. } = &mut self.opened else { return };
        if *nonce != of {
            return;
        }
        matching.hear(from, Say::Result(session), Some(Bytes::new()));
        if let Verdict::Accepted(session, _) = matching.verdict(|set| self.config.trust.accepts(set)) {
            turn.disarm(ClientTimer::Open);
            if self.config.resume.is_some_and(|resumed| resumed != session) {
                return self.give_up_all(turn);
            }
            self.opened = Opened::Session(session);
            turn.output(ClientOutput::Ready { session });
            self.on_flush(turn);
        }
    }

    /// The session to be resumed is gone, and with it the memory of what was executed: what waits may have been, so it
    /// is never sent.
    fn give_up_all(&mut self, turn: &mut Turn<'_, Self>) {
        let session = self.config.resume.unwrap_or_default();
        self.queue_bytes = 0;
        for (sequence, waiting) in (self.next..).zip(core::mem::take(&mut self.queue)) {
            let id = RequestId { session, sequence };
            let outcome = Outcome::Unknown(id, Doubt::SessionClosed);
            turn.output(ClientOutput::Outcome { tag: waiting.tag, id, outcome });
        }
        self.on_close(turn);
    }

    /// A node refuses the opening. Only a busy table or pool says when to come back; the timer asks again anyway, and
    /// what one node advises moves it once, and by no more than the wait for a silent one.
    pub(super) fn on_opening_refused(&mut self, of: u64, why: Refused, turn: &mut Turn<'_, Self>) {
        if let (Opened::Asked { nonce, wait, advised: advised @ false, .. }, Refused::Busy { retry_ms }) =
            (&mut self.opened, why)
            && *nonce == of
        {
            *advised = true;
            turn.arm(ClientTimer::Open, Span::millis(u64::from(retry_ms)).min(*wait));
        }
    }

    /// A node's connection came up: what was sent on the one before may be lost, and the wait for another try may have
    /// grown long meanwhile. A connection that comes and goes fast is left to the timers.
    pub(super) fn on_link_up(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        let last = self.greeted.get(&peer).copied();
        let soon = last.is_some_and(|last: Time| turn.now().since(last) < self.config.escalate_min);
        if soon || !self.config.trust.nodes().contains(peer) {
            return;
        }
        self.greeted.insert(peer, turn.now());
        self.attached.remove(&peer);
        self.attach(peer, turn);
        self.resend(peer, turn);
        if let Opened::Asked { payload: Some(payload), .. } = &self.opened {
            let Ok(item) = Blob::try_from(payload.clone()) else { unreachable!("an opening fits an item") };
            turn.send(peer, ClientMessage::Item(item));
        }
    }

    /// A result was accepted without some nodes. One that stays silent may not know where the session's replies go: it
    /// was given the opening only when it had executed it already, or came to it by a state transfer.
    pub(super) fn remind(&mut self, answered: NodeSet, turn: &mut Turn<'_, Self>) {
        for node in self.config.trust.nodes().minus(answered).iter() {
            let since = *self.quiet.entry(node).or_insert(turn.now());
            if turn.now().since(since) >= ATTACH_EVERY {
                self.attach(node, turn);
            }
        }
    }

    /// Tells a node that replies go to the present connection: it came up, or does not answer.
    pub(super) fn attach(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        let (Some(session), Some(member)) = (self.session(), peer.member()) else { return };
        let last = self.attached.get(&peer).copied();
        let soon = last.is_some_and(|last: Time| turn.now().since(last) < ATTACH_EVERY);
        if soon || !self.config.trust.nodes().contains(peer) {
            return;
        }
        self.attached.insert(peer, turn.now());
        self.attachments += 1;
        let attach = Attach { session, member, counter: self.attachments, signature: UNSIGNED };
        match self.config.auth {
            ClientAuth::Signed => {
                turn.compute(ClientJob::Attach { attach, scope: self.config.scope() });
            }
            ClientAuth::Channel => turn.send(peer, ClientMessage::Attach(attach)),
        }
    }

    /// The cluster closed the session: what is in flight may have been executed before and is never sent under another
    /// one; what waits goes into the next.
    pub(super) fn lose_session(&mut self, turn: &mut Turn<'_, Self>) {
        let firsts: Vec<u64> = self.flights.keys().copied().collect();
        for first in firsts {
            self.give_up(first, Doubt::SessionClosed, turn);
        }
        if self.config.resume.is_some() {
            return self.give_up_all(turn);
        }
        self.config.nonce = self.config.nonce.wrapping_add(1);
        self.opened = Opened::Not(self.config.nonce);
        self.next = 1;
        self.base = 1;
        self.attachments = 0;
        self.attached.clear();
        self.quiet.clear();
        self.decided.clear();
        if !self.queue.is_empty() {
            self.ensure_open(turn);
        }
    }

    /// Ends the client.
    pub(super) fn on_close(&mut self, turn: &mut Turn<'_, Self>) {
        let firsts: Vec<u64> = self.flights.keys().copied().collect();
        for first in firsts {
            self.give_up(first, Doubt::Closed, turn);
        }
        self.queue_bytes = 0;
        for waiting in core::mem::take(&mut self.queue) {
            reject(waiting.tag, Rejection::Closed, turn);
        }
        let reads: Vec<u64> = self.reads.keys().copied().collect();
        for id in reads {
            self.end_read(id, Outcome::Rejected(Rejection::Closed), turn);
        }
        self.closed = true;
        turn.disarm(ClientTimer::Open);
        turn.disarm(ClientTimer::Queue);
        turn.output(ClientOutput::Closed);
    }
}

/// Tells that a request was never sent.
pub(super) fn reject(tag: u64, why: Rejection, turn: &mut Turn<'_, Client>) {
    let outcome = Outcome::Rejected(why);
    turn.output(ClientOutput::Outcome { tag, id: RequestId::default(), outcome });
}
