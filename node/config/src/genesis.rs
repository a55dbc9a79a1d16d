//! `genesis.toml`: all that the members of a cluster must agree on.
//!
//! [`Genesis::parse`] reads and checks a file, [`Genesis::build`] checks one that is being made, and
//! [`Genesis::to_toml`] writes it. The cluster id is the BLAKE3 digest of [`Genesis::encode`], which holds every
//! value after defaults were resolved: two files with the same meaning have the same id.
//!
//! Bounds: 1 MiB per file, 1 to 128 members, 64 brokers, 31 memory nodes, 16 operators.

mod build;
mod canonical;
mod chop;
mod keys;
mod member;
mod parameters;
mod pay;
mod read;
mod ubft;
mod write;

pub use build::{Cluster, Genesis, Protocol};
pub use chop::{BROKERS_MAX, Broker, Chop, ChopOrdering, ClusterKind, DIRECTORY_FILE, MessageClass};
pub use keys::GENESIS_KEYS;
pub use member::{Member, Operator};
pub use parameters::{Bodies, ClientAuth, Complaints, Filter, Parameters, Rules, Scheme, Votes};
pub use pay::{Pay, Profile, Registrar};
pub use ubft::{MEMORY_NODES_MAX, MemoryMember, Ubft};

/// Most members of a cluster.
pub const MEMBERS_MAX: usize = 128;

#[cfg(test)]
mod chop_tests;
#[cfg(test)]
mod pay_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod ubft_tests;
