//! `synod demo`: a cluster in this process, six scenes, an audit.

mod cluster;
mod redis;
mod scenes;

pub(crate) use cluster::Cluster;
pub(crate) use scenes::{Scene, millis, play};
