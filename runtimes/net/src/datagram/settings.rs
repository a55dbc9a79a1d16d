//! What a node says about its links: limits, and the sockets, bound before the node is built.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use synod_machine::Span;

use crate::Error;

/// Bounds of datagram links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// Links accepted at once, at most 2^24; at most 128 bytes each. The longest idle gives way.
    pub links_max: u32,
    /// Links accepted per second. Each costs a key exchange and a signature.
    pub links_per_second: u32,
    /// Links accepted per second from one address, loopback excepted; the burst is one second's worth.
    pub links_per_address: u32,
    /// Datagrams per second that a socket sends.
    pub packets_per_second: u32,
    /// Datagrams that a socket sends at once after a rest.
    pub burst: u32,
    /// Datagrams that wait to be sent by one socket; the newest is dropped beyond.
    pub queue_max: u32,
    /// Bodies that wait for the machine before the sockets are left alone.
    pub inbox_max: u32,
    /// Shortest of the three timeouts after which a silent link is made anew. It covers the time that a peer takes to
    /// have something to say.
    pub rto_min: Span,
    /// Bytes of each socket's buffers in the system, as far as it grants them.
    pub buffer_bytes: u32,
    /// Undecodable bodies of one link until it is closed.
    pub strikes_max: u8,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            links_max: 1 << 20,
            links_per_second: 4_096,
            links_per_address: 64,
            packets_per_second: 131_072,
            burst: 256,
            queue_max: 131_072,
            inbox_max: 4_096,
            rto_min: Span::millis(500),
            buffer_bytes: 8 << 20,
            strikes_max: 3,
        }
    }
}

/// Bound UDP sockets. Binding comes before building a node, so that a port of 0 is known in time.
#[derive(Debug)]
pub struct LinkSockets {
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) limits: LinkLimits,
    address: SocketAddr,
}

impl LinkSockets {
    /// Binds `count` sockets (1 to 64) for links to accept: all to one port, among which the system shares the peers
    /// out. Port 0 lets the system choose.
    ///
    /// # Errors
    /// [`Error::PortTaken`] with what the system said, [`Error::Config`] for another count.
    pub fn bind(address: &str, count: u32, limits: LinkLimits) -> Result<Self, Error> {
        Self::make(address, count, limits, true)
    }

    /// Binds `count` sockets (1 to 64) for calling: each to a port of its own, which must be 0 above one socket.
    ///
    /// # Errors
    /// [`Error::PortTaken`] with what the system said, [`Error::Config`] for another count.
    pub fn caller(address: &str, count: u32, limits: LinkLimits) -> Result<Self, Error> {
        Self::make(address, count, limits, false)
    }

    /// Where the first socket is bound.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    fn make(address: &str, count: u32, limits: LinkLimits, is_shared: bool) -> Result<Self, Error> {
        if !(1..=64).contains(&count) {
            return Err(Error::Config("1 to 64 sockets".to_owned()));
        }
        let failed = |source| Error::PortTaken { address: address.to_owned(), source };
        let none = || Error::NameNotFound(address.to_owned());
        let mut wanted = address.to_socket_addrs().map_err(failed)?.next().ok_or_else(none)?;
        let first = open(wanted, limits, is_shared && count > 1).map_err(failed)?;
        let bound = first.local_addr().map_err(failed)?;
        let mut sockets = vec![first];
        if is_shared {
            wanted = bound;
        }
        for _ in 1..count {
            sockets.push(open(wanted, limits, is_shared).map_err(failed)?);
        }
        Ok(Self { sockets, limits, address: bound })
    }
}

fn open(address: SocketAddr, limits: LinkLimits, is_shared: bool) -> Result<UdpSocket, std::io::Error> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    let bytes = usize::try_from(limits.buffer_bytes).unwrap_or(usize::MAX);
    // Beyond the system's bound only the privileged get what they ask; whoever gets less loses datagrams sooner.
    let _: Result<(), Errno> = sockopt::set_socket_recv_buffer_size_force(&socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes));
    let _: Result<(), Errno> = sockopt::set_socket_send_buffer_size_force(&socket, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes));
    bind(&socket, &address)?;
    Ok(UdpSocket::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepting_sockets_share_a_port_and_calling_ones_do_not() {
        let shared = LinkSockets::bind("127.0.0.1:0", 3, LinkLimits::default()).expect("loopback has a port");
        let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
        assert!(shared.sockets.iter().all(|socket| port(socket) == shared.address().port()));
        let own = LinkSockets::caller("127.0.0.1:0", 2, LinkLimits::default()).expect("loopback has ports");
        assert_ne!(port(&own.sockets[0]), port(&own.sockets[1]));
    }

    #[test]
    fn a_taken_port_and_a_wrong_count_are_refused() {
        let limits = LinkLimits::default();
        let one = LinkSockets::bind("127.0.0.1:0", 1, limits).expect("loopback has a port");
        let again = LinkSockets::bind(&one.address().to_string(), 1, limits);
        assert!(matches!(again, Err(Error::PortTaken { .. })));
        assert!(matches!(LinkSockets::bind("127.0.0.1:0", 0, limits), Err(Error::Config(_))));
    }
}
