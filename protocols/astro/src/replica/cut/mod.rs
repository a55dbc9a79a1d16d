//! A replica's part in cuts: proposed in turn, signed behind what they count, certified by a quorum (specification, section 4.10).
//!
//! A number belongs to one member: the members take turns, and a member whose cut is not certified within two periods gives its turn
//! away with the number. A member signs one root for a number, records it before it leaves, and signs no lower number of that
//! proposer again. Numbers that nobody certified are passed over.
//!
//! A member that is further behind than others keep batches goes on from the state behind a certified cut: `fetch.rs`, `install.rs`.

mod certify;
mod cuts;
mod fetch;
mod install;
mod propose;
mod recover;
mod sign;

pub(super) use cuts::Cuts;
