//! Load of Chop Chop: members whose keys and signatures cost an addition each, the batches that a broker would make of
//! them, and what a witness does with those batches.
//!
//! Everything generated is genuine: a server checks it as it checks what strangers send. Nobody may use the keys for
//! anything but a benchmark, for they are all derived from one another.
//!
//! [`broker`] sends such batches to servers as a broker of their genesis.
//!
//! *Bounds.* 180 bytes per member, and the batches that the caller keeps.
//!
//! Chop Chop, section 6.2.

mod batches;
pub mod broker;
pub mod client;
mod draw;
mod ed25519;
mod family;
pub mod node;
mod witness;

pub use batches::{BatchPlan, Batches, Forged, Unfit};
pub use draw::IdDraw;
pub use ed25519::{EdFamily, EdSigner};
pub use family::{KeyFamily, Members, cluster};
pub use witness::{Adding, STAGES, Stage, Stages, Witness};
