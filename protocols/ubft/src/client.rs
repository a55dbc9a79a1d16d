//! A client (specification, 4.8): it asks all replicas, and believes a result that f + 1 of them give.
//!
//! *Protocol.* A session is opened by an ordered registration, and put on the link to each replica by a statement for that replica alone.
//! Requests are not signed while that is fast: they are when replicas ask for it (D2), and on the second retry. A read is answered by what
//! all n replicas say at once; where they differ, or one's link is down, it is ordered. Every call ends by its deadline: with a result, or
//! unknown. A link that was made again has another name at its replica, which is told anew that the session is on it.
//!
//! *Bounds.* `session_window` calls and as many reads, each with an answer of every replica.

mod links;

use std::collections::BTreeMap;

use synod_crypto::{Claim, Hash, Keys, PublicKey, Scope, Signature, Verified};
use synod_machine::{
    Bounded, Cost, Event, Job as Work, Log, Machine, Never, QueueSpec, Recover, Span, Time, Turn,
    Unrecoverable,
};
use synod_quorum::{Epoch, NodeId, NodeSet, Quorums};
use synod_wire::Bytes;

use crate::batch::INLINE_MAX;
use crate::config::Config;
use crate::fault::Fault;
use crate::few::Few;
use crate::message::{self, ClientStatement, Message, REPLY_MAX, Replied};

/// Whom a client asks, and how long it waits.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The cluster, as its replicas know it.
    pub config: Config,
    /// The client's key.
    pub key: PublicKey,
    /// For two sessions of one key, and for every start anew: larger than before.
    pub nonce: u64,
    /// Calls that may wait at once: what replicas allow a session.
    pub session_window: u32,
    /// The first retry comes after so long; doubles up to [`RETRY_MAX`].
    pub retry: Span,
    /// A call ends after so long.
    pub deadline: Span,
}

/// Longest time between two retries.
pub const RETRY_MAX: Span = Span::secs(1);

/// What is asked of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Orders an operation.
    Call {
        /// Returned with the outcome.
        ticket: u64,
        /// The operation.
        op: Bytes,
    },
    /// Asks for what is executed already; orders the question where replicas differ.
    Read {
        /// Returned with the outcome.
        ticket: u64,
        /// The question.
        question: Bytes,
    },
}

/// What a client tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The session is open.
    Ready(u64),
    /// The result that f + 1 replicas gave, or the answer of all.
    Done {
        /// Of this call.
        ticket: u64,
        /// The result.
        result: Bytes,
    },
    /// It was not sent.
    Refused {
        /// Which call.
        ticket: u64,
    },
    /// Nothing is known of it but its name.
    Unknown {
        /// Which call.
        ticket: u64,
        /// The number within the session, under which it may be executed.
        id: u64,
    },
}

/// Calls are looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retry;

/// Signs what the client says.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Where it is good.
    scope: Scope,
    statement: ClientStatement,
}

impl Work for Job {
    type Done = Verified<Claim<ClientStatement>>;

    fn run(self, keys: &Keys) -> Self::Done {
        keys.sign(self.scope, NodeId::GUESTS, self.statement)
    }

    fn cost(&self) -> Cost {
        Cost { sign: 1, ..Cost::default() }
    }
}

#[derive(Clone, Debug)]
struct Call {
    ticket: u64,
    op: Bytes,
    started: Time,
    again: Time,
    wait: Span,
    tries: u32,
    is_signing: bool,
    signature: Option<Signature>,
    /// Of each replica the digest of its result, and the result where it gave it in full.
    replies: Few<NodeId, (Hash, Option<Bytes>)>,
}

#[derive(Clone, Debug)]
struct Read {
    ticket: u64,
    question: Bytes,
    started: Time,
    answers: BTreeMap<NodeId, Option<Bytes>>,
}

/// See the module.
pub struct Client {
    config: ClientConfig,
    quorums: Quorums,
    session: Option<u64>,
    registered: BTreeMap<NodeId, u64>,
    registration: Option<Signature>,
    /// The newest statement for each replica, which each link that is made counts up.
    attachments: BTreeMap<u8, (u64, Signature)>,
    sequences: BTreeMap<u8, u64>,
    /// Replicas whose links went down.
    down: NodeSet,
    last: u64,
    last_read: u64,
    /// Boxed: a node of the map has room for eleven.
    calls: BTreeMap<u64, Box<Call>>,
    reads: BTreeMap<u64, Read>,
    is_slow: bool,
}

impl Client {
    fn all(&self) -> NodeSet {
        self.config.config.roster.all()
    }

    fn sign(&self, statement: ClientStatement, turn: &mut Turn<'_, Self>) {
        let scope = Scope { cluster: self.config.config.cluster, epoch: Epoch(0) };
        turn.compute(Job { scope, statement });
    }

    fn send_to(replicas: NodeSet, message: &Message, turn: &mut Turn<'_, Self>) {
        for replica in replicas.iter() {
            turn.send(replica, message.clone());
        }
    }

    fn start(&mut self, turn: &mut Turn<'_, Self>) {
        self.sign(ClientStatement::Register { nonce: self.config.nonce }, turn);
        turn.arm(Retry, self.config.retry);
    }

