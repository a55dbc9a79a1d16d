//! What the clients saw, round by round.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use synod_chaos::linear::{History, Operation, Tally};

/// Rounds that clients may be apart.
const APART: u64 = 2;

#[derive(Default)]
struct Round {
    /// By key.
    seen: BTreeMap<usize, Vec<Operation>>,
    /// Clients that have left it.
    left: usize,
}

/// Open rounds, and the verdicts on the closed ones.
pub(super) struct Book {
    clients: usize,
    begun: Instant,
    stopped: AtomicBool,
    rounds: Mutex<BTreeMap<u64, Round>>,
    tally: Mutex<Tally>,
}

impl Book {
    pub(super) fn new(clients: usize) -> Self {
        let (rounds, tally) = (Mutex::default(), Mutex::default());
        Self { clients, begun: Instant::now(), stopped: AtomicBool::new(false), rounds, tally }
    }

    fn rounds(&self) -> MutexGuard<'_, BTreeMap<u64, Round>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that all clients share, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Whether a client may enter a round: nobody is too far behind.
    pub(super) fn may_enter(&self, round: u64) -> bool {
        self.rounds().first_key_value().is_none_or(|(oldest, _)| oldest + APART > round)
    }

    /// A client entered a round.
    pub(super) fn enter(&self, round: u64) {
        self.rounds().entry(round).or_default();
    }

    /// A client saw this.
    pub(super) fn saw(&self, round: u64, key: usize, operation: Operation) {
        self.rounds().entry(round).or_default().seen.entry(key).or_default().push(operation);
    }

    /// A client calls nothing more in this round. The last one judges it.
    pub(super) fn leave(&self, round: u64) {
        let mut rounds = self.rounds();
        let open = rounds.entry(round).or_default();
        open.left += 1;
        if open.left < self.clients {
            return;
        }
        let closed = rounds.remove(&round).unwrap_or_default();
        drop(rounds);
        self.judge(round, closed);
    }

    fn judge(&self, round: u64, closed: Round) {
        let mut tally = Tally::default();
        for (key, operations) in closed.seen {
            tally.add(&History { key: name(round, key), operations });
        }
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).join(tally);
    }

    /// Judges what is left; the verdicts on everything.
    pub(super) fn close(&self) -> Tally {
        let left = std::mem::take(&mut *self.rounds());
        left.into_iter().for_each(|(round, open)| self.judge(round, open));
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name of a key of a round.
pub(super) fn name(round: u64, key: usize) -> String {
    format!("chaos:seen:{round}:{key}")
}

#[cfg(test)]
mod tests {
    use super::Book;
    use synod_chaos::linear::{Action, Answer, Operation};

    fn got(called: u64, value: Option<u64>) -> Operation {
        let answered = Some((called + 1, Answer::Value(value)));
        Operation { client: 0, action: Action::Get, called, answered }
    }

    #[test]
    fn a_round_is_judged_when_its_last_client_leaves_and_no_client_runs_ahead() {
        let book = Book::new(2);
        book.enter(0);
        book.saw(0, 0, got(1, None));
        book.saw(0, 1, got(1, None));
        assert!(book.may_enter(1) && !book.may_enter(2), "one client is in round 0");
        book.leave(0);
        assert!(!book.may_enter(2), "the other one is");
        book.leave(0);
        assert!(book.may_enter(7));
        book.saw(3, 0, got(1, Some(4)));
        let tally = book.close();
        assert_eq!((tally.histories, tally.operations, tally.refuted), (3, 3, 1));
        assert!(tally.offence.is_some_and(|history| history.key == "chaos:seen:3:0"));
    }
}
