//! Who waits for what: outputs of the machine become answers of calls.
//!
//! *Bounds.* As many calls as callers hold; the machine refuses payloads beyond `queue_max`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use synod_chopchop::client::{Client, Output, Refusal};
use synod_chopchop::config::Class;
use synod_chopchop::receipt::Receipt;
use synod_config::{Code, SynError, code};
use synod_machine::Link;
use synod_net::{Failure, Observer};
use synod_quorum::NodeId;
use tokio::sync::oneshot;

use super::{ChopState, PAYLOAD_MAX};
use crate::random;

/// What a call is told; only the fields of its kind mean something.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) id: Option<u32>,
    pub(super) next_k: u64,
    pub(super) receipt: Option<Box<Receipt>>,
}

/// What a call is answered.
pub(super) type Answer = Result<Told, SynError>;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    SignUp,
    Resync,
    Submit(u64),
}

#[derive(Default)]
struct Inner {
    id: Option<u32>,
    next_k: u64,
    linked: BTreeSet<NodeId>,
    failure: Option<Failure>,
    sign_ups: Vec<oneshot::Sender<Answer>>,
    resyncs: Vec<oneshot::Sender<Answer>>,
    submits: BTreeMap<u64, oneshot::Sender<Answer>>,
    /// Whether a message of an earlier process is in flight; who waits for it; what became of it.
    unfinished: bool,
    finishers: Vec<oneshot::Sender<Answer>>,
    last_token: u64,
}

/// The calls of a client.
pub(super) struct Calls {
    inner: Mutex<Inner>,
    class: Class,
}

/// The refusal of a call for which there is no room.
pub(super) fn busy() -> SynError {
    SynError::of(code::BUSY, &[("retry_ms", "100")])
}

fn tell(all: Vec<oneshot::Sender<Answer>>, answer: &Answer) {
    for one in all {
        // A caller that went away no longer wants its answer.
        let _ = one.send(answer.clone());
    }
}

impl Calls {
    pub(super) fn new(machine: &Client, class: Class) -> Self {
        let (id, next_k, unfinished) = (machine.id(), machine.next_k(), machine.waiting().1);
        Self::of(&ChopState { id, next_k, unfinished, linked: 0 }, class)
    }

    /// The calls of a client that stands there.
    pub(super) fn of(state: &ChopState, class: Class) -> Self {
        let inner = Inner {
            id: state.id,
            next_k: state.next_k,
            unfinished: state.unfinished,
            // Names of an earlier process are not met again but by a chance of 2^-63.
            last_token: random::number() >> 1,
            ..Inner::default()
        };
        Self { inner: Mutex::new(inner), class }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> ChopState {
        let inner = self.inner();
        ChopState {
            id: inner.id,
            next_k: inner.next_k,
            unfinished: inner.unfinished,
            linked: inner.linked.len(),
        }
    }

    /// Whether a payload of this length can be broadcast.
    ///
    /// # Errors
    /// SYN-3203 for another class, SYN-3002 for one that no datagram holds.
    pub(super) fn takes(&self, length: usize) -> Result<(), SynError> {
        if !self.class.takes(length) {
            return Err(class_refused(self.class, length));
        }
        if length > PAYLOAD_MAX {
            let values = [
                ("what", "the payload"),
                ("size", &*format!("{length} bytes")),
                ("limit", &*format!("{PAYLOAD_MAX} bytes")),
            ];
            let why = "a datagram holds no more, and streams to brokers are not built";
            return Err(SynError::of(code::TOO_LARGE, &values).because(why));
        }
        Ok(())
    }

    pub(super) fn token(&self) -> u64 {
        let mut inner = self.inner();
        inner.last_token = inner.last_token.wrapping_add(1).max(1);
        inner.last_token
    }

    pub(super) fn wait(&self, asked: Asked) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        let mut inner = self.inner();
        match asked {
            Asked::SignUp => inner.sign_ups.push(reply),
            Asked::Resync => inner.resyncs.push(reply),
            Asked::Submit(token) => drop(inner.submits.insert(token, reply)),
        }
        answer
    }

    pub(super) fn forget(&self, asked: Asked) {
        let mut inner = self.inner();
        match asked {
            Asked::SignUp => drop(inner.sign_ups.pop()),
            Asked::Resync => drop(inner.resyncs.pop()),
            Asked::Submit(token) => drop(inner.submits.remove(&token)),
        }
    }

