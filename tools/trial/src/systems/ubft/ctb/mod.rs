//! `ubft/ctb`: Consistent Tail Broadcast alone, one instance for each broadcaster, over registers at memory nodes.
//!
//! Members host the broadcasts of all replicas as one machine, which speaks the words of a replica; nobody orders, executes or asks.
//! What a summary would certify the user of the run says: f + 1 replicas have delivered all messages up to a number.

pub mod book;
pub mod draw;
mod liar;
pub mod machine;
pub mod run;
pub mod watch;
pub mod workload;
pub mod world;
