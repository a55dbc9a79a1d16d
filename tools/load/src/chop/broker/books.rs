//! What was sent and what came of it.

use super::machine::Lost;
use super::operations::Operations;
use crate::Latency;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_chopchop::batch::OwnedEntry;

/// Accounts whose money is followed.
pub const SAMPLE: u32 = 256;
/// Moments of deliveries that are kept: 16 MiB.
const MOMENTS_MAX: usize = 1 << 20;

/// How the accounts of the sample change by a batch.
pub(super) type Deltas = Vec<(u32, i64)>;

/// Which account of the sample an id is.
fn sampled(id: u32, space: u32) -> Option<u32> {
    let stride = (space / SAMPLE).max(1);
    (id.is_multiple_of(stride) && id / stride < SAMPLE).then_some(id / stride)
}

/// How these entries change the accounts of the sample, each of them delivered.
pub(super) fn deltas(operations: Operations, entries: &[OwnedEntry], space: u32) -> Deltas {
    let mut all = Deltas::new();
    for entry in entries {
        let Some((recipient, amount)) = operations.paid(&entry.message) else { continue };
        let (amount, own) = (i64::from(amount), sampled(entry.id, space));
        all.extend(own.map(|own| (own, -amount)));
        all.extend(sampled(recipient, space).map(|other| (other, amount)));
    }
    all
}

/// The books of a load broker. Counts are since its start.
#[derive(Clone, Debug)]
pub struct Books {
    /// Batches that were sent, and their messages.
    pub sent: (u64, u64),
    /// Batches that f + 1 servers say were delivered, and their messages.
    pub delivered: (u64, u64),
    /// Messages of those that were not delivered.
    pub exceptions: u64,
    /// Batches that servers refused for good, by why.
    pub lost_for: BTreeMap<Lost, u64>,
    /// Small batches among those sent that were asked for behind all others.
    pub small: u64,
    /// Heights that were named for two batches.
    pub repeated: u64,
    /// The highest height that was named; 1 is genesis.
    pub height: u64,
    /// From when a batch was due until f + 1 servers said that it is delivered, one entry per batch, since it was last forgotten.
    pub latency: Latency,
    /// Batches that waited because a member of theirs was in another one.
    pub cooldown_waits: u64,
    /// Bytes of header and body of the batches sent.
    pub bytes: u64,
    /// Time spent making batches.
    pub making: Duration,
    /// How the accounts of the sample changed.
    pub sample: Vec<i64>,
    /// When batches were delivered.
    pub moments: Vec<Instant>,
    /// Messages delivered at each height that was named.
    heights: BTreeMap<u64, u64>,
    space: u32,
}

impl Books {
    /// Empty books of a directory of `space` clients.
    #[must_use]
    pub fn new(space: u32) -> Self {
        Self {
            sent: (0, 0),
            delivered: (0, 0),
            exceptions: 0,
            lost_for: BTreeMap::new(),
            small: 0,
            repeated: 0,
            height: 1,
            latency: Latency::default(),
            cooldown_waits: 0,
            bytes: 0,
            making: Duration::ZERO,
            sample: vec![0; SAMPLE as usize],
            moments: Vec::new(),
            heights: BTreeMap::new(),
            space,
        }
    }

    /// A batch was delivered; `took` since it was due.
    pub(super) fn deliver(
        &mut self,
        height: u64,
        (count, exceptions): (u32, u32),
        took: Duration,
        at: Instant,
    ) {
        let messages = u64::from(count.saturating_sub(exceptions));
        self.delivered.0 += 1;
        self.delivered.1 += messages;
        self.exceptions += u64::from(exceptions);
        self.repeated += u64::from(self.heights.insert(height, messages).is_some());
        self.height = self.height.max(height);
        self.latency.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), 1);
        if self.moments.len() < MOMENTS_MAX {
            self.moments.push(at);
        }
    }

    pub(super) fn pay(&mut self, deltas: &Deltas) {
        for (account, by) in deltas {
            if let Some(sum) = self.sample.get_mut(*account as usize) {
                *sum += by;
            }
        }
    }

    /// Messages delivered at the heights above `from`, up to `to`.
    #[must_use]
    pub fn delivered_within(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        self.heights.range(from + 1..=to).map(|(_, messages)| messages).sum()
    }

    /// These books and one batch more, which was sent and of which f + 1 servers said that it is delivered at this height.
    #[must_use]
    pub fn with(mut self, height: u64, messages: u32) -> Self {
        self.sent = (self.sent.0 + 1, self.sent.1 + u64::from(messages));
        self.deliver(height, (messages, 0), Duration::ZERO, Instant::now());
        self
    }

    /// Whether every batch found its members free when it was its turn.
    #[must_use]
    pub const fn cooldown_ok(&self) -> bool {
        self.cooldown_waits == 0
    }

    /// Batches that servers refused for good.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_for.values().sum()
    }

    /// How many batches were lost for which reason, in words; nothing if none was.
    #[must_use]
    pub fn why_lost(&self) -> Option<String> {
        let reasons = self.lost_for.iter().map(|(why, batches)| format!("{batches} {why}"));
        let reasons: Vec<String> = reasons.collect();
        (!reasons.is_empty()).then(|| format!("batches given up: {}", reasons.join(", ")))
    }

    /// The ids of the accounts that are followed, and what each has gained.
    pub fn accounts(&self) -> impl Iterator<Item = (u32, i64)> {
        let stride = (self.space / SAMPLE).max(1);
        (0..self.space / stride).zip(&self.sample).map(move |(at, by)| (at * stride, *by))
    }

    /// The longest time without a delivery between two moments.
    #[must_use]
    pub fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let inside = self.moments.iter().copied().filter(|at| (from..to).contains(at));
        let (mut last, mut longest) = (from, Duration::ZERO);
        for at in inside.chain(std::iter::once(to)) {
            longest = longest.max(at.saturating_duration_since(last));
            last = at;
        }
        longest
    }

    /// The longest time without a delivery of those that begin between two moments, each followed to the delivery that ends
    /// it; none while the last of them goes on.
    #[must_use]
    pub fn longest_wait(&self, from: Instant, to: Instant) -> Option<Duration> {
        let ended = self.moments.iter().copied().find(|at| *at >= to)?;
        Some(self.longest_gap(from, ended))
    }
}

