//! Plans: which machines a node hosts and how their outputs reach inputs; and the client library.
//!
//! *What it gives.* [`Server`] runs one member of a cluster from its data directory. [`ClusterClient`] is a session
//! with a cluster that believes nobody alone; gateways, the command line and load generators speak to a [`Backend`].
//!
//! Clusters of Chop Chop have brokers and clients of their own: [`chop`]. Payment systems have a teller: [`pay`]. uBFT has memory nodes: [`ubft`].
//!
//! *Bounds.* A call holds at most [`OPERATIONS_MAX`] operations; what waits is bounded by the client machine.

mod backend;
pub mod chop;
mod client;
mod disk;
mod drill;
mod error;
mod mac;
mod meters;
pub mod pay;
mod plan;
mod random;
mod server;
mod settings;
pub mod ubft;
mod watch;

pub use backend::{Backend, Call, Mode, Operation, Outcome, RequestId};
pub use client::{ClientSetup, ClusterClient, Identity, OPERATIONS_MAX};
pub use drill::Drill;
pub use mac::hmac_sha256;
pub use meters::{Meters, Stage};
pub use plan::EXECUTOR;
pub use server::{Server, Setup, journal_config};
pub use synod_net::histogram::{Histogram, Reading};
pub use watch::{Seen, Watch};
