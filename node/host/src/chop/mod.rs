//! Chop Chop deployments: servers, brokers, clients, and what each is told by the genesis.
//!
//! *Machines.* A server node hosts [`SERVER`] (over HotStuff or uBFT), [`APPLICATION`] and [`STORE`]; a broker's process hosts
//! [`BROKER`], a client's [`CLIENT`]. Brokers are guests of the servers, known by their keys, and accept clients by
//! datagrams.
//!
//! *Bounds.* Those of the machines; at most 64 brokers by the genesis, whose ids are [`NodeId::GUESTS`] plus their number.
//!
//! [`NodeId::GUESTS`]: synod_quorum::NodeId::GUESTS

pub(crate) mod broker;
pub mod client;
mod cluster;
pub(crate) mod meters;
pub(crate) mod server;

pub use broker::{BrokerNode, BrokerSetup};
pub use cluster::{class, cluster, directory};
pub use meters::{ChopMeters, ChopSeen};

/// The machine that orders and deduplicates.
pub const SERVER: u8 = 0;
/// The machine that executes; guests may read from it.
pub const APPLICATION: u8 = crate::EXECUTOR;
/// The machine that holds and witnesses bodies.
pub const STORE: u8 = 2;
/// The machine that distils.
pub const BROKER: u8 = 3;
/// The machine that broadcasts.
pub const CLIENT: u8 = 4;
/// The plan that servers over uBFT share with its memory nodes.
pub(crate) const OVER_UBFT: [u8; 4] = [SERVER, APPLICATION, STORE, crate::ubft::MEMORY];
