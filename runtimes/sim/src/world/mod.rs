//! The world: nodes, links, disks and time in one deterministic loop.
//!
//! `setup` says what it is made of, `node` is one running instance, `run` is the loop, `turn` is one call of one
//! machine, `effects` carries out what the call asked for, `life` starts and ends nodes, `jobs` runs jobs, `memory` carries operations
//! on registers, `faults`
//! is what a test can do to the world, `incident` what a scenario does.

mod effects;
mod faults;
mod incident;
mod jobs;
mod life;
mod memory;
mod node;
mod phases;
mod redraw;
mod remember;
mod run;
mod setup;
mod turn;

pub use node::Status;
pub use run::World;
pub use setup::{
    Connector, Disks, Factory, Kinds, Links, Memory, Names, Options, Passage, Redraw, Route, Routed, Script,
    Seat, Setup, Strategies, Twins,
};
