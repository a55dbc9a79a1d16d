//! Makes a Memcached server a deterministic replica (uBFT, section 7 of the paper: Memcached as it is, replicated).
//!
//! *What it gives.* An [`App`](synod_service::App) over a [`Server`]: a request is one command of the text protocol with its
//! data, the reply is what the server would answer, the root is a digest of what it holds. Two servers that are asked the
//! same slots end with equal replies and equal roots, also through times, ids and a restore.
//!
//! *How.* The adapter knows which keys there are, so it decides `add`, `replace` and `cas` itself. Ids are its own numbers.
//! Times are its own, in agreed time: what has ended is deleted by name before a slot's commands, and the server never sees
//! a time, not even that of `flush_all`. Statistics, meta commands and administration are refused.
//!
//! *Bounds.* [`Config::bytes_max`], exactly counted; beyond it a write is refused, and nothing is evicted.

mod adapter;
mod command;
mod keyspace;
mod server;
mod snapshot;
#[cfg(test)]
mod tests;

pub use adapter::{Adapter, Config};
pub use command::{KEY_MAX, KEYS_MAX, VALUE_MAX, check};
pub use server::{Ask, NotAReply, Reply, Server};
