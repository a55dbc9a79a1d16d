//! A queue whose maximum is in bytes.

use std::collections::VecDeque;

/// The newest elements whose sizes add up to at most `bytes_max`, oldest first. The caller states each size.
#[derive(Clone, Debug)]
pub struct ByteFifo<T> {
    items: VecDeque<(T, u64)>,
    bytes: u64,
    bytes_max: u64,
}

impl<T> ByteFifo<T> {
    /// An empty queue of at most `bytes_max` bytes.
    #[must_use]
    pub const fn new(bytes_max: u64) -> Self {
        Self { items: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Appends `item` of `bytes` bytes if it fits.
    ///
    /// # Errors
    /// Gives the item back when the queue would exceed its maximum.
    pub fn push(&mut self, item: T, bytes: u64) -> Result<(), T> {
        if bytes > self.bytes_max - self.bytes {
            return Err(item);
        }
        self.items.push_back((item, bytes));
        self.bytes += bytes;
        Ok(())
    }

    /// Appends `item` of `bytes` bytes; `evicted` is given, oldest first, what has to leave for it.
    ///
    /// # Errors
    /// Gives the item back, evicting nothing, when it is larger than the whole queue.
    pub fn push_evicting(&mut self, item: T, bytes: u64, mut evicted: impl FnMut(T)) -> Result<(), T> {
        if bytes > self.bytes_max {
            return Err(item);
        }
        while bytes > self.bytes_max - self.bytes {
            self.pop().into_iter().for_each(&mut evicted);
        }
        self.push(item, bytes)
    }

    /// Takes the oldest element.
    pub fn pop(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes -= bytes;
        Some(item)
    }

    /// The oldest element.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.items.front().map(|(item, _)| item)
    }

    /// The elements, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter().map(|(item, _)| item)
    }

    /// Bytes in the queue.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The maximum.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
