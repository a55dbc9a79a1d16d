//! The network runtime: reactors, links, handshake, quotas, job pool and the way to the journal.
//!
//! *What it gives.* [`Node`] hosts machines and speaks for them: frames over TLS 1.3 between members, inputs from and
//! outputs to the rest of the process, jobs, timers, records. It keeps the runtime contract: one event at a time per
//! machine, peer order per queue, order is durability, `from` authenticated by the transport. It names no protocol.
//!
//! *Trust.* A peer is its Ed25519 key, pinned to the roster on both sides. Members listen for members; guests, whose
//! keys are unknown, come in by another listener and get ids from 128 on. A refused handshake has a name
//! ([`Refusal`]) that both sides learn.
//!
//! *Threads.* Reactor 0 owns the sockets and the ordering machines; further reactors host executors; k threads run
//! jobs. Threads meet in bounded mailboxes only.
//!
//! *Bounds.* [`Limits`] lists them. Per member at most `peer_bytes_max` to send and `inbox_bytes_max` plus one frame
//! per connection received; per stranger 64 KiB and a place among `handshakes_max`.
//!
//! *Datagram links.* Many peers that say little each come by UDP: see [`datagram`].
//!
//! *Not built.* Rosters that change while the node runs: a new epoch needs a
//! restart.

mod brake;
mod builder;
mod client;
mod clock;
mod config;
mod connector;
mod counters;
pub mod datagram;
mod dial;
mod error;
pub mod foreign;
mod frames;
mod handshake;
pub mod histogram;
mod journal;
mod keeper;
mod link;
mod listen;
mod loopback;
mod mailbox;
mod node;
mod observer;
mod outgoing;
mod pool;
mod process;
mod quotas;
mod reactor;
mod tls;

pub use brake::Brake;
pub use builder::{Hosting, NodeBuilder};
pub use client::Guest;
pub use config::{Address, Config, Limits, Listener, Role, Transport};
pub use connector::{Connector, Deliveries};
pub use counters::{Check, Counter, Counters, LinkCounters, PeerCounters, QUEUE_CLASSES};
pub use error::{Busy, Error, Failure, Refusal};
pub use journal::{Fatal, Lane, LaneWriter, Reports, Volatile};
pub use keeper::{Keeper, Synced, keep};
pub use loopback::loopback_bytes_per_s;
pub use node::{Handle, Node};
pub use observer::{Observer, Silent};
pub use process::{Program, ServerProcess};
