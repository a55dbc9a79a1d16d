//! The client: a machine that asks all replicas and believes f + 1 of them, and the one who calls it, one request after
//! the other, and takes the times.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_machine::{Bounded, Event, Log, Machine, Never, QueueSpec, Recover, Turn, Unrecoverable};
use synod_quorum::{NodeId, NodeSet};
use synod_shm::Deliveries;
use synod_wire::{Blob, Bytes};

use crate::replica::{Said, queues};
use crate::rig::REPLICAS;

/// Ask this.
pub(crate) struct Call {
    ticket: u64,
    op: Bytes,
}

/// What the client tells.
pub(crate) enum Told {
    /// All replicas take requests.
    Ready,
    /// f + 1 replicas gave this result.
    Done { ticket: u64, result: Bytes },
}

/// The machine.
pub(crate) struct Client {
    ready: NodeSet,
    /// The request that waits, if one does.
    asked: Option<u64>,
    /// Who answered it what: one result of each replica.
    heard: Vec<(NodeId, Bytes)>,
}

impl Client {
    fn on_reply(&mut self, (from, id, result): (NodeId, u64, Bytes), turn: &mut Turn<'_, Self>) {
        if self.asked != Some(id) || self.heard.iter().any(|(other, _)| *other == from) {
            return;
        }
        let alike = self.heard.iter().filter(|(_, other)| *other == result).count() + 1;
        if alike > (REPLICAS / 2) as usize {
            self.asked = None;
            self.heard.clear();
            turn.output(Told::Done { ticket: id, result });
        } else {
            self.heard.push((from, result));
        }
    }
}

impl Machine for Client {
    type Input = Call;
    type Message = Said;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Told;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Call { ticket, op }) => {
                if let Ok(op) = Blob::try_from(op) {
                    self.asked = Some(ticket);
                    turn.send(NodeSet::first(REPLICAS), Said::Ask { id: ticket, op });
                }
            }
            Event::Message { from, message: Said::Reply { id, result } } => {
                self.on_reply((from, id, result.into_bytes()), turn);
            }
            Event::Message { from, message: Said::Ready } => {
                let is_new = self.ready.insert(from);
                if is_new && self.ready == NodeSet::first(REPLICAS) {
                    turn.output(Told::Ready);
                }
            }
            _ => {}
        }
    }
}

impl Bounded for Client {
    fn bytes(&self) -> u64 {
        0
    }

    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Client {
    /// Bytes of a request.
    type Config = u32;

    fn queues(size: &u32) -> Vec<QueueSpec> {
        queues(*size)
    }

    fn recover(_: u32, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { ready: NodeSet::default(), asked: None, heard: Vec::new() })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}

/// What was taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken<U> {
    /// Nanoseconds from a call to its result, in the order of calls.
    pub(crate) waited: Vec<u64>,
    /// From the first measured call to the last result.
    pub(crate) span: Duration,
    /// What had been used at the first measured call, and at the last result.
    pub(crate) used: Option<(U, U)>,
    /// Results that the application does not give.
    pub(crate) wrong: u64,
}

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) warmup: u32,
    pub(crate) samples: u32,
    pub(crate) size: u32,
}

/// Calls, looks at each result, and calls again.
pub(crate) struct Caller<U, P> {
    state: Mutex<State<U>>,
    load: Load,
    probe: P,
}

struct State<U> {
    taken: Taken<U>,
    ticket: u64,
    from: Instant,
    begun: Option<(Instant, U)>,
    over: Option<SyncSender<Taken<U>>>,
}

/// Bytes of `size` that differ from one number to the next.
fn body(number: u64, size: u32) -> Vec<u8> {
    let mut body = vec![7_u8; size as usize];
    body.iter_mut().zip(number.to_le_bytes()).for_each(|(at, byte)| *at = byte);
    body
}

impl<U: Send, P: Fn() -> U + Send + Sync> Caller<U, P> {
    /// Calls as `load` says, asks `probe` what was used, and sends what it took.
    pub(crate) fn new(load: Load, probe: P, over: SyncSender<Taken<U>>) -> Arc<Self> {
        let waited = Vec::with_capacity(load.samples as usize);
        let taken = Taken { waited, span: Duration::ZERO, used: None, wrong: 0 };
        let state = State { taken, ticket: 0, from: Instant::now(), begun: None, over: Some(over) };
        Arc::new(Self { state: Mutex::new(state), load, probe })
    }

    /// Takes what the client tells, and calls again.
    pub(crate) fn hear(&self, told: Told, deliveries: &mut Deliveries<'_>) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Done { ticket, result } if ticket == state.ticket => {
                let is_right = result.iter().rev().eq(&body(ticket, self.load.size));
                state.taken.wrong += u64::from(!is_right);
                if ticket > u64::from(self.load.warmup) {
                    let waited = now.saturating_duration_since(state.from).as_nanos();
                    state.taken.waited.push(u64::try_from(waited).unwrap_or(u64::MAX));
                }
            }
            Told::Ready if state.ticket == 0 => {}
            Told::Ready | Told::Done { .. } => return,
        }
        if state.ticket >= u64::from(self.load.warmup) + u64::from(self.load.samples) {
            self.finish(&mut state, now);
        } else {
            self.call(&mut state, deliveries);
        }
    }

    fn call(&self, state: &mut State<U>, deliveries: &mut Deliveries<'_>) {
        state.ticket += 1;
        let op = Bytes::from(body(state.ticket, self.load.size));
        if state.ticket == u64::from(self.load.warmup) + 1 {
            let used = (self.probe)();
            state.begun = Some((Instant::now(), used));
        }
        state.from = Instant::now();
        deliveries.input(0, Call { ticket: state.ticket, op });
    }

    fn finish(&self, state: &mut State<U>, now: Instant) {
        let Some(over) = state.over.take() else { return };
        let (begun, used) = state.begun.take().map_or((now, None), |(begun, used)| (begun, Some(used)));
        let waited = std::mem::take(&mut state.taken.waited);
        let span = now.saturating_duration_since(begun);
        let used = used.map(|earlier| (earlier, (self.probe)()));
        // Who no longer waits no longer wants it.
        let _ = over.send(Taken { waited, span, used, wrong: state.taken.wrong });
    }
}
