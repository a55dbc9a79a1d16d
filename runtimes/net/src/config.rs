//! What a node's network is configured with: identity, cluster, addresses, limits.

use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use synod_crypto::{Hash, Seed};
use synod_machine::Span;
use synod_quorum::{NodeId, Roster};

use crate::Error;
pub use crate::handshake::Role;

/// Who this process is and whom it trusts.
#[derive(Clone)]
pub struct Config {
    /// This node: a member's id, or any id from [`NodeId::GUESTS`] for a guest.
    pub own: NodeId,
    /// Member or guest. A guest dials client listeners and has none of its own.
    pub role: Role,
    /// The secret behind the node's Ed25519 key; the transport's identity.
    pub seed: Seed,
    /// The cluster's name, at most 64 bytes; tells a foreign genesis from a foreign cluster.
    pub cluster_name: String,
    /// BLAKE3 of the canonical genesis.
    pub cluster: Hash,
    /// The epoch's members; their keys are pinned.
    pub roster: Roster,
    /// How bytes travel.
    pub transport: Transport,
    /// Bounds on peers, guests and strangers.
    pub limits: Limits,
}

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TLS 1.3 with pinned raw public keys.
    Tls,
    /// Plain bytes; keys are proved once, in the Hello. For tests, benchmarks and loopback only.
    InsecurePlain,
}

/// Bounds; every field has a default that an honest peer never meets.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Handshakes under way at once; further connections wait in the system's accept queue.
    pub handshakes_max: u32,
    /// Time a handshake may take.
    pub handshake: Span,
    /// Connections per second from one address, loopback excepted; the burst is one second's worth.
    pub connections_per_address: u32,
    /// Frames per second on each line of a member, whatever links it comes by; the burst is one second's worth, as for
    /// the other rates. An honest member sends a few frames per block.
    pub member_frames_per_second: u64,
    /// Frames per second from one guest.
    pub guest_frames_per_second: u64,
    /// Bytes per second from one peer.
    pub bytes_per_second: u64,
    /// Jobs per second on behalf of one peer.
    pub jobs_per_second: u64,
    /// Frames of one peer that wait for one machine.
    pub inbox_frames_max: u32,
    /// Bytes of one connection that wait for machines; one frame more may be complete.
    pub inbox_bytes_max: u64,
    /// Bytes that wait to be sent to one member, whatever its queues allow.
    pub peer_bytes_max: u64,
    /// Bytes that wait to be sent to one guest; a longer frame waits alone.
    pub guest_bytes_max: u64,
    /// Bytes of one guest that wait for machines; one frame more may be complete.
    pub guest_inbox_bytes_max: u64,
    /// Largest frame body of a guest, where its queue allows more.
    pub guest_frame_max: u32,
    /// Guests connected at once.
    pub guests_max: u32,
    /// A heartbeat is sent after this long without traffic.
    pub heartbeat: Span,
    /// A peer that says nothing for this long is down.
    pub silence: Span,
    /// A reader that takes nothing for this long while bytes wait for it is disconnected.
    pub stall: Span,
    /// Undecodable frames of one connection until it is closed.
    pub strikes_max: u32,
    /// First penalty after a disconnect for misbehaviour; it doubles each time, up to 60 s.
    pub penalty: Span,
    /// Largest difference of wall clocks that members accept of one another; `None` for any.
    pub clock_skew: Option<Span>,
    /// Inputs from other threads that wait for one machine, whatever room it has.
    pub inputs_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes_max: 512,
            handshake: Span::secs(5),
            connections_per_address: 64,
            member_frames_per_second: 20_000,
            guest_frames_per_second: 2_000_000,
            bytes_per_second: 4 << 30,
            jobs_per_second: 1_000_000,
            inbox_frames_max: 1_024,
            inbox_bytes_max: 4 << 20,
            peer_bytes_max: 64 << 20,
            guest_bytes_max: 1 << 20,
            guest_inbox_bytes_max: 256 << 10,
            guest_frame_max: 1 << 20,
            guests_max: 1_024,
            heartbeat: Span::secs(1),
            silence: Span::secs(5),
            stall: Span::secs(5),
            strikes_max: 3,
            penalty: Span::secs(1),
            clock_skew: None,
            inputs_max: 4_096,
        }
    }
}

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`, resolved at each dial.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address.to_string())
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A bound listener. Binding comes before building a node, so that a port of 0 is known in time.
#[derive(Debug)]
pub struct Listener(pub(crate) Bound);

#[derive(Debug)]
pub(crate) enum Bound {
    Tcp(std::net::TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Binds a TCP address; port 0 lets the system choose.
    ///
    /// # Errors
    /// [`Error::PortTaken`] with what the system said.
    pub fn tcp(address: &str) -> Result<Self, Error> {
        let failed = |source| Error::PortTaken { address: address.to_owned(), source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(Bound::Tcp(listener)))
    }

    /// Binds a Unix socket.
    ///
    /// # Errors
    /// [`Error::PortTaken`] with what the system said.
    pub fn unix(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::PortTaken { address: path.display().to_string(), source };
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(Bound::Unix(listener, path.to_owned())))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// [`Error::PortTaken`] when the system does not say.
    pub fn address(&self) -> Result<Address, Error> {
        match &self.0 {
            Bound::Tcp(listener) => listener
                .local_addr()
                .map(Address::from)
                .map_err(|source| Error::PortTaken { address: "tcp".to_owned(), source }),
            Bound::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }
}
