//! uBFT (Aguilera et al., ASPLOS 2023): Byzantine replication in microseconds with 2f + 1 replicas and disaggregated memory that only
//! crashes.
//!
//! *What is here.* [`CtBroadcast`]: Consistent Tail Broadcast, which keeps a broadcaster from telling different replicas different
//! things without a third of additional replicas, and without a signature as long as all are there. [`Registers`]: single-writer
//! registers over 2f_m + 1 memory nodes ([`synod_service::memory`] is such a node). [`replica::Consensus`]: what is agreed on over
//! it. [`Replica`] and [`Client`]: requests, sessions, execution and results. [`Ordering`]: the same as an atomic broadcast.
//!
//! *Model.* n = 2f + 1 replicas of which f lie, 2f_m + 1 memory nodes of which f_m stop; links are authenticated, and may lose what is
//! not among the last t messages of a queue. Time decides nothing but when the slow path begins.
//!
//! *Trust.* 2f + 1 replicas, f Byzantine, plus 2f_m + 1 memory nodes that may only crash.
//!
//! [`synod_service::memory`]: ../synod_service/memory/index.html

pub mod batch;
mod body;
pub mod certificate;
mod chain;
pub mod client;
mod config;
pub mod ctb;
pub mod epoch;
mod fault;
mod few;
mod job;
pub mod message;
pub mod ordering;
pub mod registers;
pub mod replica;
pub mod sessions;
pub mod slot;
pub mod snapshot;
mod statement;
pub mod stream;
mod stretch;
mod trace;

pub use body::{Body, CertifiedBy, CheckpointBy, LeftBy};
pub use client::Client;
pub use config::{
    BODY_EXTRA, BODY_MAX, Config, MEMBERS_MAX, MEMORY_MAX, Memory, NUMBER_END, Parameters, SUSPECT_MAX,
    Unsound,
};
pub use ctb::CtBroadcast;
pub use fault::Fault;
pub use job::{Done, For, Job};
pub use message::Message;
pub use ordering::Ordering;
pub use registers::Registers;
pub use replica::Replica;
pub use statement::Statement;
pub use trace::Rule;
