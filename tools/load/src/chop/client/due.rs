//! When members do something next.
//!
//! Most times are put off before they come: a message is sent again unless a root is shown, the next broker is asked unless it
//! delivers. So a time that is put off costs a store; it is looked at when the one that was put off comes.
//!
//! *Bounds.* 16 bytes for each member, and at most [`STALE_MAX`] entries of 16 bytes more for each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use synod_machine::Time;

/// Entries for each member at most: those that were brought forward since lie there until they come.
const STALE_MAX: usize = 4;
/// Nothing is due.
const NEVER: Time = Time(u64::MAX);

/// One member's times.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// When something is due.
    due: Time,
    /// The entry by which it is found: never after it.
    queued: Time,
}

/// The times of all members.
#[derive(Clone, Debug)]
pub(super) struct Due {
    of: Vec<Place>,
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Due {
    /// Nothing is due for so many members.
    pub(super) fn new(members: u32) -> Self {
        let nothing = Place { due: NEVER, queued: NEVER };
        Self { of: vec![nothing; members as usize], heap: BinaryHeap::new() }
    }

    /// Something is due for a member at this time, and nothing before.
    pub(super) fn set(&mut self, member: u32, due: Option<Time>) {
        let Some(place) = self.of.get_mut(member as usize) else { return };
        place.due = due.unwrap_or(NEVER);
        if place.due < place.queued {
            place.queued = place.due;
            self.heap.push(Reverse((place.due, member)));
            if self.heap.len() > STALE_MAX * self.of.len() {
                self.drop_stale();
            }
        }
    }

    /// The member for whom something is due first, by time and number, if that is so by now; nothing is due for it any more.
    pub(super) fn pop(&mut self, now: Time) -> Option<u32> {
        loop {
            let Reverse((time, member)) = *self.heap.peek().filter(|Reverse((time, _))| *time <= now)?;
            self.heap.pop();
            let Some(place) = self.of.get_mut(member as usize).filter(|place| place.queued == time) else {
                continue;
            };
            place.queued = NEVER;
            let due = core::mem::replace(&mut place.due, NEVER);
            if due <= time {
                return Some(member);
            }
            self.set(member, (due != NEVER).then_some(due));
        }
    }

    fn drop_stale(&mut self) {
        let live = (0_u32..).zip(&self.of).filter(|(_, place)| place.queued != NEVER);
        self.heap = live.map(|(member, place)| Reverse((place.queued, member))).collect();
        assert!(self.heap.len() <= self.of.len(), "one entry for each member");
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, STALE_MAX};
    use std::collections::BTreeSet;
    use synod_machine::Time;
    use synod_wire::Drawn;

    #[test]
    fn what_is_due_comes_in_the_order_of_a_set_of_all_times() {
        let (mut due, mut from) = (Due::new(20), Drawn::new(3));
        let (mut set, mut of): (BTreeSet<(Time, u32)>, _) = (BTreeSet::new(), vec![None; 20]);
        for tick in 0..3_000 {
            for _ in 0..from.below(6) {
                let member = u32::try_from(from.below(20)).expect("small");
                let time = (from.below(4) > 0).then(|| Time(tick + from.below(60)));
                due.set(member, time);
                if let Some(old) = std::mem::replace(&mut of[member as usize], time) {
                    set.remove(&(old, member));
                }
                set.extend(time.map(|time| (time, member)));
            }
            // Not all that is due is asked for at once.
            for _ in 0..from.below(3) {
                let wanted = set.first().copied().filter(|(time, _)| *time <= Time(tick));
                assert_eq!(due.pop(Time(tick)), wanted.map(|(_, member)| member));
                if let Some((time, member)) = wanted {
                    set.remove(&(time, member));
                    of[member as usize] = None;
                }
            }
        }
    }

    #[test]
    fn times_that_are_brought_forward_again_and_again_take_no_more_memory() {
        let mut due = Due::new(3);
        for time in (1..10_000).rev() {
            due.set(1, Some(Time(time)));
            assert!(due.heap.len() <= STALE_MAX * 3);
        }
        assert_eq!((due.pop(Time(0)), due.pop(Time(1)), due.pop(Time(20_000))), (None, Some(1), None));
    }

    #[test]
    fn a_time_that_is_put_off_costs_no_entry() {
        let mut due = Due::new(1);
        (5..100).for_each(|time| due.set(0, Some(Time(time))));
        assert_eq!(due.heap.len(), 1);
        assert_eq!((due.pop(Time(98)), due.pop(Time(99))), (None, Some(0)));
    }
}
