//! The roles of Astro: both broadcasts, and the replica with its representative.

mod flock;
mod forge;
pub mod plain;
pub mod replica;
pub mod signed;
mod users;
