//! The demo of Chop Chop: servers and brokers as processes, a crowd that paints, people who paint beside it, kills, an
//! audit.
//!
//! *Who is who.* The people are real clients: each with keys, a journal and links of its own, who signs up and checks what
//! it is told. The crowd is load: clients of the genesis whose keys are derived from one another, so that one process can
//! play thousands; brokers and servers treat both alike.

mod audit;
mod cluster;
mod people;
mod scenes;
mod storm;

pub(crate) use cluster::{ChopCluster, SERVERS};
pub(crate) use scenes::{Shown, play};
