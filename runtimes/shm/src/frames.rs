//! Frame bodies without an allocation for each: short ones share a block, which is used again once all of them are
//! dropped.
//!
//! *Bounds.* A short body that a machine keeps holds a block of [`BLOCK`] bytes; a longer one than [`SHORT_MAX`] has
//! its own.

use bytes::{Bytes, BytesMut};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16 << 10;
/// Longest body that shares a block.
pub(crate) const SHORT_MAX: usize = 1 << 10;

/// Where bodies are cut from.
#[derive(Debug)]
pub(crate) struct Frames {
    block: BytesMut,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self { block: BytesMut::with_capacity(BLOCK) }
    }

    /// A body with these bytes.
    #[inline]
    pub(crate) fn body(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() > SHORT_MAX {
            return Bytes::copy_from_slice(bytes);
        }
        if self.block.capacity() < bytes.len() {
            // Takes the old block again if nobody holds a part of it.
            self.block.reserve(BLOCK);
        }
        self.block.extend_from_slice(bytes);
        self.block.split().freeze()
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
