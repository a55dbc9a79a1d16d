//! Astro in its three profiles: members host a replica (machine 0) over Bracha's broadcast (I) or the signed one (II, II-F), whose
//! users are institutions, their customers, and owners who sign for themselves; several shards of II-F that pay each other; and
//! members of II-F that come and go.

pub mod book;
pub(crate) mod cells;
pub mod cuts;
pub mod draw;
mod names;
pub mod plan;
pub mod playing;
mod purses;
pub mod run;
pub mod shards;
pub mod sight;
mod strategy;
pub mod users;
pub mod views;
mod wallets;
pub mod watch;
pub mod words;
pub mod workload;
pub mod world;

pub use names::{SHARDS, SYSTEMS, VIEWS, is, profile};
