//! One server in this process: its two machines, a pool for their jobs, and a broker that gives it batches.
//!
//! *What is real.* `Store` and `Server` as nodes run them, every job they ask for, frames encoded and decoded, shards, items,
//! verdicts. *What is not.* No socket and no TLS, no disk (records and bodies are dropped), an order of one server, an
//! application that counts. So figures made here are of the server's own work, and are to be named so.
//!
//! *Threads.* The machines have one, the store's jobs two (checks that wait are done together), the server's jobs one, the load
//! broker one. Each has a name, so that `/proc` tells what it used.
//!
//! *Bounds.* As many batches as the window are on their way.

mod drive;
mod feed;
mod solo;

pub use drive::{QUOTA_WORK, ROLES, Served, ServerPlan, serve};
pub use feed::Replay;
