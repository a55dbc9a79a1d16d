//! Randomness of the operating system.

use aws_lc_rs::rand;

/// 32 unpredictable bytes.
///
/// # Panics
/// When the system has no randomness: nothing secret can be made then.
pub(crate) fn bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    let filled = rand::fill(&mut bytes);
    assert!(filled.is_ok(), "the operating system gives randomness");
    bytes
}

/// An unpredictable number.
pub(crate) fn number() -> u64 {
    bytes().first_chunk().map_or(0, |head| u64::from_le_bytes(*head))
}
