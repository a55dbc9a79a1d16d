//! A list that mostly has one element: that stands in the list itself, so that whoever has the list near has it near as well.

use std::collections::VecDeque;

/// Elements behind the first whose memory stays when there are none.
pub(crate) const KEPT: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    /// Nothing stands here where there is no first.
    more: Option<Box<More<T>>>,
}

#[derive(Clone, Debug)]
struct More<T>(VecDeque<T>);

/// The same elements, whatever memory is kept.
impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T> Few<T> {
    /// One in which there is nothing.
    pub(crate) const NONE: Self = Self { first: None, more: None };
    /// Bytes of one in which there is nothing, with the memory that stays.
    pub(crate) const EMPTY_BYTES_MAX: usize =
        size_of::<Self>() + size_of::<More<T>>() + KEPT * size_of::<T>();

    #[inline]
    fn more(&self) -> Option<&VecDeque<T>> {
        self.more.as_ref().map(|more| &more.0)
    }

    #[inline]
    fn more_mut(&mut self) -> Option<&mut VecDeque<T>> {
        self.more.as_mut().map(|more| &mut more.0)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more().map_or(0, VecDeque::len)
    }

    #[inline]
    pub(crate) const fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&T> {
        self.more().and_then(VecDeque::back).or(self.first())
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match at.checked_sub(1) {
            None => self.first(),
            Some(at) => self.more()?.get(at),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match at.checked_sub(1) {
            None => self.first.as_mut(),
            Some(at) => self.more_mut()?.get_mut(at),
        }
    }

    /// Where the element of a place is, or would be: places rise, and where none is missing a place tells where its element is.
    #[inline]
    pub(crate) fn at(&self, place: u64, of: impl Fn(&T) -> u64) -> Result<usize, usize> {
        let first = of(self.first().ok_or(0_usize)?);
        let guess = usize::try_from(place.checked_sub(first).ok_or(0_usize)?).unwrap_or(usize::MAX);
        if self.get(guess).is_some_and(|element| of(element) == place) {
            return Ok(guess);
        }
        // The first is below.
        let found = self.more().map_or(Err(0), |more| more.binary_search_by_key(&place, of));
        found.map(|at| at + 1).map_err(|at| at + 1)
    }

    /// Puts an element behind the others.
    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.behind().push_back(element),
        }
    }

    fn behind(&mut self) -> &mut VecDeque<T> {
        // Whoever has two soon has more.
        &mut self.more.get_or_insert_with(|| Box::new(More(VecDeque::with_capacity(KEPT)))).0
    }

    /// Puts an element where [`Self::at`] says.
    pub(crate) fn insert(&mut self, at: usize, element: T) {
        match (at.checked_sub(1), self.first.take()) {
            (None, None) => self.first = Some(element),
            (None, Some(next)) => {
                self.first = Some(element);
                self.behind().push_front(next);
            }
            (Some(at), first) => {
                self.first = first;
                self.behind().insert(at, element);
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let more = self.more.as_mut().map(|more| &mut more.0);
        match at.checked_sub(1) {
            None => std::mem::replace(&mut self.first, more.and_then(VecDeque::pop_front)),
            Some(at) => more?.remove(at),
        }
    }

    /// Lets go of all of them, and of all memory but for a few.
    pub(crate) fn clear(&mut self) {
        self.first = None;
        if let Some(more) = self.more_mut() {
            more.clear();
            more.shrink_to(KEPT);
        }
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.first.take_if(|first| !is_kept(first));
        let Some(more) = self.more.as_mut().map(|more| &mut more.0) else { return };
        more.retain(is_kept);
        if self.first.is_none() {
            self.first = more.pop_front();
        }
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(self.more().into_iter().flatten())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.more.iter_mut().flat_map(|more| &mut more.0))
    }
}

#[cfg(test)]
mod tests {
    use synod_wire::Drawn;

    use super::*;

    /// Elements with rising places, put and taken as it comes.
    #[test]
    fn it_holds_what_a_list_would_hold() {
        let (mut drawn, mut few, mut list) = (Drawn::new(3), Few::<u64>::default(), Vec::<u64>::new());
        let (mut most, mut empty) = (0, 0);
        for _ in 0..4_000 {
            let place = 1 + drawn.below(9);
            let at = few.at(place, |place| *place);
            assert_eq!(at, list.binary_search(&place));
            match (drawn.below(8), at) {
                (0..=3, Err(at)) => {
                    few.insert(at, place);
                    list.insert(at, place);
                }
                (4, _) if list.last().is_none_or(|last| *last < place) => {
                    few.push(place);
                    list.push(place);
                }
                (5, _) => {
                    few.retain(|one| *one != place);
                    list.retain(|one| *one != place);
                }
                (6 | 7, Ok(at)) => {
                    assert_eq!(few.remove(at), Some(list.remove(at)));
                }
                _ if drawn.below(50) == 0 => {
                    few.clear();
                    list.clear();
                }
                _ => {}
            }
            assert_eq!((few.len(), few.is_empty()), (list.len(), list.is_empty()));
            assert_eq!((few.first(), few.last()), (list.first(), list.last()));
            assert!(few.iter().eq(&list) && few.iter().rev().eq(list.iter().rev()));
            assert!(few.iter_mut().map(|one| *one).eq(list.iter().copied()));
            assert!((0..=list.len()).all(|at| few.get(at) == list.get(at)));
            assert!((0..=list.len()).all(|at| few.get_mut(at) == list.get_mut(at)));
            assert_eq!(few.remove(list.len()), None);
            most = most.max(list.len());
            empty += usize::from(list.is_empty());
        }
        assert!(most > 5 && empty > 20, "{most} at once, {empty} times none");
    }
}
