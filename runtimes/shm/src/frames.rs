//! Frame bodies without an allocation for each: short ones share a block, which is used again once all of them are
//! dropped. Blocks take turns, so that one whose last bodies are still looked at is asked again later.
//!
//! *Bounds.* A short body that a machine keeps holds a block of [`BLOCK`] bytes; a longer one than [`SHORT_MAX`] has
//! its own.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16 << 10;
/// Blocks that take turns.
const BLOCKS: usize = 4;
/// Longest body that shares a block.
pub(crate) const SHORT_MAX: usize = 1 << 10;

/// Where bodies are cut from.
#[derive(Debug)]
pub(crate) struct Frames {
    block: BytesMut,
    /// Full ones, the oldest first.
    full: VecDeque<BytesMut>,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self { block: BytesMut::with_capacity(BLOCK), full: VecDeque::with_capacity(BLOCKS) }
    }

    /// A body with these bytes.
    #[inline]
    pub(crate) fn body(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() > SHORT_MAX {
            return Bytes::copy_from_slice(bytes);
        }
        if self.block.capacity() < bytes.len() {
            self.turn();
        }
        self.block.extend_from_slice(bytes);
        self.block.split().freeze()
    }

    /// Takes the oldest block again if nobody holds a part of it, and else a new one.
    #[cold]
    fn turn(&mut self) {
        let oldest = if self.full.len() + 1 < BLOCKS { None } else { self.full.pop_front() };
        let next = oldest.and_then(|mut block| block.try_reclaim(BLOCK).then_some(block));
        let next = next.unwrap_or_else(|| BytesMut::with_capacity(BLOCK));
        self.full.push_back(core::mem::replace(&mut self.block, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_hold_their_bytes_and_a_block_nobody_holds_is_used_again() {
        let mut frames = Frames::new();
        let kept = frames.body(&[9; 100]);
        let places: std::collections::BTreeSet<usize> =
            (0..10_000_u32).map(|n| frames.body(&[n.to_le_bytes()[0]; 64]).as_ptr().addr() >> 20).collect();
        assert_eq!(kept, [9; 100][..]);
        assert!(places.len() <= 3, "{} megabytes were touched", places.len());
        for length in [0, SHORT_MAX, SHORT_MAX + 1, BLOCK + 1] {
            assert_eq!(frames.body(&vec![7; length]).len(), length);
        }
    }
}
