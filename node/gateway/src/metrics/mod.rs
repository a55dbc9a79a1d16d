//! Metrics and health, on a listener of their own.
//!
//! `/metrics` holds every row of [`synod_config::METRICS`], whose name, kind, help and label names come from that
//! table alone. Values come from the host's [`Sources`] when the page is asked for; hot loops publish into what a
//! source reads, they are never asked themselves. Label values are words of this program, codes of the catalogue
//! or names of members, so no client or peer can make a series.
//!
//! `/livez` and `/readyz` judge the [`Health`] that the host states: `?verbose` lists each check, `?exclude=name`
//! leaves one out. A loopback listener is open, another one needs a bearer token.
//!
//! *Bounds.* [`SERIES_PER_MEMBER`] per member and [`SERIES_FIXED`] besides; what is above is left out and logged.
//! 64 connections.

mod health;
mod page;
mod server;

pub use health::{Check, Disk, Health, Lag, Quorum, Replay};
pub use page::{Distribution, Label, Page, SERIES_FIXED, SERIES_PER_MEMBER};
pub use server::{Build, MetricsServer, MetricsSettings, Sources};
