//! The one who calls, looks whether each result is right, and calls again: when one of its requests has ended, or when the next is due.
//!
//! *Open loop.* Request number k is due (k - 1) / rate after the session was ready, whatever became of those before, and its time
//! counts from then. Where as many wait as a session may have, those that are due wait with them, and the time goes on.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_machine::Span;
use synod_shm::Deliveries;
use synod_ubft::client::{Input, Output};
use synod_wire::Bytes;

use super::apps::Pairs;
use super::pacer::Wait;
use super::tally::{Spent, Used};

/// The machine that says when a request is due.
pub(super) const PACER: u8 = 1;

/// What was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// When each measured request was called, or due.
    pub(super) from: Vec<Instant>,
    /// Nanoseconds from then to its result; in the order of results, like `from`.
    pub(super) waited: Vec<u64>,
    /// From the first measured request to the last result.
    pub(super) span: Duration,
    /// What was used meanwhile.
    pub(super) spent: Spent,
    /// Results that the application does not give.
    pub(super) wrong: u64,
    /// Calls whose outcome is unknown.
    pub(super) unknown: u64,
}

/// How many, and how they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Requests whose times are not taken.
    pub(super) warmup: u32,
    /// Requests behind them.
    pub(super) samples: u32,
    /// Requests in flight at most.
    pub(super) in_flight: u32,
    /// Requests of a second; none in a closed loop.
    pub(super) rate: Option<u32>,
}

impl Load {
    fn last(&self) -> u64 {
        u64::from(self.warmup) + u64::from(self.samples)
    }

    /// How long after the beginning a request is due; none where it is due as soon as there is room.
    fn due(&self, ticket: u64) -> Option<Duration> {
        let rate = u128::from(self.rate?.max(1));
        let nanos = u128::from(ticket.saturating_sub(1)) * 1_000_000_000 / rate;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// What was used until now, as whoever set the run up can tell.
pub(super) type Probe = Box<dyn Fn() -> Used + Send + Sync>;

/// See the module.
pub(super) struct Caller {
    state: Mutex<State>,
    load: Load,
    probe: Probe,
}

struct Waiting {
    expected: Bytes,
    from: Instant,
}

struct State {
    taken: Taken,
    pairs: Pairs,
    issued: u64,
    ended: u64,
    waiting: BTreeMap<u64, Waiting>,
    ready: Option<Instant>,
    begun: Option<(Instant, Used)>,
    over: Option<SyncSender<Taken>>,
}

impl State {
    /// The result of a call, or that there is none; whether there was such a call.
    fn end(&mut self, ticket: u64, result: Option<&Bytes>, now: Instant, load: &Load) -> bool {
        let Some(waiting) = self.waiting.remove(&ticket) else { return false };
        self.ended += 1;
        match result {
            None => self.taken.unknown += 1,
            Some(result) => {
                self.taken.wrong += u64::from(*result != waiting.expected);
                if ticket > u64::from(load.warmup) {
                    let waited = now.saturating_duration_since(waiting.from).as_nanos();
                    self.taken.from.push(waiting.from);
                    self.taken.waited.push(u64::try_from(waited).unwrap_or(u64::MAX));
                }
            }
        }
        true
    }
}

impl Caller {
    /// Calls as `load` says, and sends what it took.
    pub(super) fn new(pairs: Pairs, load: Load, probe: Probe, over: SyncSender<Taken>) -> Arc<Self> {
        let samples = usize::try_from(load.samples).unwrap_or(0);
        let taken = Taken {
            from: Vec::with_capacity(samples),
            waited: Vec::with_capacity(samples),
            ..Taken::default()
        };
        let state = State {
            taken,
            pairs,
            issued: 0,
            ended: 0,
            waiting: BTreeMap::new(),
            ready: None,
            begun: None,
            over: Some(over),
        };
        Arc::new(Self { state: Mutex::new(state), load, probe })
    }

    /// Takes what the client tells, and calls again.
    pub(super) fn hear(&self, output: Output, deliveries: &mut Deliveries<'_>) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = match output {
            Output::Ready(_) if state.ready.is_some() => false,
            Output::Ready(_) => {
                state.ready = Some(now);
                true
            }
            Output::Done { ticket, result } => state.end(ticket, Some(&result), now, &self.load),
            Output::Refused { ticket } | Output::Unknown { ticket, .. } => {
                state.end(ticket, None, now, &self.load)
            }
        };
        if !goes_on {
            return;
        }
        if state.ended >= self.load.last() {
            self.finish(&mut state, now);
        } else {
            self.call(&mut state, deliveries);
        }
    }

    /// It is time to look whether a request is due.
    pub(super) fn look(&self, deliveries: &mut Deliveries<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.call(&mut state, deliveries);
    }

    fn finish(&self, state: &mut State, now: Instant) {
        let Some(over) = state.over.take() else { return };
        let mut taken = std::mem::take(&mut state.taken);
        if let Some((begun, earlier)) = state.begun {
            taken.span = now.saturating_duration_since(begun);
            taken.spent = (self.probe)().since(&earlier);
        }
        // Who no longer waits no longer wants it.
        let _ = over.send(taken);
    }

    /// Calls what may be called, and asks to be told when the next is due.
    fn call(&self, state: &mut State, deliveries: &mut Deliveries<'_>) {
        let room = usize::try_from(self.load.in_flight).unwrap_or(1);
        let Some(ready) = state.ready else { return };
        while state.issued < self.load.last() && state.waiting.len() < room {
            let ticket = state.issued + 1;
            let due = self.load.due(ticket).map(|after| ready + after);
            if let Some(left) = due.map(|due| due.saturating_duration_since(Instant::now()))
                && !left.is_zero()
            {
                let left = Span(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
                deliveries.input(PACER, Wait(left));
                return;
            }
            let (op, expected) = (state.pairs)(ticket);
            let is_first = ticket == u64::from(self.load.warmup) + 1;
            let used = is_first.then(|| (self.probe)());
            let from = due.unwrap_or_else(Instant::now);
            if let Some(used) = used {
                state.begun = Some((from, used));
            }
            state.issued = ticket;
            state.waiting.insert(ticket, Waiting { expected, from });
            deliveries.input(0, Input::Call { ticket, op });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_an_open_loop_are_due_at_times_fixed_in_advance() {
        let load = |rate| Load { warmup: 2, samples: 3, in_flight: 1, rate };
        let due = |rate: u32, ticket| load(Some(rate)).due(ticket);
        assert_eq!(load(None).due(7), None);
        assert_eq!(load(None).last(), 5);
        for (rate, ticket, nanos) in [
            (1, 1, 0),
            (1, 2, 1_000_000_000),
            (3, 2, 333_333_333),
            (3, 4, 1_000_000_000),
            (200_000, 3, 10_000),
        ] {
            assert_eq!(due(rate, ticket), Some(Duration::from_nanos(nanos)), "{rate} {ticket}");
        }
    }
}
