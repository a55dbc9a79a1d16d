//! Chop Chop: distilled batches that make authentication, deduplication and ordering cheap.
//!
//! *What it gives.* Four machines, `client::Client`, `broker::Broker`, `store::Store` and `server::Server`; the formats and
//! pure rules that they share: statements, id columns, batches, the entry tree, the rule of deduplication, the directory,
//! messages; and receipts, which prove a delivery to anybody, off line.
//!
//! *Model.* Untrusted brokers distil batches: one sequence number and one multi-signature for many messages. Servers,
//! of which f may do anything, check what a broker says and never trust it.
//!
//! *Reading in place.* A batch is a header of 192 bytes and a body of columns. Everything read from a body shares its
//! memory; a column's length follows from the header, so no length is believed.
//!
//! *Bounds.* No decoder allocates by a number it read; see each module.

pub mod batch;
mod bits;
pub mod broker;
#[cfg(test)]
mod by_hand;
pub mod card;
pub mod certificate;
mod certified;
pub mod client;
pub mod columns;
pub mod config;
pub mod content;
pub mod datagram;
pub mod dedup;
pub mod directory;
mod domains;
pub mod fault;
mod fixed;
#[cfg(test)]
mod formats;
pub mod ids;
pub mod item;
pub mod keybook;
pub mod message;
mod rations;
pub mod receipt;
pub mod server;
pub mod signup;
pub mod statement;
pub mod store;
pub mod trace;
pub mod tree;
pub mod vocabulary;

pub use certified::certified;
pub use domains::Domains;
