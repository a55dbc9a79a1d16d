//! Attacks on nodes of this process: the network runtime with a machine that answers.

mod frames;
mod hardening;
mod identities;
mod relay;
mod rig;