    fn on_signed(&mut self, claim: &Verified<Claim<ClientStatement>>, turn: &mut Turn<'_, Self>) {
        match claim.statement {
            ClientStatement::Register { .. } => {
                self.registration = Some(claim.signature);
                self.register(self.all(), turn);
            }
            ClientStatement::Attach { replica, sequence, .. } => {
                if self.sequence(replica) == sequence {
                    self.attachments.insert(replica, (sequence, claim.signature));
                    self.attach(replica, turn);
                    self.send_calls(NodeId(u32::from(replica)), turn);
                }
            }
            ClientStatement::Asked { id, .. } => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.signature = Some(claim.signature);
                    let all = self.all();
                    all.iter().for_each(|replica| self.send_call(replica, id, turn));
                }
            }
        }
    }

    fn send_call(&self, replica: NodeId, id: u64, turn: &mut Turn<'_, Self>) {
        let Some((session, call)) = self.session.zip(self.calls.get(&id)) else { return };
        if let Ok(op) = call.op.clone().try_into() {
            turn.send(replica, Message::Ask { session, id, op, signature: call.signature.map(Box::new) });
        }
    }

    fn send_calls(&self, replica: NodeId, turn: &mut Turn<'_, Self>) {
        for id in self.calls.keys() {
            self.send_call(replica, *id, turn);
        }
    }

    fn call(&mut self, ticket: u64, op: Bytes, turn: &mut Turn<'_, Self>) {
        let inline = usize::try_from(self.config.config.parameters.request_inline_max).unwrap_or(0);
        if self.room() == 0 || op.len() > inline.min(INLINE_MAX) {
            turn.output(Output::Refused { ticket });
            return;
        }
        self.last = self.last.saturating_add(1);
        let (id, now, wait) = (self.last, turn.now(), self.config.retry);
        let call = Call {
            ticket,
            op,
            started: now,
            again: now + wait,
            wait,
            tries: 0,
            is_signing: false,
            signature: None,
            replies: Few::new(),
        };
        self.calls.insert(id, Box::new(call));
        self.all().iter().for_each(|replica| self.send_call(replica, id, turn));
        if self.is_slow {
            self.sign_call(id, turn);
        }
    }

    fn sign_call(&mut self, id: u64, turn: &mut Turn<'_, Self>) {
        let Some((session, call)) = self.session.zip(self.calls.get_mut(&id)) else { return };
        if !core::mem::replace(&mut call.is_signing, true) {
            let op = Hash::of(&call.op);
            self.sign(ClientStatement::Asked { session, id, op }, turn);
        }
    }

    fn read(&mut self, ticket: u64, question: Bytes, turn: &mut Turn<'_, Self>) {
        let max = usize::try_from(self.config.session_window).unwrap_or(0);
        let Ok(text) = question.clone().try_into() else {
            turn.output(Output::Refused { ticket });
            return;
        };
        if self.session.is_none() || self.reads.len() >= max {
            turn.output(Output::Refused { ticket });
            return;
        }
        if !self.down.is_empty() {
            self.call(ticket, question, turn);
            return;
        }
        // An answer of an earlier read is none of this one.
        self.last_read = self.last_read.saturating_add(1);
        let id = self.last_read;
        self.reads.insert(id, Read { ticket, question, started: turn.now(), answers: BTreeMap::new() });
        Self::send_to(self.all(), &Message::Read { id, question: text }, turn);
    }

    /// A result that f + 1 replicas gave, and one of them in full.
    fn on_reply(&mut self, from: NodeId, id: u64, result: Replied, turn: &mut Turn<'_, Self>) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let result = match result {
            Replied::Full(body) => (Hash::of(body.bytes()), Some(body.into_bytes())),
            Replied::Digest(digest) => (digest, None),
        };
        if result.1.is_none() && matches!(call.replies.get(from), Some((_, Some(_)))) {
            return;
        }
        call.replies.insert(from, result);
        let full = call.replies.values().find_map(|(own, body)| {
            let body = body.as_ref()?;
            let same = call.replies.iter().filter(|(_, (other, _))| other == own);
            let same = same.fold(NodeSet::EMPTY, |set, (id, _)| set.with(id));
            self.quorums.has_correct(same).then(|| (body.clone(), *own))
        });
        let Some((result, believed)) = full else { return };
        let liars = call.replies.iter().filter(|(_, (other, _))| *other != believed);
        liars.for_each(|(liar, _)| turn.blame(liar, Fault::WrongReply));
        let ticket = call.ticket;
        self.calls.remove(&id);
        turn.output(Output::Done { ticket, result });
    }

    /// What all n replicas say at once.
    fn on_answer(&mut self, from: NodeId, id: u64, value: Option<Bytes>, turn: &mut Turn<'_, Self>) {
        let n = self.all().count();
        let Some(read) = self.reads.get_mut(&id) else { return };
        read.answers.entry(from).or_insert(value);
        if u32::try_from(read.answers.len()) != Ok(n) {
            return;
        }
        let first = read.answers.values().next().cloned().flatten();
        let is_same = read.answers.values().all(|value| *value == first);
        let Some(read) = self.reads.remove(&id) else { return };
        match first.filter(|_| is_same) {
            Some(result) => turn.output(Output::Done { ticket: read.ticket, result }),
            None => self.call(read.ticket, read.question, turn),
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        if !self.all().contains(from) {
            return;
        }
        match message {
            Message::Registered { nonce, session: Some(session) } if nonce == self.config.nonce => {
                self.on_registered(from, session, turn);
            }
            Message::Reply { session, id, result, is_slow } if self.session == Some(session) => {
                self.is_slow = is_slow;
                self.on_reply(from, id, result, turn);
            }
            Message::NeedSigned { session, id } if self.session == Some(session) => self.sign_call(id, turn),
            Message::Answer { id, value } => {
                self.on_answer(from, id, value.map(|value| value.into_bytes()), turn);
            }
            // Refused registrations are asked again; everything else is said between replicas.
            _ => {}
        }
    }

    fn on_retry(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Retry, self.config.retry);
        let now = turn.now();
        if self.session.is_none() {
            self.register(self.all(), turn);
        }
        let deadline = self.config.deadline;
        let over: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| now.since(call.started) >= deadline)
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            if let Some(call) = self.calls.remove(&id) {
                turn.output(Output::Unknown { ticket: call.ticket, id });
            }
        }
        let due: Vec<u64> =
            self.calls.iter().filter(|(_, call)| now >= call.again).map(|(id, _)| *id).collect();
        if !due.is_empty() {
            let replicas: Vec<u8> = self.attachments.keys().copied().collect();
            replicas.into_iter().for_each(|replica| self.attach(replica, turn));
        }
        for id in due {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.tries = call.tries.saturating_add(1);
            call.wait = Span(call.wait.times(2).0.min(RETRY_MAX.0));
            call.again = now + call.wait;
            let is_late = call.tries >= 2;
            self.all().iter().for_each(|replica| self.send_call(replica, id, turn));
            if is_late {
                self.sign_call(id, turn);
            }
        }
        let slow =
            self.reads.iter().filter(|(_, read)| now.since(read.started) >= self.config.retry.times(2));
        let slow: Vec<u64> = slow.map(|(id, _)| *id).collect();
        for id in slow {
            if self.room() > 0
                && let Some(read) = self.reads.remove(&id)
            {
                self.call(read.ticket, read.question, turn);
            }
        }
    }
}