    /// Waits for the message of an earlier process, if one is in flight.
    pub(super) fn unfinished(&self) -> Option<oneshot::Receiver<Answer>> {
        let mut inner = self.inner();
        inner.unfinished.then(|| {
            let (reply, answer) = oneshot::channel();
            inner.finishers.push(reply);
            answer
        })
    }

    /// Takes an output of the machine.
    pub(super) fn hear(&self, output: Output) {
        let mut inner = self.inner();
        match output {
            Output::Delivered { tokens, receipt } => inner.delivered(&tokens, receipt),
            Output::SignedUp { id } => inner.id = Some(id),
            Output::Resynced { next_k } => inner.stands(next_k),
            Output::CardRefused => {
                let key = "the card of this key";
                let refused = Err(SynError::of(code::CARD_REFUSED, &[("what", key)]));
                tell(std::mem::take(&mut inner.sign_ups), &refused);
            }
            Output::Refused { token, why } => inner.refused(token, why, self.class),
        }
    }

    /// Nobody answered in time: what is known of the reason.
    pub(super) fn silent(&self, stage: &str) -> SynError {
        let inner = self.inner();
        // An identity error never shows as silence.
        if let Some(failure) = &inner.failure {
            return SynError::with_message(Code::new(failure.code), &failure.text);
        }
        let stage = if inner.linked.is_empty() { "link" } else { stage };
        SynError::of(code::NO_ANSWER, &[("address", "every broker"), ("stage", stage)])
    }

    /// A message without an outcome.
    pub(super) fn undecided(&self, patience: Duration) -> SynError {
        let reason = self.silent("delivery");
        let waited = format!("{} ms", patience.as_millis());
        SynError::of(code::DEADLINE_PASSED, &[("id", "the message"), ("deadline", &waited)])
            .because(reason.message())
            .because("it stands in the client's journal, and its next process sends it again")
    }
}

fn class_refused(class: Class, length: usize) -> SynError {
    let wanted = match class {
        Class::Fixed(size) => format!("exactly {size}"),
        Class::Variable(most) => format!("1 to {most}"),
    };
    SynError::of(code::MESSAGE_CLASS, &[("size", &length.to_string()), ("wanted", &wanted)])
}

impl Inner {
    fn delivered(&mut self, tokens: &[u64], receipt: Option<Box<Receipt>>) {
        if let Some(receipt) = &receipt {
            self.next_k = self.next_k.max(receipt.k.saturating_add(1));
        }
        let told = Ok(Told { receipt, next_k: self.next_k, id: self.id });
        let waiting: Vec<_> = tokens.iter().filter_map(|token| self.submits.remove(token)).collect();
        if waiting.is_empty() {
            self.unfinished = false;
            tell(std::mem::take(&mut self.finishers), &told);
        }
        tell(waiting, &told);
    }

    /// Servers said where the client stands, which also ends a sign-up: nothing is remembered before.
    fn stands(&mut self, next_k: u64) {
        self.next_k = next_k;
        let told = Ok(Told { id: self.id, next_k, receipt: None });
        tell(std::mem::take(&mut self.resyncs), &told);
        if self.id.is_some() {
            tell(std::mem::take(&mut self.sign_ups), &told);
        }
    }

    fn refused(&mut self, token: u64, why: Refusal, class: Class) {
        let not_in = || Err(SynError::of(code::NOT_IN_DIRECTORY, &[("client", "this client")]));
        match (why, self.submits.remove(&token)) {
            (Refusal::Busy, Some(reply)) => drop(reply.send(Err(busy()))),
            (Refusal::NotInDirectory, Some(reply)) => drop(reply.send(not_in())),
            (_, Some(reply)) => drop(reply.send(Err(class_refused(class, 0)))),
            (Refusal::Enrolled, None) => {
                let told = Ok(Told { id: self.id, next_k: self.next_k, receipt: None });
                tell(std::mem::take(&mut self.sign_ups), &told);
            }
            (_, None) => tell(std::mem::take(&mut self.resyncs), &not_in()),
        }
    }
}

impl Observer for Calls {
    fn link(&self, peer: NodeId, link: Link) {
        let mut inner = self.inner();
        match link {
            Link::Up => {
                inner.failure = None;
                inner.linked.insert(peer)
            }
            Link::Down => inner.linked.remove(&peer),
        };
    }

    fn failed(&self, failure: &Failure) {
        self.inner().failure = Some(failure.clone());
    }
}
