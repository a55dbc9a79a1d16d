//! Chop Chop: clients, brokers, stores and servers, over an ideal atomic broadcast, over HotStuff or over uBFT.
//!
//! Members host the server (machine 0), the store (1) and an application (2); brokers and clients are guests with one
//! machine each. The ideal broadcast's sequencer has a node of its own.

pub mod beneath;
pub mod book;
pub(crate) mod cells;
pub mod draw;
pub mod executing;
#[cfg(test)]
mod formats;
pub mod keeper;
mod names;
pub mod order;
pub mod over;
pub mod plan;
pub mod run;
pub mod sight;
pub mod stage;
mod strategy;
pub mod twins;
pub mod watch;
pub mod words;
pub mod workload;
pub mod world;

pub use names::{OVER_UBFT, SYSTEMS, is};
