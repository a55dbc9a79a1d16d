//! How long answers take, and when a client stops waiting for one node.

use synod_machine::{Rng, Span};
use synod_tail::Fifo;

/// Latencies remembered.
const SAMPLES: usize = 128;
/// The longest wait between two tries.
pub(super) const WAIT_MAX: Span = Span::secs(10);

/// The last latencies of accepted frames.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    samples: Fifo<u64>,
    p99: u64,
}

impl Latency {
    pub(super) const fn new() -> Self {
        Self { samples: Fifo::evicting(SAMPLES), p99: 0 }
    }

    /// Records one. The 99th percentile of 128 samples is the second largest.
    pub(super) fn record(&mut self, span: Span) {
        let _kept = self.samples.push(span.0);
        let mut largest = [0, 0];
        for sample in self.samples.iter() {
            if *sample > largest[0] {
                largest = [*sample, largest[0]];
            } else if *sample > largest[1] {
                largest[1] = *sample;
            }
        }
        self.p99 = if self.samples.count() < 64 { largest[0] } else { largest[1] };
    }

    /// How long to wait for one node before all are asked: 2 x p99, at least `min`.
    pub(super) fn escalate(&self, min: Span) -> Span {
        Span(self.p99.saturating_mul(2)).max(min).min(WAIT_MAX)
    }
}

/// The next wait: half as long again, and up to a quarter more by chance, so that clients do not move in step.
pub(super) fn back_off(wait: Span, rng: &mut Rng) -> Span {
    let longer = Span(wait.0.saturating_add(wait.0 / 2)).min(WAIT_MAX);
    Span(longer.0.saturating_add(rng.below(longer.0 / 4 + 1)))
}

#[cfg(test)]
mod tests {
    use synod_machine::{Rng, Span};
    use synod_quorum::NodeId;

    use super::{Latency, WAIT_MAX, back_off};

    #[test]
    fn one_outlier_does_not_move_the_escalation() {
        let mut latency = Latency::new();
        let min = Span::millis(200);
        assert_eq!(latency.escalate(min), min);
        (0..100).for_each(|_| latency.record(Span::millis(150)));
        latency.record(Span::secs(3));
        assert_eq!(latency.escalate(min), Span::millis(300));
        latency.record(Span::secs(3));
        assert_eq!(latency.escalate(min), Span::secs(6));
    }

    #[test]
    fn waits_grow_and_stay_bounded() {
        let mut rng = Rng::new(1, NodeId(0), 0);
        let mut wait = Span::millis(200);
        for _ in 0..100 {
            let next = back_off(wait, &mut rng);
            assert!(next > wait || wait >= WAIT_MAX);
            wait = next.min(WAIT_MAX);
        }
        assert_eq!(wait, WAIT_MAX);
    }
}
