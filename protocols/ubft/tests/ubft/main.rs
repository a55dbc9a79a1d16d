//! uBFT in its own crate: a few replicas and memory nodes under drawn schedules.

mod ctb;
mod fast;
mod formats;
mod gaps;
mod group;
mod liars;
mod net;
mod registers;
mod slot;
mod stream;
mod views;
mod world;
