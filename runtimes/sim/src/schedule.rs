//! The heap of what will happen: (virtual nanosecond, drawn tie-break, sequence).
//!
//! Nothing ticks: time jumps from one entry to the next. Entries with one time come in the order of their drawn
//! ties; the sequence number only decides between equal ties, which keeps the order total.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

type Key = Reverse<(u64, u32, u64, u32)>;

/// Future happenings of type `T`; the payload rests in a slab so that the heap moves small keys.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    heap: BinaryHeap<Key>,
    slab: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<T> Schedule<T> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), slab: Vec::new(), free: Vec::new(), sequence: 0 }
    }

    pub(crate) fn push(&mut self, time: u64, tie: u32, what: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slab[slot as usize] = Some(what);
                slot
            }
            None => {
                self.slab.push(Some(what));
                u32::try_from(self.slab.len() - 1).expect("fewer than 2^32 happenings wait at once")
            }
        };
        self.sequence += 1;
        self.heap.push(Reverse((time, tie, self.sequence, slot)));
    }

    /// The time of the next entry.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let Reverse((time, _, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.slab[slot as usize].take().map(|what| (time, what))
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_comes_first_then_the_tie_then_the_order_of_scheduling() {
        let mut schedule = Schedule::new();
        for (time, tie, name) in [(5, 1, 'd'), (5, 0, 'b'), (5, 0, 'c'), (1, 9, 'a'), (6, 0, 'e')] {
            schedule.push(time, tie, name);
        }
        let order: String = core::iter::from_fn(|| schedule.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, "abcde");
    }

    #[test]
    fn places_in_the_slab_are_used_again() {
        let mut schedule = Schedule::new();
        for round in 0..1_000 {
            schedule.push(round, 0, round);
            schedule.push(round, 1, round);
            assert!(schedule.pop().is_some());
            assert!(schedule.pop().is_some());
        }
        assert_eq!((schedule.slab.len(), schedule.len()), (2, 0));
    }
}
