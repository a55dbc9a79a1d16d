//! Clusters of separate processes on this machine: `up`, `down`, `logs` and `restart`.
//!
//! A deployment is a directory with the files of a cluster (see [`crate::cluster`]), `ports.json`, `logs/` and,
//! while it is up, `deployment.json`: the process id and the start time of every node. Processes are ended by
//! both, so that a number the system gave to somebody else is never signalled.

mod ports;
mod process;
mod record;
mod start;

pub(crate) use ports::{Claim, refuse_taken};
pub(crate) use process::{Blow, Ended, Running, stop};
pub(crate) use record::{Record, directory_of};
pub(crate) use start::{
    PLANT, await_ready, await_ready_until, broker_names, describe_ports, log_file, memory_names, node_names,
    start,
};

use std::time::Duration;

/// How long a node may take to end after SIGTERM before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How long nodes may take to become ready, unless --timeout says otherwise.
pub(crate) const READY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
