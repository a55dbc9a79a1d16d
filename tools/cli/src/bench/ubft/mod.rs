//! `bench ubft`: what one client waits for, and how many results it gets, of three replicas and of one server alone in the same placement.
//!
//! *Placement `cooperative`.* The replicas, or the one server, stand at one poller on a core, the client at another; registers are in this
//! process, in memory that is mapped as between processes. There is no isolation and there are no sockets: what is left is the protocol.
//!
//! *Placement `isolated`.* A process for each replica and memory node; the client is this process.
//!
//! *Baseline.* Replicas of MinBFT, of a program that this one runs (baselines/minbft): it links crates that `Cargo.lock` may not hold.
//!
//! *Loop.* Closed, with so many requests in flight; or open, at a rate, where the time of a request counts from when it was due.
//!
//! *Audit.* Every result is compared with what the application answers; a run with one wrong or unknown result shows no figures.

mod alone;
mod apps;
mod baseline;
mod beside;
mod breakdown;
mod caller;
mod cooperative;
mod gates;
mod isolated;
mod pacer;
mod plan;
mod report;
mod rig;
mod run;
mod tally;

pub(crate) use baseline::WANTED as BASELINE_WANTED;
pub(crate) use plan::{App, Baseline, CLOSED_MAX, Part, Placement, SIZE_MAX, System, UbftBench};
pub(crate) use run::run;
