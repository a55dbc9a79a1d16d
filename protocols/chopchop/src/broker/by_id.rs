//! Values by client: a place in a row instead of a search.
//!
//! *Order.* Values lie in the order in which they came, but for those that took the place of one that was removed: the same in
//! two runs of the same events, and nothing else. Whoever needs them by id asks for [`ById::ids_from`].
//!
//! *Bounds.* 4 bytes for each id up to the highest that had a value, and as many again while the row grows. Ids are those of
//! the directory here.

/// No place.
const NONE: u32 = u32::MAX;

/// At most one value for each client.
#[derive(Clone, Debug)]
pub(super) struct ById<T> {
    /// The place of each id, or [`NONE`].
    of: Vec<u32>,
    all: Vec<(u32, T)>,
}

impl<T> ById<T> {
    pub(super) const fn new() -> Self {
        Self { of: Vec::new(), all: Vec::new() }
    }

    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn place(&self, id: u32) -> Option<usize> {
        let place = self.of.get(id as usize).copied().filter(|place| *place != NONE)?;
        usize::try_from(place).ok()
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.all.get(self.place(id)?).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let place = self.place(id)?;
        self.all.get_mut(place).map(|(_, value)| value)
    }

    /// Gives a client its value; the one it had.
    pub(super) fn insert(&mut self, id: u32, value: T) -> Option<T> {
        if let Some(old) = self.get_mut(id) {
            return Some(core::mem::replace(old, value));
        }
        let at = id as usize;
        if at >= self.of.len() {
            self.of.resize(at + 1, NONE);
        }
        self.of[at] = u32::try_from(self.all.len()).unwrap_or_else(|_| unreachable!("a place for each id"));
        self.all.push((id, value));
        None
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let place = self.place(id)?;
        self.of[id as usize] = NONE;
        let (_, value) = self.all.swap_remove(place);
        if let Some((moved, _)) = self.all.get(place) {
            self.of[*moved as usize] = u32::try_from(place).unwrap_or(NONE);
        }
        Some(value)
    }

    /// All of them, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.all.iter().map(|(id, value)| (*id, value))
    }

    /// The values, in the same order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|(_, value)| value)
    }

    /// The ids whose value is wanted, by rising id from `first` on, and behind the last those below it.
    pub(super) fn ids_from(&self, first: u32, wanted: impl Fn(&T) -> bool) -> impl Iterator<Item = u32> {
        let far = |(id, value): (u32, &T)| wanted(value).then(|| id.wrapping_sub(first));
        let mut ids: Vec<u32> = self.iter().filter_map(far).collect();
        ids.sort_unstable();
        ids.into_iter().map(move |far| far.wrapping_add(first))
    }

    /// Bytes of the row.
    pub(super) fn row_bytes(&self) -> u64 {
        4 * self.of.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::ById;
    use std::collections::BTreeMap;
    use synod_wire::Drawn;

    #[test]
    fn values_are_those_of_a_map_and_ids_come_by_number_from_anywhere() {
        let (mut row, mut map, mut from) = (ById::new(), BTreeMap::new(), Drawn::new(9));
        for round in 0..5_000_u64 {
            let id = u32::try_from(from.below(40)).expect("small");
            match from.below(3) {
                0 => assert_eq!(row.remove(id), map.remove(&id)),
                1 => assert_eq!(row.insert(id, round), map.insert(id, round)),
                _ => {
                    if let Some(value) = row.get_mut(id) {
                        *value += 1;
                    }
                    map.entry(id).and_modify(|value| *value += 1);
                }
            }
            assert_eq!((row.get(id), row.len()), (map.get(&id), map.len()));
            assert_eq!(row.is_empty(), map.is_empty());
            let wanted = |value: &u64| value.is_multiple_of(2);
            let ids: Vec<u32> = row.ids_from(id, wanted).collect();
            let round = map.range(id..).chain(map.range(..id));
            assert_eq!(ids, round.filter(|(_, value)| wanted(value)).map(|(id, _)| *id).collect::<Vec<_>>());
        }
        let mut all: Vec<(u32, u64)> = row.iter().map(|(id, value)| (id, *value)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(map.into_iter()));
        assert_eq!(row.values().count(), row.len());
    }
}
