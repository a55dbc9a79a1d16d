//! `synod demo`: a cluster, scenes that hurt it, an audit. HotStuff runs in this process, Chop Chop as processes.

pub(crate) mod chop;
mod cluster;
mod redis;
mod scenes;

pub(crate) use cluster::Cluster;
pub(crate) use scenes::{Scene, millis, play};
