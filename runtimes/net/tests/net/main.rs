//! The network runtime over loopback: links, identities, and the runtime contract.

mod links;
mod rig;
