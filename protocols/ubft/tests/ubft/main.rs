//! uBFT in its own crate: a few replicas and memory nodes under drawn schedules.

mod ctb;
mod formats;
mod liars;
mod registers;
mod slot;
mod stream;
mod world;
