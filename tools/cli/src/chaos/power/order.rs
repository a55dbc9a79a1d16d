//! Order windows: is a promise durable before it is sent?

use super::run::Site;
use crate::chaos::load::{ask, connect, operation};
use crate::exit::bug;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use synod_config::{Genesis, SynError};
use synod_host::{Mode, Outcome};

/// Writes submitted in a window, each with a key of its own.
const PROBES: usize = 8;
/// How long the two members may take to come to a sync.
const REACH: Duration = Duration::from_secs(3);
/// How long nothing may be acknowledged after that.
const WINDOW: Duration = Duration::from_millis(1_000);
/// How long the writes may take once the syncs are done.
const AFTER: Duration = Duration::from_secs(40);

/// What windows showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Windows in which both members stood at a sync, or something was acknowledged.
    pub(super) windows: u32,
    /// Writes submitted in them.
    pub(super) probes: u64,
    /// Writes acknowledged although their certificates need a vote that was not durable.
    pub(super) violations: u64,
    /// Writes acknowledged once the syncs were done.
    pub(super) after: u64,
}

/// Submits the writes of a window on a thread of its own.
fn submit(genesis: &Genesis, window: u32) -> Result<Receiver<Outcome>, SynError> {
    let (say, hear) = channel();
    let genesis = genesis.clone();
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let Ok(client) = connect(&genesis, usize::try_from(window).unwrap_or(0)) else { return };
            let mut tasks = Vec::new();
            for probe in 0..PROBES {
                let (client, say) = (client.clone(), say.clone());
                tasks.push(tokio::spawn(async move {
                    let key = format!("order:{window}:{probe}");
                    let write = vec![operation("INCR", &key, Mode::Ordered)];
                    for outcome in ask(&client, probe, write).await {
                        // Whoever listens no more has seen enough.
                        drop(say.send(outcome));
                    }
                }));
            }
            for task in tasks {
                drop(task.await);
            }
        });
    };
    let thread = std::thread::Builder::new().name("chaos-order".to_owned()).spawn(work);
    thread.map(|_| hear).map_err(|error| bug("order", &error))
}

/// Outcomes that come until a moment; how many of them are acceptances.
fn accepted(outcomes: &Receiver<Outcome>, until: Instant, most: u64) -> u64 {
    let mut accepted = 0;
    while accepted < most {
        let left = until.saturating_duration_since(Instant::now());
        match outcomes.recv_timeout(left) {
            Ok(Outcome::Accepted { .. }) => accepted += 1,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    accepted
}

impl Site<'_> {
    /// Holds the syncs of two drawn members back and looks whether anything is acknowledged nevertheless.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no thread.
    pub(super) fn order_window(&mut self, number: u32) -> Result<(), SynError> {
        let members = self.members();
        let first = self.draw.below(members);
        let second = (first + 1 + self.draw.below(members - 1)) % members;
        let pair = [first, second];
        pair.iter().for_each(|member| self.disks.disk(*member).hold_syncs());
        // What is submitted from here on needs a vote of one of the two.
        let outcomes = submit(&self.stage.processes.genesis, number);
        let reached = Instant::now() + REACH;
        let at_sync = || pair.iter().all(|member| self.disks.disk(*member).held() > 0);
        while !at_sync() && Instant::now() < reached {
            std::thread::sleep(Duration::from_millis(5));
        }
        let effective = at_sync();
        let most = PROBES as u64;
        let seen = outcomes.as_ref().map_or(0, |outcomes| accepted(outcomes, Instant::now() + WINDOW, most));
        pair.iter().for_each(|member| self.disks.disk(*member).let_syncs());
        let outcomes = outcomes?;
        let after = accepted(&outcomes, Instant::now() + AFTER, most - seen);
        if effective || seen > 0 {
            self.order.windows += 1;
            self.order.probes += most;
        }
        self.order.violations += seen;
        self.order.after += after;
        self.stage.session.tell(&format!(
            "order window {number}: syncs of {} and {} held, {seen} of {most} writes acknowledged, {after} after",
            self.stage.processes.name(first),
            self.stage.processes.name(second),
        ));
        Ok(())
    }
}
