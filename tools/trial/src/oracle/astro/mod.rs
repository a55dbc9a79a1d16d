//! Independent checks of Astro: A-S1 to A-S8 and A-S10, X3 and X4, from what left members, what they wrote down and what they
//! told.
//!
//! Nothing here calls a predicate of the protocol or of the ledger: quorums are literal tables, what an entry does to accounts is
//! written out again, certificates are counted from the ACKs that were sent, and whoever lies counts as having signed everything.

mod acks;
mod claiming;
mod facts;
mod keeping;
mod reckoning;
mod tables;
mod texts;
mod votes;

pub use acks::{Acks, Slot};
pub use facts::Facts;
pub use keeping::{Keeping, Promised};
pub use reckoning::{HeldSeen, Owed, Purse, Reckoning, StandingSeen, StateSeen, legs, paid_to};
pub use tables::quorum;
pub use texts::{Backed, BatchSeen, Texts};
pub use votes::{Vote, Votes};

#[cfg(test)]
mod tests;
