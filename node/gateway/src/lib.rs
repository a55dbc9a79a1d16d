//! RESP, HTTP and Memcached listeners, metrics and health.
//!
//! A gateway stands in front of one [`synod_host::Backend`]: inside a node, or in a proxy beside the client. Every
//! listener binds before it serves, tells where it is bound, and ends once [`Stop`] was said and its connections
//! have what they are owed. All listeners of a process share [`Shared`]: the backend, one [`Budget`] of memory and
//! connections, and the counters of [`Traffic`].

mod access;
mod bind;
mod budget;
pub mod foreign;
mod http;
mod metrics;
mod problem;
pub mod resp;
mod resp_server;
mod shared;
mod stop;
pub mod text;
mod traffic;
mod web;

pub use access::{Secret, Shown};
pub use budget::{Budget, FREE_BYTES, PAUSE_MAX, Share};
pub use http::{Hooked, HttpServer, HttpSettings, Webhook};
pub use metrics::{
    Build, Check, Disk, Distribution, Health, Label, Lag, MetricsServer, MetricsSettings, Page, Quorum,
    Replay, SERIES_FIXED, SERIES_PER_MEMBER, Sources,
};
pub use resp_server::{RespServer, RespSettings};
pub use shared::{DEADLINE, Shared};
pub use stop::{Stop, Stopper};
pub use text::{TextServer, TextSettings};
pub use traffic::{Api, BUCKETS_US, Durations, Traffic};
