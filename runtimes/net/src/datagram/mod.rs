//! Datagram links: UDP with a cookie, a key exchange and a tag per datagram, for many peers that say little each.
//!
//! *What it gives.* A machine speaks to peers of links by [`NodeId`](synod_quorum::NodeId) as to guests over TLS, on one
//! queue that is declared unordered and lossy: the machines own retransmission. A node accepts links
//! ([`NodeBuilder::listen_links`](crate::NodeBuilder::listen_links)), calls others
//! ([`NodeBuilder::dial_links`](crate::NodeBuilder::dial_links)), or both. A link carries no identity of its peer; the
//! acceptor shows its Ed25519 key, the peer proves what it is in what it says.
//!
//! *Handshake.* HELLO (random, X25519 share; 160 bytes) -> COOKIE (48; a MAC over address, greeting and minute) -> PROVE
//! (the greeting and the cookie; 160) -> ACCEPT (number, X25519 share, signature over all of it; 116). Keys are derived
//! per direction. Before the cookie returns the acceptor keeps nothing and sends less than it gets.
//!
//! *Datagrams.* At most 1,200 bytes: header 16, body, tag 16. Numbers pass once, 64 back at most. What is too long, too
//! short, unknown, not authentic or replayed is dropped and counted ([`Dropped`]), and nobody is told. A link belongs to
//! one address; a peer whose address changed falls silent and shakes hands again.
//! Tags of what is read together, or leaves together, are computed side by side.
//!
//! *Bounds.* [`LinkLimits`]: 128 bytes per accepted link, about 350 per call and 8 bodies before its first link; up to
//! `queue_max` datagrams to send per socket, at its pace; `inbox_max` bodies plus what one system call reads for the machine.
//!
//! *Not built.* Confidentiality: bodies are authentic, not secret.

mod accept;
mod build;
mod bundle;
mod burst;
mod dial;
pub(crate) mod exchange;
pub(crate) mod format;
mod links;
mod pace;
mod settings;
mod socket;
mod table;
mod window;

#[cfg(test)]
mod tests;

pub(crate) use build::LinkPlan;
pub use build::LinkQueues;
pub use dial::LinkPeer;
pub use format::{BODY_MAX, BODY_MIN, DATAGRAM_MAX, Dropped};
pub use links::LINKED;
pub(crate) use links::Links;
pub use settings::{LinkLimits, LinkSockets};
