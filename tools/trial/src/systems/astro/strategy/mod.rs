//! What corrupted members, and owners who share their keys with them, do beyond what needs no protocol.

mod colluding;
mod craft;
mod inventing;
mod liar;
mod saying;

pub(super) use liar::{Corrupted, of};
