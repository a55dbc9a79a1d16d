//! What one peer may ask of this node.
//!
//! *What it gives.* [`Bucket`] is a rate with a burst; [`Door`] bounds handshakes under way and connections per
//! address. Neither ever allocates for a stranger beyond its fixed table.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use synod_machine::{Span, Time};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;

/// A token bucket: `rate` tokens per second, at most one second's worth saved up. The last take may run into debt,
/// which is paid off before the bucket opens again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: u64,
    tokens: i128,
    at: Time,
}

const SECOND: i128 = 1_000_000_000;

impl Bucket {
    pub(crate) const fn new(rate: u64, now: Time) -> Self {
        Self { rate, tokens: rate as i128, at: now }
    }

    /// Adds what time brought.
    pub(crate) fn refill(&mut self, now: Time) {
        let rate = i128::from(self.rate);
        let more = i128::from(now.since(self.at).0) * rate / SECOND;
        self.tokens += more;
        if self.tokens >= rate {
            self.tokens = rate;
            self.at = now;
        } else {
            // Only the time that bought tokens is spent, or a bucket that is asked often would never fill.
            let spent = more * SECOND / rate.max(1);
            self.at = self.at + Span(u64::try_from(spent).unwrap_or(0));
        }
    }

    /// Takes `count` tokens.
    pub(crate) fn take(&mut self, count: u64) {
        self.tokens -= i128::from(count);
    }

    /// Whether tokens are left.
    pub(crate) const fn open(&self) -> bool {
        self.tokens > 0
    }

    /// When an empty bucket has a hundredth of a second's worth again: whoever is above its rate is looked at a hundred
    /// times a second, not once per token.
    pub(crate) fn opens(&self) -> Time {
        let slice = i128::from(self.rate / 100).max(1);
        let missing = (slice - self.tokens).max(0) * SECOND;
        let rate = i128::from(self.rate.max(1));
        self.at + Span(u64::try_from((missing + rate - 1) / rate).unwrap_or(u64::MAX))
    }
}

/// What one line of a peer may still say. A member's outlives its connections: who comes back has no more than before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) frames: Bucket,
    pub(crate) bytes: Bucket,
}

impl Allowance {
    /// A full allowance of a member or a guest.
    pub(crate) const fn new(is_member: bool, limits: &Limits, now: Time) -> Self {
        let frames = if is_member { limits.member_frames_per_second } else { limits.guest_frames_per_second };
        Self { frames: Bucket::new(frames, now), bytes: Bucket::new(limits.bytes_per_second, now) }
    }

    /// Adds what time brought.
    pub(crate) fn refill(&mut self, now: Time) {
        self.frames.refill(now);
        self.bytes.refill(now);
    }

    /// When it is used up: when there is some again.
    pub(crate) fn opens(&self) -> Option<Time> {
        let is_open = self.frames.open() && self.bytes.open();
        (!is_open).then(|| self.frames.opens().max(self.bytes.opens()))
    }
}

const ADDRESSES_MAX: usize = 4_096;

/// Guards a listener.
pub(crate) struct Door {
    places: Arc<Semaphore>,
    per_address: u64,
    addresses: BTreeMap<IpAddr, Bucket>,
}

/// One handshake's place; given back on drop.
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

/// Room for `max` handshakes under way, to be shared by the doors of a node.
pub(crate) fn places(max: u32) -> Arc<Semaphore> {
    let max = usize::try_from(max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
    Arc::new(Semaphore::new(max))
}

impl Door {
    /// Doors that share `places` share their bound.
    pub(crate) fn new(places: Arc<Semaphore>, per_address: u32) -> Self {
        Self { places, per_address: u64::from(per_address), addresses: BTreeMap::new() }
    }

    /// Waits for a place for one more handshake. Doors that share the places get them in the order they asked, so
    /// strangers at one listener delay those at another by one handshake at most.
    pub(crate) async fn enter(&self) -> Place {
        // Nobody closes the semaphore, so every wait ends with a place.
        Place(self.places.clone().acquire_owned().await.ok())
    }

    /// Whether another connection from `address` is within its rate. Loopback is not limited; when the table is
    /// full the address seen longest ago is forgotten.
    pub(crate) fn admits(&mut self, address: Option<IpAddr>, now: Time) -> bool {
        let Some(address) = address.filter(|address| !address.is_loopback()) else { return true };
        if !self.addresses.contains_key(&address) && self.addresses.len() >= ADDRESSES_MAX {
            let oldest = self.addresses.iter().min_by_key(|(_, b)| b.at).map(|(address, _)| *address);
            oldest.map(|address| self.addresses.remove(&address));
        }
        let bucket = self.addresses.entry(address).or_insert(Bucket::new(self.per_address, now));
        bucket.refill(now);
        let open = bucket.open();
        if open {
            bucket.take(1);
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_bucket_gives_its_rate_and_no_more() {
        let mut bucket = Bucket::new(10, Time::ZERO);
        let mut taken = 0;
        for ms in 0..3_000 {
            bucket.refill(Time::ZERO + Span::millis(ms));
            while bucket.open() {
                bucket.take(1);
                taken += 1;
            }
        }
        assert_eq!(taken, 10 + 29, "one burst and ten a second");
    }

    #[test]
    fn an_empty_bucket_says_when_it_opens() {
        let mut fast = Bucket::new(1_000, Time::ZERO);
        fast.take(1_000);
        assert_eq!(fast.opens(), Time::ZERO + Span::millis(10), "ten tokens at a time");
        let mut bucket = Bucket::new(4, Time::ZERO);
        bucket.take(10);
        assert!(!bucket.open());
        let opens = bucket.opens();
        assert_eq!(opens, Time::ZERO + Span::millis(1_750), "seven tokens at four a second");
        bucket.refill(Time(opens.0 - 1));
        assert!(!bucket.open());
        bucket.refill(opens);
        assert!(bucket.open());
    }

    #[test]
    fn the_door_bounds_handshakes_and_gives_places_back() {
        let places = places(2);
        let (door, other) = (Door::new(places.clone(), 1), Door::new(places, 1));
        let mut cx = Context::from_waker(Waker::noop());
        let mut enter = |door: &Door| match pin!(door.enter()).poll(&mut cx) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        };
        let (first, second) = (enter(&door), enter(&door));
        assert!(first.is_some() && second.is_some());
        assert!(enter(&door).is_none() && enter(&other).is_none());
        drop(first);
        assert!(enter(&other).is_some());
    }

    #[test]
    fn one_address_cannot_use_up_the_door_and_the_table_is_bounded() {
        let mut door = Door::new(places(2), 3);
        let noisy = IpAddr::from([10, 0, 0, 1]);
        let admitted = (0..100).filter(|_| door.admits(Some(noisy), Time::ZERO)).count();
        assert_eq!(admitted, 3);
        for n in 0..5_000_u32 {
            assert!(door.admits(Some(IpAddr::from((n + (11 << 24)).to_be_bytes())), Time(u64::from(n))));
        }
        assert_eq!(door.addresses.len(), ADDRESSES_MAX);
        assert!((0..100).all(|_| door.admits(Some(IpAddr::from([127, 0, 0, 1])), Time::ZERO)));
    }
}
