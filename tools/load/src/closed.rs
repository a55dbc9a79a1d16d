//! The closed loop: windows kept full.

use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_host::{Backend, Call, Outcome};
use tokio::sync::{mpsc, oneshot};

use crate::workload::Workload;
use crate::{Measured, Tally};

/// How a closed loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// Lanes, spread over the backends.
    pub lanes: u64,
    /// Operations each lane keeps in flight.
    pub inflight: usize,
    /// Operations per call.
    pub batch: usize,
    /// Time before measuring.
    pub warmup: Duration,
    /// Time measured.
    pub measure: Duration,
    /// Deadline of each call.
    pub deadline: Duration,
}

struct Answered {
    lane: u64,
    sent: Instant,
    outcomes: Vec<Outcome>,
}

/// Runs a closed loop over `backends`; lane l uses backend l modulo their number. Returns when every call is
/// answered.
pub async fn closed(backends: &[Arc<dyn Backend>], load: Arc<dyn Workload>, plan: Closed) -> Measured {
    let start = Instant::now();
    let begin = start + plan.warmup;
    let end = begin + plan.measure;
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut loop_ = Loop { backends, load, plan, next: vec![0; at(plan.lanes)], answers };
    let calls = plan.inflight.div_ceil(plan.batch).max(1);
    let mut flying = 0_usize;
    for lane in 0..plan.lanes {
        for _ in 0..calls {
            loop_.fire(lane);
            flying += 1;
        }
    }
    let mut measured = Measured::default();
    let mut last = start;
    while flying > 0 {
        let Some(Answered { lane, sent, outcomes }) = answered.recv().await else { break };
        flying -= 1;
        let now = Instant::now();
        let tally = Tally::of(&outcomes);
        measured.whole.add(tally);
        if tally.accepted > 0 {
            measured.gap = measured.gap.max(now.duration_since(last));
            last = now;
        }
        if now >= begin && now < end {
            measured.tally.add(tally);
            measured.latency.record(micros(now.duration_since(sent)), tally.accepted);
        }
        if now < end {
            loop_.fire(lane);
            flying += 1;
        }
    }
    measured.elapsed = plan.measure;
    measured.offered_per_s = measured.achieved_per_s();
    measured
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn at(lane: u64) -> usize {
    usize::try_from(lane).unwrap_or(usize::MAX)
}

struct Loop<'a> {
    backends: &'a [Arc<dyn Backend>],
    load: Arc<dyn Workload>,
    plan: Closed,
    next: Vec<u64>,
    answers: mpsc::UnboundedSender<Answered>,
}

impl Loop<'_> {
    fn fire(&mut self, lane: u64) {
        let Some(backend) = self.backends.get(at(lane) % self.backends.len().max(1)) else { return };
        let Some(next) = self.next.get_mut(at(lane)) else { return };
        let batch = self.plan.batch as u64;
        let operations = (*next..*next + batch).map(|index| self.load.operation(lane, index)).collect();
        *next += batch;
        let (reply, answer) = oneshot::channel();
        let (sent, answers) = (Instant::now(), self.answers.clone());
        let count = self.plan.batch;
        backend.call(Call { lane, operations, deadline: self.plan.deadline, reply });
        tokio::spawn(async move {
            let outcomes = answer.await.unwrap_or_else(|_| vec![Outcome::Unknown(None); count]);
            // The loop has ended if nobody listens.
            let _ = answers.send(Answered { lane, sent, outcomes });
        });
    }
}
