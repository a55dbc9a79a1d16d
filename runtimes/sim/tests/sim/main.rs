//! The simulator, tested with small machines: the runtime contract, faults, checkers, determinism.

mod checkers;
mod contract;
mod counter;
mod determinism;
mod disks;
mod failed_syncs;
mod families;
mod incidents;
mod network;
mod probe;
mod process;
mod registers;
mod strategies;
