//! A sorted sequence that knows ranks: the members of sets, the fields of hashes, both orders of sorted sets.
//!
//! Runs of at most [`RUN_MAX`] elements, each sorted, in order. Finding is two binary searches, inserting moves at
//! most one run, the n-th element costs one addition per run. The division into runs depends on history and is
//! never visible: everything that is answered or hashed goes by the order of the elements.

use core::cmp::Ordering;

/// Most elements of a run; a fuller one is halved.
const RUN_MAX: usize = 256;

/// A run below this joins a neighbour when both fit half a run.
const RUN_MIN: usize = RUN_MAX / 8;

/// A sorted sequence without equal elements.
#[derive(Debug)]
pub(crate) struct Ranked<T> {
    runs: Vec<Vec<T>>,
    length: usize,
}

/// Where an element stands, or would stand; valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    run: usize,
    offset: usize,
}

impl<T> Ranked<T> {
    /// An empty sequence; it allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { runs: Vec::new(), length: 0 }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Finds the element that `order` calls equal, or the place where it belongs.
    pub(crate) fn find(&self, mut order: impl FnMut(&T) -> Ordering) -> Result<Place, Place> {
        let run =
            self.runs.partition_point(|run| run.last().is_some_and(|last| order(last) == Ordering::Less));
        match self.runs.get(run) {
            // Beyond the last element: the end of the last run.
            None => match self.runs.last() {
                Some(last) => Err(Place { run: run - 1, offset: last.len() }),
                None => Err(Place { run: 0, offset: 0 }),
            },
            Some(elements) => match elements.binary_search_by(order) {
                Ok(offset) => Ok(Place { run, offset }),
                Err(offset) => Err(Place { run, offset }),
            },
        }
    }

    /// The element at a place that `find` gave as found.
    pub(crate) fn at(&self, place: Place) -> &T {
        &self.runs[place.run][place.offset]
    }

    /// The element at a found place, to change what the order does not look at.
    pub(crate) fn at_mut(&mut self, place: Place) -> &mut T {
        &mut self.runs[place.run][place.offset]
    }

    /// Inserts at a place that `find` gave as missing.
    pub(crate) fn insert(&mut self, place: Place, element: T) {
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        let run = &mut self.runs[place.run];
        run.insert(place.offset, element);
        self.length += 1;
        if run.len() > RUN_MAX {
            let upper = run.split_off(RUN_MAX / 2);
            self.runs.insert(place.run + 1, upper);
        }
    }

    /// Removes the element at a found place.
    pub(crate) fn remove(&mut self, place: Place) -> T {
        let element = self.runs[place.run].remove(place.offset);
        self.length -= 1;
        let left = self.runs[place.run].len();
        if left == 0 {
            self.runs.remove(place.run);
        } else if left < RUN_MIN {
            self.join(place.run);
        }
        element
    }

    /// Joins a small run with its right neighbour, or its left one, when they fit half a run.
    fn join(&mut self, run: usize) {
        let first = if run + 1 < self.runs.len() { run } else { run.saturating_sub(1) };
        let Some([left, right]) = self.runs.get_mut(first..first + 2) else { return };
        if left.len() + right.len() <= RUN_MAX / 2 {
            left.append(right);
            self.runs.remove(first + 1);
        }
    }

    /// The place of the n-th element, counted from 0.
    pub(crate) fn nth(&self, rank: usize) -> Option<Place> {
        let mut offset = rank;
        for (run, elements) in self.runs.iter().enumerate() {
            if offset < elements.len() {
                return Some(Place { run, offset });
            }
            offset -= elements.len();
        }
        None
    }

    /// How many elements stand before `place`.
    pub(crate) fn rank(&self, place: Place) -> usize {
        self.runs[..place.run.min(self.runs.len())].iter().map(Vec::len).sum::<usize>() + place.offset
    }

    /// All elements in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.runs.iter().flatten()
    }

    /// Elements from rank `first` on, at most `count`, in order.
    pub(crate) fn range(&self, first: usize, count: usize) -> impl Iterator<Item = &T> {
        let place = self.nth(first).unwrap_or(Place { run: self.runs.len(), offset: 0 });
        let head = self.runs.get(place.run).map_or(&[][..], |run| &run[place.offset..]);
        let tail = self.runs.get(place.run + 1..).unwrap_or(&[]);
        head.iter().chain(tail.iter().flatten()).take(count)
    }

    /// Elements from rank `last` downwards, at most `count`, in falling order.
    pub(crate) fn range_down(&self, last: usize, count: usize) -> impl Iterator<Item = &T> {
        let (head, run) = match self.nth(last) {
            Some(place) => (&self.runs[place.run][..=place.offset], place.run),
            None => (&[][..], 0),
        };
        head.iter().rev().chain(self.runs[..run].iter().rev().flat_map(|run| run.iter().rev())).take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A fixed, scattered order of the numbers below `count`.
    fn scattered(count: u32) -> impl Iterator<Item = u32> {
        (0..count).map(move |i| i.wrapping_mul(7_919) % count)
    }

    fn insert(ranked: &mut Ranked<u32>, value: u32) {
        let place = ranked.find(|other| other.cmp(&value)).expect_err("each value is new");
        ranked.insert(place, value);
    }

    #[test]
    fn it_agrees_with_an_ordered_set_through_growth_and_shrinking() {
        let mut ranked = Ranked::new();
        let mut model = BTreeSet::new();
        for value in scattered(2_000) {
            insert(&mut ranked, value);
            model.insert(value);
        }
        assert!(ranked.iter().eq(model.iter()));
        for value in scattered(2_000).filter(|value| value % 10 != 3) {
            let place = ranked.find(|other| other.cmp(&value)).expect("it was inserted");
            assert_eq!(ranked.remove(place), value);
            model.remove(&value);
        }
        assert_eq!(ranked.len(), 200);
        assert!(ranked.iter().eq(model.iter()));
        assert!(ranked.runs.len() < 16, "{} runs for 200 elements", ranked.runs.len());
        for (rank, value) in model.iter().enumerate() {
            let place = ranked.nth(rank).expect("the rank is below the length");
            assert_eq!(ranked.at(place), value);
            assert_eq!(ranked.rank(place), rank);
        }
        assert_eq!(ranked.nth(200), None);
    }

    #[test]
    fn ranges_go_up_and_down_from_any_rank() {
        let mut ranked = Ranked::new();
        for value in scattered(1_000) {
            insert(&mut ranked, value);
        }
        for first in [0_u32, 1, 127, 128, 129, 255, 256, 999] {
            let up: Vec<u32> = ranked.range(first as usize, 300).copied().collect();
            assert_eq!(up, (first..1_000).take(300).collect::<Vec<_>>());
            let down: Vec<u32> = ranked.range_down(first as usize, 300).copied().collect();
            assert_eq!(down, (0..=first).rev().take(300).collect::<Vec<_>>());
        }
        assert_eq!(ranked.range(1_000, 5).count(), 0);
        assert_eq!(ranked.range_down(1_000, 5).count(), 0);
        assert_eq!(Ranked::<u32>::new().range(0, 5).count(), 0);
    }
}
