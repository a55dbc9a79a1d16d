//! Benchmarks of Chop Chop, part by part.

mod audit;
mod auth;
mod children;
mod load;
mod plan;
pub(super) mod real;
mod report;
mod server;

pub(crate) use auth::run;
pub(crate) use children::{ChildPlan, run as run_children};
pub(crate) use load::{App, LoadPart, LoadPlan, run as run_load};
pub(crate) use plan::{ChopPlan, Part, ServerPart, WINDOWS_MIN};
pub(in crate::bench) use report::{float, rounded};
