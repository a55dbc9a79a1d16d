//! The open loop: operations due at times fixed in advance.

use std::time::Duration;

use synod_host::{Call, Outcome};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::closed::micros;
use crate::measured::Gap;
use crate::{Drive, Measured};

/// How an open loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Lanes, used in turn.
    pub lanes: u64,
    /// Operations per second, above 0.
    pub rate: f64,
}

/// Operations of one instant share a call; an instant is this long.
const INSTANT: Duration = Duration::from_millis(1);

struct Answered {
    lane: u64,
    first: u64,
    due: Instant,
    outcomes: Vec<Outcome>,
}

/// Runs an open loop. An operation's latency counts from the instant it was due, whether or not it could be sent then.
pub async fn open(drive: &Drive, plan: Open) -> Measured {
    let start = Instant::from_std(drive.window.start);
    let whole = drive.window.warmup + drive.window.measure;
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut book = Book::new(drive, plan.rate);
    let (mut fired, mut tick) = (0_u64, 0_u32);
    let mut flying = 0_usize;
    while INSTANT * tick < whole {
        let due = start + INSTANT * tick;
        tokio::time::sleep_until(due).await;
        let until = due_by(plan.rate, INSTANT * (tick + 1));
        if until > fired {
            let count = usize::try_from(until - fired).unwrap_or(usize::MAX);
            let lane = u64::from(tick) % plan.lanes.max(1);
            flying += usize::from(fire(drive, (lane, count), due, answers.clone()));
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
    book.close()
}

/// Operations due in the first `span` at `rate`.
fn due_by(rate: f64, span: Duration) -> u64 {
    // Two hours at a billion a second stay below 2^53, where floats count exactly.
    format!("{:.0}", (rate * span.as_secs_f64()).floor()).parse().unwrap_or(0)
}

struct Book<'a> {
    drive: &'a Drive,
    measured: Measured,
    gap: Gap,
}

impl<'a> Book<'a> {
    fn new(drive: &'a Drive, rate: f64) -> Self {
        let measured = Measured { offered_per_s: rate, elapsed: drive.window.measure, ..Measured::default() };
        Self { drive, measured, gap: Gap::new(&drive.window) }
    }

    fn note(&mut self, answer: &Answered) {
        let now = Instant::now();
        let tally = self.drive.told(answer.lane, answer.first, &answer.outcomes);
        if tally.accepted > 0 {
            self.gap.acknowledged(now.into_std());
        }
        let window = &self.drive.window;
        if now.into_std() >= window.begin() && now.into_std() < window.end() {
            self.measured.completed += tally.accepted;
        }
        let due = answer.due.into_std();
        if due >= window.begin() && due < window.end() {
            self.measured.tally.add(tally);
            self.measured.latency.record(micros(now.duration_since(answer.due)), tally.accepted);
        }
    }

    fn close(mut self) -> Measured {
        self.measured.gap = self.gap.longest();
        self.measured
    }
}

/// Makes one call; says whether an answer will come.
fn fire(
    drive: &Drive,
    (lane, count): (u64, usize),
    due: Instant,
    answers: mpsc::UnboundedSender<Answered>,
) -> bool {
    let at = usize::try_from(lane).unwrap_or(0) % drive.backends.len().max(1);
    let Some(backend) = drive.backends.get(at) else { return false };
    let batch = drive.load.take(lane, count);
    let first = batch.first;
    let (reply, answer) = oneshot::channel();
    backend.call(Call { lane, operations: batch.operations, deadline: drive.deadline, reply });
    tokio::spawn(async move {
        let outcomes = answer.await.unwrap_or_else(|_| vec![Outcome::Unknown(None); count]);
        // The loop has ended if nobody listens.
        let _ = answers.send(Answered { lane, first, due, outcomes });
    });
    true
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
