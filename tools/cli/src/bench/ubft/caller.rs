//! The one who calls, waits for the result, looks whether it is right and calls again.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_shm::Deliveries;
use synod_ubft::client::{Input, Output};
use synod_wire::Bytes;

/// What was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// Nanoseconds from each call to its result.
    pub(super) waited: Vec<u64>,
    /// From the first measured call to the last result.
    pub(super) span: Duration,
    /// Results that the application does not give.
    pub(super) wrong: u64,
    /// Calls whose outcome is unknown.
    pub(super) unknown: u64,
}

/// A request and what it is answered with.
pub(super) type Pair = (Bytes, Bytes);

/// See the module.
pub(super) struct Caller {
    state: Mutex<State>,
    /// Request number so many, and its answer.
    pair: Box<dyn Fn(u64) -> Pair + Send + Sync>,
    warmup: u64,
    last: u64,
}

struct State {
    taken: Taken,
    ticket: u64,
    expected: Bytes,
    called: Instant,
    begun: Option<Instant>,
    over: Option<SyncSender<Taken>>,
}

impl Caller {
    /// Calls `warmup` and then `samples` times, and sends what it took.
    pub(super) fn new(
        pair: Box<dyn Fn(u64) -> Pair + Send + Sync>,
        (warmup, samples): (u32, u32),
        over: SyncSender<Taken>,
    ) -> Arc<Self> {
        let state = State {
            taken: Taken::default(),
            ticket: 0,
            expected: Bytes::new(),
            called: Instant::now(),
            begun: None,
            over: Some(over),
        };
        let (warmup, samples) = (u64::from(warmup), u64::from(samples));
        Arc::new(Self { state: Mutex::new(state), pair, warmup, last: warmup + samples })
    }

    /// Takes what the client tells, and calls again.
    pub(super) fn hear(&self, output: Output, deliveries: &mut Deliveries<'_>) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match output {
            Output::Ready(_) if state.ticket == 0 => {}
            Output::Done { ticket, result } if ticket == state.ticket => {
                state.taken.wrong += u64::from(result != state.expected);
                if ticket > self.warmup {
                    let waited = u64::try_from((now - state.called).as_nanos()).unwrap_or(u64::MAX);
                    state.taken.waited.push(waited);
                }
            }
            Output::Refused { ticket } | Output::Unknown { ticket, .. } if ticket == state.ticket => {
                state.taken.unknown += 1;
            }
            Output::Ready(_) | Output::Done { .. } | Output::Refused { .. } | Output::Unknown { .. } => {
                return;
            }
        }
        if state.ticket >= self.last {
            state.taken.span = state.begun.map_or(Duration::ZERO, |begun| now - begun);
            let taken = std::mem::take(&mut state.taken);
            if let Some(over) = state.over.take() {
                // Who no longer waits no longer wants it.
                let _ = over.send(taken);
            }
            return;
        }
        state.ticket += 1;
        let ticket = state.ticket;
        let (op, expected) = (self.pair)(ticket);
        state.expected = expected;
        let called = Instant::now();
        state.called = called;
        if ticket > self.warmup {
            state.begun.get_or_insert(called);
        }
        drop(state);
        deliveries.input(0, Input::Call { ticket, op });
    }
}
