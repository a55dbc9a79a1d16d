//! `synod chaos flood`: strangers, a faulty member and stalled readers, each beside an honest load.
//!
//! Four turns of equal length: nothing, strangers, a faulty member at line rate, stalled readers. Latency and throughput
//! of the honest load in each turn are held against those of the first; memory of every member is sampled all the
//! while, and the logs of all are weighed at the end.

mod honest;
mod memory;
mod report;
mod run;

pub(crate) use run::{Plan, run};
