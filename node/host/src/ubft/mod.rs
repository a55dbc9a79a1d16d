//! uBFT as processes: replicas, the memory nodes that hold their registers, and clients.
//!
//! *Who speaks with whom.* Replicas are members of the genesis. Memory nodes are linked with them behind the members, under keys that the
//! genesis states, and host one machine, [`MEMORY`]; a region of registers belongs to the replica whose link's key is its owner's.
//! Guests speak with the machine of every replica. Under the servers of Chop Chop it is the same with the machine of a server: `orderings`.
//!
//! *Application.* The connector of a replica executes a slot at once and gives the results back: [`Applied`]. An application that asks a
//! server process does so on a thread of its own, and the process ends with the node.

mod applied;
mod beside;
mod front;
mod memory;
mod order;
mod replica;
mod servers;
mod settings;

pub use applied::Applied;
pub(crate) use front::Front;
pub use memory::{MemoryServer, MemorySetup};
pub(crate) use order::{AHEAD, orderings};
pub(crate) use replica::{LANES, Standing, linked, recover};
pub use servers::installed;
pub(crate) use settings::limits;
pub use settings::{FIRST_BOOT, MEMORY, config};
