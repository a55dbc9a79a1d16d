//! Requests on their way to a slot (specification, 4.8): who heard what, what may be proposed, and what this replica vouches for.

use synod_crypto::{Claim, Hash, PublicKey, Signature, Verified};
use synod_machine::{Span, Time, Turn};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, List, Wire as _};

use super::pending::Pending;
use super::state::Replica;
use super::vocabulary::{ClientFor, Job, Timer};
use super::words::Ask;
use crate::batch::{Auth, Batch, Op, Request, View};
use crate::config::NUMBER_END;
use crate::fault::Fault;
use crate::message::{CHANGES, ClientStatement, Message, Registration, Replied, SYSTEM};
use crate::sessions::Fate;
use crate::trace::Rule;

/// Slots that a leader has open before what it proposes has to fill a batch.
const OPEN_MAX: u64 = 2;
/// Bytes of a request in a batch beside its operation, at most: numbers, tags and a signature.
const REQUEST_EXTRA: usize = 96;
/// Registrations that wait at most.
const REGISTERING_MAX: usize = 64;

/// A client that asks for a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registering {
    signature: Signature,
    pub(super) guest: NodeId,
    since: Time,
    said: Option<View>,
}

/// Bytes of a batch, about.
pub(super) fn batch_bytes(batch: &Batch) -> usize {
    batch.size_hint() + 64 * batch.requests.len() + 64
}

pub(super) fn inline(request: &Request) -> Option<&Bytes> {
    match &request.op {
        Op::Inline(op) => Some(op.bytes()),
        Op::Ref { .. } => None,
    }
}

impl Replica {
    pub(super) fn check_client(
        &self,
        what: ClientFor,
        op: Bytes,
        (statement, key, signature): (ClientStatement, PublicKey, Signature),
        turn: &mut Turn<'_, Self>,
    ) {
        let claim = statement.claim(self.config.cluster, key, signature);
        turn.compute(Job::Client { what, op, claim });
    }

    /// A client's request, on the link of its session; or one that it signed, from anybody.
    pub(super) fn on_request(
        &mut self,
        from: NodeId,
        (session, id): (u64, u64),
        op: Bytes,
        signature: Option<Signature>,
        turn: &mut Turn<'_, Self>,
    ) {
        let inline_max = usize::try_from(self.config.parameters.request_inline_max).unwrap_or(0);
        if session >= CHANGES || id >= NUMBER_END || op.len() > inline_max {
            turn.blame(from, Fault::Malformed);
            return;
        }
        let is_attached = self.attached.get(&session).is_some_and(|(guest, _)| *guest == from);
        let is_on_link = is_attached || self.is_own_of(session, from);
        match self.fate(session, id) {
            Fate::Fresh | Fate::Ahead => {}
            Fate::Done(reply) if is_attached => return self.reply(from, (session, id), reply, true, turn),
            Fate::Done(_) | Fate::Below | Fate::Beyond | Fate::Gone | Fate::Unknown => return,
        }
        if let (Some(signature), Some(key)) = (signature, self.sessions.key(session)) {
            let statement = ClientStatement::Asked { session, id, op: Hash::of(&op) };
            self.check_client(ClientFor::Request(from), op.clone(), (statement, key, signature), turn);
        }
        if !is_on_link {
            return;
        }
        let (now, digest) = (turn.now(), Hash::of(&op));
        let guest = Some(from).filter(|from| *from != self.config.me);
        if !self.pending.entry((session, id)).or_default().hear((op, digest), now, guest) {
            return;
        }
        self.say_heard((session, id), turn);
        self.judge_again(turn);
        self.expect_echoes(turn);
    }

    /// A follower tells the leader; a leader looks whether all heard.
    fn say_heard(&mut self, key: (u64, u64), turn: &mut Turn<'_, Self>) {
        let (session, id) = key;
        let Some((view, leader)) = self.consensus().map(|consensus| (consensus.view(), consensus.leader()))
        else {
            return;
        };
        let me = self.config.me;
        if leader == me {
            self.consider_ready(key, view);
            return;
        }
        let Some(pending) = self.pending.get_mut(&key).filter(|pending| pending.said != Some(view)) else {
            return;
        };
        pending.said = Some(view);
        if let Some(op) = pending.echo() {
            turn.applied(Rule::Echo);
            turn.send(leader, Message::Echo { session, id, op });
        }
        if let Some((op, signature)) = pending.forward()
            && let Ok(op) = op.clone().try_into()
        {
            turn.send(leader, Message::Forward { session, id, op, signature: Box::new(signature) });
        }
    }

