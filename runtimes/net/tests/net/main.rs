//! The network runtime over loopback: links, datagrams, identities, and the runtime contract.

mod bounds;
mod contract;
mod datagrams;
mod identity;
mod links;
mod memory;
mod probe;
mod rig;