impl Machine for Client {
    type Input = Input;
    type Message = Message;
    type Timer = Retry;
    type Record = Never;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.start(turn),
            Event::Input(Input::Call { ticket, op }) => self.call(ticket, op, turn),
            Event::Input(Input::Read { ticket, question }) => self.read(ticket, question, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Retry) => self.on_retry(turn),
            Event::Done(claim) => self.on_signed(&claim, turn),
            Event::Link { peer, link } => self.on_link(peer, link, turn),
            Event::Loaded { .. } => {}
        }
    }

    /// Ids may be used that lie within the window of the oldest one that waits.
    fn room(&self) -> u32 {
        if self.session.is_none() {
            return 0;
        }
        let window = u64::from(self.config.session_window);
        let oldest = self.calls.first_key_value().map_or(self.last.saturating_add(1), |(id, _)| *id);
        let used = self.last.saturating_add(1).saturating_sub(oldest);
        u32::try_from(window.saturating_sub(used)).unwrap_or(u32::MAX)
    }
}

impl Bounded for Client {
    fn bytes(&self) -> u64 {
        let replied = |(_, body): &(Hash, Option<Bytes>)| body.as_ref().map_or(0, Bytes::len) + 64;
        let call = |call: &Call| call.op.len() + 256 + call.replies.values().map(replied).sum::<usize>();
        let answer = |value: &Option<Bytes>| value.as_ref().map_or(64, |value| value.len() + 64);
        let read = |read: &Read| read.question.len() + 128 + read.answers.values().map(answer).sum::<usize>();
        let calls: usize = self.calls.values().map(|boxed| call(boxed)).sum();
        let reads: usize = self.reads.values().map(read).sum();
        (calls + reads) as u64
    }

    fn bytes_max(&self) -> u64 {
        let each = (INLINE_MAX + 256) as u64 + u64::from(self.all().count()) * (REPLY_MAX as u64 + 64);
        2 * u64::from(self.config.session_window) * each
    }
}

impl Recover for Client {
    type Config = ClientConfig;

    fn queues(config: &ClientConfig) -> Vec<QueueSpec> {
        message::queues(&config.config, 1, config.session_window)
    }

    fn recover(config: ClientConfig, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        let quorums =
            config.config.quorums().map_err(|why| Unrecoverable(format!("the configuration: {why:?}")))?;
        Ok(Self {
            config,
            quorums,
            session: None,
            registered: BTreeMap::new(),
            registration: None,
            attachments: BTreeMap::new(),
            sequences: BTreeMap::new(),
            down: NodeSet::EMPTY,
            last: 0,
            last_read: 0,
            calls: BTreeMap::new(),
            reads: BTreeMap::new(),
            is_slow: false,
        })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
