//! Members that join and leave while payments go on (II-F): founders, nodes that are to join, and founders that are to leave.

pub mod judge;
pub mod plan;
pub mod run;
mod words;
pub mod workload;
