//! Load generators, open and closed loop, with latency from the intended start.
//!
//! *Closed loop* ([`closed`]): each lane keeps a window of operations in flight. *Open loop* ([`open`]): operations are
//! due at times fixed in advance, and latency counts from the time an operation was due, so a stalled server cannot
//! hide its stall by slowing the load. Results are gathered in memory and written after the run.

#![expect(
    clippy::float_arithmetic,
    reason = "rates and quantiles are shown to people and never decide anything"
)]

mod closed;
mod latency;
mod measured;
mod open;
mod usage;
mod workload;

pub use closed::{Closed, closed};
pub use latency::Latency;
pub use measured::{Measured, Tally};
pub use open::{Open, open};
pub use usage::{Usage, usage};
pub use workload::{Kv, KvOperation, Null, Workload};
