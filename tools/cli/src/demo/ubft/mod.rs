//! `synod demo ubft`: three replicas and three memory nodes as processes, writes that go on while one of each is killed and while the
//! leader is, and an audit.

mod cluster;
mod scenes;

pub(crate) use cluster::{MEMORY, REPLICAS, UbftCluster};
pub(crate) use scenes::{UbftShown, play};
