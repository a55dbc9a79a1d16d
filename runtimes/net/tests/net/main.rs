//! The network runtime over loopback: links, identities, and the runtime contract.

mod bounds;
mod contract;
mod identity;
mod links;
mod memory;
mod probe;
mod rig;
