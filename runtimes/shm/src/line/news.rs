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
    pub(crate) fn add(&mut self, place: usize) {
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

    /// The lowest place, which is taken out.
    #[inline]
    pub(crate) fn take_lowest(&mut self) -> Option<usize> {
        let (at, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        // Without its lowest bit.
        *word &= *word - 1;
        Some(at * 64 + bit as usize)
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

    /// The counts that differ.
    #[inline]
    fn between(was: &[u64; WORDS], now: &[u64; WORDS]) -> Self {
        let mut changed = 0;
        for (at, (was, now)) in was.iter().zip(now).enumerate() {
            let mut rest = was ^ now;
            while rest != 0 {
                let byte = rest.trailing_zeros() / 8;
                changed |= 1 << (at * 8 + byte as usize);
                rest &= !((ROUND - 1) << (byte * 8));
            }
        }
        Self(changed)
    }
}

/// Places of queues by the count that counts them.
#[derive(Debug)]
pub(super) struct ByCount([Places; APART as usize]);

impl ByCount {
    /// Of no queue.
    pub(super) const NONE: Self = Self([Places::NONE; APART as usize]);

    /// Adds the queue of this order.
    pub(super) fn add(&mut self, order: u32, place: usize) {
        if let Some(places) = self.0.get_mut((order % APART) as usize) {
            places.add(place);
        }
    }

    /// All queues.
    pub(super) fn all(&self) -> Places {
        self.of(Changed::ALL)
    }

    /// The queues that may have something.
    #[inline]
    pub(super) fn of(&self, changed: Changed) -> Places {
        let (mut rest, mut all) = (changed.0, Places::NONE);
        while rest != 0 {
            let places = self.0.get(rest.trailing_zeros() as usize);
            all = places.map_or(all, |places| all.or(*places));
            // Without its lowest bit.
            rest &= rest - 1;
        }
        all
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
        News::Of(Changed::between(&was, &counts))
    }
}

#[cfg(test)]
mod tests {
    use synod_tail::Atomics;

    use super::*;

    fn heard(heard: &mut Heard, page: &Atomics) -> Vec<u32> {
        let mut by_count = ByCount::NONE;
        (0..100).for_each(|order| by_count.add(order, order as usize));
        let mut places = match heard.listen(page) {
            News::Nothing => return Vec::new(),
            News::Of(changed) => by_count.of(changed),
        };
        core::iter::from_fn(|| places.take_lowest().and_then(|place| u32::try_from(place).ok())).collect()
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
