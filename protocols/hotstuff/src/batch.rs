//! When a leader proposes what is eligible, and how long it waits for more (specification 4.5).

use synod_machine::{Span, Time};

/// How long a leader lingers, from the mean interval between blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Linger {
    mean: Span,
    last: Option<Time>,
}

impl Linger {
    /// A block was committed.
    pub(crate) fn committed(&mut self, now: Time) {
        if let Some(last) = self.last {
            let interval = now.since(last).0;
            self.mean = Span((self.mean.0.saturating_mul(7) + interval) / 8);
        }
        self.last = Some(now);
    }

    /// Zero while no block is in flight, else a quarter of the mean block interval, at most `wait`.
    pub(crate) fn wait(&self, in_flight: bool, wait: Span) -> Span {
        if in_flight { Span(self.mean.0 / 4).min(wait) } else { Span::ZERO }
    }
}

/// How full a batch may get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Bytes of the encoded body.
    pub(crate) bytes: usize,
    /// Items.
    pub(crate) items: usize,
}

impl Caps {
    /// Whether what is eligible fills a block, so that waiting for more is pointless.
    pub(crate) fn are_reached(&self, (items, bytes): (u64, u64)) -> bool {
        items >= self.items as u64 || bytes >= self.bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Caps, Linger};
    use synod_machine::{Span, Time};

    #[test]
    fn a_leader_waits_only_while_a_block_is_in_flight() {
        let mut linger = Linger::default();
        for n in 0..100 {
            linger.committed(Time(n * 2_000_000));
        }
        assert_eq!(linger.wait(false, Span::millis(1)), Span::ZERO);
        let wait = linger.wait(true, Span::millis(1));
        assert!(wait > Span::micros(450) && wait <= Span::micros(500), "{wait}");
        assert_eq!(linger.wait(true, Span::micros(100)), Span::micros(100));
    }

    #[test]
    fn a_full_batch_is_not_waited_for() {
        let caps = Caps { bytes: 1_000, items: 10 };
        assert!(caps.are_reached((10, 20)) && caps.are_reached((1, 1_000)) && !caps.are_reached((9, 999)));
    }
}
