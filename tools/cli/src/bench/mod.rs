//! Benchmarks: of a cluster of separate processes on this machine, of Chop Chop, and of payments.

mod audit;
mod baseline;
mod chop;
mod figures;
mod header;
mod pages;
mod pay;
mod plan;
mod processes;
mod run;
mod window;
mod wired;

pub(crate) use audit::{Audit, are_settled, mark as audit_mark, settled};
pub(crate) use chop::real::{Enrol, RealPlan, run as run_real};
pub(crate) use chop::{App, ChildPlan, LoadPart, LoadPlan, run_children, run_load};
pub(crate) use chop::{ChopPlan, Part, ServerPart, WINDOWS_MIN, run as run_chop};
pub(crate) use pay::{PayBench, run as run_pay};
pub(crate) use plan::{Access, Pace, Plan, Target};
pub(crate) use processes::{ChopStart, Processes, Start};
pub(crate) use run::run;
