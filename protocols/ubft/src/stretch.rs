//! A map of slots that lie near one another: a place for each slot from the first to the last, so that finding one takes no search.
//!
//! *Bounds.* None of its own: whoever keeps one says how far its slots may lie apart, and how many there are at most.

use std::collections::VecDeque;

use crate::batch::Slot;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Stretch<T> {
    /// The slot of the first place; no matter where there is none.
    first: u64,
    /// Neither the first nor the last is empty.
    places: VecDeque<Option<T>>,
    count: usize,
}

impl<T> Stretch<T> {
    pub(crate) const fn new() -> Self {
        Self { first: 0, places: VecDeque::new(), count: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    fn at(&self, slot: Slot) -> Option<usize> {
        usize::try_from(slot.0.checked_sub(self.first)?).ok()
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.places.get(self.at(slot)?)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let at = self.at(slot)?;
        self.places.get_mut(at)?.as_mut()
    }

    /// What a slot has, or is given now.
    pub(crate) fn get_or_insert_with(&mut self, slot: Slot, value: impl FnOnce() -> T) -> Option<&mut T> {
        if self.places.is_empty() {
            self.first = slot.0;
        }
        while self.first > slot.0 {
            self.places.push_front(None);
            self.first -= 1;
        }
        let at = self.at(slot)?;
        if at >= self.places.len() {
            self.places.resize_with(at.checked_add(1)?, || None);
        }
        let place = self.places.get_mut(at)?;
        self.count += usize::from(place.is_none());
        Some(place.get_or_insert_with(value))
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let at = self.at(slot)?;
        let gone = self.places.get_mut(at)?.take()?;
        self.count -= 1;
        while matches!(self.places.front(), Some(None)) {
            self.places.pop_front();
            self.first += 1;
        }
        while matches!(self.places.back(), Some(None)) {
            self.places.pop_back();
        }
        Some(gone)
    }

    /// All of it, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.from(Slot(0))
    }

    /// What slots from here on have, in order.
    pub(crate) fn from(&self, low: Slot) -> impl Iterator<Item = (Slot, &T)> {
        let skipped = low.0.saturating_sub(self.first);
        let from = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.places.len());
        let slots = (self.first.saturating_add(skipped)..).map(Slot);
        slots.zip(self.places.range(from..)).filter_map(|(slot, place)| Some((slot, place.as_ref()?)))
    }

    /// All of it, in order, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut T)> {
        let slots = (self.first..).map(Slot);
        slots.zip(&mut self.places).filter_map(|(slot, place)| Some((slot, place.as_mut()?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Stretch;
    use crate::batch::Slot;
    use std::collections::BTreeMap;

    /// Every short list of puts and removals, of slots in any order, does what a tree does with it.
    #[test]
    fn slots_near_one_another_are_a_tree_of_them() {
        const SLOTS: u64 = 5;
        for list in 0..(2 * SLOTS).pow(5) {
            let (mut stretch, mut tree) = (Stretch::new(), BTreeMap::new());
            let mut rest = list;
            for step in 0..5 {
                let (digit, slot) = (rest % (2 * SLOTS), Slot(100 + rest % SLOTS));
                rest /= 2 * SLOTS;
                if digit < SLOTS {
                    let place = stretch.get_or_insert_with(slot, || step);
                    assert_eq!(place, Some(tree.entry(slot).or_insert(step)), "list {list}");
                } else {
                    assert_eq!(stretch.remove(slot), tree.remove(&slot), "list {list}");
                }
                assert_eq!(stretch.len(), tree.len(), "list {list}");
                assert!(stretch.iter().eq(tree.iter().map(|(slot, value)| (*slot, value))), "list {list}");
                assert!(stretch.values().eq(tree.values()), "list {list}");
            }
            for slot in (99..=100 + SLOTS).map(Slot) {
                assert_eq!(stretch.get(slot), tree.get(&slot), "list {list}");
                let from = tree.range(slot..).map(|(slot, value)| (*slot, value));
                assert!(stretch.from(slot).eq(from), "list {list} from {slot:?}");
                if let Some(value) = stretch.get_mut(slot) {
                    *value += 10;
                }
                tree.entry(slot).and_modify(|value| *value += 10);
            }
            assert!(stretch.iter_mut().all(|(slot, value)| tree.get(&slot) == Some(value)), "list {list}");
        }
    }
}
