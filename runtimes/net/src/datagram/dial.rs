//! The dialling side of links: one call per acceptor, which shakes hands until it has a link and again when the link
//! falls silent.
//!
//! *Silence.* A call that sent something waits for anything authentic. After three times the longer of `rto_min` and
//! three round trips without it, the link is called down and hands are shaken again, from whatever address the socket
//! has by then. The old link is used until the new one is there, and stays if it speaks first.
//!
//! *Bounds.* As many calls as were configured; 8 bodies wait for a link.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use synod_crypto::{Hash, HashKey, Keys, PublicKey};
use synod_machine::{Link, Span, Time};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::burst::{Draft, Heard, checked};
use super::exchange::{LinkKeys, Secret, accepted};
use super::format::{Acceptance, Datagram, Dropped, Opening, Sealed, Ticket};
use super::window::Window;
use crate::handshake::nonce;

/// Bodies that wait for a link.
const BACKLOG_MAX: usize = 8;
/// Times a proof is sent before the greeting is made anew.
const PROOFS_MAX: u32 = 3;
/// The wait between attempts doubles this often.
const DOUBLINGS_MAX: u32 = 4;
/// Silent timeouts until hands are shaken again.
const SILENT_MAX: u64 = 3;

/// An acceptor that a process calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPeer {
    /// The id by which the machine knows it: no member's, and below 2^31.
    pub id: NodeId,
    /// Where it accepts links.
    pub address: SocketAddr,
    /// The key that vouches for its links.
    pub key: PublicKey,
}

/// What a dialler wants done.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) enum Act {
    /// Send this.
    Send { call: usize, to: SocketAddr, datagram: Draft },
    /// A link came up or went down.
    News { peer: NodeId, link: Link },
    /// A body came.
    Body { peer: NodeId, body: Bytes },
}

struct Up {
    number: u32,
    keys: LinkKeys,
    sent: u64,
    window: Window,
    /// Since when something was sent and nothing came.
    waits: Option<Time>,
}

struct Shake {
    opening: Opening,
    secret: Secret,
    cookie: Option<[u8; 32]>,
    proofs: u32,
    attempts: u32,
    said: Time,
}

struct Call {
    peer: LinkPeer,
    up: Option<Up>,
    shake: Option<Shake>,
    is_up: bool,
    backlog: VecDeque<Bytes>,
    round_trip: Span,
    due: Option<Time>,
}

/// The dialling side.
pub(crate) struct Dialler {
    /// By rising id of the peer.
    calls: Vec<Call>,
    /// By number of the link and the place of its address in `addresses`.
    by_link: HashMap<(u32, u32), usize>,
    /// Where calls go to, each once, in order.
    addresses: Vec<SocketAddr>,
    due: BTreeSet<(Time, usize)>,
    keys: Arc<Keys>,
    cluster: Hash,
    rto_min: Span,
}

impl Dialler {
    /// Calls to `peers`, whose ids differ; all of them are due at once.
    pub(crate) fn new(peers: &[LinkPeer], keys: Arc<Keys>, cluster: Hash, rto_min: Span) -> Self {
        let start = Some(Time::ZERO);
        let mut calls: Vec<Call> = peers
            .iter()
            .map(|peer| Call {
                peer: *peer,
                up: None,
                shake: None,
                is_up: false,
                backlog: VecDeque::new(),
                round_trip: Span::ZERO,
                due: start,
            })
            .collect();
        calls.sort_by_key(|call| call.peer.id);
        let addresses: BTreeSet<SocketAddr> = peers.iter().map(|peer| peer.address).collect();
        let addresses = addresses.into_iter().collect();
        let due = (0..calls.len()).map(|at| (Time::ZERO, at)).collect();
        Self { calls, addresses, by_link: HashMap::new(), due, keys, cluster, rto_min }
    }

    /// The call of a peer. Ids that follow one another are found without a search.
    fn place(&self, peer: NodeId) -> Option<usize> {
        let first = self.calls.first()?.peer.id.0;
        let guess = usize::try_from(peer.0.checked_sub(first)?).ok()?;
        if self.calls.get(guess).is_some_and(|call| call.peer.id == peer) {
            return Some(guess);
        }
        self.calls.binary_search_by_key(&peer, |call| call.peer.id).ok()
    }

    /// What a link is known by: numbers of different acceptors may be equal.
    fn name(&self, address: SocketAddr, number: u32) -> Option<(u32, u32)> {
        let at = self.addresses.binary_search(&address).ok()?;
        Some((number, u32::try_from(at).ok()?))
    }

    /// Whether a peer is called here.
    pub(crate) fn knows(&self, peer: NodeId) -> bool {
        self.place(peer).is_some()
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Time, acts: &mut Vec<Act>) {
        while let Some((time, at)) = self.due.first().copied().filter(|(time, _)| *time <= now) {
            self.due.remove(&(time, at));
            let Some(call) = self.calls.get_mut(at) else { continue };
            call.due = None;
            let again = call.due_now(at, now, self.rto_min, acts);
            self.set_due(at, again);
        }
    }

