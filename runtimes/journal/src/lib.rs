//! The journal of promises: segments, slots, group commit, recovery.
