//! uBFT in its own crate: a few replicas and memory nodes under drawn schedules.

mod behind;
mod choir;
mod client;
mod ctb;
mod epochs;
mod fast;
mod flat;
mod formats;
mod gaps;
mod golden;
mod group;
mod liars;
mod lies;
mod merge;
mod net;
mod ordering;
mod registers;
mod service;
mod slot;
mod snapshots;
mod stream;
mod town;
mod views;
mod world;
