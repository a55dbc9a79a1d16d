//! A session with a cluster of uBFT: calls wait for a place in the session's window, and one call's operations go one after the other.
//!
//! *Order.* Operations of a call are executed in its order, since the next is sent when the one before is answered. Calls are executed in
//! any order. What a deadline cuts off may still take effect.
//!
//! *Bounds.* 4,096 calls; of them a window is with the client machine. A thread of the session ends calls at their deadlines.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use synod_config::{SynError, code};
use synod_crypto::{Hash, Keys, Seed};
use synod_machine::host::{Host, HostConfig, Hosted};
use synod_machine::{Condition, Span};
use synod_net::{Address, Deliveries, Handle, Hosting, Node, Role, Transport};
use synod_quorum::NodeId;
use synod_ubft::Client;
use synod_ubft::client::{ClientConfig, Input, Output};
use tokio::sync::oneshot;

use super::settings::{OPERATION_MAX, REPLICA, config, limits, sessions};
use crate::backend::{Call, Mode, Operation, Outcome, RequestId};
use crate::client::{ClientSetup, Identity};
use crate::error::{invalid, network};
use crate::watch::Watch;
use crate::{plan, random};

/// Calls that wait at most.
const WAITING_MAX: usize = 4_096;
/// The first retry comes after so long.
const RETRY: Span = Span::millis(50);
/// The machine gives an operation up after so long, whatever its call's deadline.
const GIVEN_UP: Span = Span::secs(20);
/// How long a full window is left alone when nothing comes back.
const STALLED: Duration = Duration::from_millis(20);

/// A call that is being answered.
struct Job {
    operations: VecDeque<Operation>,
    outcomes: Vec<Outcome>,
    until: Instant,
    reply: oneshot::Sender<Vec<Outcome>>,
}

impl Job {
    /// Answers what is left with `outcome`.
    fn end(mut self, left: usize, outcome: &Outcome) {
        self.outcomes.extend(std::iter::repeat_n(outcome.clone(), left));
        // A caller that went away no longer wants its answer.
        let _ = self.reply.send(self.outcomes);
    }
}

#[derive(Default)]
struct State {
    /// The cluster's name for the session, once it is open.
    session: Option<u64>,
    waiting: VecDeque<Job>,
    /// With the machine, by ticket. The operation stays the first of its job until it is answered.
    flying: BTreeMap<u64, Job>,
    next: u64,
    /// The machine had no room: until when it is left alone.
    stalled: Option<Instant>,
    is_over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    cluster: Hash,
    window: usize,
}

/// One session: a guest node with one client machine.
pub(crate) struct Front {
    _node: Node,
    handle: Handle,
    shared: Arc<Shared>,
    clock: Option<std::thread::JoinHandle<()>>,
}

