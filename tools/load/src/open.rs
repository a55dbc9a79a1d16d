//! The open loop: operations due at times fixed in advance.

use std::sync::Arc;
use std::time::Duration;

use synod_host::{Backend, Call, Outcome};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::closed::micros;
use crate::workload::Workload;
use crate::{Measured, Tally};

/// How an open loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Lanes, used in turn.
    pub lanes: u64,
    /// Operations per second, above 0.
    pub rate: f64,
    /// Time before measuring.
    pub warmup: Duration,
    /// Time measured.
    pub measure: Duration,
    /// Deadline of each operation.
    pub deadline: Duration,
}

/// Operations of one instant share a call; an instant is this long.
const INSTANT: Duration = Duration::from_millis(1);

struct Answered {
    due: Instant,
    outcomes: Vec<Outcome>,
}

/// Runs an open loop over `backends`. An operation's latency counts from the instant it was due, whether or not it
/// could be sent then.
pub async fn open(backends: &[Arc<dyn Backend>], load: Arc<dyn Workload>, plan: Open) -> Measured {
    let start = Instant::now();
    let begin = start + plan.warmup;
    let whole = plan.warmup + plan.measure;
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut measured = Measured { offered_per_s: plan.rate, elapsed: plan.measure, ..Measured::default() };
    let mut book = Book { measured: &mut measured, begin, end: start + whole, last: start };
    let (mut fired, mut tick) = (0_u64, 0_u32);
    let mut flying = 0_usize;
    while INSTANT * tick < whole {
        let due = start + INSTANT * tick;
        tokio::time::sleep_until(due).await;
        let until = due_by(plan.rate, INSTANT * (tick + 1));
        if until > fired {
            let lane = u64::from(tick) % plan.lanes.max(1);
            let operations: Vec<_> = (fired..until).map(|index| load.operation(lane, index)).collect();
            fire(backends, (lane, operations), (due, plan.deadline), answers.clone());
            flying += 1;
            fired = until;
        }
        while let Ok(answer) = answered.try_recv() {
            book.note(&answer);
            flying -= 1;
        }
        tick += 1;
    }
    while flying > 0 {
        let Some(answer) = answered.recv().await else { break };
        book.note(&answer);
        flying -= 1;
    }
    measured
}

/// Operations due in the first `span` at `rate`.
fn due_by(rate: f64, span: Duration) -> u64 {
    // Two hours at a billion a second stay below 2^53, where floats count exactly.
    format!("{:.0}", (rate * span.as_secs_f64()).floor()).parse().unwrap_or(0)
}

struct Book<'a> {
    measured: &'a mut Measured,
    begin: Instant,
    end: Instant,
    last: Instant,
}

impl Book<'_> {
    fn note(&mut self, answer: &Answered) {
        let now = Instant::now();
        let tally = Tally::of(&answer.outcomes);
        self.measured.whole.add(tally);
        if tally.accepted > 0 {
            self.measured.gap = self.measured.gap.max(now.duration_since(self.last));
            self.last = now;
        }
        if answer.due >= self.begin && answer.due < self.end {
            self.measured.tally.add(tally);
            self.measured.latency.record(micros(now.duration_since(answer.due)), tally.accepted);
        }
    }
}

fn fire(
    backends: &[Arc<dyn Backend>],
    what: (u64, Vec<synod_host::Operation>),
    when: (Instant, Duration),
    answers: mpsc::UnboundedSender<Answered>,
) {
    let ((lane, operations), (due, deadline)) = (what, when);
    let at = usize::try_from(lane).unwrap_or(0) % backends.len().max(1);
    let Some(backend) = backends.get(at) else { return };
    let count = operations.len();
    let (reply, answer) = oneshot::channel();
    backend.call(Call { lane, operations, deadline, reply });
    tokio::spawn(async move {
        let outcomes = answer.await.unwrap_or_else(|_| vec![Outcome::Unknown(None); count]);
        let _ = answers.send(Answered { due, outcomes });
    });
}

#[cfg(test)]
mod tests {
    use super::due_by;
    use std::time::Duration;

    #[test]
    fn operations_are_due_at_their_rate() {
        assert_eq!(due_by(1_000.0, Duration::from_millis(1)), 1);
        assert_eq!(due_by(1_500.0, Duration::from_millis(3)), 4);
        assert_eq!(due_by(0.5, Duration::from_secs(1)), 0);
        assert_eq!(due_by(1e6, Duration::from_secs(10)), 10_000_000);
    }
}
