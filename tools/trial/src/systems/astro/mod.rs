//! Astro in profile II-F: members host a replica over the signed broadcast (machine 0), whose users are institutions, their
//! customers, and owners who sign for themselves.

pub mod book;
pub(crate) mod cells;
pub mod cuts;
pub mod draw;
mod names;
pub mod plan;
pub mod run;
pub mod sight;
mod strategy;
pub mod users;
mod wallets;
pub mod watch;
pub mod words;
pub mod workload;
pub mod world;

pub use names::{SYSTEMS, is};
