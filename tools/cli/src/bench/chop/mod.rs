//! Benchmarks of Chop Chop: the parts of it that are built.

mod audit;
mod auth;
mod plan;
pub(super) mod real;
mod report;
mod server;

pub(crate) use auth::run;
pub(crate) use plan::{ChopPlan, Part, ServerPart};
