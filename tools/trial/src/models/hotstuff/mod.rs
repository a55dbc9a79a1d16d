//! Four members, one of them two machines with one key, and one command, in every schedule of an instance.
//!
//! *Machines.* The real replicas with toy signatures. A step is an event and all that follows inside the machine: its
//! jobs at once, its own messages, its blobs, what its user applied. Time stands still but for timers that fire.
//!
//! *State.* Five machine states, the frames in flight, who is cut off from whom. A machine state is named by a digest of
//! the whole replica, its timers and what the oracles saw of it, so orders of arrival that end in the same state are one.
//!
//! *Network.* Links keep their order; what is on its way may be late or never arrive. Frames of views beyond the
//! instance, forwarded items and status are lost.
//!
//! *Symmetry.* Machines of one state are one entry of the table whatever led to it, and frames of different links commute.
//! Members are not exchangeable: views name their leaders.

mod cluster;
mod instance;
mod judge;
mod member;
mod run;
mod table;

pub use instance::Instance;
pub use run::{CONTROLS, SMALL, explore, standard};
