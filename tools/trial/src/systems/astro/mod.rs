//! Astro in its three profiles: members host a replica (machine 0) over Bracha's broadcast (I) or the signed one (II, II-F), whose
//! users are institutions, their customers, and owners who sign for themselves; and several shards of II-F that pay each other.

pub mod book;
pub(crate) mod cells;
pub mod cuts;
pub mod draw;
mod names;
pub mod plan;
pub mod playing;
pub mod run;
pub mod shards;
pub mod sight;
mod strategy;
pub mod users;
mod wallets;
pub mod watch;
pub mod words;
pub mod workload;
pub mod world;

pub use names::{SHARDS, SYSTEMS, is, profile};
