//! Attacks on nodes of this process: the network runtime with a machine that answers.

mod identities;
mod relay;
mod rig;
