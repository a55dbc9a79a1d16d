//! Memory as words that two sides share: what the ring and the register are written over.
//!
//! Loads and stores are relaxed; only fences order them (uBFT, section 6). A store that publishes is a
//! [`Fence::Release`] and a plain store behind it, which is at least as strong as a store with release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Loads before it stay before every load and store behind it.
    Acquire,
    /// Loads and stores before it stay before every store behind it.
    Release,
    /// Both, and stores before it are seen by loads behind a like fence that comes later.
    SeqCst,
}

/// Words of 64 bits that another thread or process may read or write at any time. Each load and each store is whole
/// and relaxed; nothing else is promised without a fence.
///
/// Backends whose stores do not come in order in spite of fences (remote memory) need a checksum per entry, which
/// the ring and the register here do not write: such a backend must not implement this trait.
pub trait Words {
    /// Reads the word at index `at`.
    fn load(&self, at: u32) -> u64;
    /// Writes the word at index `at`.
    fn store(&self, at: u32, value: u64);
    /// Orders the loads and stores of this thread.
    fn fence(&self, fence: Fence);
}

impl<W: Words + ?Sized> Words for &W {
    #[inline]
    fn load(&self, at: u32) -> u64 {
        (**self).load(at)
    }
    #[inline]
    fn store(&self, at: u32, value: u64) {
        (**self).store(at, value);
    }
    #[inline]
    fn fence(&self, fence: Fence) {
        (**self).fence(fence);
    }
}

impl<W: Words + ?Sized> Words for Arc<W> {
    #[inline]
    fn load(&self, at: u32) -> u64 {
        (**self).load(at)
    }
    #[inline]
    fn store(&self, at: u32, value: u64) {
        (**self).store(at, value);
    }
    #[inline]
    fn fence(&self, fence: Fence) {
        (**self).fence(fence);
    }
}

/// Words of this process: the backend of machines that share one process, of tests and of Miri. Share them by
/// reference or by [`Arc`].
#[derive(Debug)]
pub struct Atomics {
    words: Box<[AtomicU64]>,
}

impl Atomics {
    /// Allocates `count` words, all zero.
    #[must_use]
    pub fn zeroed(count: u32) -> Self {
        Self { words: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }
}

/// An index beyond the words is a bug of the caller and panics.
impl Words for Atomics {
    #[inline]
    fn load(&self, at: u32) -> u64 {
        self.words[at as usize].load(Ordering::Relaxed)
    }
    #[inline]
    fn store(&self, at: u32, value: u64) {
        self.words[at as usize].store(value, Ordering::Relaxed);
    }
    #[inline]
    fn fence(&self, order: Fence) {
        fence(match order {
            Fence::Acquire => Ordering::Acquire,
            Fence::Release => Ordering::Release,
            Fence::SeqCst => Ordering::SeqCst,
        });
    }
}