#[cfg(test)]
mod tests {
    use super::{Books, Lost, SAMPLE, deltas};
    use crate::chop::broker::Operations;
    use bytes::Bytes;
    use std::time::{Duration, Instant};
    use synod_chopchop::batch::{OwnedEntry, Refusal};

    fn entry(id: u32, recipient: u32, amount: u32) -> OwnedEntry {
        let word = u64::from(recipient) | u64::from(amount) << 32;
        OwnedEntry { id, message: Bytes::copy_from_slice(&word.to_le_bytes()), parity: false }
    }

    #[test]
    fn accounts_of_the_sample_gain_what_they_are_paid_and_lose_what_they_pay() {
        let (operations, space) = (Operations::Payments { clients: 1_024 }, 4 * SAMPLE);
        let paid = [entry(4, 8, 5), entry(8, 9, 2), entry(12, 12, 7), entry(5, 1_020, 1)];
        let mut books = Books::new(space);
        books.pay(&deltas(operations, &paid, space));
        let moved: Vec<_> = books.accounts().filter(|(_, by)| *by != 0).collect();
        assert_eq!(moved, [(4, -5), (8, 3), (1_020, 1)], "paying oneself changes nothing");
        assert_eq!(books.accounts().count(), SAMPLE as usize);
        assert!(deltas(Operations::Pixels, &paid, space).is_empty());
        assert_eq!(Books::new(10).accounts().count(), 10, "fewer clients than the sample");
    }

    #[test]
    fn a_message_that_is_missing_and_a_height_that_repeats_are_counted() {
        let now = Instant::now();
        let with = |heights: &[u64], exceptions| {
            let mut books = Books::new(10);
            heights.iter().for_each(|height| books.deliver(*height, (10, exceptions), Duration::ZERO, now));
            books
        };
        let counted = |books: &Books| (books.delivered, books.exceptions, books.repeated, books.height);
        assert_eq!(counted(&with(&[2, 3], 0)), ((2, 20), 0, 0, 3));
        assert_eq!(counted(&with(&[3, 3], 0)), ((2, 20), 0, 1, 3), "a height for two batches");
        assert_eq!(counted(&with(&[2, 3], 1)), ((2, 18), 2, 0, 3), "one message of each was none");
    }

    #[test]
    fn messages_of_a_stretch_of_heights_are_those_that_were_delivered_there() {
        let books = Books::new(10).with(2, 10).with(3, 20).with(5, 40);
        let within = |from, to| books.delivered_within(from, to);
        assert_eq!((books.delivered, books.sent, books.height), ((3, 70), (3, 70), 5));
        assert_eq!(
            [within(1, 5), within(2, 3), within(3, 4), within(3, 9), within(1, 1)],
            [70, 20, 0, 40, 0]
        );
        assert_eq!(within(5, 2), 0, "backwards is nothing");
    }

    #[test]
    fn a_gap_reaches_from_a_delivery_to_the_next_or_to_the_end() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut books = Books::new(10);
        [10, 20, 90, 100].into_iter().for_each(|ms| books.moments.push(at(ms)));
        assert_eq!(books.longest_gap(start, at(110)), Duration::from_millis(70));
        assert_eq!(books.longest_gap(at(85), at(300)), Duration::from_millis(200));
    }

    #[test]
    fn a_wait_is_followed_to_the_delivery_that_ends_it_however_late_it_comes() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut books = Books::new(10);
        books.moments.push(at(10));
        assert_eq!(books.longest_wait(start, at(3_000)), None, "nothing came since: who knows how long");
        assert_eq!(books.longest_gap(start, at(3_000)), Duration::from_millis(2_990), "cut where one looks");
        books.moments.push(at(60_010));
        assert_eq!(books.longest_wait(start, at(3_000)), Some(Duration::from_secs(60)));
        books.moments.push(at(200_000));
        assert_eq!(books.longest_wait(start, at(3_000)), Some(Duration::from_secs(60)), "what begins later");
    }

    #[test]
    fn books_say_why_batches_were_lost() {
        let mut books = Books::new(10);
        assert_eq!((books.lost(), books.why_lost()), (0, None));
        books.lost_for = [(Lost::Full, 1), (Lost::Refused(Refusal::Expired), 3)].into();
        assert_eq!(books.lost(), 4);
        let why = books.why_lost().expect("some are lost");
        assert!(why.contains("3 refused") && why.contains("Expired") && why.contains("1 beyond"), "{why}");
    }
}