    /// Heard by all, or signed: it may be proposed.
    fn consider_ready(&mut self, key: (u64, u64), view: View) {
        let followers = self.config.roster.others(self.config.me);
        let Some(pending) = self.pending.get_mut(&key).filter(|pending| pending.said != Some(view)) else {
            return;
        };
        if pending.is_ready(followers) {
            pending.said = Some(view);
            self.ready.push_back(key);
        }
    }

    pub(super) fn on_echo(&mut self, from: NodeId, key: (u64, u64), op: Hash, turn: &mut Turn<'_, Self>) {
        let (session, id) = key;
        if !self.config.roster.others(self.config.me).contains(from) || id >= NUMBER_END {
            turn.blame(from, Fault::NoReceiver);
            return;
        }
        if !matches!(self.fate(session, id), Fate::Fresh | Fate::Ahead) {
            return;
        }
        self.pending.entry(key).or_default().echoed(from, op);
        if let Some(view) = self.consensus().filter(|_| self.is_leader()).map(super::Consensus::view) {
            self.consider_ready(key, view);
        }
    }

    /// T_echo: how long all followers may take to hear a request.
    fn echo(&self) -> Span {
        let parameters = &self.config.parameters;
        self.consensus().map_or(parameters.echo, |consensus| consensus.pace.echo(parameters))
    }

    fn expect_echoes(&mut self, turn: &mut Turn<'_, Self>) {
        if self.is_leader() && !self.is_echo_armed {
            self.is_echo_armed = true;
            turn.arm(Timer::Echo, self.echo());
        }
    }

    /// Requests that not all heard in time: their clients are asked to sign (D2).
    pub(super) fn on_unheard(&mut self, turn: &mut Turn<'_, Self>) {
        self.is_echo_armed = false;
        let (now, wait, is_leader) = (turn.now(), self.echo(), self.is_leader());
        let mut is_any = false;
        for ((session, id), pending) in &mut self.pending {
            let Some((heard, guest)) = pending.waits().filter(|_| is_leader) else { continue };
            if now.since(heard) < wait {
                is_any = true;
                continue;
            }
            pending.ask();
            turn.applied(Rule::NeedSigned);
            turn.send(guest, Message::NeedSigned { session: *session, id: *id });
        }
        if is_any {
            self.is_echo_armed = true;
            turn.arm(Timer::Echo, wait);
        }
    }

    /// In a new view everything is said to its leader.
    pub(super) fn echo_again(&mut self, turn: &mut Turn<'_, Self>) {
        self.ready.clear();
        self.forward_again(turn);
        self.registering.values_mut().for_each(|registering| registering.said = None);
        self.say_registrations(turn);
        let keys: Vec<(u64, u64)> = self.pending.keys().copied().collect();
        for key in keys {
            if let Some(pending) = self.pending.get_mut(&key) {
                pending.said = None;
            }
            self.say_heard(key, turn);
        }
        self.expect_echoes(turn);
    }

    /// A client's key, or its session, on a link.
    pub(super) fn on_register(
        &mut self,
        from: NodeId,
        registration: Registration,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let (Registration { key, nonce }, is_leader) = (registration, self.is_leader());
        if nonce >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        if let Some(session) = self.sessions.find(key, nonce) {
            turn.send(from, Message::Registered { nonce, session: Some(session) });
            return;
        }
        let known = self.registering.get_mut(&(key, nonce)).filter(|known| known.signature == signature);
        if let Some(known) = known {
            // A peer passed it on before its client said it here, or what was passed on was lost.
            if self.config.roster.member(from).is_none() {
                (known.guest, known.said) = (from, known.said.filter(|_| is_leader));
            }
            self.say_registrations(turn);
        } else if self.registering.len() < REGISTERING_MAX {
            let statement = ClientStatement::Register { nonce };
            self.check_client(ClientFor::Register(from), Bytes::new(), (statement, key, signature), turn);
        }
    }

    /// A follower passes registrations on to the leader: a client may say them to it alone.
    fn say_registrations(&mut self, turn: &mut Turn<'_, Self>) {
        let me = self.config.me;
        let leading = self.consensus().map(|consensus| (consensus.view(), consensus.leader()));
        let Some((view, leader)) = leading.filter(|(_, leader)| *leader != me) else { return };
        for ((key, nonce), registering) in &mut self.registering {
            if registering.said != Some(view) {
                registering.said = Some(view);
                let registration = Registration { key: *key, nonce: *nonce };
                let signature = Box::new(registering.signature);
                turn.send(leader, Message::Register { registration, signature });
            }
        }
    }

