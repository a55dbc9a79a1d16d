//! A queue with a maximum.

use std::collections::VecDeque;

/// What a push did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full queue refuses or evicts, and somebody has to know"]
pub enum Pushed<T> {
    /// The element is in the queue; nothing else changed.
    Kept,
    /// The queue is full and keeps what it has; the element comes back.
    Refused(T),
    /// The element is in the queue; the oldest gave way.
    Evicted(T),
}

/// What a full collection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtMax {
    Refuse,
    Evict,
}

/// At most `max` elements, oldest first.
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    items: VecDeque<T>,
    max: usize,
    at_max: AtMax,
}

impl<T> Fifo<T> {
    /// A queue of at most `max` elements that refuses more.
    #[must_use]
    pub const fn refusing(max: usize) -> Self {
        Self { items: VecDeque::new(), max, at_max: AtMax::Refuse }
    }

    /// A queue of the newest `max` elements: a full one evicts its oldest.
    #[must_use]
    pub const fn evicting(max: usize) -> Self {
        Self { items: VecDeque::new(), max, at_max: AtMax::Evict }
    }

    /// Appends `item`, within the maximum. A queue of maximum 0 refuses everything.
    pub fn push(&mut self, item: T) -> Pushed<T> {
        if self.items.len() < self.max {
            self.items.push_back(item);
            return Pushed::Kept;
        }
        match (self.at_max, self.items.pop_front()) {
            (AtMax::Evict, Some(oldest)) => {
                self.items.push_back(item);
                Pushed::Evicted(oldest)
            }
            (_, oldest) => {
                oldest.into_iter().for_each(|oldest| self.items.push_front(oldest));
                Pushed::Refused(item)
            }
        }
    }

    /// Takes the oldest element.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The oldest element.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.items.front()
    }

    /// The oldest element, to change.
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.items.front_mut()
    }

    /// The newest element.
    #[must_use]
    pub fn back(&self) -> Option<&T> {
        self.items.back()
    }

    /// The elements, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    /// The elements, oldest first, to change.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.items.iter_mut()
    }

    /// Keeps the elements that `keep` approves.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.items.retain(keep);
    }

    /// Takes all elements, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.items.drain(..)
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// Elements that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.max - self.items.len()
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
