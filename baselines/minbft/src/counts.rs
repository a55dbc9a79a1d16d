//! What one station did. Its poller alone writes; whoever reads between two ticks misses nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use synod_shm::Observer;

/// Counts of a replica, or of the client.
#[derive(Debug, Default)]
pub struct Counts {
    messages: AtomicU64,
    signs: AtomicU64,
    checks: AtomicU64,
    executed: AtomicU64,
    errors: AtomicU64,
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Observer for Counts {
    fn sent(&self, _: u8, peers: u32) {
        add(&self.messages, u64::from(peers));
    }
}

impl Counts {
    pub(crate) fn signed(&self) {
        add(&self.signs, 1);
    }

    pub(crate) fn checked(&self) {
        add(&self.checks, 1);
    }

    pub(crate) fn executed_one(&self) {
        add(&self.executed, 1);
    }

    pub(crate) fn erred(&self, times: usize) {
        add(&self.errors, u64::try_from(times).unwrap_or(u64::MAX));
    }

    /// Messages sent, one for each receiver.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Uses of the counter to sign.
    pub fn signs(&self) -> u64 {
        self.signs.load(Ordering::Relaxed)
    }

    /// Uses of the counter to check.
    pub fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }

    /// Requests executed.
    pub fn executed(&self) -> u64 {
        self.executed.load(Ordering::Relaxed)
    }

    /// What went otherwise than it should.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}
