//! Systems, scenarios, strategies, oracles and plants for the simulator.
//!
//! *What it gives.* [`run`](run::run) draws the scenario of a seed, runs it in a world of the simulator with every
//! oracle watching, heals it and demands progress; [`soak`](soak::soak) does so for many seeds;
//! [`replay`](replay::replay) repeats a run by its token or scenario file, [`shrunk`](replay::shrunk) makes a failing
//! one small; [`stage`] directs a run message by message; [`plants`] searches for planted bugs; [`twins`] enumerates
//! twins; [`models`] explores small instances to the end. The commands `synod sim ...` print what these functions return.
//!
//! *Independence.* [`oracle`] knows nothing of production predicates: quorum sizes are literal tables, rules are written
//! out again, votes are counted from what honest members sent.
//!
//! *Bounds.* One run holds one world; a soak one world per job.

pub mod amnesia;
pub mod app;
pub mod book;
pub mod cells;
pub mod crash;
pub mod draw;
mod evidence;
pub mod models;
pub mod oracle;
pub mod params;
pub mod plants;
pub mod replay;
pub mod report;
pub mod rules;
pub mod run;
pub mod sight;
pub mod soak;
pub mod stage;
pub mod story;
mod strategy;
pub mod systems;
pub mod token;
pub mod traced;
pub mod twins;
pub mod watch;
pub mod words;
pub mod workload;