impl Front {
    /// Opens a session of this identity, whose machine runs inside what `wrap` makes of it; connections are made in the background and made again
    /// when they break.
    pub(crate) fn open(
        setup: &ClientSetup,
        identity: Identity,
        watch: &Arc<Watch>,
        wrap: impl FnOnce(u8, Box<dyn Hosted>) -> Box<dyn Hosted>,
    ) -> Result<Self, SynError> {
        let Identity { key: seed, number, resume, .. } = identity;
        if resume.is_some() || setup.believe.is_some() {
            let what = "a session with ubft that goes on with an earlier one, or believes one member";
            return Err(SynError::of(code::UNSUPPORTED, &[("verb", what)]));
        }
        let session_window = sessions().session_window;
        let machine = ClientConfig {
            config: config(&setup.genesis, NodeId(0))?,
            key: seed.public(),
            nonce: (number >> 2).max(1),
            session_window,
            retry: RETRY,
            deadline: GIVEN_UP,
        };
        let host = HostConfig {
            own: NodeId::GUESTS,
            machine: REPLICA,
            seed: random::number(),
            jobs_max: 256,
            checked: cfg!(debug_assertions),
        };
        let machine = Host::<Client>::open(host, machine, plan::empty(Condition::Fresh))
            .map_err(|why| invalid(&why.to_string()))?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            cluster: setup.genesis.id(),
            window: usize::try_from(session_window).unwrap_or(1),
        });
        let heard = shared.clone();
        let connector = move |_: u8, output: Box<dyn Any + Send>, deliveries: &mut Deliveries<'_>| {
            let Ok(output) = output.downcast::<Output>() else { return };
            heard.hear(*output);
            for input in heard.pump() {
                deliveries.input(REPLICA, input);
            }
        };
        let node = guest(setup, &seed)
            .machine(Hosting::new(REPLICA, wrap(REPLICA, Box::new(machine))))
            .keys(Keys::ed25519(&seed, random::bytes()))
            .connector(connector)
            .observer(watch.clone());
        let node = setup
            .addresses
            .iter()
            .fold(node, |node, (member, address)| node.address(*member, Address::Tcp(address.clone())));
        let node = node.start().map_err(|e| network(&e))?;
        let handle = node.handle().clone();
        let (clock, asked) = (shared.clone(), handle.clone());
        let clock = std::thread::Builder::new()
            .name("synod-deadlines".to_owned())
            .spawn(move || clock.watch(&asked))
            .map_err(|error| network(&synod_net::Error::Thread(error.to_string())))?;
        Ok(Self { _node: node, handle, shared, clock: Some(clock) })
    }

    /// Takes a call; refuses it through its reply when too many wait.
    pub(crate) fn call(&self, call: Call) {
        let Call { operations, deadline, reply, .. } = call;
        let too_large = operations.iter().any(|operation| operation.body.len() > OPERATION_MAX as usize);
        let count = operations.len();
        let until = Instant::now() + deadline;
        let job = Job { operations: operations.into(), outcomes: Vec::with_capacity(count), until, reply };
        if too_large {
            let code = code::TOO_LARGE.number();
            return job.end(count, &Outcome::Rejected { code, retry_ms: 0 });
        }
        {
            let mut state = self.shared.state();
            if state.waiting.len() >= WAITING_MAX {
                drop(state);
                return job.end(count, &Outcome::Rejected { code: code::BUSY.number(), retry_ms: 50 });
            }
            state.waiting.push_back(job);
        }
        self.shared.changed.notify_one();
        self.shared.give(&self.handle);
    }

    /// The cluster's name for the session, once it is open.
    pub(crate) fn session(&self) -> Option<u64> {
        self.shared.state().session
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_one();
        if let Some(clock) = self.clock.take() {
            // It holds nothing that could be lost.
            let _ = clock.join();
        }
    }
}

fn guest(setup: &ClientSetup, seed: &Seed) -> synod_net::NodeBuilder {
    Node::builder(synod_net::Config {
        own: NodeId::GUESTS,
        role: Role::Guest,
        seed: seed.clone(),
        cluster_name: setup.genesis.cluster().name.clone(),
        cluster: setup.genesis.id(),
        roster: setup.genesis.roster().clone(),
        transport: Transport::Tls,
        limits: limits(),
    })
}

