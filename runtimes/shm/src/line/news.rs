//! Which queues of a link have something new: counts in the sender's page, so that a look at a peer that said nothing is one load of
//! one line of the cache, however many queues it has.
//!
//! *Layout.* Of the page's first 64 bytes, word 1 counts all messages of the link, and the bytes of words 2 to 7 those of its queues, each
//! modulo 256; the queue of order n counts in byte n mod 48.
//!
//! *Why nothing is missed.* Whoever sends makes the message visible, then its queue's count, then the sum. Whoever hears reads the sum, then the counts,
//! then the queues whose counts changed. A count that came round to where it was is behind a sum that is 256 or more ahead; then all queues are
//! looked at. What a liar counts decides only which of its own queues are looked at.

use synod_tail::{Fence, Words};

use super::QUEUES_MAX;

/// Messages in all.
const SUM: u32 = 1;
/// The first word of the queues' counts.
const COUNTS: u32 = 2;
/// Words of these.
const WORDS: usize = 6;
/// Queues that count apart.
const APART: u32 = 48;
/// A count comes round after so many.
const ROUND: u64 = 256;

/// Of a queue: its word, and where its byte is in it.
const fn place(order: u32) -> (u32, u32) {
    let byte = order % APART;
    (byte / 8, byte % 8 * 8)
}

const fn count(words: &[u64; WORDS], order: u32) -> u64 {
    let (word, shift) = place(order);
    words[word as usize] >> shift & (ROUND - 1)
}

/// The counts of the side that sends.
#[derive(Debug, Default)]
pub(super) struct Said {
    sum: u64,
    counts: [u64; WORDS],
}

impl Said {
    /// Counts a message that stands in the queue of this order.
    #[inline]
    pub(super) fn say(&mut self, page: &impl Words, order: u32) {
        let (word, shift) = place(order);
        let next = count(&self.counts, order).wrapping_add(1) % ROUND;
        let counts = &mut self.counts[word as usize];
        *counts = *counts & !((ROUND - 1) << shift) | next << shift;
        self.sum = self.sum.wrapping_add(1);
        page.fence(Fence::Release);
        page.store(COUNTS + word, *counts);
        page.fence(Fence::Release);
        page.store(SUM, self.sum);
    }
}

/// Places of queues that have to be looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places([u64; QUEUES_MAX / 64]);

impl Places {
    /// None.
    pub(crate) const NONE: Self = Self([0; QUEUES_MAX / 64]);

    #[inline]
    pub(super) fn add(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word &= !(1 << (place % 64));
        }
    }

    /// Whether this one is among them.
    #[inline]
    pub(crate) fn has(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Those of either.
    #[inline]
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(one, other)| *one |= other);
        self
    }
}

/// What the side that hears has seen of these.
#[derive(Debug, Default)]
pub(super) struct Heard {
    sum: u64,
    counts: [u64; WORDS],
}

/// Queues to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// None.
    Nothing,
    /// Of each order, whose count changed or is not to be relied on.
    Of(Changed),
}

/// Counts that changed, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed(u64);

impl Changed {
    /// Every queue.
    const ALL: Self = Self(u64::MAX);

    /// Whether the queue of this order may have something.
    pub(super) const fn has(self, order: u32) -> bool {
        self.0 >> (order % APART) & 1 == 1
    }
}

impl Heard {
    /// Looks at the counts.
    #[inline]
    pub(super) fn listen(&mut self, theirs: &impl Words) -> News {
        let sum = theirs.load(SUM);
        let behind = sum.wrapping_sub(self.sum);
        if behind == 0 {
            return News::Nothing;
        }
        theirs.fence(Fence::Acquire);
        let mut counts = [0; WORDS];
        (COUNTS..).zip(&mut counts).for_each(|(at, word)| *word = theirs.load(at));
        theirs.fence(Fence::Acquire);
        let was = core::mem::replace(&mut self.counts, counts);
        self.sum = sum;
        if behind >= ROUND {
            return News::Of(Changed::ALL);
        }
        let changed = (0..APART).filter(|order| count(&was, *order) != count(&counts, *order));
        News::Of(Changed(changed.fold(0, |all, order| all | 1 << order)))
    }
}

#[cfg(test)]
mod tests {
    use synod_tail::Atomics;

    use super::*;

    fn heard(heard: &mut Heard, page: &Atomics) -> Vec<u32> {
        match heard.listen(page) {
            News::Nothing => Vec::new(),
            News::Of(changed) => (0..100).filter(|order| changed.has(*order)).collect(),
        }
    }

    #[test]
    fn a_queue_in_which_something_came_is_named_once_and_no_other_is() {
        let page = Atomics::zeroed(8);
        let (mut said, mut hears) = (Said::default(), Heard::default());
        assert_eq!(heard(&mut hears, &page), [0; 0]);
        for order in [3, 3, 17] {
            said.say(&page, order);
        }
        assert_eq!(heard(&mut hears, &page), [3, 17, 51, 65, 99], "and those that count with it");
        assert_eq!(heard(&mut hears, &page), [0; 0]);
        said.say(&page, 47);
        assert_eq!(heard(&mut hears, &page), [47, 95]);
    }

    #[test]
    fn places_are_those_that_were_added_and_not_removed() {
        let mut places = Places::NONE;
        [0, 63, 64, 255].into_iter().for_each(|place| places.add(place));
        places.remove(63);
        let all = places.or({
            let mut other = Places::NONE;
            other.add(9);
            other
        });
        assert_eq!((0..256).filter(|place| all.has(*place)).collect::<Vec<_>>(), [0, 9, 64, 255]);
        assert!(!all.has(256) && Places::default() == Places::NONE);
    }

    #[test]
    fn counts_that_came_round_hide_nothing() {
        for messages in 1..=1_024 {
            let page = Atomics::zeroed(8);
            let (mut said, mut hears) = (Said::default(), Heard::default());
            said.say(&page, 9);
            assert_eq!(heard(&mut hears, &page), [9, 57]);
            (0..messages).for_each(|_| said.say(&page, 9));
            assert!(heard(&mut hears, &page).contains(&9), "{messages} messages in one queue");
        }
        // In all queues together.
        let page = Atomics::zeroed(8);
        let (mut said, mut hears) = (Said::default(), Heard::default());
        (0..ROUND).for_each(|_| said.say(&page, 9));
        (0..ROUND).for_each(|_| said.say(&page, 10));
        assert_eq!(heard(&mut hears, &page).len(), 100, "all are looked into");
        (0..ROUND - 1).for_each(|at| said.say(&page, [9, 10][usize::from(at == 0)]));
        assert_eq!(heard(&mut hears, &page), [9, 10, 57, 58]);
    }

    /// The message is written before it is counted: whoever hears a count may stop looking for what it does not find.
    #[test]
    fn a_liar_that_counts_at_will_names_queues_and_does_no_harm() {
        let page = Atomics::zeroed(8);
        let mut hears = Heard::default();
        for sum in [u64::MAX, 0, 1, u64::MAX - 255, 1 << 40] {
            page.store(SUM, sum);
            (0..6).for_each(|word| page.store(COUNTS + word, sum.rotate_left(word)));
            let _ = heard(&mut hears, &page);
            assert_eq!(heard(&mut hears, &page), [0; 0], "until it counts again");
        }
    }
}
