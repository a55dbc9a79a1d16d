//! uBFT: replicas, the memory nodes that hold their registers, and clients; and its broadcast alone ([`ctb`]).
//!
//! Members host a replica (machine 0), whose application its connector executes; memory nodes are members behind them with one machine
//! each, and clients are guests. Places of a scenario are replicas, then clients, then memory nodes.

pub mod book;
pub(crate) mod cells;
pub mod ctb;
pub mod draw;
pub mod ledger;
pub mod lying;
mod names;
pub mod plan;
pub mod playing;
mod returning;
pub mod run;
pub mod sight;
mod strategy;
pub mod watch;
pub mod words;
pub mod workload;
pub mod world;

pub use names::{CTB, SMR, SYSTEMS, is};
