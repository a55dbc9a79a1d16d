//! A cluster of one: the key-value store behind the interface of a cluster, in this process and in order.

#![expect(dead_code, reason = "each test file and the example use their part")]

pub(crate) mod web;
pub(crate) mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use synod_crypto::Hash;
use synod_host::{Backend, Call, Mode, Operation, Outcome, RequestId};
use synod_kv::{Config, Kv};
use synod_service::{App, At, Position, Replies, Request, Wall};
use tokio::sync::oneshot;

/// What becomes of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// They are executed at once.
    Serve,
    /// They are kept, until [`Solo::serve_kept`].
    Silent,
    /// They are dropped without an answer.
    Lost,
    /// Every operation is rejected with this code and pause.
    Reject(u16, u32),
    /// Every operation's fate is unknown, under a name.
    Unknown,
}

/// What was asked: the lane and the mode of each operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) lane: u64,
    pub(crate) modes: Vec<Mode>,
    pub(crate) bytes: usize,
}

struct State {
    kv: Kv,
    position: u64,
    behaviour: Behaviour,
    seen: Vec<Seen>,
    kept: Vec<Call>,
}

/// The backend.
pub(crate) struct Solo {
    state: Mutex<State>,
    time_ms: AtomicU64,
    record: bool,
    status: serde_json::Value,
}

impl Solo {
    /// An empty store that records what it is asked; its clock stands.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::build(true, serde_json::json!({ "schema": "synod-status/1", "members": ["n0"] })))
    }

    /// An empty store that records nothing.
    pub(crate) fn quiet() -> Arc<Self> {
        Arc::new(Self::build(false, serde_json::json!({ "schema": "synod-status/1" })))
    }

    fn build(record: bool, status: serde_json::Value) -> Self {
        let kv = Kv::new(Config::default());
        let behaviour = Behaviour::Serve;
        let state = State { kv, position: 0, behaviour, seen: Vec::new(), kept: Vec::new() };
        Self { state: Mutex::new(state), time_ms: AtomicU64::new(1_000_000), record, status }
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        self.lock().behaviour = behaviour;
    }

    pub(crate) fn set_time_ms(&self, time_ms: u64) {
        self.time_ms.store(time_ms, Ordering::Relaxed);
    }

    /// What was asked since the last time.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.lock().seen)
    }

    /// Executes a command that clients of the interface under test cannot give.
    pub(crate) fn run(&self, verb: synod_kv::Verb, words: &[&[u8]]) {
        let mut body = Vec::new();
        synod_kv::operation::write_command(verb, words.iter().copied(), &mut body);
        let operations = vec![Operation { body: body.into(), mode: Mode::Ordered }];
        let (reply, _) = oneshot::channel();
        let call = Call { lane: 0, operations, deadline: Duration::from_secs(1), reply };
        let outcomes = self.lock().execute(&call, Wall(self.time_ms.load(Ordering::Relaxed)));
        assert_eq!(outcomes.len(), 1);
    }

    /// Executes what is kept, the newest call first.
    pub(crate) fn serve_kept(&self) {
        let time = Wall(self.time_ms.load(Ordering::Relaxed));
        let mut state = self.lock();
        for call in std::mem::take(&mut state.kept).into_iter().rev() {
            let outcomes = state.execute(&call, time);
            // A connection that ended does not take its answer.
            drop(call.reply.send(outcomes));
        }
    }

    /// The digest of the state.
    pub(crate) fn root(&self) -> Hash {
        self.lock().kv.root()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn execute(&mut self, call: &Call, time: Wall) -> Vec<Outcome> {
        self.position += 1;
        let position = self.position;
        let at = At { position: Position(position), time, draw: Hash::of(&position.to_le_bytes()) };
        let mut requests = call.operations.iter().enumerate().map(|(at, operation)| Request {
            session: call.lane,
            sequence: at as u64,
            body: &operation.body,
        });
        let mut replies = Replies::default();
        self.kv.execute(&at, &mut requests, &mut replies);
        replies.drain().map(|value| Outcome::Accepted { value, position }).collect()
    }
}

impl Backend for Solo {
    fn call(&self, call: Call) {
        let time = Wall(self.time_ms.load(Ordering::Relaxed));
        let mut state = self.lock();
        if self.record {
            let modes = call.operations.iter().map(|operation| operation.mode).collect();
            let bytes = call.operations.iter().map(|operation| operation.body.len()).sum();
            state.seen.push(Seen { lane: call.lane, modes, bytes });
        }
        let count = call.operations.len();
        let outcomes = match state.behaviour {
            Behaviour::Serve => state.execute(&call, time),
            Behaviour::Silent => return state.kept.push(call),
            Behaviour::Lost => return,
            Behaviour::Reject(code, retry_ms) => vec![Outcome::Rejected { code, retry_ms }; count],
            Behaviour::Unknown => {
                let id = RequestId { cluster: Hash::of(b"solo"), session: call.lane, sequence: 9 };
                vec![Outcome::Unknown(Some(id)); count]
            }
        };
        drop(state);
        // A connection that ended does not take its answer.
        drop(call.reply.send(outcomes));
    }

    fn trust(&self) -> &'static str {
        "gateway"
    }

    fn status(&self) -> serde_json::Value {
        self.status.clone()
    }
}
