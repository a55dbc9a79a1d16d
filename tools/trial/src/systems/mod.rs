//! The systems a trial can run, one module each.

pub mod astro;
pub mod chopchop;
pub mod hotstuff;
pub mod journal;
pub mod ubft;
