//! `node.toml`: what one node may choose alone, in four layers: default, file, environment, flag.
//!
//! [`Effective::load`] joins the layers and remembers where each value came from; [`Effective::config`] turns
//! them into a [`NodeConfig`] whose relations hold; [`NodeConfig::check`] compares it with the genesis. The
//! environment and the flags are passed in, so that the result depends on nothing else.

mod chopchop;
mod config;
mod keys;
mod layers;
mod webhook;

pub use chopchop::{ChopBroker, ChopServer, Verify};
pub(crate) use config::broken;
pub use config::{
    Access, Format, HugePages, Identity, Level, Limits, Listen, Log, Metrics, NodeConfig, Poll, Runtime,
    Simd, Storage, Sync, Timing,
};
pub use keys::{KEYS, explain_key};
pub use layers::{Effective, Origin, Row};
pub use webhook::Webhook;

#[cfg(test)]
mod tests;
