//! The same contract and scenarios on every runtime.
//!
//! *What it gives.* A [`Rig`] runs the machines of a [`Plan`] and can do to them what the world does: break a link,
//! crash a node, hold or fail its disk, stop its processor. [`SimRig`] is the simulator in virtual time, [`NetRig`]
//! real sockets on loopback with TLS and the real journal in a directory of its own, [`ShmRig`] a poller for each node, rings
//! that are handed over Unix sockets, and the same journal. A test that is written against the trait holds on all three or
//! shows where they differ.
//!
//! *The probe.* [`Probe`] does what it is told and tells what happens to it twice: by a note, which nothing holds back,
//! and by an output, which waits for the records before it.
//!
//! *Bounds.* A rig waits a minute of virtual time or half a minute of real time for what must come, then fails with
//! the logs. Nothing sleeps.

mod gate;
mod log;
mod net;
mod probe;
mod rig;
mod shm;
mod sim;
mod words;

pub use gate::JobGate;
pub use log::{Entry, Log};
pub use net::NetRig;
pub use probe::{PAUSE, Probe, Said, Script, probes};
pub use rig::{Disk, Open, Opening, Passed, Plan, Rig, Route, Seat, Went};
pub use shm::ShmRig;
pub use sim::SimRig;
pub use words::{Act, Flaw, Kept, Word, Work};
