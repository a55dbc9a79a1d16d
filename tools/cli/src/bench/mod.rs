//! Benchmarks of a cluster of separate processes on this machine.

mod audit;
mod header;
mod plan;
mod processes;
mod run;

pub(crate) use audit::{Audit, are_settled, mark as audit_mark, settled};
pub(crate) use plan::{Plan, Target};
pub(crate) use processes::Processes;
pub(crate) use run::run;
