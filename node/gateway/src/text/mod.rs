//! The text protocol of Memcached in front of a cluster that runs one: `get`, `set` and their kin, one request each.
//!
//! *Order.* What a connection sent is executed in its order: one call at a time, of what has come meanwhile. `noreply` is dropped here, for
//! a replicated command is always answered.
//!
//! *Bounds.* A line of 25 KiB, a value of 1,000,000 bytes, [`COMMANDS_MAX`] commands of a call; of it all a connection holds what its
//! budget allows. Meta commands, statistics and administration are refused.

mod client;
mod frame;
mod server;

pub use frame::{COMMANDS_MAX, Framed, Refused, frame};
pub use server::{TextServer, TextSettings};
