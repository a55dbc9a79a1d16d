//! The batches of a broker by their numbers, which rise by one: the place of a batch follows from its number while none before
//! it was given up.
//!
//! *Bounds.* As many as are open or kept.

use std::collections::VecDeque;

use super::open::Batch;

/// Batches by rising number.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches(VecDeque<(u64, Box<Batch>)>);

impl Batches {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn place(&self, number: u64) -> Option<usize> {
        let (first, _) = self.0.front()?;
        let place = usize::try_from(number.checked_sub(*first)?).ok()?;
        if self.0.get(place).is_some_and(|(at, _)| *at == number) {
            return Some(place);
        }
        self.0.binary_search_by_key(&number, |(at, _)| *at).ok()
    }

    pub(super) fn get(&self, number: &u64) -> Option<&Batch> {
        self.0.get(self.place(*number)?).map(|(_, batch)| &**batch)
    }

    pub(super) fn get_mut(&mut self, number: &u64) -> Option<&mut Batch> {
        let place = self.place(*number)?;
        self.0.get_mut(place).map(|(_, batch)| &mut **batch)
    }

    /// Adds a batch above all others.
    pub(super) fn insert(&mut self, number: u64, batch: Batch) {
        assert!(self.0.back().is_none_or(|(last, _)| *last < number), "numbers rise");
        self.0.push_back((number, Box::new(batch)));
    }

    pub(super) fn remove(&mut self, number: &u64) -> Option<Box<Batch>> {
        let place = self.place(*number)?;
        self.0.remove(place).map(|(_, batch)| batch)
    }

    /// All of them, by rising number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&u64, &Batch)> {
        self.0.iter().map(|(number, batch)| (number, &**batch))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Batch> {
        self.0.iter().map(|(_, batch)| &**batch)
    }
}

#[cfg(test)]
mod tests {
    use super::Batches;
    use crate::broker::open::{Batch, Cards, Content, Phase};
    use std::collections::BTreeSet;
    use synod_wire::Drawn;

    fn batch() -> Batch {
        Batch::new(Phase::Sealing, Content::Cards(Cards { cards: Vec::new(), assigned: None }))
    }

    #[test]
    fn batches_are_found_by_number_whatever_was_given_up_before() {
        let (mut batches, mut known, mut from) = (Batches::default(), BTreeSet::new(), Drawn::new(4));
        let mut last = 0;
        for _ in 0..2_000 {
            last += 1 + from.below(2) * from.below(3);
            batches.insert(last, batch());
            known.insert(last);
            let gone = last.saturating_sub(from.below(30));
            assert_eq!(batches.remove(&gone).is_some(), known.remove(&gone));
            for number in last.saturating_sub(40)..last + 2 {
                assert_eq!(batches.get(&number).is_some(), known.contains(&number), "{number}");
                assert_eq!(batches.get_mut(&number).is_some(), known.contains(&number));
            }
            assert!(batches.iter().map(|(number, _)| number).eq(known.iter()));
            while known.len() > 30 {
                let oldest = known.pop_first().expect("thirty");
                assert!(batches.remove(&oldest).is_some());
            }
        }
        assert_eq!((batches.len(), batches.values().count()), (known.len(), known.len()));
    }
}
