//! Benchmarks: of a cluster of separate processes on this machine, of Chop Chop, and of payments.

mod audit;
mod baseline;
mod chop;
mod figures;
mod header;
mod pages;
mod pay;
mod pay_processes;
mod plan;
mod processes;
mod run;
mod ubft;
mod window;
mod wired;

pub(crate) use audit::{Audit, are_settled, mark as audit_mark, settled};
pub(crate) use chop::real::{Enrol, RealPlan, run as run_real};
pub(crate) use chop::{App, ChildPlan, LoadPart, LoadPlan, run_children, run_load};
pub(crate) use chop::{ChopPlan, Part, ServerPart, WINDOWS_MIN, run as run_chop};
pub(crate) use pay::{PayBench, run as run_pay};
pub(crate) use pay_processes::{
    Audit as PayAudit, Books, Fault, Load as PayLoad, Payment, ProcessPlan, asked as pay_asked,
    audit as pay_audit, body as pay_body, open as pay_open, places as pay_places, run as run_pay_processes,
    start as pay_start,
};
pub(crate) use plan::{Access, Pace, Plan, Target};
pub(crate) use processes::{ChopStart, Processes, Start};
pub(crate) use run::run;
pub(crate) use ubft::{
    App as UbftApp, BASELINE_WANTED as UBFT_BASELINE_WANTED, Baseline as UbftBaseline,
    CLOSED_MAX as UBFT_CLOSED_MAX, Part as UbftPart, Placement as UbftPlacement, SIZE_MAX as UBFT_SIZE_MAX,
    System as UbftSystem, UbftBench, run as run_ubft,
};