fn input(ticket: u64, operation: &Operation) -> Input {
    let body = operation.body.clone();
    match operation.mode {
        Mode::Ordered => Input::Call { ticket, op: body },
        // What all members say at once is worth more than the word of one.
        Mode::Quorum | Mode::Local => Input::Read { ticket, question: body },
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the machine told. Whoever calls it asks the machine what there is to ask then.
    fn hear(&self, output: Output) {
        let mut state = self.state();
        match output {
            Output::Ready(session) => state.session = Some(session),
            Output::Done { ticket, result } => {
                state.stalled = None;
                let Some(mut job) = state.flying.remove(&ticket) else { return };
                job.operations.pop_front();
                job.outcomes.push(Outcome::Accepted { value: result, position: 0 });
                if job.operations.is_empty() {
                    drop(state);
                    job.end(0, &Outcome::Unknown(None));
                } else {
                    state.waiting.push_front(job);
                }
            }
            Output::Refused { ticket } => {
                state.stalled = Some(Instant::now() + STALLED);
                if let Some(job) = state.flying.remove(&ticket) {
                    state.waiting.push_front(job);
                }
                drop(state);
                self.changed.notify_one();
            }
            Output::Unknown { ticket, id } => {
                state.stalled = None;
                let name =
                    state.session.map(|session| RequestId { cluster: self.cluster, session, sequence: id });
                let Some(mut job) = state.flying.remove(&ticket) else { return };
                drop(state);
                job.outcomes.push(Outcome::Unknown(name));
                let left = job.operations.len().saturating_sub(1);
                job.end(left, &Outcome::Unknown(None));
            }
        }
    }

    /// Whether the machine may be asked something.
    fn may_ask(&self, state: &State, now: Instant) -> bool {
        let is_open = state.session.is_some() && state.stalled.is_none_or(|until| now >= until);
        is_open && state.flying.len() < self.window
    }

    /// What the machine is to be asked now.
    fn pump(&self) -> Vec<Input> {
        let mut state = self.state();
        let (mut inputs, now) = (Vec::new(), Instant::now());
        while self.may_ask(&state, now) {
            let Some(job) = state.waiting.pop_front() else { break };
            let Some(operation) = job.operations.front() else {
                job.end(0, &Outcome::Unknown(None));
                continue;
            };
            state.next += 1;
            let ticket = state.next;
            inputs.push(input(ticket, operation));
            state.flying.insert(ticket, job);
        }
        inputs
    }

    /// Asks the machine what it is to be asked now.
    fn give(&self, handle: &Handle) {
        for input in self.pump() {
            let (Input::Call { ticket, .. } | Input::Read { ticket, .. }) = &input;
            let ticket = *ticket;
            if handle.input(REPLICA, input).is_err() {
                self.hear(Output::Refused { ticket });
            }
        }
    }

    /// Ends calls at their deadlines until the session is over, then all.
    fn watch(&self, handle: &Handle) {
        while !self.expire(Instant::now()) {
            self.give(handle);
            self.rest();
        }
    }

    /// Ends the calls whose deadline has come, or all of a session that is over; whether it is.
    fn expire(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_over = state.is_over;
        let is_late = |job: &Job| is_over || job.until <= now;
        let late: Vec<u64> =
            state.flying.iter().filter(|(_, job)| is_late(job)).map(|(ticket, _)| *ticket).collect();
        let waiting = std::mem::take(&mut state.waiting);
        let (mut ended, kept): (Vec<Job>, VecDeque<Job>) = (Vec::new(), waiting);
        for job in kept {
            if is_late(&job) { ended.push(job) } else { state.waiting.push_back(job) }
        }
        ended.extend(late.iter().filter_map(|ticket| state.flying.remove(ticket)));
        drop(state);
        for job in ended {
            let left = job.operations.len();
            job.end(left, &Outcome::Unknown(None));
        }
        is_over
    }

    /// When calls are to be looked at again: at once if the machine may be asked something, else at the next deadline or when it has been
    /// left alone for long enough; never while there is nothing.
    fn next_look(&self, state: &State, now: Instant) -> Option<Instant> {
        let can_ask = self.may_ask(state, now) && !state.waiting.is_empty();
        if state.is_over || can_ask {
            return Some(now);
        }
        let deadlines = state.waiting.iter().chain(state.flying.values()).map(|job| job.until);
        deadlines.chain(state.stalled.filter(|until| *until > now)).min()
    }

    /// Waits for the next look. When that is is found under the lock that the wait gives back: what was refused between could be forgotten
    /// until its deadline otherwise.
    fn rest(&self) {
        let (state, now) = (self.state(), Instant::now());
        match self.next_look(&state, now) {
            None => drop(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)),
            Some(until) if until <= now => {}
            Some(until) => {
                let waited = self.changed.wait_timeout(state, until.saturating_duration_since(now));
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

#[cfg(test)]
mod tests;
