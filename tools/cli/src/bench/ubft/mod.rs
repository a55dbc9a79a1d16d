//! `bench ubft`: how long one client waits for a result, of three replicas at one poller and of one server alone in the same placement.
//!
//! *Placement `cooperative`.* The replicas, or the one server, stand at one poller on a core, the client at another; registers are in this
//! process, in memory that is mapped as between processes. There is no isolation and there are no sockets: what is left is the protocol.
//!
//! *Placement `isolated`.* A process for each replica and memory node; the client is this process.
//!
//! *Audit.* Every result is compared with what the application answers; a run with one wrong or unknown result shows no figures.

mod alone;
mod caller;
mod isolated;
mod plan;
mod report;
mod rig;
mod run;

pub(crate) use plan::{App, Part, Placement, System, UbftBench};
pub(crate) use run::run;
