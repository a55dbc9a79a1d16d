//! Makes a Redis server a deterministic replica (uBFT, section 7 of the paper: Redis as it is, replicated).
//!
//! *What it gives.* An [`App`](synod_service::App) over a [`Server`]: a request is a command of Redis or a burst of them, the
//! reply is canonical RESP2, the root is a digest of what the server holds. Two servers that are asked the same slots end
//! with equal replies and equal roots, also through expiry, random choice, scans and a restore.
//!
//! *How.* Commands are allowed by name, each in a class. Replies that are sets are sorted. What is chosen at random is chosen
//! by a function of the slot and removed by name. SCAN is an order by hash that the adapter keeps. Deadlines are the
//! adapter's, in agreed time: keys whose time has come are deleted by name before a slot's commands, and the server never
//! sees an expiry. Scripts, blocking, messages, transactions by several requests and administration are refused.
//!
//! *Trust.* The server must be alone, with no memory limit, and of one version on all replicas: numbers with a fraction and
//! texts of errors are passed on as it prints them.
//!
//! *Bounds.* [`Config::bytes_max`] by the adapter's own account, which never counts less than is held; a command that copies
//! may pass it once. 128 commands of 1,024 words of a request; see [`Operation`] and [`resp`] for the rest.

mod adapter;
mod glob;
mod keyspace;
mod operation;
mod perform;
pub mod resp;
mod server;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

pub use adapter::{Adapter, Config, OPERATION_BYTES_MAX, check};
pub use operation::{COMMANDS_MAX, Command, Operation, WORD_MAX, WORDS_MAX};
pub use server::Server;
