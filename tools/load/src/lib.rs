//! Load generators, open and closed loop, with latency from the intended start.
//!
//! *Closed loop* ([`closed`]): each lane keeps a window of operations in flight. *Open loop* ([`open`]): operations are
//! due at times fixed in advance, and latency counts from the time an operation was due, so a stalled server cannot
//! hide its stall by slowing the load. Results are gathered in memory and written after the run.
//!
//! [`pay`] runs the replicas of a payment system in this process, with customers who pay each other.
//!
//! [`chop`] makes the load of Chop Chop: members, batches, and what a witness does with them.
//!
//! [`Keys`] is the load, with a ledger that an audit compares with the state afterwards; [`RespClient`] drives gateways,
//! sessions of `node/host` drive the members themselves.

#![expect(
    clippy::float_arithmetic,
    reason = "rates and quantiles are shown to people and never decide anything"
)]

pub mod chop;
mod closed;
mod drive;
mod host;
mod latency;
mod ledger;
mod measured;
mod open;
pub mod pay;
mod resp;
mod usage;
mod workload;

pub use closed::{Closed, closed, fill};
pub use drive::Drive;
pub use latency::Latency;
pub use ledger::Findings;
pub use measured::{Measured, Tally, Window};
pub use open::{Open, open};
pub use resp::{INFLIGHT_MAX, REPLY_BYTES_MAX, RespClient, write_resp};
pub use usage::{Usage, usage};
pub use workload::{Batch, Draw, Form, INDEX_BYTES, KEY_BYTES, Keys, Workload};
