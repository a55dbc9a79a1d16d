//! The sections of Chop Chop: what one of its servers or brokers may choose alone.

use super::config::broken;
use super::layers::Effective;
use crate::choice::choices;
use crate::errors::SynError;
use crate::table::bad_value;
use std::time::Duration;

choices! {
    /// When a broker checks signatures of submissions.
    Verify {
        /// On arrival, in batches.
        Eager = "eager",
        /// Those of stragglers alone, when a batch is sealed.
        Lazy = "lazy",
    }
}

/// `[chop]`: a server of Chop Chop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChopServer {
    /// Ranges of client ids that are deduplicated side by side, 1 to 128.
    pub lanes: u8,
    /// Bytes of bodies of one broker before they are ordered.
    pub quota_bytes: u64,
    /// Number of such batches.
    pub quota_batches: u32,
    /// Checks a second of one broker.
    pub quota_work: u64,
    /// Brokers beside those of the genesis.
    pub others_max: u32,
}

/// `[broker]`: a broker of Chop Chop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChopBroker {
    /// When signatures of submissions are checked.
    pub verify: Verify,
    /// Shortest window.
    pub window_min: Duration,
    /// Longest window.
    pub window_max: Duration,
    /// Batches under way before windows stay open.
    pub pipeline_max: u32,
    /// Messages below which a batch is not offered for multi-signing.
    pub distil_min: u32,
    /// Longest wait for multi-signatures.
    pub distil_max: Duration,
    /// How long delivered batches are kept.
    pub keep: Duration,
    /// How many bytes of them.
    pub keep_bytes: u64,
    /// Links of clients at a time.
    pub links_max: u32,
    /// Clients whose keys are kept read.
    pub read_keys_max: u32,
    /// Links accepted a second.
    pub links_per_second: u32,
    /// Sockets that share the port.
    pub sockets: u32,
}

impl ChopServer {
    pub(super) fn of(from: &Effective) -> Self {
        Self {
            lanes: u8::try_from(from.number("chop.lanes")).unwrap_or(u8::MAX),
            quota_bytes: from.number("chop.quota_bytes"),
            quota_batches: from.number_u32("chop.quota_batches"),
            quota_work: from.number("chop.quota_work"),
            others_max: from.number_u32("chop.others_max"),
        }
    }
}

impl ChopBroker {
    pub(super) fn of(from: &Effective) -> Self {
        Self {
            verify: from.choice("broker.verify"),
            window_min: from.span("broker.window_min"),
            window_max: from.span("broker.window_max"),
            pipeline_max: from.number_u32("broker.pipeline_max"),
            distil_min: from.number_u32("broker.distil_min"),
            distil_max: from.span("broker.distil_max"),
            keep: from.span("broker.keep"),
            keep_bytes: from.number("broker.keep_bytes"),
            links_max: from.number_u32("broker.links_max"),
            read_keys_max: from.number_u32("broker.read_keys_max"),
            links_per_second: from.number_u32("broker.links_per_second"),
            sockets: from.number_u32("broker.sockets"),
        }
    }

    pub(super) fn check(&self) -> Result<(), SynError> {
        if self.window_min > self.window_max {
            return Err(broken(
                "broker.window_min",
                "broker.window_max",
                "the shortest is above the longest",
            ));
        }
        if self.verify == Verify::Lazy {
            return Err(bad_value("node.toml", "broker.verify", "lazy, which this program does not build"));
        }
        Ok(())
    }
}
