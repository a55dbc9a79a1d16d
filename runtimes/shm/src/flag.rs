//! The parked flag: how a receiver that sleeps is never missed (docs/papers/ubft.md, section on the runtime).
//!
//! *How.* A receiver that wants to sleep numbers its sleep in word 0 of its status page, fences, looks for messages
//! once more, and then sleeps. A sender publishes its message, fences, and reads the word. Of the two fences one comes
//! first: either the receiver's last look sees the message, or the sender sees the sleep and rings. Without the fences
//! a processor may hold back both stores, and both would miss.
//!
//! Sleeps are numbered from 1 on, so that a sender rings once a sleep; 0 is "awake". It is written over
//! [`Words`], so that loom runs it.

use synod_tail::{Fence, Words};

/// Words of a status page that are used.
pub const STATUS_WORDS: u32 = 1;

const SLEEP: u32 = 0;

/// The receiver's side.
#[derive(Debug)]
pub struct Sleeper<W> {
    page: W,
    sleeps: u64,
}

impl<W: Words> Sleeper<W> {
    /// The receiver that has this status page, all zero, and is awake.
    #[must_use]
    pub const fn new(page: W) -> Self {
        Self { page, sleeps: 0 }
    }

    /// Says that it is going to sleep. It has to look for messages once more before it does.
    pub fn lie_down(&mut self) {
        self.sleeps += 1;
        self.page.store(SLEEP, self.sleeps);
        self.page.fence(Fence::SeqCst);
    }

    /// Says that it is awake. What rang is taken down behind this, never before.
    pub fn rise(&mut self) {
        self.page.store(SLEEP, 0);
    }

    /// How often it lay down.
    #[must_use]
    pub const fn sleeps(&self) -> u64 {
        self.sleeps
    }
}

/// The sender's side.
#[derive(Debug)]
pub struct Watcher<W> {
    page: W,
    rung: u64,
}

impl<W: Words> Watcher<W> {
    /// A sender that is shown this status page.
    #[must_use]
    pub const fn new(page: W) -> Self {
        Self { page, rung: 0 }
    }

    /// Whether to ring, asked once behind all that was published. True once a sleep, of a receiver that tells the
    /// truth; a lying one costs a ring each time.
    #[must_use]
    pub fn must_ring(&mut self) -> bool {
        self.page.fence(Fence::SeqCst);
        let sleep = self.page.load(SLEEP);
        let ring = sleep != 0 && sleep != self.rung;
        if ring {
            self.rung = sleep;
        }
        ring
    }
}