    pub(super) fn on_attach(
        &mut self,
        from: NodeId,
        (session, sequence): (u64, u64),
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let is_newer = self.attached.get(&session).is_none_or(|(_, last)| *last < sequence);
        if let (Some(key), Some(replica), true) =
            (self.sessions.key(session), self.config.me.member(), is_newer)
        {
            let statement = ClientStatement::Attach { session, replica, sequence };
            self.check_client(ClientFor::Attach(from), Bytes::new(), (statement, key, signature), turn);
        }
    }

    /// What a client signed is checked.
    pub(super) fn on_client(
        &mut self,
        what: ClientFor,
        op: Bytes,
        claim: Result<Verified<Claim<ClientStatement>>, Claim<ClientStatement>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Ok(claim) = claim else {
            match what {
                ClientFor::Request(from) | ClientFor::Attach(from) | ClientFor::Register(from) => {
                    turn.blame(from, Fault::BadSignature);
                }
                // A leader that proposes what nobody signed is suspected: nobody vouches for it.
                ClientFor::Batch(..) => {}
            }
            return;
        };
        match (what, claim.statement) {
            (ClientFor::Request(_), ClientStatement::Asked { session, id, op: digest }) => {
                self.on_signed((session, id), (op, digest), claim.signature, turn);
            }
            (ClientFor::Attach(from), ClientStatement::Attach { session, sequence, .. }) => {
                let last = self.attached.get(&session).map_or(0, |(_, last)| *last);
                if self.sessions.key(session) == Some(claim.key) && sequence > last {
                    self.attached.insert(session, (from, sequence));
                }
            }
            (ClientFor::Register(guest), ClientStatement::Register { nonce }) => {
                // It may have been opened while this was checked: nothing waits for the leader then.
                if let Some(session) = self.sessions.find(claim.key, nonce) {
                    turn.send(guest, Message::Registered { nonce, session: Some(session) });
                    return;
                }
                let (signature, since) = (claim.signature, turn.now());
                let registering = Registering { signature, guest, since, said: None };
                self.registering.entry((claim.key, nonce)).or_insert(registering);
                self.say_registrations(turn);
            }
            (ClientFor::Batch(slot, at), _) => {
                if let Some(judging) = self.judging.get_mut(&slot) {
                    judging.vouch(at);
                }
                self.judge_again(turn);
            }
            (ClientFor::Request(_) | ClientFor::Attach(_) | ClientFor::Register(_), _) => {}
        }
    }

    fn on_signed(
        &mut self,
        key: (u64, u64),
        (op, digest): (Bytes, Hash),
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        if !matches!(self.fate(key.0, key.1), Fate::Fresh | Fate::Ahead) {
            return;
        }
        let now = turn.now();
        let is_leader = self.is_leader();
        let pending = self.pending.entry(key).or_default();
        if !pending.sign((op, digest), now, signature) {
            return;
        }
        self.may_be_signed = true;
        if !is_leader {
            pending.said = None;
        }
        self.say_heard(key, turn);
        self.judge_again(turn);
    }

    /// The oldest thing that a client signed and that waits.
    pub(super) fn oldest_signed(&mut self) -> Option<Time> {
        // Asked behind every event: what waits is looked at only where something of it may be signed.
        let some = self.may_be_signed.then(|| self.pending.values().filter_map(Pending::signed_since).min());
        let request = some.flatten();
        self.may_be_signed = request.is_some();
        let registrations = self.registering.values().map(|registering| registering.since);
        request.into_iter().chain(registrations).chain(self.changes.oldest()).min()
    }

    /// Whether what may be proposed is as much as a batch may have.
    fn fills_a_batch(&self) -> bool {
        let parameters = self.config.parameters;
        let max = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let op = |key: &(u64, u64)| self.pending.get(key).and_then(Pending::proposed);
        let bytes = self.ready.iter().filter_map(op).map(|(op, _)| op.len() + REQUEST_EXTRA);
        let mut sums = bytes.scan(0_usize, |sum, bytes| {
            *sum = sum.saturating_add(bytes);
            Some(*sum)
        });
        self.ready.len() >= max(parameters.batch_max)
            || sums.any(|sum| sum >= max(parameters.batch_bytes_max))
    }