    fn set_due(&mut self, at: usize, due: Option<Time>) {
        let Some(call) = self.calls.get_mut(at) else { return };
        if let Some(old) = call.due.take() {
            self.due.remove(&(old, at));
        }
        call.due = due;
        if let Some(due) = due {
            self.due.insert((due, at));
        }
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// [`Dropped`] when it brings nothing.
    pub(crate) fn receive(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        now: Time,
        acts: &mut Vec<Act>,
    ) -> Result<(), Dropped> {
        match Datagram::read(bytes)? {
            Datagram::Cookie { ticket, cookie } => {
                let at = self.shaking(ticket, from)?;
                let Some(call) = self.calls.get_mut(at) else { return Err(Dropped::Unknown) };
                let Some(shake) = call.shake.as_mut() else { return Err(Dropped::Unknown) };
                if shake.cookie.replace(cookie).is_none() {
                    call.round_trip = now.since(shake.said);
                    acts.push(shake.prove(at, from, cookie));
                }
                Ok(())
            }
            Datagram::Accept(acceptance) => self.accepted(from, &acceptance, now, acts),
            Datagram::Sealed(sealed) => {
                self.open_each(&[(from, sealed)], acts).pop().unwrap_or(Err(Dropped::Unknown))
            }
            Datagram::Hello(_) | Datagram::Prove { .. } => Err(Dropped::Unknown),
        }
    }

    /// The call whose handshake a word answers.
    fn shaking(&self, ticket: Ticket, from: SocketAddr) -> Result<usize, Dropped> {
        let at = usize::try_from(ticket.place).map_err(|_| Dropped::Unknown)?;
        let call = self.calls.get(at).ok_or(Dropped::Unknown)?;
        let is_answer = call.shake.as_ref().is_some_and(|shake| shake.opening.ticket == ticket);
        if is_answer && call.peer.address == from { Ok(at) } else { Err(Dropped::Unknown) }
    }

    fn accepted(
        &mut self,
        from: SocketAddr,
        acceptance: &Acceptance,
        now: Time,
        acts: &mut Vec<Act>,
    ) -> Result<(), Dropped> {
        let at = self.shaking(acceptance.ticket, from)?;
        let call = self.calls.get_mut(at).ok_or(Dropped::Unknown)?;
        let shake = call.shake.as_ref().ok_or(Dropped::Unknown)?;
        let judge = (&*self.keys, self.cluster);
        let keys = accepted(&shake.opening, &shake.secret, acceptance, call.peer.key, judge)
            .ok_or(Dropped::Forged)?;
        call.shake = None;
        let fresh = Up { number: acceptance.link, keys, sent: 0, window: Window::default(), waits: None };
        let old = call.up.replace(fresh).map(|old| (from, old.number));
        call.says(Link::Up, acts);
        let waiting = core::mem::take(&mut call.backlog);
        let old = old.and_then(|(from, number)| self.name(from, number));
        if let Some(old) = old.filter(|old| self.by_link.get(old) == Some(&at)) {
            self.by_link.remove(&old);
        }
        if let Some(name) = self.name(from, acceptance.link) {
            self.by_link.insert(name, at);
        }
        self.set_due(at, None);
        for body in waiting {
            self.send_at(at, &body, now, acts);
        }
        Ok(())
    }

    /// Reads datagrams of links that came together. Whether each brought something, in their order.
    pub(crate) fn open_each(&mut self, burst: &[Heard<'_>], acts: &mut Vec<Act>) -> Vec<Result<(), Dropped>> {
        let checked = checked(burst, |from, sealed| self.locate(from, sealed));
        let all = checked.into_iter().zip(burst);
        let open = |(checked, (_, sealed)): (Result<_, Dropped>, &Heard<'_>)| {
            let (at, tag) = checked?;
            self.sealed(at, sealed, tag, acts)
        };
        all.map(open).collect()
    }

    /// The call of a datagram, and the key of what comes there.
    fn locate(&self, from: SocketAddr, sealed: &Sealed<'_>) -> Result<(usize, &HashKey), Dropped> {
        let name = self.name(from, sealed.link).ok_or(Dropped::Unknown)?;
        let at = *self.by_link.get(&name).ok_or(Dropped::Unknown)?;
        let call = self.calls.get(at).ok_or(Dropped::Unknown)?;
        let up = call.up.as_ref().filter(|up| up.number == sealed.link).ok_or(Dropped::Unknown)?;
        if up.window.is_fresh(sealed.sequence) {
            Ok((at, &up.keys.to_dialler))
        } else {
            Err(Dropped::Replayed)
        }
    }

    /// A datagram of the call at `at`, after others that came with it.
    fn sealed(
        &mut self,
        at: usize,
        sealed: &Sealed<'_>,
        tag: Result<(), Dropped>,
        acts: &mut Vec<Act>,
    ) -> Result<(), Dropped> {
        let call = self.calls.get_mut(at).ok_or(Dropped::Unknown)?;
        let up = call.up.as_mut().ok_or(Dropped::Unknown)?;
        if !up.window.is_fresh(sealed.sequence) {
            return Err(Dropped::Replayed);
        }
        tag?;
        let body = sealed.body();
        up.window.add(sealed.sequence);
        up.waits = None;
        let was_shaking = call.shake.take().is_some();
        call.says(Link::Up, acts);
        acts.push(Act::Body { peer: call.peer.id, body });
        // What is due for a silence stays: it is cheaper to find then that there is none than to move it each time.
        if was_shaking {
            self.set_due(at, None);
        }
        Ok(())
    }

    /// Sends a body, or keeps it until there is a link; whether either was possible.
    pub(crate) fn send(&mut self, peer: NodeId, body: &Bytes, now: Time, acts: &mut Vec<Act>) -> bool {
        let Some(at) = self.place(peer) else { return false };
        self.send_at(at, body, now, acts)
    }

    fn send_at(&mut self, at: usize, body: &Bytes, now: Time, acts: &mut Vec<Act>) -> bool {
        let Some(call) = self.calls.get_mut(at) else { return false };
        let Some(up) = call.up.as_mut() else {
            let has_room = call.backlog.len() < BACKLOG_MAX;
            if has_room {
                call.backlog.push_back(body.clone());
            }
            return has_room;
        };
        let Some(datagram) = Draft::of(&up.keys.to_acceptor, up.number, up.sent, body) else { return false };
        up.sent = up.sent.saturating_add(1);
        acts.push(Act::Send { call: at, to: call.peer.address, datagram });
        if up.waits.is_none() {
            up.waits = Some(now);
            if call.shake.is_none() && call.due.is_none() {
                let silent = call.silent(self.rto_min);
                self.set_due(at, Some(after(now, silent)));
            }
        }
        true
    }

    /// The peer broke a rule: its link is given up. A new one is made when the call is due.
    pub(crate) fn cut(&mut self, peer: NodeId, now: Time, acts: &mut Vec<Act>) {
        let Some(at) = self.place(peer) else { return };
        let Some(call) = self.calls.get_mut(at) else { return };
        call.says(Link::Down, acts);
        call.shake = None;
        let (address, up) = (call.peer.address, call.up.take());
        if let Some(name) = up.and_then(|up| self.name(address, up.number)) {
            self.by_link.remove(&name);
        }
        self.set_due(at, Some(after(now, backed_off(self.rto_min, DOUBLINGS_MAX))));
    }
}

const fn after(now: Time, span: Span) -> Time {
    Time(now.0.saturating_add(span.0))
}

/// The wait after so many attempts.
fn backed_off(rto_min: Span, attempts: u32) -> Span {
    Span(rto_min.0.saturating_mul(1 << attempts.min(DOUBLINGS_MAX)))
}

impl Shake {
    fn prove(&mut self, call: usize, to: SocketAddr, cookie: [u8; 32]) -> Act {
        self.proofs = self.proofs.saturating_add(1);
        let datagram = Datagram::Prove { opening: self.opening, cookie }.encode().into();
        Act::Send { call, to, datagram }
    }
}

impl Call {
    /// How long a link may say nothing.
    fn silent(&self, rto_min: Span) -> Span {
        let rto = rto_min.0.max(self.round_trip.0.saturating_mul(3));
        Span(rto.saturating_mul(SILENT_MAX))
    }

    fn says(&mut self, link: Link, acts: &mut Vec<Act>) {
        let is_up = link == Link::Up;
        if self.is_up != is_up {
            self.is_up = is_up;
            acts.push(Act::News { peer: self.peer.id, link });
        }
    }

    /// What is due: a step of the handshake, or the end of a silence. When it is due again.
    fn due_now(&mut self, at: usize, now: Time, rto_min: Span, acts: &mut Vec<Act>) -> Option<Time> {
        if let (Some(up), None) = (&self.up, &self.shake) {
            // Since this became due, something may have come, and something else may be waited for.
            let end = after(up.waits?, self.silent(rto_min));
            if end > now {
                return Some(end);
            }
        }
        if let Some(shake) = self.shake.as_mut()
            && let Some(cookie) = shake.cookie.filter(|_| shake.proofs < PROOFS_MAX)
        {
            acts.push(shake.prove(at, self.peer.address, cookie));
            return Some(after(now, rto_min));
        }
        self.says(Link::Down, acts);
        let attempts = self.shake.as_ref().map_or(0, |shake| shake.attempts.saturating_add(1));
        let wait = backed_off(rto_min, attempts);
        let secret = self.shake.take().map_or_else(Secret::new, |shake| Some(shake.secret));
        if let (Some(secret), Ok(place)) = (secret, u32::try_from(at)) {
            let drawn = nonce();
            let attempt = drawn.first_chunk::<8>().map_or(0, |drawn| u64::from_le_bytes(*drawn));
            let opening = Opening { ticket: Ticket { place, attempt }, random: nonce(), share: secret.share };
            let datagram = Datagram::Hello(opening).encode().into();
            acts.push(Act::Send { call: at, to: self.peer.address, datagram });
            self.shake = Some(Shake { opening, secret, cookie: None, proofs: 0, attempts, said: now });
        }
        Some(after(now, wait))
    }
}
