//! Everything a node or a tool reads before it starts, and every word it says when something is wrong.
//!
//! The crate holds the files (`genesis.toml`, `node.toml`, key files, cards, `ports.json`, `contexts.toml`)
//! and the constant tables [`ERRORS`], [`EXITS`], [`METRICS`], [`KEYS`], [`GENESIS_KEYS`] and [`ROUTES`]. The
//! tables are the one source of `explain`, of `/openapi.json`, of `docs/reference` and of the tests.
//!
//! Files become typed values once, here; protocols and runtimes never read one. Every file has a size limit
//! that is checked before it is read, unknown names are refused with the nearest known one, and every refusal
//! carries a permanent SYN code.

mod address;
mod choice;
mod contexts;
mod errors;
mod exits;
mod files;
mod genesis;
mod hex;
mod keys;
mod metrics;
mod node;
mod ports;
#[cfg(test)]
mod random;
mod reference;
mod routes;
mod table;
mod units;

pub use address::Address;
pub use contexts::{CONTEXTS_MAX, Context, Contexts};
pub use errors::{Catalogue, Code, ERRORS, Entry, Retry, SynError, code, explain, peer_fault};
pub use exits::{EXITS, Exit, ExitRow};
pub use genesis::{
    BROKERS_MAX, Bodies, Broker, Chop, ChopOrdering, ClientAuth, Cluster, ClusterKind, Complaints,
    DIRECTORY_FILE, Filter, GENESIS_KEYS, Genesis, MEMBERS_MAX, MEMORY_NODES_MAX, Member, MemoryMember,
    MessageClass, Operator, Parameters, Pay, Profile, Protocol, Registrar, Rules, Scheme, Ubft, Votes,
};
pub use hex::{hex, unhex};
pub use keys::{Card, KeyKind, NodeKey, Subject, spki_pem};
pub use metrics::{Area, METRICS, Metric, MetricKind, metric};
pub use node::{
    Access, ChopBroker, ChopServer, Effective, Format, HugePages, Identity, KEYS, Level, Limits, Listen, Log,
    Metrics, NodeConfig, Origin, Poll, Row, Runtime, Simd, Storage, Sync, Timing, Verify, Webhook,
    explain_key,
};
pub use ports::{BASE_PORT, Block, NodePorts, PORTS_PER_NODE, Ports, Service};
pub use reference::{REFERENCE_PAGES, ReferencePage};
pub use routes::{Method, ROUTES, Route, openapi_json};
pub use table::{Key, Kind};
pub use units::{format_duration, format_size, parse_duration, parse_size};
