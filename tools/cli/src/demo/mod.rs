//! `synod demo`: a cluster, scenes that hurt it, an audit. HotStuff runs in this process, Chop Chop, payments and uBFT as processes.

pub(crate) mod chop;
mod cluster;
pub(crate) mod pay;
mod redis;
mod scenes;
pub(crate) mod ubft;

pub(crate) use cluster::Cluster;
pub(crate) use scenes::{Scene, millis, play};
