//! The honest load, with the time that each call took.

use super::super::load::{ask, connect, operation};
use crate::exit::bug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use synod_config::{Genesis, SynError};
use synod_host::{Mode, Outcome};

/// Lanes, each with one call at a time.
const LANES: usize = 16;
/// Writes of a call.
const BATCH: usize = 8;
/// Pause after a call of which everything was refused.
const REFUSED: Duration = Duration::from_millis(20);
/// Bytes of the value that stalled readers ask for.
const BIG: usize = 64 << 10;
/// Its key.
pub(super) const BIG_KEY: &str = "flood:big";

/// What was measured of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Writes acknowledged.
    pub(super) acked: u64,
    /// How long the turn was.
    pub(super) span: Duration,
    /// 50 of 100 calls took at most this long.
    pub(super) p50: Duration,
    /// 99 of 100 calls took at most this long.
    pub(super) p99: Duration,
}

impl Measured {
    /// Writes acknowledged in a second.
    pub(super) fn rate(&self) -> u64 {
        let ms = u64::try_from(self.span.as_millis()).unwrap_or(u64::MAX).max(1);
        self.acked.saturating_mul(1_000) / ms
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    calls: Mutex<Vec<Duration>>,
    acked: AtomicU64,
}

/// The load, until it is dropped.
pub(super) struct Honest {
    shared: Arc<Shared>,
    since: Instant,
    thread: Option<JoinHandle<Result<(), SynError>>>,
}

impl Honest {
    /// Starts it, and writes the value that stalled readers ask for.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(genesis: &Genesis) -> Result<Self, SynError> {
        let shared = Arc::new(Shared::default());
        let (own, genesis) = (shared.clone(), genesis.clone());
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| bug("runtime", &error))?.block_on(drive(&genesis, own))
        };
        let thread = std::thread::Builder::new().name("honest".to_owned()).spawn(work);
        let thread = thread.map_err(|error| bug("load", &error))?;
        Ok(Self { shared, since: Instant::now(), thread: Some(thread) })
    }

    /// Begins a turn: what was measured before is forgotten.
    pub(super) fn begin(&mut self) {
        self.take();
    }

    /// What was measured since the turn began.
    pub(super) fn take(&mut self) -> Measured {
        let mut calls =
            std::mem::take(&mut *self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner));
        let acked = self.shared.acked.swap(0, Ordering::Relaxed);
        let span = self.since.elapsed();
        self.since = Instant::now();
        calls.sort_unstable();
        let rank = |of_hundred: usize| {
            calls.get((calls.len() * of_hundred).div_ceil(100).saturating_sub(1)).copied().unwrap_or(span)
        };
        Measured { acked, span, p50: rank(50), p99: rank(99) }
    }

    /// Ends it.
    ///
    /// # Errors
    /// What ended it before.
    pub(super) fn end(mut self) -> Result<(), SynError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(bug("load", &"its thread panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

async fn drive(genesis: &Genesis, shared: Arc<Shared>) -> Result<(), SynError> {
    // The first three members run.
    let clients = (0..3).map(|at| connect(genesis, at)).collect::<Result<Vec<_>, _>>()?;
    if let Some(client) = clients.first() {
        let value = "v".repeat(BIG);
        let mut body = Vec::new();
        if let Some(verb) = synod_kv::Verb::find(b"SET") {
            let words = [BIG_KEY.as_bytes(), value.as_bytes()];
            synod_kv::operation::write_command(verb, words.into_iter(), &mut body);
        }
        ask(client, 0, vec![synod_host::Operation { body: body.into(), mode: Mode::Ordered }]).await;
    }
    let mut tasks = Vec::new();
    for (lane, client) in (0..LANES).zip(clients.iter().cycle()) {
        let (client, shared) = (client.clone(), shared.clone());
        tasks.push(tokio::spawn(async move {
            let key = format!("flood:{lane}");
            while !shared.stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let writes = (0..BATCH).map(|_| operation("INCR", &key, Mode::Ordered)).collect();
                let outcomes = ask(&client, lane, writes).await;
                let acked = outcomes.iter().filter(|one| matches!(one, Outcome::Accepted { .. })).count();
                shared.acked.fetch_add(acked as u64, Ordering::Relaxed);
                if acked == 0 {
                    tokio::time::sleep(REFUSED).await;
                }
                shared.calls.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
            }
        }));
    }
    for task in tasks {
        task.await.map_err(|error| bug("lane", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_per_second_of_its_turn() {
        let turn = Measured { acked: 500, span: Duration::from_millis(250), ..Measured::default() };
        assert_eq!(turn.rate(), 2_000);
        assert_eq!(Measured::default().rate(), 0);
    }
}
