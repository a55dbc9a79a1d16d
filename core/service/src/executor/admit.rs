//! What guests send: items to be ordered, and where replies go.
//!
//! Screening is cheap and comes twice: when an item arrives and when its signature is checked, for the world may have
//! moved between. An item in flight is not answered before it is committed; one that was executed is answered at
//! once, in full.

use synod_crypto::{Hash, PublicKey};
use synod_machine::broadcast::{Refusal, Submit, Ticket};
use synod_machine::{Turn, planted};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::job::{ExecutorJob, ItemCheck, Signed, signed_digest};
use super::pool::Name;
use super::replies::Route;
use super::{ClientAuth, Executor, ExecutorOutput, ServiceFault};
use crate::app::App;
use crate::frame::{ClientFrame, Item, Opening, Said, item_digest};
use crate::message::{Attach, Refused, Reply};

/// What an arriving item is.
#[derive(Debug)]
enum Screened {
    /// New: to be ordered once its signature is good.
    Fit(PublicKey),
    /// In flight with these bytes.
    InFlight,
    /// The session of this opening is open.
    Open(u64),
    /// Every command was executed or given up; answered in full once the signature is good.
    Repeat(PublicKey),
    /// Not taken.
    Refused(Refused),
}

/// An item with what is known about it.
struct Arrived {
    from: NodeId,
    item: Item,
    payload: Bytes,
    /// Known once its origin is.
    digest: Option<Hash>,
}

