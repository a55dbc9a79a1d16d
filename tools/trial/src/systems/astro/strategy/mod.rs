//! What corrupted members, and owners who share their keys with them, do beyond what needs no protocol.

mod backing;
mod colluding;
mod craft;
mod inventing;
mod liar;
mod saying;
mod voting;

pub(super) use liar::{Corrupted, of};
