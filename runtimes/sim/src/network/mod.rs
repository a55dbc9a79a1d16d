//! The network between places: connections with order and resets, or datagrams; delays, bandwidth, blocks.
//!
//! A *place* is one running instance of a node; twins are two places with one node id. Every directed link has its
//! own stream of draws and every disturbance brings one along, so taking a disturbance away changes nothing else.
//!
//! Bounds. Each queue holds at most its `QueueSpec::depth` frames, counting those the receiver has taken and not
//! handled; beyond it the queue's own rule applies. At most 65,536 datagrams fly per directed link.

mod connection;
mod latency;
mod link;
mod shape;
mod transport;

pub use latency::Latency;
pub use link::{Mode, WeatherKind};
pub use shape::{SHAPES, Shape};

pub(crate) use link::{NetEvent, Parcel, Weather};
pub(crate) use transport::{Network, NetworkConfig, place};
