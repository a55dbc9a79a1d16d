//! The network runtime over loopback: links, identities, and the runtime contract.

mod contract;
mod identity;
mod links;
mod rig;