    /// As many requests as wait, at most a batch, where this replica may propose. While [`OPEN_MAX`] slots are open a batch has to be full:
    /// what a slot costs beside its requests would else be spent on each of them.
    pub(super) fn propose(&mut self, turn: &mut Turn<'_, Self>) {
        if self.ready.is_empty() && self.registering.is_empty() && self.changes.waiting.is_empty() {
            return;
        }
        let Some(consensus) = self.consensus().filter(|consensus| consensus.may_propose()) else { return };
        let is_urgent = !self.registering.is_empty() || !self.changes.waiting.is_empty();
        if consensus.open() >= OPEN_MAX && !is_urgent && !self.fills_a_batch() {
            return;
        }
        let (view, parameters) = (consensus.view(), self.config.parameters);
        let count_max = usize::try_from(parameters.batch_max).unwrap_or(1);
        let mut room = usize::try_from(parameters.batch_bytes_max).unwrap_or(0).saturating_sub(64);
        let mut requests = Vec::new();
        for ((key, nonce), registering) in &mut self.registering {
            let request = Request {
                session: SYSTEM,
                id: *nonce,
                op: Op::Inline(
                    Registration { key: *key, nonce: *nonce }.encode().try_into().unwrap_or_default(),
                ),
                auth: Auth::Signed(registering.signature),
            };
            if registering.said != Some(view) && requests.len() < count_max && request.size_hint() < room {
                registering.said = Some(view);
                room -= request.size_hint();
                requests.push(request);
            }
        }
        for changing in self.changes.waiting.values_mut() {
            let Ok(op) = changing.change.encode().try_into() else { continue };
            let request = Request { session: CHANGES, id: 0, op: Op::Inline(op), auth: Auth::Heard };
            if changing.said != Some(view) && requests.len() < count_max && request.size_hint() < room {
                changing.said = Some(view);
                room -= request.size_hint();
                requests.push(request);
            }
        }
        while requests.len() < count_max {
            let Some((session, id)) = self.ready.pop_front() else { break };
            let Some(pending) = self.pending.get(&(session, id)) else { continue };
            let Some((op, auth)) = pending.proposed() else { continue };
            let Ok(op) = op.clone().try_into() else { continue };
            let request = Request { session, id, op: Op::Inline(op), auth };
            if request.size_hint() >= room {
                self.ready.push_front((session, id));
                break;
            }
            room -= request.size_hint();
            requests.push(request);
        }
        if let (false, Ok(requests)) = (requests.is_empty(), List::try_from(requests)) {
            turn.applied(Rule::Batch);
            self.ask(Ask::Propose { time: turn.wall(), requests }, turn);
        }
    }

    /// A result, to whoever asked: in full by one replica, or by all where it is asked again.
    pub(super) fn reply(
        &self,
        guest: NodeId,
        (session, id): (u64, u64),
        reply: Bytes,
        is_again: bool,
        turn: &mut Turn<'_, Self>,
    ) {
        if self.has_diverged {
            return;
        }
        let n = u64::from(self.config.roster.size().max(1));
        let is_full = is_again || id % n == u64::from(self.config.me.0);
        let result = match Bytes::try_into(reply.clone()) {
            Ok(reply) if is_full => Replied::Full(reply),
            _ => Replied::Digest(Hash::of(&reply)),
        };
        let is_slow = self.consensus().is_none_or(super::Consensus::is_slow);
        turn.send(guest, Message::Reply { session, id, result, is_slow });
    }

    /// The state is another one: what it executed does not wait any more.
    pub(super) fn forget_done(&mut self) {
        let mut pending = core::mem::take(&mut self.pending);
        pending.retain(|(session, id), _| {
            matches!(self.fate(*session, *id), Fate::Fresh | Fate::Ahead | Fate::Unknown)
        });
        self.pending = pending;
        let sessions = &self.sessions;
        let is_open = |key, nonce| sessions.find(key, nonce).is_some();
        self.registering.retain(|(key, nonce), _| !is_open(*key, *nonce));
        let epochs = &self.epochs;
        self.changes.waiting.retain(|_, changing| !epochs.is_void(&changing.change));
    }

    /// A request is executed, or will never be.
    pub(super) fn forget(&mut self, session: u64, id: u64) {
        self.pending.remove(&(session, id));
        // What the session passed by meanwhile has the lowest numbers.
        while let Some((of, low)) = self.pending.range((session, 0)..).next().map(|(key, _)| *key)
            && of == session
            && !matches!(self.fate(of, low), Fate::Fresh | Fate::Ahead)
        {
            self.pending.remove(&(of, low));
        }
    }
}

/// Reads what a registration is for.
pub(super) fn read_registration(op: &Bytes) -> Option<Registration> {
    let limits = Limits { frame_max: 128 };
    Registration::decode(op.clone(), &limits).ok()
}
