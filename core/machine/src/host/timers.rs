//! The timer table of one hosted machine.

use std::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// Named timers, each due at most once, fired in (time, name) order.
pub(super) struct Timers<T> {
    by_name: BTreeMap<T, Time>,
    by_time: BTreeSet<(Time, T)>,
}

impl<T: Copy + Ord> Timers<T> {
    pub(super) const fn new() -> Self {
        Self { by_name: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    pub(super) fn arm(&mut self, timer: T, due: Time) {
        if let Some(old) = self.by_name.insert(timer, due) {
            self.by_time.remove(&(old, timer));
        }
        self.by_time.insert((due, timer));
    }

    pub(super) fn disarm(&mut self, timer: T) {
        if let Some(old) = self.by_name.remove(&timer) {
            self.by_time.remove(&(old, timer));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(due, _)| *due)
    }

    pub(super) fn pop_due(&mut self, now: Time) -> Option<T> {
        let (_, timer) = self.by_time.first().copied().filter(|(due, _)| *due <= now)?;
        self.disarm(timer);
        Some(timer)
    }

    pub(super) fn count(&self) -> usize {
        self.by_name.len()
    }
}