impl<P: App + 'static> Executor<P> {
    /// An item from a guest.
    pub(super) fn on_item(&mut self, from: NodeId, payload: Bytes, turn: &mut Turn<'_, Self>) {
        let Ok(item) = Item::parse(&payload) else {
            return turn.blame(from, ServiceFault::UndecodableItem(payload));
        };
        let key = match self.screen(from, &item, &payload) {
            Screened::Fit(key) | Screened::Repeat(key) => key,
            _ => return self.act(Arrived { from, item, payload, digest: None }, turn),
        };
        match self.settings.auth {
            ClientAuth::Signed => {
                let check = ItemCheck::new(&item, payload, key, self.settings.scope);
                turn.compute(ExecutorJob::Admit { from, check });
            }
            ClientAuth::Channel => {
                let digest = item_digest(&payload);
                self.act(Arrived { from, item, payload, digest: Some(digest) }, turn);
            }
        }
    }

    /// A guest's item whose signature was checked.
    pub(super) fn on_admitted(
        &mut self,
        from: NodeId,
        payload: Bytes,
        signed: Signed,
        turn: &mut Turn<'_, Self>,
    ) {
        let Ok(item) = Item::parse(&payload) else { unreachable!("it was parsed before it was checked") };
        match signed.as_ref().and_then(signed_digest) {
            None => {
                self.refuse(from, &item, Refused::BadSignature, turn);
                turn.blame(from, ServiceFault::ForgedItem(payload));
            }
            digest => self.act(Arrived { from, item, payload, digest }, turn),
        }
    }

    /// Acts on an item as it is screened now.
    fn act(&mut self, arrived: Arrived, turn: &mut Turn<'_, Self>) {
        let Arrived { from, item, payload, digest } = arrived;
        let name = Name::of(&item);
        match (self.screen(from, &item, &payload), &item, digest) {
            (Screened::Fit(_), _, Some(digest)) => {
                // Memory of its own: as a part of the frame it came in it would keep what else was received with it.
                let payload = Bytes::copy_from_slice(&payload);
                let ticket = self.pool.admit(name, payload.clone(), digest, from);
                turn.output(ExecutorOutput::Submit(Submit::Payload { ticket, payload }));
            }
            (Screened::Repeat(_), Item::Frame(frame), Some(_)) => {
                let reply = self.repeat(frame.session, frame.first, frame.commands.len() as u64);
                self.reply_now(from, reply, turn);
            }
            (Screened::InFlight, ..) => self.pool.repeat(name, from),
            (Screened::Open(session), Item::Open(opening), _) => {
                self.reply_now(from, Reply::Opened { nonce: opening.nonce, session }, turn);
            }
            (Screened::Refused(why), ..) => self.refuse(from, &item, why, turn),
            (Screened::Fit(_) | Screened::Repeat(_), _, None) => {}
            (Screened::Open(_) | Screened::Repeat(_), ..) => {
                unreachable!("screening tells openings from frames")
            }
        }
    }

    fn screen(&self, from: NodeId, item: &Item, payload: &Bytes) -> Screened {
        if self.transfer.is_some() {
            return Screened::Refused(Refused::NotReady);
        }
        match item {
            Item::Open(opening) => self.screen_opening(from, opening, payload),
            Item::Frame(frame) => self.screen_frame(frame, payload),
        }
    }

    fn screen_opening(&self, from: NodeId, opening: &Opening, payload: &Bytes) -> Screened {
        if let Some(session) = self.sessions.find(opening.key, opening.nonce) {
            return Screened::Open(session);
        }
        match self.pool.get(Name::Open(opening.key, opening.nonce)) {
            Some(_) => Screened::InFlight,
            None => {
                let fits = self.pool.fits_opening(from, payload.len() as u64, &self.settings.limits);
                self.within_budget(fits, opening.key)
            }
        }
    }

    fn screen_frame(&self, frame: &ClientFrame, payload: &Bytes) -> Screened {
        let Some(session) = self.sessions.get(frame.session) else {
            // A session's id is the position of its opening: one that lies ahead is opened when this node gets there.
            let ahead = frame.session > self.executed.0;
            return Screened::Refused(if ahead { Refused::NotReady } else { Refused::UnknownSession });
        };
        let in_flight = self.pool.get(Name::Frame(frame.session, frame.first));
        if planted!(K3) && in_flight.is_some() || session.is_repeat_of(frame) {
            return Screened::Repeat(session.key());
        }
        if frame.acked > session.window().end() {
            // The client had answers that this node has not executed yet.
            return Screened::Refused(Refused::NotReady);
        }
        if frame.end() > session.reach(frame.acked) {
            return Screened::Refused(Refused::OutsideWindow);
        }
        match in_flight {
            Some(pending) if pending.payload == *payload => Screened::InFlight,
            Some(_) => Screened::Refused(Refused::Reused),
            None => {
                let fits = self.pool.fits(frame.session, payload.len() as u64, &self.settings.limits);
                self.within_budget(fits, session.key())
            }
        }
    }

    fn within_budget(&self, fits: bool, key: PublicKey) -> Screened {
        if fits {
            Screened::Fit(key)
        } else {
            Screened::Refused(Refused::Busy { retry_ms: self.pool.retry_ms() })
        }
    }

    fn refuse(&mut self, to: NodeId, item: &Item, why: Refused, turn: &mut Turn<'_, Self>) {
        self.refuse_all(Name::of(item), &[to], why, turn);
        self.count_refusal(to, why, turn);
    }

    /// The ordering layer did not take a submission; a barrier that comes back so takes its reads with it.
    pub(super) fn on_refused(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_, Self>) {
        self.reads.drop_barrier(ticket);
        let Some(name) = self.pool.name(ticket) else { return };
        let Some(pending) = self.pool.settle(name) else { return };
        let why = match why {
            Refusal::Busy { retry_ms } => Refused::Busy { retry_ms },
            Refusal::TooLarge => Refused::TooLarge,
            _ => Refused::NotReady,
        };
        self.refuse_all(name, &pending.waiters, why, turn);
        pending.waiters.iter().for_each(|waiter| self.count_refusal(*waiter, why, turn));
    }

    fn count_refusal(&mut self, guest: NodeId, why: Refused, turn: &mut Turn<'_, Self>) {
        if self.refusals.count(guest, why, turn.now()) {
            turn.blame(guest, ServiceFault::RefusedTooOften);
        }
    }

    /// Closes a session: its items in flight are given up, their clients told.
    pub(super) fn close(&mut self, session: u64, turn: &mut Turn<'_, Self>) {
        self.replier.detach(session);
        for name in self.pool.of_session(session) {
            if let Some(pending) = self.pool.settle(name) {
                self.refuse_all(name, &pending.waiters, Refused::UnknownSession, turn);
            }
        }
    }

    fn refuse_all(&self, name: Name, waiters: &[NodeId], why: Refused, turn: &mut Turn<'_, Self>) {
        let (session, first) = match name {
            Name::Open(_, nonce) => (0, nonce),
            Name::Frame(session, first) => (session, first),
        };
        for waiter in waiters {
            self.reply_now(*waiter, Reply::Refused { session, first, why }, turn);
        }
    }

    /// A client wants the replies of its session on the connection of `from`.
    pub(super) fn on_attach(&mut self, from: NodeId, attach: Attach, turn: &mut Turn<'_, Self>) {
        let Some(key) = self.screen_attach(&attach) else { return };
        match self.settings.auth {
            ClientAuth::Channel => self.attach(from, &attach),
            ClientAuth::Signed => {
                let scope = self.settings.scope;
                turn.compute(ExecutorJob::Attach { from, attach, key, scope });
            }
        }
    }

    /// An attachment whose signature was checked.
    pub(super) fn on_attached(
        &mut self,
        from: NodeId,
        attach: &Attach,
        signed: Signed,
        turn: &mut Turn<'_, Self>,
    ) {
        let Attach { session, member, counter, .. } = *attach;
        match signed {
            Some(signed) if signed.statement == (Said::Channel { session, member, counter }) => {
                if self.screen_attach(attach).is_some() {
                    self.attach(from, attach);
                }
            }
            _ => turn.blame(from, ServiceFault::ForgedItem(Bytes::new())),
        }
    }

    /// The key of the session, if the attachment is for this member and newer than what is known.
    fn screen_attach(&self, attach: &Attach) -> Option<PublicKey> {
        let session = self.sessions.get(attach.session)?;
        let here = Some(attach.member) == self.settings.own.member();
        let newer = self.replier.route(attach.session).is_none_or(|route| route.counter < attach.counter);
        (here && newer).then(|| session.key())
    }

    fn attach(&mut self, from: NodeId, attach: &Attach) {
        self.replier.attach(attach.session, Route { guest: from, counter: attach.counter });
    }
}
