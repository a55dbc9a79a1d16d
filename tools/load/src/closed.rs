//! The closed loop: windows kept full.

use std::time::{Duration, Instant};

use synod_host::{Call, Outcome};
use tokio::sync::{mpsc, oneshot};

use crate::measured::Gap;
use crate::{Drive, Measured, Tally};

/// How a closed loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// Lanes, spread over the backends.
    pub lanes: u64,
    /// Operations each lane keeps in flight.
    pub inflight: usize,
    /// Operations per call.
    pub batch: usize,
}

struct Answered {
    lane: u64,
    first: u64,
    sent: Instant,
    outcomes: Vec<Outcome>,
}

/// Runs a closed loop; lane l uses backend l modulo their number. Returns when every call is answered.
pub async fn closed(drive: &Drive, plan: Closed) -> Measured {
    let (begin, end) = (drive.window.begin(), drive.window.end());
    let (answers, mut answered) = mpsc::unbounded_channel();
    let calls = plan.inflight.div_ceil(plan.batch).max(1);
    let mut flying = 0_usize;
    for lane in 0..plan.lanes {
        for _ in 0..calls {
            flying += usize::from(fire(drive, (lane, plan.batch), &answers));
        }
    }
    let mut measured = Measured { elapsed: drive.window.measure, ..Measured::default() };
    let mut gap = Gap::new(&drive.window);
    while flying > 0 {
        let Some(Answered { lane, first, sent, outcomes }) = answered.recv().await else { break };
        flying -= 1;
        let now = Instant::now();
        let tally = drive.told(lane, first, &outcomes);
        if tally.accepted > 0 {
            gap.acknowledged(now);
        }
        if now >= begin && now < end {
            measured.tally.add(tally);
            measured.completed += tally.accepted;
            measured.latency.record(micros(now.duration_since(sent)), tally.accepted);
        }
        if now < end {
            flying += usize::from(fire(drive, (lane, plan.batch), &answers));
        }
    }
    measured.gap = gap.longest();
    measured.offered_per_s = measured.achieved_per_s();
    measured
}

/// Does the first `count` operations of each lane, one call per lane at a time, and gives their outcomes.
pub async fn fill(drive: &Drive, lanes: u64, (count, batch): (u64, usize)) -> Tally {
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut left = vec![count; at(lanes)];
    let mut next = |lane: u64| {
        let left = left.get_mut(at(lane)).filter(|left| **left > 0)?;
        let size = batch.min(at(*left)).max(1);
        *left -= size as u64;
        Some((lane, size))
    };
    let mut flying = 0_usize;
    let mut tally = Tally::default();
    for lane in 0..lanes {
        if let Some(call) = next(lane) {
            flying += usize::from(fire(drive, call, &answers));
        }
    }
    while flying > 0 {
        let Some(Answered { lane, first, outcomes, .. }) = answered.recv().await else { break };
        flying -= 1;
        tally.add(drive.told(lane, first, &outcomes));
        if let Some(call) = next(lane) {
            flying += usize::from(fire(drive, call, &answers));
        }
    }
    tally
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Makes one call; says whether an answer will come.
fn fire(drive: &Drive, (lane, count): (u64, usize), answers: &mpsc::UnboundedSender<Answered>) -> bool {
    let Some(backend) = drive.backends.get(at(lane) % drive.backends.len().max(1)) else { return false };
    let batch = drive.load.take(lane, count);
    let (reply, answer) = oneshot::channel();
    let (sent, answers, first) = (Instant::now(), answers.clone(), batch.first);
    backend.call(Call { lane, operations: batch.operations, deadline: drive.deadline, reply });
    tokio::spawn(async move {
        let outcomes = answer.await.unwrap_or_else(|_| vec![Outcome::Unknown(None); count]);
        // The loop has ended if nobody listens.
        let _ = answers.send(Answered { lane, first, sent, outcomes });
    });
    true
}
