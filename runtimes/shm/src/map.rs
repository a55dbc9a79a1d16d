//! Mapped memory: the one place that holds an address.
//!
//! The only type over shared bytes is a slice of `AtomicU64` that lives no longer than its mapping. Its length was
//! checked against a size that seals keep, so that no access can fail.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags};
use synod_tail::{Fence, Words};

use crate::error::Error;

/// Bytes of a word.
const WORD_BYTES: u64 = 8;

/// How much memory: words that are used, and the pages they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    words: u32,
    bytes: u64,
}

impl Size {
    /// The size of `words` words, in whole pages.
    pub(crate) fn of(words: u32) -> Result<Self, Error> {
        let page = rustix::param::page_size() as u64;
        let bytes = (u64::from(words) * WORD_BYTES).next_multiple_of(page);
        let fits = words > 0 && isize::try_from(bytes).is_ok();
        if fits { Ok(Self { words, bytes }) } else { Err(Error::Words { words }) }
    }

    pub(crate) const fn words(self) -> u32 {
        self.words
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Pages of a memory file in this process.
#[derive(Debug)]
struct Map {
    start: NonNull<AtomicU64>,
    words: usize,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; it is changed by `drop` alone, which has it whole.
// Whoever writes the words, this process or another, each access is a whole atomic one, ordered by fences.
#[expect(unsafe_code, reason = "the address is of memory that all threads of the process share")]
unsafe impl Send for Map {}

// SAFETY: shared references give `&[AtomicU64]` alone. This process and others write and read the words as atomics
// at any time; the fences of `Words` order them.
#[expect(unsafe_code, reason = "the address is of memory that all threads of the process share")]
unsafe impl Sync for Map {}

impl Map {
    /// Maps `size` of `fd`, whose size the caller has found sealed and equal, and takes its pages at once.
    fn new(fd: BorrowedFd<'_>, size: Size, protection: ProtFlags) -> Result<Self, Error> {
        let too_many = |_| Error::Words { words: size.words };
        let bytes = usize::try_from(size.bytes).map_err(too_many)?;
        let words = usize::try_from(size.words).map_err(too_many)?;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the system chooses the address, so nothing of this process is replaced. Nobody has read or written
        // through it yet, so there is nothing to order.
        #[expect(unsafe_code, reason = "mapping memory")]
        let start = unsafe { rustix::mm::mmap(null_mut(), bytes, protection, flags, fd, 0) };
        let start = NonNull::new(start.map_err(Error::of("mmap"))?.cast());
        Ok(Self { start: start.ok_or(Error::NoMemory)?, words, bytes })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has at least so many words, aligned to a page, until `drop`; seals keep the file under
        // it from shrinking. The owner of the memory writes them, everybody it was shown to reads them, both as
        // atomics; relaxed loads and fences order them. Pages that are mapped for reading are only ever loaded from,
        // relaxed and a word at a time, which the documentation of `std::sync::atomic` allows on read-only memory.
        #[expect(unsafe_code, reason = "mapped memory as words")]
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.words)
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the address and length are those of the mapping that `new` made. No reference into it is left, for
        // all of them borrow `self`; other processes write and read through mappings of their own.
        #[expect(unsafe_code, reason = "unmapping memory")]
        let gone = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(gone.is_ok(), "a mapping is unmapped once: {gone:?}");
    }
}

#[inline]
fn order(order: Fence) {
    fence(match order {
        Fence::Acquire => Ordering::Acquire,
        Fence::Release => Ordering::Release,
        Fence::SeqCst => Ordering::SeqCst,
    });
}

/// Memory that this process writes; nobody else does. An index beyond it is a bug of the caller and panics.
#[derive(Debug)]
pub struct Written(Map);

impl Written {
    pub(crate) fn new(fd: BorrowedFd<'_>, size: Size) -> Result<Self, Error> {
        Map::new(fd, size, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    /// How many words there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.words
    }
}

impl Words for Written {
    #[inline]
    fn load(&self, at: u32) -> u64 {
        self.0.words()[at as usize].load(Ordering::Relaxed)
    }
    #[inline]
    fn store(&self, at: u32, value: u64) {
        self.0.words()[at as usize].store(value, Ordering::Relaxed);
    }
    #[inline]
    fn fence(&self, fence: Fence) {
        order(fence);
    }
}

/// Memory that another process writes and this one reads. An index beyond it is a bug of the caller and panics.
#[derive(Debug)]
pub struct Shown(Map);

impl Shown {
    pub(crate) fn new(fd: BorrowedFd<'_>, size: Size) -> Result<Self, Error> {
        Map::new(fd, size, ProtFlags::READ).map(Self)
    }

    /// How many words there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.words
    }
}

impl Words for Shown {
    #[inline]
    fn load(&self, at: u32) -> u64 {
        self.0.words()[at as usize].load(Ordering::Relaxed)
    }
    /// # Panics
    /// Always: a reader stores nothing, and the pages would not take it.
    fn store(&self, at: u32, _: u64) {
        unreachable!("word {at} is another's to store");
    }
    #[inline]
    fn fence(&self, fence: Fence) {
        order(fence);
    }
}
