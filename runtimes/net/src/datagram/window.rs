//! Which numbers of a direction were seen: the newest and the 63 before it.

/// A replay window, 64 wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// One above the newest number; 0 before the first.
    next: u64,
    /// Bit i: the number i below the newest was seen.
    seen: u64,
}

/// Numbers that a window tells apart.
const WIDTH: u64 = 64;

impl Window {
    /// Whether `sequence` is neither seen nor too old.
    pub(crate) const fn is_fresh(&self, sequence: u64) -> bool {
        // The last number has none above it, so nobody sends it.
        if sequence >= self.next {
            return sequence < u64::MAX;
        }
        let age = self.next - 1 - sequence;
        age < WIDTH && self.seen >> age & 1 == 0
    }

    /// Remembers a fresh number of an authentic datagram.
    pub(crate) fn add(&mut self, sequence: u64) {
        assert!(self.is_fresh(sequence), "a number is added once");
        if sequence >= self.next {
            let ahead = sequence - self.next + 1;
            self.seen = if ahead >= WIDTH { 0 } else { self.seen << ahead };
            self.seen |= 1;
            self.next = sequence + 1;
        } else {
            self.seen |= 1 << (self.next - 1 - sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Window;
    use std::collections::BTreeSet;

    #[test]
    fn every_number_passes_once_and_what_is_64_behind_never() {
        let mut window = Window::default();
        for (sequence, fresh) in
            [(0, true), (0, false), (5, true), (1, true), (5, false), (68, true), (5, false), (4, false)]
        {
            assert_eq!(window.is_fresh(sequence), fresh, "{sequence}");
            if fresh {
                window.add(sequence);
            }
        }
        assert!(window.is_fresh(6) && !window.is_fresh(u64::MAX) && window.is_fresh(u64::MAX - 1));
    }

    #[test]
    fn it_agrees_with_a_set_on_any_sequence() {
        let (mut window, mut seen, mut newest) = (Window::default(), BTreeSet::new(), 0);
        let mut draw = 1_u64;
        for _ in 0..20_000 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let sequence = (newest + (draw >> 33) % 90).saturating_sub(80);
            let fresh = !seen.contains(&sequence) && sequence + 64 > newest;
            assert_eq!(window.is_fresh(sequence), fresh, "{sequence} at {newest}");
            if fresh {
                window.add(sequence);
                seen.insert(sequence);
                newest = newest.max(sequence);
            }
        }
        assert!(seen.len() > 1_000);
    }
}
