//! Memory and connections of all listeners together.
//!
//! A connection may hold 16 KiB for free; what it holds above draws on `limits.gateway_bytes`. When that is
//! spent, reads of connections above their free share pause; a pause of 5 s closes the largest holder with
//! SYN-3402. So the gateway holds at most `clients_max` x 16 KiB + `gateway_bytes` (surface.md section 16).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Bytes that every connection may hold without drawing on the budget.
pub const FREE_BYTES: u64 = 16 << 10;
/// Longest pause of a connection before the largest holder is closed.
pub const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What all connections of a process share.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    used: AtomicU64,
    clients: Arc<Semaphore>,
    holders: Mutex<BTreeMap<u64, Arc<Holder>>>,
    next: AtomicU64,
    freed: Notify,
    evictions: AtomicU64,
}

#[derive(Debug)]
struct Holder {
    /// Bytes drawn from the budget.
    drawn: AtomicU64,
    evicted: AtomicBool,
    told: Notify,
}

/// One connection's part: a place among `clients_max` and the bytes it has drawn. Dropping it gives both back.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    holder: Arc<Holder>,
    id: u64,
    _place: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget of `bytes_max` bytes beyond the free shares and `clients_max` connections.
    #[must_use]
    pub fn new(bytes_max: u64, clients_max: u32) -> Arc<Self> {
        let places = usize::try_from(clients_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            bytes_max,
            used: AtomicU64::new(0),
            clients: Arc::new(Semaphore::new(places)),
            holders: Mutex::new(BTreeMap::new()),
            next: AtomicU64::new(1),
            freed: Notify::new(),
            evictions: AtomicU64::new(0),
        })
    }

    /// A place for a new connection; `None` when `clients_max` are open.
    #[must_use]
    pub fn admit(self: &Arc<Self>) -> Option<Share> {
        let place = Arc::clone(&self.clients).try_acquire_owned().ok()?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let holder = Arc::new(Holder {
            drawn: AtomicU64::new(0),
            evicted: AtomicBool::new(false),
            told: Notify::new(),
        });
        self.holders().insert(id, Arc::clone(&holder));
        Some(Share { budget: Arc::clone(self), holder, id, _place: place })
    }

    /// Bytes drawn by all connections.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Connections closed because the budget was spent.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Tells the largest holder to close, the oldest of equals; nobody while one that was told is still there, for
    /// its bytes may be enough.
    pub fn evict_largest(&self) {
        let holders = self.holders();
        if holders.values().any(|holder| holder.evicted.load(Ordering::Relaxed)) {
            return;
        }
        let mut largest: Option<(u64, &Arc<Holder>)> = None;
        for holder in holders.values() {
            let drawn = holder.drawn.load(Ordering::Relaxed);
            if drawn > 0 && largest.is_none_or(|(most, _)| drawn > most) {
                largest = Some((drawn, holder));
            }
        }
        if let Some((_, holder)) = largest {
            holder.evicted.store(true, Ordering::Release);
            holder.told.notify_one();
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn holders(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Holder>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// A number that no other connection of the process has had.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Draws as much as a connection that will hold `bytes` needs; false, and nothing changes, when that much is
    /// not left.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> bool {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        let drawn = self.holder.drawn.load(Ordering::Relaxed);
        let Some(more) = wanted.checked_sub(drawn).filter(|more| *more > 0) else { return true };
        let max = self.budget.bytes_max;
        let fits = |used: u64| used.checked_add(more).filter(|sum| *sum <= max);
        if self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return false;
        }
        self.holder.drawn.store(wanted, Ordering::Relaxed);
        true
    }

    /// States what the connection really holds. More than was reserved is counted too: it is there already.
    pub fn settle(&self, bytes: u64) {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        let drawn = self.holder.drawn.swap(wanted, Ordering::Relaxed);
        if wanted >= drawn {
            self.budget.used.fetch_add(wanted - drawn, Ordering::Relaxed);
        } else {
            self.budget.used.fetch_sub(drawn - wanted, Ordering::Relaxed);
            self.budget.freed.notify_waiters();
        }
    }

    /// Waits until `bytes` are reserved; after [`PAUSE_MAX`] the largest holder is told to close, as often as
    /// needed. False when this connection is itself told to close.
    pub async fn wait(&self, bytes: u64) -> bool {
        loop {
            let freed = self.budget.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.is_evicted() {
                return false;
            }
            if self.reserve(bytes) {
                return true;
            }
            tokio::select! {
                () = freed => {}
                () = self.evicted() => return false,
                () = tokio::time::sleep(PAUSE_MAX) => {
                    // Bytes may have come free at the same moment.
                    if self.reserve(bytes) {
                        return true;
                    }
                    // Alone it is too large: closing others would not help.
                    if bytes.saturating_sub(FREE_BYTES) > self.budget.bytes_max {
                        return false;
                    }
                    self.budget.evict_largest();
                }
            }
        }
    }

    /// Whether this connection was told to close.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.holder.evicted.load(Ordering::Acquire)
    }

    /// Returns once this connection is told to close.
    pub async fn evicted(&self) {
        while !self.is_evicted() {
            self.holder.told.notified().await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.settle(0);
        self.budget.holders().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(budget: &Arc<Budget>) -> Share {
        budget.admit().expect("a place is free")
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let budget = Budget::new(0, 2);
        let (one, two) = (share(&budget), share(&budget));
        assert_ne!(one.id(), two.id());
        assert!(budget.admit().is_none());
        drop(one);
        assert!(budget.admit().is_some());
    }

    #[test]
    fn only_bytes_above_the_free_share_are_drawn() {
        let budget = Budget::new(100, 2);
        let (one, two) = (share(&budget), share(&budget));
        assert!(one.reserve(FREE_BYTES));
        assert_eq!(budget.used(), 0);
        assert!(one.reserve(FREE_BYTES + 60));
        assert!(!two.reserve(FREE_BYTES + 41));
        assert!(two.reserve(FREE_BYTES + 40));
        assert_eq!(budget.used(), 100);
        one.settle(10);
        assert_eq!(budget.used(), 40);
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_when_bytes_come_free() {
        let budget = Budget::new(100, 2);
        let (one, two) = (share(&budget), share(&budget));
        assert!(one.reserve(FREE_BYTES + 100));
        let waiting = tokio::spawn(async move { two.wait(FREE_BYTES + 50).await });
        tokio::task::yield_now().await;
        one.settle(0);
        assert!(waiting.await.expect("it ends"));
        assert_eq!(budget.evictions(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn after_five_seconds_the_largest_holder_is_told_to_close() {
        let budget = Budget::new(100, 3);
        let (small, large, waiter) = (share(&budget), share(&budget), share(&budget));
        assert!(small.reserve(FREE_BYTES + 40) && large.reserve(FREE_BYTES + 60));
        let begin = tokio::time::Instant::now();
        let waiting = tokio::spawn(async move { waiter.wait(FREE_BYTES + 50).await });
        large.evicted().await;
        assert_eq!(begin.elapsed(), PAUSE_MAX);
        budget.evict_largest();
        assert!(!small.is_evicted(), "one at a time");
        drop(large);
        assert!(waiting.await.expect("it ends"));
        assert_eq!(budget.evictions(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_never_fit_is_refused_and_closes_nobody() {
        let budget = Budget::new(100, 2);
        let (one, two) = (share(&budget), share(&budget));
        assert!(one.reserve(FREE_BYTES + 40));
        assert!(!two.wait(FREE_BYTES + 101).await);
        assert!(!one.is_evicted());
    }
}
